//! A plain model of the queue, and the queue and the model side by side.

pub(crate) mod reference;
pub(crate) mod system;

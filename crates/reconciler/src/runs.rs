//! What a worker does with a key: before, in and after a run.

pub(crate) mod cache_view;
pub(crate) mod catch_up;
pub(crate) mod frozen;
pub(crate) mod pause;
pub(crate) mod settle;
pub(crate) mod worker;

//! The story that the program tells without a cluster.

mod wait;

pub use wait::wait_until;

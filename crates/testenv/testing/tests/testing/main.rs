//! The guarantees of `windlass-testing`, on the embedded server, and most of them on a real one,
//! too.

mod clusters;
mod expectations;
mod failures;
mod foreground;
mod manifests;
mod operator;
mod quiet;
mod running;

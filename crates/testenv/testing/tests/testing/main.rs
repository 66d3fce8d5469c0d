//! What `windlass-testing` promises, on the embedded server, and most of it on a real one, too.

mod clusters;
mod expectations;
mod failures;
mod foreground;
mod manifests;
mod operator;
mod quiet;
mod running;

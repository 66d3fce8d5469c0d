//! The tests of the cache that need only its public interface, in one program: one crate to link.

mod common;
mod head_parse;
mod regressions;
mod secret_privacy;
mod store_indexes;
mod store_model;
mod store_overlay;
mod store_reads;

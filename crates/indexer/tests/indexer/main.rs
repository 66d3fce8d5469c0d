//! Tests of the cache through the public interface. One program, because linking takes long.

mod common;
mod head_parse;
mod regressions;
mod secret_privacy;
mod store_indexes;
mod store_model;
mod store_overlay;
mod store_reads;

//! Tests of the cache by its public interface. One program, because each links everything again.

mod common;
mod head_parse;
mod regressions;
mod secret_privacy;
mod store_indexes;
mod store_model;
mod store_overlay;
mod store_reads;

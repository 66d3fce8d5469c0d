//! Tests of informers through the public interface. One program, because linking takes long.

mod both_servers;
mod client_metrics;
mod client_stack;
mod connections;
mod credentials;
mod discovery;
mod disruption;
mod factory;
mod faults;
mod gated;
mod informer;
mod ingest;
mod metrics;
mod model;
mod regressions;
mod replica;
mod restored;
mod secrets;
mod server;
mod shared_informer;
mod source_kube;
#[path = "../support/mod.rs"]
mod support;

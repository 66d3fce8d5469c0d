//! Tests of the manager through the public interface. One program, because linking takes long.

mod clear_errors;
mod dashboard;
mod debug_report;
mod election;
mod election_faults;
mod election_real;
mod failover;
mod http_auth;
mod http_listen;
mod manager;
mod metrics;
mod metrics_compare;
mod plan;
mod rights;
mod story;
mod stuck;
mod support;
mod webhooks;

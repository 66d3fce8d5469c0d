//! Tests of the manager by its public interface. One program, because each links everything again.

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

//! The tests of the whole that need only its public interface, in one program: one crate to link.

mod clients_go;
mod coming_from;
mod default_roles;
mod election_client_go;
mod failover;
mod kube_runtime;
mod kubectl;
mod kubectl_openapi;
mod mistakes;
mod webhook_failures;

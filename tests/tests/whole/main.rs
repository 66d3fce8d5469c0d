//! Tests of the whole through the public interface. One program, because linking takes long.

mod clients_go;
mod coming_from;
mod default_roles;
mod election_client_go;
mod failover;
mod kube_runtime;
mod kubectl;
mod kubectl_openapi;
mod mistakes;
mod protobuf;
mod webhook_failures;

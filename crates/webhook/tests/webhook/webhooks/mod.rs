//! Webhooks as the API server meets them: requests through the router, without a socket.

mod admission;
mod bounds;
mod configuration;
mod conversion;
mod depth;
mod dynamic;
mod fuzz;
mod mutation;
mod stage;
mod telemetry;

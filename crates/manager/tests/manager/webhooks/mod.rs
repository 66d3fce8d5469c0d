//! A manager with webhooks: it serves them with certificates, and tells the API server about them.

mod admission;
mod certificates;
mod clients;
mod clock;
mod configurations;
mod depth;
mod gadgets;
mod stopping;
mod trust;
mod upgrade;

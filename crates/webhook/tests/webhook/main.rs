//! The tests of the webhook that need only its public interface, in one program: one crate to link.

mod certificates;
mod certificates_secrecy;
mod webhooks;

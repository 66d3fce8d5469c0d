//! Tests of webhooks through the public interface. One program, because linking takes long.

mod certificates;
mod certificates_secrecy;
mod webhooks;

//! The tests of the cli that need only its public interface, in one program: one crate to link.

mod add;
mod crds;
mod inspect;
mod new;
mod operator;
mod rbac;
mod rbac_write;
mod recorded;

//! Tests of the command line through the public interface. One program, because linking takes long.

mod add;
mod crds;
mod inspect;
mod new;
mod operator;
mod rbac;
mod rbac_write;
mod recorded;

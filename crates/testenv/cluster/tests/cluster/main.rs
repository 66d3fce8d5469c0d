//! Tests of the cluster through the public interface. One program, because linking takes long.

mod end_to_end;
mod program;
mod support;

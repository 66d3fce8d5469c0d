//! Tests of the test servers through the public interface. One program, because linking takes long.

mod accounts;
mod real_cluster;
mod real_controllers;
mod real_supervision;
mod real_users;

//! The tests of the testserver that need only its public interface, in one program: one crate to
//! link.

mod accounts;
mod real_cluster;
mod real_controllers;
mod real_supervision;
mod real_users;

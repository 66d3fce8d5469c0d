//! The dashboard, through the router: who may use it, what it shows, and what it does.

mod access;
mod actions;
mod listen;
mod lists;
mod stage;
mod stream;
mod troubles;

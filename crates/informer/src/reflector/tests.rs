//! The reflector on a clock that is a variable, without any I/O.

mod cuts;
mod driver;
mod epoch;
mod list;
mod model;
mod watch;

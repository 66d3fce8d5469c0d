//! Simulator.
mod process;

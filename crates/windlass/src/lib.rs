//! The facade of Windlass: one dependency, one set of names.
//!
//! It re-exports the crates below it, each as a module, and grows as they do. Today that is the work queue:
//! [`workqueue`] is its guide.
//!
//! ```
//! use windlass::workqueue::WorkQueue;
//!
//! let queue = WorkQueue::new();
//! queue.add("prod/web-0")?;
//! assert_eq!(queue.try_get().as_deref(), Some(&"prod/web-0"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use windlass_workqueue as workqueue;

/// The README's code, checked as every other example.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

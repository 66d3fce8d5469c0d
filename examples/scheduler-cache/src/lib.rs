//! What kube-scheduler does with informers, in small.
//!
//! It needs to know at any time which pods are on which node and which are on none, without asking
//! the server. So it keeps caches of pods, nodes and a few kinds more, and two handlers of the same
//! pod informer: one for assigned pods, one for those that wait for a node.
//!
//! Reading order: `pod` (the few fields that matter here, and the index), `replica` and `waiting`
//! (the two handlers), `cache` (where informers come in), `table` (what is shown), `scheduler`
//! (which assigns pods, in the cluster of this process only).

mod cache;
mod pod;
mod replica;
mod scheduler;
mod table;
mod waiting;

pub use cache::SchedulerCache;
pub use pod::{ByNode, SlimPod, is_assigned};
pub use replica::Replica;
pub use scheduler::{Decision, Scheduler};
pub use table::{Row, Table};
pub use waiting::Waiting;

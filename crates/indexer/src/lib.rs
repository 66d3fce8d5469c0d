//! The indexer of Windlass: objects of one Kubernetes resource in memory, found by key, namespace, label and
//! whatever else you declare.
//!
//! It stands between the informer, which writes to it, and everyone who reads. It asks no server for anything:
//! objects come as JSON bytes.
//!
//! # Reading
//!
//! A [`Lister`] reads a store as objects of one type.
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use windlass_indexer::{ByOwner, Selector, Store};
//!
//! let mut store = Store::new();
//! store.add_index(ByOwner)?;
//! let pods = store.reader().lister::<Pod>()?;
//!
//! // This is what an informer does with every object that it receives.
//! store.put_bytes(br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop",
//!     "labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web",
//!     "uid":"b5a1","controller":true}]},"spec":{"containers":[],"nodeName":"node-1"}}"#)?;
//!
//! // One object, decoded when it is first read.
//! let pod = pods.get("shop/web-1")?.expect("it was put");
//! assert_eq!(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("node-1"));
//!
//! // Many: handles with the metadata at hand, which decode when they are asked to.
//! let web: Selector = "app in (web, api)".parse()?;
//! for pod in &pods.in_namespace("shop").matching(&web) {
//!     let owner = pod.head().controller().expect("a replica set's");
//!     println!("{} of {} {}", pod.key(), owner.kind, owner.name);
//!     let spec = &pod.get()?.spec;
//! #   assert!(spec.is_some());
//! #   assert_eq!(pods.by_owner(owner.uid)?.iter().count(), 1);
//! }
//! # assert_eq!(pods.select(&web).heads().count(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A list is one moment in time, in the order of keys, and costs the same for three objects and for a million;
//!   the writer goes on while you walk over it. Several lists of the same moment come from a [`Snapshot`].
//! - A read by index takes as long as its result, and never returns an object that does not match.
//! - An object that does not decode is a [`DecodeError`], which never shows content; the others are unaffected.
//! - Everything is shared and immutable, by type: there is no copy to make before a change, and no mutation
//!   detector, as client-go needs one.
//!
//! # What is held
//!
//! For each object a [`Head`], which is its metadata, and its compact bytes. A decoded pod takes seven times
//! as much as its bytes, so it is decoded on demand, and a bounded [hot set](HOT_SET_BYTES) keeps those decoded
//! that are read by key. For types that are small and read all the time there is [`Layout::resident`]: decoded
//! once, without bytes. With a type of your own this is the smallest of all:
//!
//! ```
//! use serde::Deserialize;
//! use windlass_indexer::{Layout, Store};
//!
//! /// All that we want to know of a pod beside its metadata.
//! #[derive(Clone, Deserialize)]
//! struct Slim { status: Status }
//!
//! #[derive(Clone, Deserialize)]
//! struct Status { phase: String }
//!
//! let mut store = Store::builder().layout(Layout::resident::<Slim>()).build();
//! let pods = store.reader().lister::<Slim>()?;
//! store.put_bytes(br#"{"metadata":{"name":"web","namespace":"a"},"status":{"phase":"Running"}}"#)?;
//! assert_eq!(pods.get("a/web")?.expect("it was put").status.phase, "Running");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Indexes
//!
//! An index is a type: see [`Index`] for how to write one. Namespaces need none, because keys are ordered by
//! them; [`ByOwner`] and [`ByLabel`] are there. An object that an index cannot read is in the index's
//! [status](StoreStatus), never silently absent.
//!
//! # Accounts
//!
//! ```
//! # use windlass_indexer::Store;
//! # let mut store = Store::new();
//! # store.put_bytes(br#"{"metadata":{"name":"web"}}"#)?;
//! let status = store.reader().status();
//! println!("{} objects, {} bytes", status.objects, status.object_bytes + status.structure_bytes);
//! for kind in &status.types {
//!     println!("{}: {} hot, {} hits, {} misses", kind.name, kind.hot_entries, kind.hits, kind.misses);
//! }
//! # assert_eq!(status.objects, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading order of the source
//!
//! `key`, `version`, `interner`, `head` (what is known of an object), `object`, `tree` (order and snapshots),
//! `table` (keys and the hot set), `index`, `store` (the writer), `reader`, `selector`, `face` and `lister`
//! (where types come in), `status`, `error`.

#![forbid(unsafe_code)]

mod error;
mod face;
mod head;
mod index;
mod interner;
mod key;
mod lister;
mod object;
mod reader;
mod selector;
mod status;
mod store;
mod sync;
mod table;
mod tree;
mod version;

#[cfg(test)]
mod explore;

pub use error::{DecodeError, IndexError, LayoutError};
pub use head::{Head, HeadError, HeadParser, HeadProblem, Labels, OwnerRef};
pub use index::{ByLabel, ByOwner, Index, IndexStatus, IndexValue, LookUp};
pub use interner::{Interner, Symbol};
pub use key::{KeyRef, ObjectKey, ParseKeyError};
pub use lister::{Cached, Iter, List, Lister};
pub use object::Object;
pub use reader::{Objects, Reader, Selection, Snapshot};
pub use selector::{Selector, SelectorError};
pub use status::{StoreStatus, TypeStatus};
pub use store::{HOT_SET_BYTES, Layout, Put, Store, StoreBuilder};
pub use version::{ResourceVersion, Uid};

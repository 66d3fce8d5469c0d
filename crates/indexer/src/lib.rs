//! The cache of Windlass' informers: the objects of one Kubernetes resource in memory, found by
//! key, namespace, label and your own indexes.
//!
//! The informer writes to a [`Store`], and everyone else reads from it. A store sends no requests:
//! objects come in as JSON bytes.
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
//! // An informer does this with every object that it receives.
//! store.put_bytes(br#"{"apiVersion":"v1","kind":"Pod",
//!     "metadata":{"name":"web-1","namespace":"shop","labels":{"app":"web"},
//!         "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web",
//!             "uid":"b5a1","controller":true}]},
//!     "spec":{"containers":[],"nodeName":"node-1"}}"#)?;
//!
//! // One object, decoded when it is first read.
//! let pod = pods.get("shop/web-1")?.expect("the pod was put");
//! assert_eq!(pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()), Some("node-1"));
//!
//! // Many objects: handles that have the metadata and decode on request.
//! let web: Selector = "app in (web, api)".parse()?;
//! for pod in &pods.in_namespace("shop").matching(&web) {
//!     let owner = pod.head().controller().expect("a replica set owns the pod");
//!     println!("{} of {} {}", pod.key(), owner.kind, owner.name);
//!     let spec = &pod.get()?.spec;
//! #   assert!(spec.is_some());
//! #   assert_eq!(pods.by_owner(owner.uid)?.iter().count(), 1);
//! }
//!
//! // The first object that matches.
//! let web = pods.find(|pod| pod.head().name().starts_with("web-"));
//! assert_eq!(web.map(|pod| pod.key().to_string()).as_deref(), Some("shop/web-1"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - A list is one moment in time, in the order of keys. It costs the same for three objects and
//!   for a million, and the writer continues while you iterate. A [`Snapshot`] gives several lists
//!   of the same moment.
//! - A read by index takes as long as its result. It never returns an object that does not match.
//! - An object that does not decode is a [`DecodeError`], which never shows content. Other objects
//!   are unaffected.
//! - Objects are shared and immutable. You need no deep copy before you use one.
//!
//! # What is held
//!
//! A store holds the [`Head`] of each object, which is its metadata, and its compact bytes. A
//! decoded pod takes seven times as much as its bytes. So objects are decoded on demand, and a
//! bounded [hot set](HOT_SET_BYTES) keeps decoded objects that are read by key.
//! [`Layout::resident`] is for small types that are read often: it decodes each object once and
//! drops the bytes. With a type of your own it takes the least memory:
//!
//! ```
//! use serde::Deserialize;
//! use windlass_indexer::{Layout, Store};
//!
//! /// The fields of a pod that we need beside its metadata.
//! #[derive(Clone, Deserialize)]
//! struct Slim { status: Status }
//!
//! #[derive(Clone, Deserialize)]
//! struct Status { phase: String }
//!
//! let mut store = Store::builder().layout(Layout::resident::<Slim>()).build();
//! let pods = store.reader().lister::<Slim>()?;
//! store.put_bytes(br#"{"metadata":{"name":"web"},"status":{"phase":"Running"}}"#)?;
//! assert_eq!(pods.get("web")?.expect("the pod was put").status.phase, "Running");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Indexes
//!
//! An index is a type; [`Index`] shows how to write one. Namespaces need no index, because keys are
//! ordered by namespace; [`List::in_namespace`] also restricts what an index finds. [`ByOwner`],
//! [`ByController`] and [`ByLabel`] are built in. If an index cannot read an object, the object is
//! listed in the [status](StoreStatus).
//!
//! # Status
//!
//! ```
//! # use windlass_indexer::Store;
//! # let mut store = Store::new();
//! # store.put_bytes(br#"{"metadata":{"name":"web"}}"#)?;
//! let status = store.reader().status();
//! println!("{} objects, {} bytes", status.objects, status.object_bytes + status.structure_bytes);
//! for kind in &status.types {
//!     println!("{}: {} hits, {} misses", kind.name, kind.hits, kind.misses);
//! }
//! # assert_eq!(status.objects, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Reading order of the source
//!
//! Each file uses only files before it.
//!
//! - Metadata: `key`, `version`, `owner`, `interner`, `head`, `parser`.
//! - Objects: `error`, `object`.
//! - Structures: `sync`, `tree`, `index`, `map`, `hot_set`, `decoder`, `shared`.
//! - Reading and writing: `selector`, `selector_parser`, `reader`, `lister`, `status`, `store`.

#![forbid(unsafe_code)]

mod decoder;
mod error;
mod head;
mod hot_set;
mod index;
mod interner;
mod key;
mod lister;
mod map;
mod object;
mod owner;
mod parser;
mod reader;
mod selector;
mod selector_parser;
mod shared;
mod status;
mod store;
mod sync;
mod tree;
mod version;

#[cfg(test)]
mod explore;

pub use error::{DecodeError, IndexError, LayoutError};
pub use head::{Head, Labels, OwnerRef};
pub use index::{ByController, ByLabel, ByOwner, Index, IndexStatus, IndexValue, LookUp};
pub use key::{KeyRef, ObjectKey, ParseKeyError};
pub use lister::{Cached, List, Lister};
pub use object::{Object, ObjectType};
pub use parser::{HeadError, HeadParser, HeadProblem};
pub use reader::{Reader, Selection, Snapshot};
pub use selector::Selector;
pub use selector_parser::SelectorError;
pub use status::{StoreStatus, TypeStatus};
pub use store::{HOT_SET_BYTES, Layout, Put, Store, StoreBuilder};
pub use version::{ResourceVersion, Uid};

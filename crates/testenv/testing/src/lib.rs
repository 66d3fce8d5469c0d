//! Tests of controllers: run one on an embedded or a real server, wait until it is quiet, and check
//! what it did.
//!
//! A complete test, of the operator in the README:
//!
//! ```
//! # mod operator {
//! #     use std::sync::Arc;
//! #     use k8s_openapi::api::core::v1::ConfigMap;
//! #     use kube::{CustomResource, ResourceExt as _};
//! #     use schemars::JsonSchema;
//! #     use serde::{Deserialize, Serialize};
//! #     use windlass::prelude::*;
//! #     use windlass::reconciler::ControllerBuilder;
//! #     #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #     #[kube(group = "example.com", version = "v1", kind = "Page", namespaced)]
//! #     pub struct PageSpec {
//! #         pub text: String,
//! #     }
//! #     pub struct Publisher;
//! #     impl Reconcile<Page> for Publisher {
//! #         async fn reconcile(&self, page: Arc<Page>, cx: &RunContext) -> Result<Action, Error> {
//! #             let data = [("index.html".into(), format!("<p>{}</p>", page.spec.text))].into();
//! #             let mut map = ConfigMap { data: Some(data), ..ConfigMap::default() };
//! #             map.metadata.name = Some(page.name_any());
//! #             map.metadata.namespace = page.namespace();
//! #             cx.live().apply_owned(map, &*page).await?;
//! #             cx.event(&*page).normal("Published", "the page is a ConfigMap");
//! #             Ok(Action::done())
//! #         }
//! #     }
//! #     pub fn pages() -> ControllerBuilder<Page> {
//! #         Controller::named("page", Watch::<Page>::new()).owns(Watch::<ConfigMap>::new())
//! #     }
//! # }
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::CustomResourceExt as _;
//! use operator::{Page, PageSpec, Publisher, pages};
//! use serde_json::json;
//! use windlass_testing::TestCluster;
//!
//! # /* An attribute that documentation tests do not know.
//! #[tokio::test(start_paused = true)]
//! # */
//! async fn page_becomes_a_config_map() {
//!     let cluster = TestCluster::embedded();
//!     cluster.install(&Page::crd()).await;
//!     let running = cluster.run(pages(), Publisher);
//!     cluster.create(&Page::new("hello", PageSpec { text: "Hi".into() })).await;
//!     running.wait_until_quiet().await;
//!     let expected = json!({"data": {"index.html": "<p>Hi</p>"}});
//!     cluster.expect::<ConfigMap>("hello", expected).await;
//!     let published = ["Normal Published: the page is a ConfigMap"];
//!     assert_eq!(cluster.events::<Page>("hello").await, published);
//!     // The write led to a second run, which found nothing to do.
//!     assert_eq!(running.take_writes(), ["patch configmaps default/hello"]);
//!     running.stop().await;
//! }
//! # let mut runtime = tokio::runtime::Builder::new_current_thread();
//! # let runtime = runtime.enable_all().start_paused(true).build().unwrap();
//! # runtime.block_on(page_becomes_a_config_map());
//! ```
//!
//! # The pieces
//!
//! - [`TestCluster`]: an embedded API server for the test alone ([`TestCluster::embedded`]), the
//!   real one of this process ([`TestCluster::real`]), or an existing one
//!   ([`TestCluster::of_kubeconfig`]). [`on_each_cluster!`] runs one test on the first two.
//!   Definitions come from types ([`TestCluster::install`]) or from YAML
//!   ([`TestCluster::install_from`]).
//! - [`TestCluster::run`] starts a controller, [`TestCluster::run_manager`] a manager with
//!   everything that it runs, and [`TestCluster::run_workloads`] the controllers that create pods
//!   for Deployments. A [`Running`] shuts down in order when it is dropped. If a controller fails,
//!   the test fails.
//! - [`Running::wait_until_quiet`] waits until nothing is left to do; [`Quiet`] defines what that
//!   means for waiting keys. [`Running::take_writes`] returns what the controller wrote, in order.
//!   [`TestCluster::run_until_quiet`] does all of it in one call.
//! - [`TestCluster::expect`], [`TestCluster::eventually`] and [`TestCluster::never`] check an
//!   object, and show the difference. [`TestCluster::delete_in_foreground`] checks that the
//!   controllers let a deletion complete. [`TestCluster::events`] returns the events about an
//!   object.
//!
//! # The clock
//!
//! With `#[tokio::test(start_paused = true)]` and an embedded server, waiting takes no time: the
//! clock stands still while any task has work, and jumps to the next timer when none has. Ten
//! minutes without an event cost nothing. On the wall clock, and so on a real server, the same
//! calls poll; [`Clock`] distinguishes the two.
//!
//! A crate that uses this one selects the version of the Kubernetes types, by a feature of
//! `k8s-openapi` such as `latest`. This crate enables `tokio`'s feature `test-util`, so it belongs
//! to the `dev-dependencies`.
//!
//! Reading order of the source: `test_cluster`, `twins`, `run`, `part` and `running`, `quiet` and
//! `caches`, `objects`, `expect`, `foreground`, `diff`, `events`, `writes`, `manifests`, `clock`,
//! `report`, `recording`.

#![forbid(unsafe_code)]

mod caches;
mod clock;
mod diff;
mod events;
mod expect;
mod foreground;
mod manifests;
mod namespace;
mod objects;
mod part;
mod quiet;
mod recording;
mod report;
mod run;
mod running;
mod test_cluster;
mod twins;
mod writes;

/// The servers, their faults, and service accounts.
pub use windlass_testserver as testserver;

pub use clock::Clock;
pub use events::EventRecord;
pub use expect::Expectation;
pub use objects::TestObject;
pub use quiet::{DUE_SOON, Quiet};
pub use running::Running;
pub use test_cluster::TestCluster;
pub use writes::WriteRecord;

//! A replica of a small operator, for tests that kill and pause it.
//!
//! For every `ConfigMap` with the label `failover=parent` it keeps a child with the same value, by
//! server-side apply. An annotation counts the values that it has seen, by an update with the
//! version. Only the leader does that.

use std::sync::Arc;

use clap::Parser;
use http::Request;
use http::header::{HeaderValue, USER_AGENT};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, PostParams};
use kube::client::Body;
use tower::ServiceExt as _;
use tower::layer::layer_fn;
use windlass::informer::client::HttpService;
use windlass::manager::{Manager, Options};
use windlass::prelude::*;
use windlass_tests::failover::{COUNT, LABEL, LEASE, SEEN, VALUE, WORKERS, agent};
use windlass_tests::replica::end_with_the_input;

#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    manager: Options,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    end_with_the_input();
    let watch = |value: &str| {
        let selector = format!("{LABEL}={value}");
        Watch::<ConfigMap>::new().options(|options| options.label_selector(selector))
    };
    let controller =
        Controller::named("configmap", watch("parent")).owns(watch("child")).workers(WORKERS);
    // The fence is below this layer: it checks the clock again, later.
    let stack =
        ClientStack::new().layer(layer_fn(|inner: HttpService| inner.map_request(with_time)));
    let manager = Manager::new(Flags::parse().manager)
        .client_stack(stack)
        .leader_election(LEASE)
        .controller(controller, Copier);
    Box::pin(manager.run()).await?;
    Ok(())
}

/// Puts the time into the user agent, which the audit log contains.
fn with_time(mut request: Request<Body>) -> Request<Body> {
    let agent = HeaderValue::from_str(&agent(Timestamp::now())).expect("a time is a header");
    request.headers_mut().insert(USER_AGENT, agent);
    request
}

/// Copies the value of every parent into its child.
struct Copier;

impl Reconcile<ConfigMap> for Copier {
    async fn reconcile(&self, parent: Arc<ConfigMap>, cx: &RunContext) -> Result<Action, Error> {
        let value = parent.data.as_ref().and_then(|data| data.get(VALUE)).cloned();
        let value = value.unwrap_or_default();
        let mut child = ConfigMap::default();
        child.metadata.name = Some(format!("{}-child", parent.name_any()));
        child.metadata.namespace = parent.namespace();
        child.labels_mut().insert(LABEL.to_owned(), "child".to_owned());
        child.data = Some([(VALUE.to_owned(), value.clone())].into());
        cx.live().apply_owned(child, &*parent).await?;

        if parent.annotations().get(SEEN) == Some(&value) {
            return Ok(Action::done());
        }
        let mut new = ConfigMap::clone(&parent);
        let count = new.annotations().get(COUNT).and_then(|count| count.parse().ok());
        let count = count.unwrap_or(0_u64) + 1;
        new.annotations_mut().insert(SEEN.to_owned(), value);
        new.annotations_mut().insert(COUNT.to_owned(), count.to_string());
        let namespace = parent.namespace().unwrap_or_default();
        let maps: Api<ConfigMap> = Api::namespaced(cx.client().clone(), &namespace);
        // It carries the version of the parent, so a concurrent change makes it a conflict.
        maps.replace(&parent.name_any(), &PostParams::default(), &new).await?;
        Ok(Action::done())
    }
}

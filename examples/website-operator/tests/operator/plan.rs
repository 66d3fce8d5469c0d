//! `--plan`: what the next version of the operator would do to a cluster on which this one works.

use std::sync::Arc;

use crate::common::{is_ready, site};
use website_operator::config_map::config_map;
use website_operator::deployment::deployment;
use website_operator::reconciler::controller;
use website_operator::{Website, reconciler};
use windlass::manager::OperatorPlan;
use windlass::prelude::*;
use windlass_testing::{TestCluster, on_each_cluster};

/// The next version: pods are older before they count as available, and there is no Service.
struct NextVersion;

impl Reconcile<Website> for NextVersion {
    async fn reconcile(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        let mut servers = deployment(&site);
        servers.spec.min_ready_seconds = Some(5);
        cx.children(&site).apply(config_map(&site)).apply(servers).prune().await?;
        cx.event(&site).normal("Published", "by the next version");
        Ok(Action::done())
    }
}

/// What a version of the operator would do.
async fn plan(cluster: &TestCluster, reconciler: impl Reconcile<Website>) -> OperatorPlan {
    let (client, mut options) = (cluster.client(), Options::default());
    options.namespaces = vec![cluster.namespace().to_owned()];
    let manager = Manager::new(options)
        .without_logs()
        .connect(move |_| Ok(client.clone()))
        .leader_election("next-version")
        .controller(controller(), reconciler);
    manager.plan().await.expect("a plan")
}

on_each_cluster!(next_version_shows_what_it_would_change_and_changes_nothing, start_paused = true);
async fn next_version_shows_what_it_would_change_and_changes_nothing(cluster: TestCluster) {
    let namespace = cluster.namespace().to_owned();
    let operator = crate::common::start(&cluster, &namespace).await;
    cluster.create(&site("blog", "blog.example.com", 1)).await;
    // It goes on, because it converts Websites. Without changes it writes nothing.
    operator.wait_until_quiet().await;
    let before: Website = cluster.get("blog").await;

    let same = plan(&cluster, reconciler(&namespace)).await;
    assert!(same.is_empty(), "the same version would change nothing: {same}");

    let next = plan(&cluster, NextVersion).await.to_string();
    assert_eq!(
        next.replace(&format!("{namespace}/"), ""),
        "controller website: 1 runs, 1 would write\n  \
               blog\n    \
                 ~ deployments.apps blog\n        \
                     spec.minReadySeconds: 5 is added\n    \
                 - services blog\n\
             2 writes planned. Nothing was changed.\n"
    );
    let after: Website = cluster.get("blog").await;
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version);
    assert_eq!(is_ready(&after), is_ready(&before));
    operator.stop().await;
}

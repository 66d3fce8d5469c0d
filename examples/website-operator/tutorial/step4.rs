//! Step 4: a test with the operator in it.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Parser;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ObjectMeta;
use kube::{CustomResource, CustomResourceExt as _, KubeSchema, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::manager::{Manager, Options};
use windlass::prelude::*;
use windlass::reconciler::{ConditionType, set_conditions};

/// What people write: the files of a site, and how many pods serve them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus")]
#[kube(printcolumn(name = "Host", type_ = "string", json_path = ".spec.host"))]
struct WebsiteSpec {
    #[x_kube(validation = Rule::new("self == oldSelf").message("the host cannot be changed"))]
    host: String,
    files: BTreeMap<String, String>,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    replicas: i32,
}

fn one() -> i32 {
    1
}

/// What the operator tells people.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WebsiteStatus {
    #[serde(default)]
    available_replicas: i32,
    #[serde(default)]
    #[schemars(schema_with = "windlass::reconciler::conditions_schema")]
    conditions: Vec<Condition>,
}

/// The name, namespace and labels of everything that is made for a Website.
fn metadata(site: &Website) -> ObjectMeta {
    ObjectMeta {
        name: Some(site.name_any()),
        namespace: site.namespace(),
        labels: Some([("website".to_owned(), site.name_any())].into()),
        ..ObjectMeta::default()
    }
}

fn config_map(site: &Website) -> ConfigMap {
    let data = Some(site.spec.files.clone());
    ConfigMap { metadata: metadata(site), data, ..ConfigMap::default() }
}

fn deployment(site: &Website) -> Result<Deployment, Error> {
    let (name, labels) = (site.name_any(), metadata(site).labels);
    Ok(serde_json::from_value(json!({
        "metadata": metadata(site),
        "spec": {
            "replicas": site.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "web",
                        "image": "nginxinc/nginx-unprivileged:1.29-alpine",
                        "ports": [{"name": "http", "containerPort": 8080}],
                        "volumeMounts": [{"name": "files", "mountPath": "/usr/share/nginx/html"}],
                    }],
                    "volumes": [{"name": "files", "configMap": {"name": name}}],
                },
            },
        },
    }))?)
}

fn service(site: &Website) -> Result<Service, Error> {
    Ok(serde_json::from_value(json!({
        "metadata": metadata(site),
        "spec": {
            "selector": metadata(site).labels,
            "ports": [{"name": "http", "port": 80, "targetPort": "http"}],
        },
    }))?)
}

struct Websites;

impl Finalize<Website> for Websites {
    async fn reconcile(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        let children = cx
            .children(&site)
            .apply(config_map(&site))
            .apply(service(&site)?)
            .apply(deployment(&site)?)
            .prune()
            .await?;
        write_status(&site, children.get(&site.name_any())?, cx).await?;
        Ok(Action::done())
    }

    async fn cleanup(&self, site: Arc<Website>, cx: &RunContext) -> Result<Action, Error> {
        // Here a real operator removes what Kubernetes does not know of, such as a DNS record.
        cx.event(&site).normal("Withdrawn", format!("{} is not served", site.spec.host));
        Ok(Action::done())
    }
}

const READY: ConditionType = ConditionType::new("Ready");

async fn write_status(
    site: &Website,
    made: Option<Deployment>,
    cx: &RunContext,
) -> Result<(), Error> {
    let available = made.and_then(|made| made.status?.available_replicas).unwrap_or(0);
    let wanted = site.spec.replicas;
    let reason = if available == wanted { "Available" } else { "Starting" };
    let message = format!("{available} of {wanted} replicas are available");
    let ready = READY.with(available == wanted, reason, message);
    let mut new = site.clone();
    let status = new.status.get_or_insert_with(WebsiteStatus::default);
    status.available_replicas = available;
    set_conditions(&mut status.conditions, site.metadata.generation, [ready]);
    // Sends the difference, and nothing if there is none: this run is not woken by its own write.
    cx.live().update_status(site, &new).await?;
    Ok(())
}

/// The operator, on whichever cluster.
fn operator(options: Options) -> Manager {
    let controller = Controller::named("website-operator", Watch::<Website>::new())
        .owns(Watch::<ConfigMap>::new())
        .owns(Watch::<Service>::new())
        .owns(Watch::<Deployment>::new());
    Manager::new(options)
        .leader_election("website-operator")
        .install(Website::crd())
        .controller(controller, Finalized::new("example.com/host", Websites))
}

#[derive(Parser)]
struct Flags {
    /// Run on an API server in this process, with one Website
    #[cfg(feature = "demo")]
    #[arg(long)]
    embedded: bool,
    #[command(flatten)]
    manager: Options,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let operator = operator(flags.manager);
    #[cfg(feature = "demo")]
    if flags.embedded {
        return Ok(demo::on_embedded_server(operator).run().await?);
    }
    Ok(operator.run().await?)
}

/// The operator on an API server in this process.
#[cfg(feature = "demo")]
mod demo {
    use kube::api::{Api, PostParams};
    use windlass::manager::TaskContext;
    use windlass_apiserver::ApiServer;
    use windlass_workloads::Workloads;

    use super::{Manager, Website, WebsiteSpec};

    /// An API server, the controllers that make pods of Deployments, and a Website.
    pub(super) fn on_embedded_server(operator: Manager) -> Manager {
        let server = ApiServer::new();
        operator
            .connect(move |stack| Ok(stack.around(server.service(), "default")))
            .task("workloads", |cx: TaskContext| {
                Workloads::new(&cx.factory).run(cx.shutdown.token().clone())
            })
            .task("hello", |cx: TaskContext| async move {
                let files = [("index.html".to_owned(), "<h1>Hello</h1>".to_owned())].into();
                let spec = WebsiteSpec { host: "hello.example.com".into(), files, replicas: 2 };
                let sites: Api<Website> = Api::default_namespaced(cx.client);
                sites.create(&PostParams::default(), &Website::new("hello", spec)).await.map(drop)
            })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_testing::TestCluster;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn website_is_served_and_withdrawn() {
        let cluster = TestCluster::embedded();
        let running = cluster.run_manager(operator(Options::default()));
        let workloads = cluster.run_workloads(|workloads| workloads);
        cluster.wait_until_quiet().await; // the definition is installed

        let files = [("index.html".to_owned(), "<h1>Hello</h1>".to_owned())].into();
        let spec = WebsiteSpec { host: "hello.example.com".into(), files, replicas: 2 };
        cluster.create(&Website::new("hello", spec)).await;
        cluster.wait_until_quiet().await;
        let conditions = json!([{"type": "Ready", "reason": "Available"}]);
        let served = json!({"status": {"availableReplicas": 2, "conditions": conditions}});
        cluster.expect::<Website>("hello", served).await;

        // Fails if the operator makes again what the garbage collector deletes.
        cluster.delete_in_foreground::<Website>("hello").await;
        assert!(cluster.get_opt::<Website>("hello").await.is_none());
        assert!(cluster.get_opt::<Deployment>("hello").await.is_none());
        running.stop().await;
        workloads.stop().await;
    }
}

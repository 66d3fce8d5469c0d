//! Step 5: a second version, and webhooks.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::Parser;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ObjectMeta;
use kube::core::crd::merge_crds;
use kube::{CustomResource, CustomResourceExt as _, KubeSchema, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass::manager::{Manager, Options};
use windlass::prelude::*;
use windlass::reconciler::{ConditionType, set_conditions};
use windlass::webhook::{
    Admission, Conversion, Convert, ConvertError, Defaulter, FieldError, FieldPath, Operation,
    Validate, Verb, Verdict, Webhooks,
};

/// What people write: the files of a site, and how many pods serve them.
#[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
#[kube(group = "example.com", version = "v2", kind = "Website", namespaced)]
#[kube(status = "WebsiteStatus")]
#[kube(printcolumn(name = "Hosts", type_ = "string", json_path = ".spec.hosts"))]
struct WebsiteSpec {
    #[serde(default)]
    hosts: Vec<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    replicas: i32,
}

/// The version before that.
mod v1 {
    use super::{BTreeMap, CustomResource, Deserialize, KubeSchema, Serialize, WebsiteStatus, one};

    #[derive(CustomResource, KubeSchema, Clone, Debug, Deserialize, Serialize)]
    #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
    #[kube(status = "WebsiteStatus")]
    #[kube(printcolumn(name = "Host", type_ = "string", json_path = ".spec.host"))]
    pub(crate) struct WebsiteSpec {
        #[serde(default)]
        #[x_kube(validation = Rule::new("self == oldSelf").message("the host cannot be changed"))]
        pub(crate) host: String,
        #[serde(default)]
        pub(crate) files: BTreeMap<String, String>,
        #[serde(default = "one")]
        #[schemars(range(min = 1, max = 10))]
        pub(crate) replicas: i32,
    }
}

impl Convert<v1::Website> for Website {
    fn from_spoke(spoke: v1::Website) -> Result<Self, ConvertError> {
        let v1::Website { metadata, spec, status } = spoke;
        let v1::WebsiteSpec { host, files, replicas } = spec;
        let hosts = if host.is_empty() { Vec::new() } else { vec![host] };
        Ok(Self { metadata, spec: WebsiteSpec { hosts, files, replicas }, status })
    }

    fn into_spoke(self) -> Result<v1::Website, ConvertError> {
        let Self { metadata, spec: WebsiteSpec { hosts, files, replicas }, status } = self;
        let host = hosts.into_iter().next().unwrap_or_default();
        Ok(v1::Website { metadata, spec: v1::WebsiteSpec { host, files, replicas }, status })
    }
}

fn conversion() -> Conversion<Website> {
    Conversion::hub::<Website>().spoke::<v1::Website>().keep_unknown_fields()
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
        let hosts = site.spec.hosts.join(", ");
        cx.event(&site).normal("Withdrawn", format!("{hosts} is not served"));
        Ok(Action::done())
    }
}

impl Defaulter<Website> for Websites {
    fn default(&self, site: &mut Website, admission: &Admission) {
        // The host of a Website that is there already cannot be changed.
        if admission.verb() == Verb::Create {
            for host in &mut site.spec.hosts {
                host.make_ascii_lowercase();
            }
        }
    }
}

impl Validate<Website> for Websites {
    async fn validate(&self, operation: Operation<'_, Website>, _: &Admission) -> Verdict {
        let is_without_host = |site: &Website| site.spec.hosts.is_empty();
        let is_new = operation.old_object().is_none();
        if is_new && operation.new_object().is_some_and(is_without_host) {
            let hosts = FieldPath::new("spec").child("hosts");
            return Verdict::invalid([FieldError::required(&hosts, "a website needs a host")]);
        }
        Verdict::allow()
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

/// Both versions. Websites are stored as `v1`, which the operator before this one can read, too.
fn definition() -> CustomResourceDefinition {
    merge_crds(vec![v1::Website::crd(), Website::crd()], "v1").expect("versions of one kind")
}

fn webhooks() -> Webhooks {
    Webhooks::new().default::<Website>(Websites).validate::<Website>(Websites).convert(conversion())
}

/// The operator, on whichever cluster.
fn operator(options: Options) -> Manager {
    let controller = Controller::named("website-operator", Watch::<Website>::new())
        .owns(Watch::<ConfigMap>::new())
        .owns(Watch::<Service>::new())
        .owns(Watch::<Deployment>::new());
    Manager::new(options)
        .leader_election("website-operator")
        .install(definition())
        .webhooks("website-operator", webhooks())
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

    use super::{Manager, v1};

    /// An API server, the controllers that make pods of Deployments, and a Website.
    pub(super) fn on_embedded_server(operator: Manager) -> Manager {
        let server = ApiServer::new();
        let url = "https://127.0.0.1:9443".to_owned();
        operator
            .change_options(|options| options.webhook_url = Some(url)) // no Service leads here
            .connect(move |stack| Ok(stack.around(server.service(), "default")))
            .task("workloads", |cx: TaskContext| {
                Workloads::new(&cx.factory).run(cx.shutdown.token().clone())
            })
            .task("hello", |cx: TaskContext| async move {
                let files = [("index.html".to_owned(), "<h1>Hello</h1>".to_owned())].into();
                let spec = v1::WebsiteSpec { host: "Hello.example.com".into(), files, replicas: 2 };
                let sites: Api<v1::Website> = Api::default_namespaced(cx.client);
                let site = v1::Website::new("hello", spec);
                sites.create(&PostParams::default(), &site).await.map(drop)
            })
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{Api, PostParams};
    use serde_json::json;
    use windlass_testing::TestCluster;

    use super::*;

    #[test]
    fn first_version_loses_no_host() {
        let hosts = vec!["a.example.com".to_owned(), "b.example.com".to_owned()];
        let spec = WebsiteSpec { hosts, files: BTreeMap::new(), replicas: 1 };
        let checked = conversion().check_round_trip(&Website::new("hello", spec));
        assert!(checked.is_ok(), "{}", checked.unwrap_err());
    }

    #[tokio::test]
    async fn website_of_the_first_version_is_served() {
        let mut options = Options::default();
        options.webhook_bind_address = "127.0.0.1:0".into(); // any port that is free
        options.webhook_url = Some("https://127.0.0.1:0".to_owned());
        let cluster = TestCluster::embedded();
        let running = cluster.run_manager(operator(options));
        let workloads = cluster.run_workloads(|workloads| workloads);
        cluster.wait_until_quiet().await; // the definition is installed

        let files = [("index.html".to_owned(), "<h1>Hello</h1>".to_owned())].into();
        let spec = v1::WebsiteSpec { host: "Hello.example.com".into(), files, replicas: 2 };
        cluster.create(&v1::Website::new("hello", spec)).await;
        let hosts = json!({"hosts": ["hello.example.com"]});
        cluster.expect::<Website>("hello", json!({"spec": hosts})).await;
        cluster.eventually::<Website>("hello", json!({"status": {"availableReplicas": 2}})).await;

        let sites: Api<Website> = Api::default_namespaced(cluster.client());
        let spec = WebsiteSpec { hosts: Vec::new(), files: BTreeMap::new(), replicas: 1 };
        let refused = sites.create(&PostParams::default(), &Website::new("x", spec)).await;
        let told = refused.expect_err("it has no host").to_string();
        assert!(told.contains("spec.hosts: Required value: a website needs a host"), "{told}");
        running.stop().await;
        workloads.stop().await;
    }
}

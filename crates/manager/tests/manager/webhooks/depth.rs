//! A deeply nested object, and one that does not convert, on both servers: neither takes the other
//! objects of its kind with it.

use http::{Method, Request};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use windlass_manager::Manager;
use windlass_testserver::{TestServer, on_each_server};
use windlass_webhook::{
    Admission, Conversion, Convert, ConvertError, Defaulter, FailurePolicy, Hook, Operation,
    Validate, Verdict, Webhooks,
};

use crate::webhooks::gadgets::{LIMIT, PAUSE, Replica, free_address, options};

mod v1 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
    #[kube(group = "depth.example.com", version = "v1", kind = "Open", namespaced)]
    #[kube(schema = "disabled")]
    pub(crate) struct OpenSpec {
        pub(crate) size: i64,
        pub(crate) free: Value,
    }
}

mod v2 {
    use kube::CustomResource;
    use serde::{Deserialize, Serialize};
    use serde_json::Value;

    #[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
    #[kube(group = "depth.example.com", version = "v2", kind = "Open", namespaced)]
    #[kube(schema = "disabled")]
    pub(crate) struct OpenSpec {
        pub(crate) count: i64,
        pub(crate) free: Value,
    }
}

impl Convert<v1::Open> for v2::Open {
    fn from_spoke(spoke: v1::Open) -> Result<Self, ConvertError> {
        let v1::OpenSpec { size: count, free } = spoke.spec;
        Ok(Self { metadata: spoke.metadata, spec: v2::OpenSpec { count, free } })
    }

    fn into_spoke(self) -> Result<v1::Open, ConvertError> {
        let v2::OpenSpec { count: size, free } = self.spec;
        if free == "cursed" {
            return Err("spec.free: it is cursed".into());
        }
        Ok(v1::Open { metadata: self.metadata, spec: v1::OpenSpec { size, free } })
    }
}

struct Opens;

impl Defaulter<v2::Open> for Opens {
    fn default(&self, object: &mut v2::Open, _: &Admission) {
        object.metadata.labels.get_or_insert_default().insert("seen".into(), "yes".into());
    }
}

impl Validate<v2::Open> for Opens {
    async fn validate(&self, operation: Operation<'_, v2::Open>, _: &Admission) -> Verdict {
        let count = operation.new_object().map_or(0, |new| new.spec.count);
        if count > 100 { Verdict::deny("there are too many") } else { Verdict::allow() }
    }
}

/// An operator whose webhooks may be ignored.
fn operator(cluster: &TestServer, namespace: &str) -> Manager {
    let hooks = [Hook::validating::<v2::Open>(Opens), Hook::defaulting::<v2::Open>(Opens)];
    let hooks = hooks.map(|hook| hook.failure_policy(FailurePolicy::Ignore));
    let webhooks = hooks.into_iter().fold(Webhooks::new(), Webhooks::hook);
    let conversion = Conversion::hub::<v2::Open>().spoke::<v1::Open>();
    let version = |name: &str, count: &str| {
        let free = json!({"x-kubernetes-preserve-unknown-fields": true});
        let spec =
            json!({"type": "object", "properties": {count: {"type": "integer"}, "free": free}});
        json!({
            "name": name, "served": true, "storage": name == "v2",
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        })
    };
    let definition = json!({
        "metadata": {"name": "opens.depth.example.com"},
        "spec": {
            "group": "depth.example.com",
            "names": {"kind": "Open", "plural": "opens", "singular": "open"},
            "scope": "Namespaced",
            "versions": [version("v1", "size"), version("v2", "count")],
        },
    });
    let client = cluster.client().expect("a client");
    Manager::new(options(namespace, free_address()))
        .connect(move |_| Ok(client.clone()))
        .without_logs()
        .install(serde_json::from_value(definition).expect("a definition"))
        .webhooks("opens", webhooks.convert(conversion))
}

/// The kind in a namespace, as bytes: a value of a client could not be that deep.
struct Collection {
    client: Client,
    namespace: String,
}

impl Collection {
    fn path(&self, version: &str, rest: &str) -> String {
        format!("/apis/depth.example.com/{version}/namespaces/{}/opens{rest}", self.namespace)
    }

    /// The answer to a request, or what the server says instead.
    async fn ask(
        &self,
        method: Method,
        version: &str,
        rest: &str,
        body: String,
    ) -> Result<String, String> {
        let path =
            format!("/apis/depth.example.com/{version}/namespaces/{}/opens{rest}", self.namespace);
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json").body(body.into_bytes());
        let answer = self.client.request_text(request.expect("a request")).await;
        answer.map_err(|error| error.to_string())
    }

    async fn get(&self, version: &str, rest: &str) -> Result<String, String> {
        self.ask(Method::GET, version, rest, String::new()).await
    }

    async fn create(&self, name: &str, count: i64, free: &str) -> Result<String, String> {
        self.ask(Method::POST, "v2", "", object(name, count, free)).await
    }

    /// Waits until a watch has shown a text.
    async fn wait_for_watch(&self, version: &str, text: &str) {
        let path = self.path(version, "?watch=1");
        let request = Request::get(path).body(Vec::new()).expect("a request");
        let answer = self.client.send(request.map(Body::from)).await.expect("a watch");
        let (mut body, mut seen) = (answer.into_body(), Vec::new());
        let shown = async {
            while !String::from_utf8_lossy(&seen).contains(text) {
                let frame = body.frame().await.expect("it does not end").expect("a frame");
                seen.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
        };
        timeout(LIMIT, shown).await.expect("the watch must show it");
    }

    /// Creates an object that the webhook refuses, until it does: servers take a moment to notice a
    /// configuration.
    async fn wait_for_webhooks(&self) {
        let denial = async {
            while !is_denied(&self.create("large", 101, "1").await) {
                let _ = self.ask(Method::DELETE, "v2", "/large", String::new()).await;
                sleep(PAUSE).await;
            }
        };
        timeout(LIMIT, denial).await.expect("the webhook must be called");
        let seen = self.create("probe", 1, "1").await.expect("it is admitted");
        assert!(seen.contains(r#""seen":"yes""#), "{seen}");
    }
}

fn object(name: &str, count: i64, free: &str) -> String {
    format!(
        r#"{{"apiVersion":"depth.example.com/v2","kind":"Open","metadata":{{"name":"{name}"}},"spec":{{"count":{count},"free":{free}}}}}"#
    )
}

fn nested(levels: usize) -> String {
    format!("{}7{}", "[".repeat(levels), "]".repeat(levels))
}

fn is_denied(answer: &Result<String, String>) -> bool {
    answer.as_ref().is_err_and(|why| why.contains("there are too many"))
}

/// Both tests install the same definition: on a real server, which they share, one runs at a time.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

async fn start(cluster: &TestServer, name: &str) -> (Collection, Replica) {
    let namespace = cluster.namespace(name).await.expect("a namespace");
    let replica = Replica::start_and_wait(operator(cluster, &namespace)).await;
    let client = cluster.client().expect("a client");
    let opens = Collection { client, namespace };
    opens.wait_for_webhooks().await;
    (opens, replica)
}

on_each_server!(deep_object_is_admitted_and_readable_in_every_version_with_the_others);
async fn deep_object_is_admitted_and_readable_in_every_version_with_the_others(
    cluster: TestServer,
) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (opens, replica) = start(&cluster, "deep").await;
    for (name, levels) in [("a", 124), ("b", 200), ("c", 9_000)] {
        let free = nested(levels);
        let made = opens.create(name, 3, &free).await.expect("it is admitted");
        assert!(made.contains(r#""seen":"yes""#), "{levels} levels: it is defaulted");
        for (version, count) in [("v1", "size"), ("v2", "count")] {
            let shown = [format!(r#""{count}":3"#), format!(r#""free":{free}"#)];
            for rest in [&format!("/{name}"), ""] {
                let read = opens.get(version, rest).await.expect("it is readable");
                assert!(shown.iter().all(|part| read.contains(part)), "{levels} {version}");
            }
        }
        // Who cannot be asked may be ignored, but this webhook can.
        let large = opens.create("large", 101, &free).await;
        assert!(is_denied(&large), "{levels} levels");
    }
    let list = opens.get("v1", "").await.expect("a list");
    assert_eq!(list.matches(r#""free":"#).count(), 4, "with the object before them");
    opens.wait_for_watch("v1", &nested(9_000)).await;
    for name in ["a", "b", "c"] {
        let gone = opens.ask(Method::DELETE, "v1", &format!("/{name}"), String::new()).await;
        gone.expect("it can be deleted");
    }
    replica.end().await;
}

on_each_server!(object_that_does_not_convert_holds_up_only_what_reads_it_in_that_version);
/// The API server wants all objects of a request converted, or none, so it cannot list this one in
/// the other version. All that does not read it goes on.
async fn object_that_does_not_convert_holds_up_only_what_reads_it_in_that_version(
    cluster: TestServer,
) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let (opens, replica) = start(&cluster, "cursed").await;
    opens.create("good", 3, "1").await.expect("it is admitted");
    opens.create("bad", 3, r#""cursed""#).await.expect("it is admitted");
    for rest in ["/bad", ""] {
        let why = opens.get("v1", rest).await.expect_err("it does not convert");
        assert!(why.contains("/bad): spec.free: it is cursed"), "it is named: {why}");
    }
    opens.get("v1", "/good").await.expect("another object converts");
    opens.create("better", 4, "1").await.expect("another is created");
    let stored = opens.get("v2", "").await.expect("a list in the stored version");
    assert_eq!(stored.matches(r#""free":"#).count(), 4);
    // Mended in the version in which it is stored.
    let held: Value =
        serde_json::from_str(&opens.get("v2", "/bad").await.expect("it is there")).expect("JSON");
    let mut mended = held;
    mended["spec"]["free"] = json!("mended");
    let mended = opens.ask(Method::PUT, "v2", "/bad", mended.to_string()).await;
    mended.expect("it can be mended");
    let list = opens.get("v1", "").await.expect("it can be listed again");
    assert_eq!(list.matches(r#""free":"#).count(), 4);
    replica.end().await;
}

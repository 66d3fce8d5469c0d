//! A kind with two versions, its webhooks, and a manager that serves them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use kube::core::crd::merge_crds;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;
use windlass_manager::{Manager, ManagerError, Options};
use windlass_testserver::{TestServer, free_port};
use windlass_webhook::{
    Admission, Conversion, Convert, ConvertError, Defaulter, FieldError, FieldPath, Operation,
    Validate, Verdict, Webhooks,
};

use kinds::{v1, v2};

/// The name of the webhooks.
pub(crate) const NAME: &str = "gadgets";

/// What `/readyz` says of a replica that is ready. Before it has started, there are no checks.
pub(crate) const READY: &str = "[+]webhooks ok\nreadyz check passed";

/// Longer than anything here takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// How long to wait before somebody who has to be asked is asked again.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// A kind with two versions.
pub(crate) mod kinds {
    #![expect(
        unreachable_pub,
        reason = "kube's derive writes a copy of the struct into a function"
    )]

    pub mod v1 {
        use kube::CustomResource;
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[kube(group = "webhooks.example.com", version = "v1", kind = "Gadget", namespaced)]
        pub struct GadgetSpec {
            pub size: Option<i32>,
        }
    }

    pub mod v2 {
        use kube::CustomResource;
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};

        #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[kube(group = "webhooks.example.com", version = "v2", kind = "Gadget", namespaced)]
        pub struct GadgetSpec {
            pub shape: Shape,
        }

        #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
        pub struct Shape {
            pub size: Option<i32>,
            pub color: Option<String>,
        }
    }
}

impl Convert<v1::Gadget> for v2::Gadget {
    fn from_spoke(spoke: v1::Gadget) -> Result<Self, ConvertError> {
        let shape = v2::Shape { size: spoke.spec.size, color: None };
        Ok(Self { metadata: spoke.metadata, spec: v2::GadgetSpec { shape } })
    }

    fn into_spoke(self) -> Result<v1::Gadget, ConvertError> {
        let spec = v1::GadgetSpec { size: self.spec.shape.size };
        Ok(v1::Gadget { metadata: self.metadata, spec })
    }
}

pub(crate) struct Gadgets;

impl Defaulter<v2::Gadget> for Gadgets {
    fn default(&self, object: &mut v2::Gadget, _: &Admission) {
        object.spec.shape.size.get_or_insert(7);
    }
}

impl Validate<v2::Gadget> for Gadgets {
    async fn validate(&self, operation: Operation<'_, v2::Gadget>, _: &Admission) -> Verdict {
        let Some(new) = operation.new_object() else { return Verdict::allow() };
        let size = new.spec.shape.size;
        if size.is_some_and(|size| size > 100) {
            let path = FieldPath::new("spec").child("shape").child("size");
            return Verdict::from(vec![FieldError::invalid(&path, size, "is too large")]);
        }
        Verdict::allow()
    }
}

pub(crate) fn definition() -> CustomResourceDefinition {
    merge_crds(vec![v1::Gadget::crd(), v2::Gadget::crd()], "v2").expect("two versions of a kind")
}

pub(crate) fn webhooks() -> Webhooks {
    webhooks_without_defaults().default::<v2::Gadget>(Gadgets)
}

pub(crate) fn webhooks_without_defaults() -> Webhooks {
    Webhooks::new()
        .validate::<v2::Gadget>(Gadgets)
        .convert(Conversion::hub::<v2::Gadget>().spoke::<v1::Gadget>().keep_unknown_fields())
}

pub(crate) fn gadget(name: &str, size: Option<i32>) -> v2::Gadget {
    let shape = v2::Shape { size, color: Some("red".to_owned()) };
    v2::Gadget::new(name, v2::GadgetSpec { shape })
}

/// An address at which nobody listens.
pub(crate) fn free_address() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port().expect("a free port")).into()
}

/// The options of an operator that serves its webhooks at this address, without a drain.
pub(crate) fn options(namespace: &str, address: SocketAddr) -> Options {
    let mut options = Options::default().without_http();
    options.webhook_bind_address = address.to_string();
    options.webhook_url = Some(format!("https://{address}"));
    options.webhook_drain = Duration::ZERO;
    options.webhook_namespace = Some(namespace.to_owned());
    options
}

pub(crate) fn manager(cluster: &TestServer, options: Options) -> Manager {
    let client = cluster.client().expect("a client");
    Manager::new(options)
        .connect(move |_| Ok(client.clone()))
        .without_logs()
        .install(definition())
        .webhooks(NAME, webhooks())
}

/// A manager that runs.
pub(crate) struct Replica {
    probes: Router,
    pub(crate) stop: CancellationToken,
    pub(crate) task: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    pub(crate) fn start(manager: Manager) -> Self {
        let (probes, stop) = (manager.probes(), CancellationToken::new());
        let task = TaskTracker::new().spawn(manager.run_until(stop.clone()));
        Self { probes, stop, task }
    }

    pub(crate) async fn start_and_wait(manager: Manager) -> Self {
        let replica = Self::start(manager);
        replica.wait_for_readyz(READY).await;
        replica
    }

    /// Waits until the answer of `/readyz` contains a text.
    pub(crate) async fn wait_for_readyz(&self, text: &str) {
        let waiting = self.readyz_contains(text);
        timeout(LIMIT, waiting).await.unwrap_or_else(|_| panic!("/readyz must say {text:?}"));
    }

    async fn readyz_contains(&self, text: &str) {
        loop {
            let request = Request::builder().uri("/readyz?verbose").body(Body::empty());
            let answer = self.probes.clone().oneshot(request.expect("a request")).await;
            let body = answer.expect("infallible").into_body().collect().await;
            let answer = String::from_utf8_lossy(&body.expect("a body").to_bytes()).into_owned();
            if answer.contains(text) {
                return;
            }
            assert!(!self.task.is_finished(), "the manager has ended: {answer}");
            sleep(PAUSE).await;
        }
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        self.task.await.expect("it must not panic").expect("it must stop");
    }
}

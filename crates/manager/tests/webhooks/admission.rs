//! A manager with webhooks, on both servers: it serves them with certificates of its own, tells the
//! API server about them, and objects are defaulted, validated and converted.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::core::crd::merge_crds;
use kube::{Client, CustomResourceExt as _};
use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_manager::{Manager, Options};
use windlass_testkit::{TestCluster, on_each_cluster};
use windlass_webhook::{
    Admission, Conversion, Convert, ConvertError, Defaulter, FieldError, FieldPath, Operation,
    Validate, Verdict, Webhooks,
};

use kinds::{v1, v2};

/// Longer than anything here takes on a busy machine.
const LIMIT: Duration = Duration::from_mins(1);

/// A kind with two versions.
mod kinds {
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

struct Gadgets;

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

fn definition() -> CustomResourceDefinition {
    merge_crds(vec![v1::Gadget::crd(), v2::Gadget::crd()], "v2").expect("two versions of a kind")
}

fn webhooks() -> Webhooks {
    Webhooks::new()
        .default::<v2::Gadget>(Gadgets)
        .validate::<v2::Gadget>(Gadgets)
        .convert(Conversion::hub::<v2::Gadget>().spoke::<v1::Gadget>().keep_unknown_fields())
}

fn manager(cluster: &TestCluster, namespace: &str) -> Manager {
    let mut options = Options::default().without_http();
    "127.0.0.1:0".clone_into(&mut options.webhook_bind_address);
    options.webhook_url = Some("https://127.0.0.1:0".to_owned());
    options.webhook_drain = Duration::ZERO;
    options.webhook_namespace = Some(namespace.to_owned());
    let client = cluster.client().expect("a client");
    Manager::new(options)
        .connect(move |_| Ok(client.clone()))
        .without_logs()
        .install(definition())
        .webhooks("gadgets", webhooks())
}

fn gadget(name: &str, size: Option<i32>) -> v2::Gadget {
    let shape = v2::Shape { size, color: Some("red".to_owned()) };
    v2::Gadget::new(name, v2::GadgetSpec { shape })
}

/// Creates an object that the webhook refuses, until it does: servers take a moment to notice a
/// configuration.
async fn wait_for_denial(gadgets: &Api<v2::Gadget>) -> String {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let denial = async {
        loop {
            match gadgets.create(&params, &gadget("large", Some(101))).await {
                Err(kube::Error::Api(status)) if status.code == 422 => return status.message,
                _ => sleep(Duration::from_millis(50)).await,
            }
        }
    };
    timeout(LIMIT, denial).await.expect("the webhook must be called")
}

#[tokio::test]
async fn objects_are_defaulted_validated_and_converted() {
    on_each_cluster(async |cluster| {
        let namespace = cluster.namespace("webhooks").await.expect("a namespace");
        let client: Client = cluster.client().expect("a client");
        let stop = CancellationToken::new();
        let running = manager(&cluster, &namespace).run_until(stop.clone());
        let test = async {
            let newer: Api<v2::Gadget> = Api::namespaced(client.clone(), &namespace);
            assert_eq!(
                wait_for_denial(&newer).await,
                "admission webhook \"validate-v2.gadgets.webhooks.example.com\" denied the \
                 request: Gadget.webhooks.example.com \"large\" is invalid: spec.shape.size: \
                 Invalid value: 101: is too large"
            );
            let params = PostParams::default();
            let made = newer.create(&params, &gadget("red", None)).await.expect("it is admitted");
            assert_eq!(made.spec.shape.size, Some(7));

            // The old version does not know the color, and does not lose it.
            let older: Api<v1::Gadget> = Api::namespaced(client.clone(), &namespace);
            let mut seen = older.get("red").await.expect("it is converted");
            assert_eq!(seen.spec.size, Some(7));
            seen.spec.size = Some(8);
            older.replace("red", &params, &seen).await.expect("it is converted back");
            let shape = newer.get("red").await.expect("it is there").spec.shape;
            assert_eq!(json!(shape), json!({"size": 8, "color": "red"}));
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(running, test);
        ended.expect("it stops");
    })
    .await;
}

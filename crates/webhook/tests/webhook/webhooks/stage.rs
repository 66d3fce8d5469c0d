//! A custom resource in three versions, and ways to ask webhooks about it.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_webhook::{Convert, ConvertError};

pub(crate) mod v1alpha1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(
        CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema,
    )]
    #[kube(group = "example.com", version = "v1alpha1", kind = "Website", namespaced)]
    #[kube(derive = "PartialEq")]
    #[serde(default)]
    pub(crate) struct WebsiteSpec {
        pub(crate) hosts: String,
    }
}

pub(crate) mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(
        CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema,
    )]
    #[kube(group = "example.com", version = "v1", kind = "Website", namespaced)]
    #[kube(derive = "PartialEq")]
    #[serde(default, rename_all = "camelCase")]
    pub(crate) struct WebsiteSpec {
        pub(crate) replicas: Option<i64>,
        pub(crate) pages: Vec<Page>,
    }

    #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[serde(default)]
    pub(crate) struct Page {
        pub(crate) name: String,
        pub(crate) title: Option<String>,
    }
}

pub(crate) mod v2 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(
        CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema,
    )]
    #[kube(group = "example.com", version = "v2", kind = "Website", namespaced)]
    #[kube(derive = "PartialEq")]
    #[serde(default)]
    pub(crate) struct WebsiteSpec {
        pub(crate) scale: Scale,
        pub(crate) pages: Vec<Page>,
        pub(crate) theme: Option<String>,
    }

    #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[serde(default)]
    pub(crate) struct Scale {
        pub(crate) replicas: Option<i64>,
    }

    #[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[serde(default)]
    pub(crate) struct Page {
        pub(crate) name: String,
        pub(crate) heading: Option<String>,
    }
}

/// `v1` has no theme, and all else under other names.
impl Convert<v1::Website> for v2::Website {
    fn from_spoke(spoke: v1::Website) -> Result<Self, ConvertError> {
        let page = |page: v1::Page| v2::Page { name: page.name, heading: page.title };
        let spec = v2::WebsiteSpec {
            scale: v2::Scale { replicas: spoke.spec.replicas },
            pages: spoke.spec.pages.into_iter().map(page).collect(),
            theme: None,
        };
        Ok(Self { metadata: spoke.metadata, spec })
    }

    fn into_spoke(self) -> Result<v1::Website, ConvertError> {
        let page = |page: v2::Page| v1::Page { name: page.name, title: page.heading };
        let spec = v1::WebsiteSpec {
            replicas: self.spec.scale.replicas,
            pages: self.spec.pages.into_iter().map(page).collect(),
        };
        Ok(v1::Website { metadata: self.metadata, spec })
    }
}

/// `v1alpha1` has only the names of the pages, in one string.
impl Convert<v1alpha1::Website> for v2::Website {
    fn from_spoke(spoke: v1alpha1::Website) -> Result<Self, ConvertError> {
        assert_ne!(spoke.spec.hosts, "panic", "as the test wants it");
        if spoke.metadata.name.as_deref() == Some("renamed") {
            let metadata = kube::api::ObjectMeta { name: Some("x".into()), ..spoke.metadata };
            return Ok(Self { metadata, spec: v2::WebsiteSpec::default() });
        }
        let names = spoke.spec.hosts.split(' ').filter(|name| !name.is_empty());
        let pages = names.map(|name| v2::Page { name: name.to_owned(), heading: None });
        let spec = v2::WebsiteSpec { pages: pages.collect(), ..v2::WebsiteSpec::default() };
        Ok(Self { metadata: spoke.metadata, spec })
    }

    fn into_spoke(self) -> Result<v1alpha1::Website, ConvertError> {
        if self.spec.pages.iter().any(|page| page.name.contains(' ')) {
            return Err("spec.pages: a name has a space".into());
        }
        let names: Vec<String> = self.spec.pages.into_iter().map(|page| page.name).collect();
        let spec = v1alpha1::WebsiteSpec { hosts: names.join(" ") };
        Ok(v1alpha1::Website { metadata: self.metadata, spec })
    }
}

pub(crate) const VALIDATE: &str = "/validate-example-com-v1-website";
pub(crate) const MUTATE: &str = "/mutate-example-com-v1-website";

/// A website of `v1`.
pub(crate) fn website(spec: Value) -> Value {
    let mut website = json!({
        "apiVersion": "example.com/v1",
        "kind": "Website",
        "metadata": {"name": "x", "namespace": "default", "creationTimestamp": null},
    });
    website["spec"] = spec;
    website
}

/// A review as the API server sends it.
pub(crate) fn review(operation: &str, object: Value, old: Value) -> Value {
    let mut review = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "0c9a8d74",
            "kind": {"group": "example.com", "version": "v1", "kind": "Website"},
            "resource": {"group": "example.com", "version": "v1", "resource": "websites"},
            "requestKind": {"group": "example.com", "version": "v1", "kind": "Website"},
            "requestResource": {"group": "example.com", "version": "v1", "resource": "websites"},
            "name": "x",
            "namespace": "default",
            "operation": operation,
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    review["request"]["object"] = object;
    review["request"]["oldObject"] = old;
    review
}

pub(crate) fn create(spec: Value) -> Value {
    review("CREATE", website(spec), Value::Null)
}

/// Sends a body as the API server does.
pub(crate) async fn send(router: &Router, path: &str, body: impl Into<Body>) -> Response {
    let request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .body(body.into())
        .expect("a request of the test must be valid");
    router.clone().oneshot(request).await.expect("a router must not fail")
}

pub(crate) async fn body(response: Response) -> Value {
    let bytes = response.into_body().collect().await.expect("a body must arrive").to_bytes();
    serde_json::from_slice(&bytes).expect("an answer must be JSON")
}

/// The `response` of the answer to a review, which must be a 200 with the uid.
pub(crate) async fn ask(router: &Router, path: &str, review: &Value) -> Value {
    let answer = send(router, path, review.to_string()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let mut answer = body(answer).await;
    assert_eq!(answer["apiVersion"], review["apiVersion"]);
    assert_eq!(answer["kind"], review["kind"]);
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    assert_eq!(answer.get("request"), None);
    answer["response"].take()
}

/// The object, after the patch of a response.
pub(crate) fn patched(response: &Value, object: &Value) -> Value {
    assert_eq!(response["allowed"], true);
    let mut object = object.clone();
    let Some(patch) = response.get("patch") else { return object };
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = BASE64_STANDARD.decode(patch.as_str().expect("a patch must be a string"));
    let patch: json_patch::Patch =
        serde_json::from_slice(&patch.expect("a patch must be base64")).expect("and JSON");
    json_patch::patch(&mut object, &patch).expect("a patch must apply");
    object
}

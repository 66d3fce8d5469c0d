//! Requests to the API server, as JSON.
//!
//! Not by [`kube::Api`]: it logs answers that it cannot read, and they may contain a key. Nor does
//! this crate choose a version of Kubernetes' types.

use std::error::Error;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::{AuthError, Body};
use kube::core::Status;
use serde_json::Value;
use tokio::time::timeout;

use super::error::CertificatesError;

/// Who wrote a field, as `metadata.managedFields` shows it.
const FIELD_MANAGER: &str = "windlass-certificates";

/// The largest answer. etcd stores no object of more than 1.5 MiB, which is larger as JSON.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const MERGE_PATCH: &str = "application/merge-patch+json";

/// A client with a time limit.
#[derive(Clone)]
pub(super) struct Requests {
    client: kube::Client,
    timeout: Duration,
}

/// An object by its name.
#[derive(Clone, Debug)]
pub(super) struct Address {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Refusal {
    /// There is no such object, or no such kind.
    NotFound,
    /// Somebody else created or changed the object.
    Conflict,
    Failed(CertificatesError),
}

/// What a request does.
enum Verb {
    Get { accept: &'static str },
    Create,
    Update,
    Patch,
}

impl Requests {
    pub(super) fn new(client: kube::Client, timeout: Duration) -> Self {
        Self { client, timeout }
    }

    pub(super) async fn get(&self, address: &Address) -> Result<Value, Refusal> {
        self.send(&Verb::Get { accept: JSON }, address, None).await
    }

    /// As [`get`](Self::get), without the rest of the object.
    pub(super) async fn get_metadata(&self, address: &Address) -> Result<Value, Refusal> {
        self.send(&Verb::Get { accept: METADATA }, address, None).await
    }

    pub(super) async fn create(&self, address: &Address, object: &Value) -> Result<Value, Refusal> {
        self.send(&Verb::Create, address, Some(object)).await
    }

    /// Replaces the object, if it still has the version that `object` has.
    pub(super) async fn update(&self, address: &Address, object: &Value) -> Result<Value, Refusal> {
        self.send(&Verb::Update, address, Some(object)).await
    }

    /// Applies a merge patch.
    pub(super) async fn patch(&self, address: &Address, patch: &Value) -> Result<Value, Refusal> {
        self.send(&Verb::Patch, address, Some(patch)).await
    }

    async fn send(
        &self,
        verb: &Verb,
        address: &Address,
        body: Option<&Value>,
    ) -> Result<Value, Refusal> {
        let failed = |message: String| {
            let (verb, object) = (verb.name(), address.to_string());
            Refusal::Failed(CertificatesError::Failed { verb, object, message })
        };
        let path = address.path(verb).ok_or_else(|| failed("it is no valid name".to_owned()))?;
        let request = Request::builder()
            .method(verb.method())
            .uri(path)
            .header(ACCEPT, verb.accept())
            .header(CONTENT_TYPE, if matches!(verb, Verb::Patch) { MERGE_PATCH } else { JSON })
            .body(Body::from(body.map(Value::to_string).unwrap_or_default().into_bytes()))
            .map_err(|error| failed(error.to_string()))?;
        let Ok(answer) = timeout(self.timeout, self.answer(request)).await else {
            let (verb, object, timeout) = (verb.name(), address.to_string(), self.timeout);
            return Err(Refusal::Failed(CertificatesError::TookTooLong { verb, object, timeout }));
        };
        let (status, body) = answer.map_err(failed)?;
        if status.is_success() {
            // The parser's error would show a part of the answer.
            return serde_json::from_slice(&body)
                .map_err(|_| failed("the answer is no JSON".to_owned()));
        }
        let message = serde_json::from_slice::<Status>(&body).map(|status| status.message);
        let message = message.unwrap_or_default();
        match status {
            StatusCode::NOT_FOUND if !matches!(verb, Verb::Create) => Err(Refusal::NotFound),
            StatusCode::CONFLICT => Err(Refusal::Conflict),
            StatusCode::FORBIDDEN => Err(Refusal::Failed(CertificatesError::Forbidden {
                verb: verb.name(),
                object: address.to_string(),
                group: address.group,
                plural: address.plural,
                message,
            })),
            // A message about an invalid field may quote it.
            status
                if message.is_empty() || address.is_secret() && status != StatusCode::NOT_FOUND =>
            {
                Err(failed(status.to_string()))
            }
            status => Err(failed(format!("{message} ({})", status.as_u16()))),
        }
    }

    async fn answer(&self, request: Request<Body>) -> Result<(StatusCode, Vec<u8>), String> {
        let response = self.client.send(request).await.map_err(|error| describe(&error))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|_| "the answer broke off, or is too large".to_owned())?;
        Ok((head.status, body.to_bytes().to_vec()))
    }
}

/// What may be shown of an error. One of a login plugin has the plugin's output.
fn describe(error: &kube::Error) -> String {
    let mut causes =
        std::iter::successors(Some(error as &(dyn Error + 'static)), |&error| error.source());
    if causes.any(<dyn Error>::is::<AuthError>) {
        return "the credentials for the API server could not be obtained".to_owned();
    }
    error.to_string()
}

impl Verb {
    fn name(&self) -> &'static str {
        match self {
            Self::Get { .. } => "get",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
        }
    }

    fn method(&self) -> Method {
        match self {
            Self::Get { .. } => Method::GET,
            Self::Create => Method::POST,
            Self::Update => Method::PUT,
            Self::Patch => Method::PATCH,
        }
    }

    fn accept(&self) -> &'static str {
        if let Self::Get { accept } = self { accept } else { JSON }
    }
}

impl Address {
    fn is_secret(&self) -> bool {
        self.plural == "secrets"
    }

    /// `None` if a name would change the meaning of the path.
    fn path(&self, verb: &Verb) -> Option<String> {
        let is_safe = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b))
        };
        if !is_safe(&self.name) || !self.namespace.iter().all(|name| is_safe(name)) {
            return None;
        }
        let root = match self.group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        let scope = self.namespace.iter().map(|name| format!("/namespaces/{name}"));
        let mut path = root + &scope.collect::<String>() + "/" + self.plural;
        if !matches!(verb, Verb::Create) {
            path.extend(["/", &self.name]);
        }
        if !matches!(verb, Verb::Get { .. }) {
            path.extend(["?fieldManager=", FIELD_MANAGER]);
        }
        Some(path)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.plural, self.name)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, " in {namespace}"))
    }
}

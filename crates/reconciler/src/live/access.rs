//! Requests about the objects of one resource, in the name of a controller; without types.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use kube::core::request::Error as BuildError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_indexer::{KeyRef, ObjectKey};
use windlass_informer::Resource;
use windlass_informer::client::{CreatedName, status_of};

use crate::context::RunContext;
use crate::error::Error;
use crate::write_options::WriteOptions;

/// The subresource that is written on its own.
pub(crate) const STATUS: &str = "status";

/// The media type of most bodies.
pub(crate) const JSON: &str = "application/json";

/// The media type of a merge patch.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

/// Asks for metadata; a server that cannot cut the rest off sends the object.
const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Asks for a list of metadata.
const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What to do about an object that lacks what only the server sets.
pub(crate) const AS_READ: &str = "pass the object as it was read";

/// The objects of one resource, as a run reads and writes them.
#[derive(Clone)]
pub(crate) struct Access<'a> {
    pub(crate) cx: &'a RunContext,
    pub(crate) resource: Resource,
    pub(crate) options: WriteOptions<'a>,
}

/// A successful answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) bytes: Vec<u8>,
}

/// A request to be: its path and query, and what else is needed.
pub(crate) struct Draft<'a> {
    method: Method,
    path: String,
    query: Vec<(&'a str, &'a str)>,
    content_type: Option<&'static str>,
    body: Vec<u8>,
    accept: &'static str,
}

impl<'a> Access<'a> {
    /// A request about an object.
    pub(crate) fn draft(
        &self,
        method: Method,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
    ) -> Draft<'a> {
        let mut path = format!("{}/{name}", self.resource.path(namespace));
        if let Some(subresource) = subresource {
            path.push('/');
            path.push_str(subresource);
        }
        Draft::new(method, path)
    }

    pub(crate) async fn send(&self, draft: Draft<'_>) -> Result<Answer, kube::Error> {
        send(self.cx.client(), draft.build()?).await
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error> {
        self.read_as(key, JSON).await
    }

    /// Reads the metadata of an object; `None` if it does not exist.
    pub(crate) async fn read_metadata(&self, key: &ObjectKey) -> Result<Option<Vec<u8>>, Error> {
        self.read_as(key, METADATA).await
    }

    async fn read_as(
        &self,
        key: &ObjectKey,
        accept: &'static str,
    ) -> Result<Option<Vec<u8>>, Error> {
        let draft = self.draft(Method::GET, key.namespace(), key.name(), None);
        match self.send(Draft { accept, ..draft }).await {
            Ok(answer) => Ok(Some(answer.bytes)),
            Err(error) if has_code(&error, 404) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The metadata of the objects that a label selector selects: one page, as JSON.
    pub(crate) async fn list_metadata(
        &self,
        namespace: Option<&str>,
        query: &[(&str, &str)],
    ) -> Result<Vec<u8>, kube::Error> {
        let draft = Draft::new(Method::GET, self.resource.path(namespace)).query(query);
        Ok(self.send(Draft { accept: METADATA_LIST, ..draft }).await?.bytes)
    }

    /// Creates an object. `name` is for errors, because the path does not contain it.
    pub(crate) async fn create(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        body: &Value,
    ) -> Result<Answer, Error> {
        let draft = Draft::new(Method::POST, self.resource.path(namespace))
            .query(&self.options.query(self.cx.controller()))
            .body(JSON, body);
        let mut request = draft.build()?;
        if let Some(name) = name {
            request.extensions_mut().insert(CreatedName(name.to_owned()));
        }
        Ok(send(self.cx.client(), request).await?)
    }

    /// Deletes the object with this uid. It is fine if it is gone already.
    pub(crate) async fn delete(
        &self,
        key: &ObjectKey,
        uid: &str,
        version: Option<&str>,
    ) -> Result<(), Error> {
        let query: Vec<_> = self.options.dry_query().into_iter().collect();
        let draft = self
            .draft(Method::DELETE, key.namespace(), key.name(), None)
            .query(&query)
            .body(JSON, &self.options.delete_options(uid, version));
        let Err(error) = self.send(draft).await else { return Ok(()) };
        if has_code(&error, 404) {
            return Ok(());
        }
        // If another object has this name by now, this one is gone.
        let is_gone = has_code(&error, 409)
            && self.read_metadata(key).await?.is_none_or(|present| uid_of(&present) != uid);
        if is_gone { Ok(()) } else { Err(error.into()) }
    }

    /// The object as JSON, with its type, which the Rust type does not contain.
    pub(crate) fn body(&self, object: &impl Serialize) -> Result<Value, Error> {
        let mut body = self.encode(object)?;
        if let Some(fields) = body.as_object_mut() {
            fields.insert("apiVersion".to_owned(), self.resource.api_version().into());
            fields.insert("kind".to_owned(), self.resource.kind().into());
        }
        Ok(body)
    }

    pub(crate) fn encode(&self, object: &impl Serialize) -> Result<Value, Error> {
        serde_json::to_value(object)
            .map_err(|error| self.json_error("no JSON can be made of this", &error))
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T, Error> {
        serde_json::from_slice(bytes)
            .map_err(|error| self.json_error("the server did not return a valid", &error))
    }

    /// The type and JSON do not match. The message of the error may show content, so it is not
    /// shown.
    pub(crate) fn json_error(&self, what: &str, error: &serde_json::Error) -> Error {
        let (problem, line, column) = (error.classify(), error.line(), error.column());
        let kind = self.resource.kind();
        Error::msg(format!("{what} {kind}: {problem:?} at line {line}, column {column}"))
    }

    pub(crate) fn lacks(&self, done: &str, what: &str, advice: &str) -> Error {
        let kind = self.resource.kind();
        Error::msg(format!("a {kind} cannot be {done} without {what}: {advice}"))
    }

    /// The key of an object that is to be written.
    pub(crate) fn key(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        done: &str,
    ) -> Result<ObjectKey, Error> {
        let namespace = self.namespace(namespace)?;
        let name = name.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| self.lacks(done, "a name", "set metadata.name"))?;
        Ok(KeyRef::new(namespace, name).into())
    }

    /// The namespace for the path of an object; `None` for a cluster-scoped one.
    pub(crate) fn namespace<'n>(
        &self,
        namespace: Option<&'n str>,
    ) -> Result<Option<&'n str>, Error> {
        if !self.resource.is_namespaced() {
            return Ok(None);
        }
        let namespace = namespace.filter(|namespace| !namespace.is_empty());
        let lacks = || self.lacks("written", "a namespace", "set metadata.namespace");
        namespace.map(Some).ok_or_else(lacks)
    }
}

impl<'a> Draft<'a> {
    pub(crate) fn new(method: Method, path: String) -> Self {
        let (query, body) = (Vec::new(), Vec::new());
        Self { method, path, query, content_type: None, body, accept: JSON }
    }

    pub(crate) fn query(mut self, query: &[(&'a str, &'a str)]) -> Self {
        self.query.extend_from_slice(query);
        self
    }

    pub(crate) fn body(mut self, content_type: &'static str, body: &Value) -> Self {
        self.content_type = Some(content_type);
        self.body = body.to_string().into_bytes();
        self
    }

    fn build(self) -> Result<Request<Vec<u8>>, kube::Error> {
        let mut uri = self.path;
        if !self.query.is_empty() {
            uri.push('?');
            uri = form_urlencoded::Serializer::new(uri).extend_pairs(self.query).finish();
        }
        let mut request =
            Request::builder().method(self.method).uri(uri).header(ACCEPT, self.accept);
        if let Some(content_type) = self.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        let request = request.body(self.body);
        request.map_err(|error| kube::Error::BuildRequest(BuildError::BuildRequest(error)))
    }
}

/// Sends a request. Answers are decoded by the caller and not by kube, which logs what it cannot
/// decode.
pub(crate) async fn send(
    client: &Client,
    request: Request<Vec<u8>>,
) -> Result<Answer, kube::Error> {
    let answer = client.send(request.map(Body::from)).await?;
    let status = answer.status();
    let bytes: Vec<u8> = answer.into_body().collect().await?.to_bytes().into();
    if status.is_client_error() || status.is_server_error() {
        // The client of a run makes every error answer a complete status.
        let failure = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            let message = status.canonical_reason().unwrap_or("the server refused the request");
            Status::failure(message, "Unknown").with_code(status.as_u16())
        });
        return Err(kube::Error::Api(failure.boxed()));
    }
    Ok(Answer { status, bytes })
}

/// Whether an error is an answer of the server with this code.
pub(crate) fn has_code(error: &kube::Error, code: u16) -> bool {
    status_of(error).is_some_and(|status| status.code == code)
}

pub(crate) fn is_not_found(error: &Error) -> bool {
    status_of(error.source()).is_some_and(|status| status.code == 404)
}

/// The uid in the JSON of an object; empty if there is none.
fn uid_of(object: &[u8]) -> String {
    let object: Value = serde_json::from_slice(object).unwrap_or_default();
    object["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

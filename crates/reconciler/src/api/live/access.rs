//! Requests about the objects of one resource, in the name of a controller; without types.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::BodyExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::request::Error as BuildError;
use kube::core::response::StatusCause;
use kube::core::{Request as Requests, Status};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use windlass_indexer::{HeadParser, KeyRef, ObjectKey};
use windlass_informer::Resource;
use windlass_informer::client::{CreatedName, status_of};
use windlass_nesting::{SHALLOW_MAX, depth, from_slice, read_object, with_stack_for};

use super::listed::Listed;
use crate::api::write_options::WriteOptions;
use crate::error::{Error, has_code};
use crate::plan::PlanRecorder;
use crate::run::context::RunContext;

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
pub(crate) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// What to do about an object that lacks what only the server sets.
const AS_READ: &str = "pass the object as it was read";

/// The size of the pages of a list. As in client-go.
const PAGE: u32 = 500;

/// The objects of one resource, as a run reads and writes them.
#[derive(Clone)]
pub(crate) struct Access<'a> {
    pub(crate) cx: &'a RunContext,
    pub(crate) resource: Resource,
    pub(crate) options: WriteOptions<'a>,
}

/// A page of a list. Its items stay text: one of them may be nested more deeply than can be
/// decoded, and the others are to be found all the same.
#[derive(Deserialize)]
struct Page<'a> {
    metadata: Option<PageMetadata>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue")]
    token: Option<String>,
}

impl Access<'_> {
    /// The path of an object, or of a subresource of it.
    pub(crate) fn path(&self, key: &ObjectKey, subresource: Option<&str>) -> String {
        let path = format!("{}/{}", self.resource.path(key.namespace()), key.name());
        match subresource {
            Some(subresource) => format!("{path}/{subresource}"),
            None => path,
        }
    }

    /// Reads an object; `None` if it does not exist.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Option<Bytes>, Error> {
        self.get(&self.path(key, None), JSON).await
    }

    /// Reads the metadata of an object; `None` if it does not exist.
    pub(crate) async fn read_metadata(&self, key: &ObjectKey) -> Result<Option<Bytes>, Error> {
        self.get(&self.path(key, None), METADATA).await
    }

    /// Reads what is at a path; `None` if there is nothing.
    pub(crate) async fn get(&self, path: &str, accept: &str) -> Result<Option<Bytes>, Error> {
        Ok(unless_missing(self.send(get(path, accept)?).await)?.map(Response::into_body))
    }

    /// Reads a list in pages, and converts its items.
    pub(crate) async fn list<R>(
        &self,
        namespace: Option<&str>,
        mut parameters: ListParams,
        accept: &'static str,
        convert: impl Fn(&str) -> Result<R, Error>,
    ) -> Result<Vec<R>, Error> {
        parameters.limit.get_or_insert(PAGE);
        let requests = Requests::new(self.resource.path(namespace));
        let (mut listed, mut objects) = (Listed::new(&parameters), Vec::new());
        loop {
            let mut request = requests.list(&parameters).map_err(kube::Error::BuildRequest)?;
            request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
            let answer = self.send(request).await?;
            let page: Page<'_> = self.decode(answer.body())?;
            let items = page.items.unwrap_or_default();
            if listed.is_repeated(&items) {
                if parameters.limit.is_none() {
                    let resource = &self.resource;
                    return Err(Error::msg(format!("the server never ends a list of {resource}")));
                }
                (parameters.limit, parameters.continue_token) = (None, None);
                (listed, objects) = (Listed::new(&parameters), Vec::new());
                continue;
            }
            for item in listed.select(&self.resource, items) {
                objects.push(convert(item.get())?);
            }
            match page.metadata.and_then(|metadata| metadata.token) {
                Some(token) if !token.is_empty() => parameters.continue_token = Some(token),
                _ => return Ok(objects),
            }
        }
    }

    /// Creates an object.
    pub(crate) async fn create(
        &self,
        meta: &ObjectMeta,
        body: &Value,
    ) -> Result<Response<Bytes>, Error> {
        self.check_owners(meta)?;
        let (namespace, name) = (self.namespace(meta)?, meta.name.as_deref());
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        self.confirm_owner_of_deleted(namespace, name, owners).await?;
        Ok(self.post(namespace, name, body).await?)
    }

    /// Creates an object, whoever owns it.
    pub(crate) async fn post(
        &self,
        namespace: Option<&str>,
        name: Option<&str>,
        body: &Value,
    ) -> Result<Response<Bytes>, kube::Error> {
        let path = self.resource.path(namespace);
        let query = self.options.query(self.cx.controller());
        let mut request = request(Method::POST, &path, &query, JSON, body)?;
        if let Some(name) = name {
            // For errors, because the path does not contain it.
            request.extensions_mut().insert(CreatedName(name.to_owned()));
        }
        self.send(request).await
    }

    /// Patches an object, or a subresource of it.
    pub(crate) async fn patch(
        &self,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Response<Bytes>, kube::Error> {
        let query = self.options.query(self.cx.controller());
        let target = self.path(key, subresource);
        self.send(request(Method::PATCH, &target, &query, MERGE_PATCH, patch)?).await
    }

    /// Deletes the object with this uid. It is fine if it is gone already.
    pub(crate) async fn delete(
        &self,
        key: &ObjectKey,
        uid: &str,
        version: Option<&str>,
    ) -> Result<(), Error> {
        let options = self.options.delete_options(uid, version);
        let query = self.options.dry_query();
        let path = self.path(key, None);
        let request = request(Method::DELETE, &path, query.as_slice(), JSON, &options)?;
        match self.send(request).await {
            // If another object has this name by now, this one is gone.
            Err(error) if has_code(&error, 409) => match self.read_metadata(key).await? {
                Some(present) if uid_of(&present) == uid => Err(error.into()),
                _ => Ok(()),
            },
            answer => match unless_missing(answer)? {
                Some(answer) if deleted_uid(answer.body()).is_some_and(|it| it != uid) => {
                    let kind = self.resource.kind();
                    Err(Error::msg(format!(
                        "the server has deleted another {kind} {key} than the one with the uid                          {uid}: it ignores the preconditions of a deletion"
                    )))
                }
                _ => Ok(()),
            },
        }
    }

    /// Sends a request. Answers are decoded by the caller and not by kube, which logs what it
    /// cannot decode.
    pub(crate) async fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> Result<Response<Bytes>, kube::Error> {
        let mut client = self.cx.client().clone();
        if self.options.is_dry && !self.cx.is_plan() {
            // A server that ignores `dryRun` must not go unnoticed. In a plan, the client of the
            // run sees to that.
            client = PlanRecorder::new().client(client);
        }
        let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
        let bytes = body.collect().await?.to_bytes();
        if head.status.is_client_error() || head.status.is_server_error() {
            // The client of a run makes every error answer a complete status.
            let failure = serde_json::from_slice(&bytes).unwrap_or_else(|_| {
                let reason = head.status.canonical_reason();
                let message = reason.unwrap_or("the server refused the request");
                Status::failure(message, "Unknown").with_code(head.status.as_u16())
            });
            return Err(kube::Error::Api(failure.boxed()));
        }
        Ok(Response::from_parts(head, bytes))
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
        let what = || format!("no JSON can be made of this {}", self.resource.kind());
        serde_json::to_value(object).map_err(|error| json_error(&what(), &error))
    }

    pub(crate) fn decode<'b, T: Deserialize<'b>>(&self, bytes: &'b [u8]) -> Result<T, Error> {
        serde_json::from_slice(bytes).map_err(|error| self.not_valid(&error))
    }

    /// Decodes an item of a list. Those of built-in kinds do not say what they are.
    ///
    /// # Errors
    /// Returns an error that names the object, also if a value of it could not be dropped on any
    /// thread, because what `T` has of it is nested too deeply.
    pub(crate) fn decode_item<T>(&self, item: &str) -> Result<T, Error>
    where
        T: DeserializeOwned + Serialize + Send,
    {
        let (version, kind) = (self.resource.api_version(), self.resource.kind());
        let levels = depth(item.as_bytes());
        let decode = || {
            let object: T = from_slice(with_type(item, &version, kind)?.as_bytes())?;
            let is_deep =
                levels > SHALLOW_MAX && depth(&serde_json::to_vec(&object)?) > SHALLOW_MAX;
            Ok((!is_deep).then_some(object))
        };
        let decoded = with_stack_for(levels, decode).unwrap_or(Ok(None));
        let key = || {
            let head = HeadParser::default().parse(item.as_bytes());
            head.map(|head| format!(" {}", head.key())).unwrap_or_default()
        };
        match decoded {
            Ok(Some(object)) => Ok(object),
            Ok(None) => Err(Error::msg(format!(
                "the {kind}{} is nested too deeply to be read: list a type that does not have the \
                 deep field, such as PartialObjectMeta",
                key()
            ))),
            Err(error) => {
                let what = format!("the server did not return a valid {kind}{}", key());
                Err(json_error(&what, &error))
            }
        }
    }

    /// The error about an answer that is not of the type.
    pub(crate) fn not_valid(&self, error: &serde_json::Error) -> Error {
        let kind = self.resource.kind();
        json_error(&format!("the server did not return a valid {kind}"), error)
    }

    /// The key of an object that is to be written.
    pub(crate) fn key(&self, meta: &ObjectMeta, done: &str) -> Result<ObjectKey, Error> {
        let namespace = self.namespace(meta)?;
        let name = self.required(&meta.name, done, "a name", "set metadata.name")?;
        Ok(KeyRef::new(namespace, name).into())
    }

    /// The namespace for the path of an object; `None` for a cluster-scoped one.
    fn namespace<'n>(&self, meta: &'n ObjectMeta) -> Result<Option<&'n str>, Error> {
        if !self.resource.is_namespaced() {
            return Ok(None);
        }
        let advice = "set metadata.namespace";
        self.required(&meta.namespace, "written", "a namespace", advice).map(Some)
    }

    /// The uid of an object that was read.
    pub(crate) fn uid<'m>(&self, meta: &'m ObjectMeta, done: &str) -> Result<&'m str, Error> {
        self.required(&meta.uid, done, "a uid", AS_READ)
    }

    /// The version of an object that was read.
    pub(crate) fn version<'m>(&self, meta: &'m ObjectMeta, done: &str) -> Result<&'m str, Error> {
        self.required(&meta.resource_version, done, "a version", AS_READ)
    }

    /// A field without which nothing can be `done`.
    #[expect(clippy::ref_option, reason = "the fields are options")]
    fn required<'m>(
        &self,
        field: &'m Option<String>,
        done: &str,
        what: &str,
        advice: &str,
    ) -> Result<&'m str, Error> {
        field.as_deref().filter(|value| !value.is_empty()).ok_or_else(|| {
            let kind = self.resource.kind();
            Error::msg(format!("a {kind} cannot be {done} without {what}: {advice}"))
        })
    }
}

/// The type and JSON do not match. The message of the error may show content, so it is not shown.
pub(crate) fn json_error(what: &str, error: &serde_json::Error) -> Error {
    let (problem, line, column) = (error.classify(), error.line(), error.column());
    Error::msg(format!("{what}: {problem:?} at line {line}, column {column}"))
}

/// An object, with its type if it has none.
fn with_type(object: &str, version: &str, kind: &str) -> serde_json::Result<String> {
    let (version, kind) = (to_raw_value(version)?, to_raw_value(kind)?);
    let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(object)?;
    fields.entry("apiVersion".to_owned()).or_insert(&version);
    fields.entry("kind".to_owned()).or_insert(&kind);
    serde_json::to_string(&fields)
}

/// A request without a body.
pub(crate) fn get(path: &str, accept: &str) -> Result<Request<Vec<u8>>, kube::Error> {
    Request::get(path).header(ACCEPT, accept).body(Vec::new()).map_err(cannot_build)
}

/// A request with a body.
pub(crate) fn request(
    method: Method,
    path: &str,
    query: &[(&str, &str)],
    media_type: &str,
    body: &Value,
) -> Result<Request<Vec<u8>>, kube::Error> {
    let mut uri = form_urlencoded::Serializer::new(format!("{path}?"));
    let request = Request::builder().method(method).uri(uri.extend_pairs(query).finish());
    let request = request.header(ACCEPT, JSON).header(CONTENT_TYPE, media_type);
    request.body(body.to_string().into_bytes()).map_err(cannot_build)
}

fn cannot_build(error: http::Error) -> kube::Error {
    kube::Error::BuildRequest(BuildError::BuildRequest(error))
}

/// `None` instead of the error that the object does not exist.
pub(crate) fn unless_missing<T>(answer: Result<T, kube::Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if has_code(&error, 404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The causes that an answer of the server with this code names.
pub(crate) fn causes_of<'e>(
    error: &'e (dyn std::error::Error + 'static),
    code: u16,
) -> impl Iterator<Item = &'e StatusCause> {
    let status = status_of(error).filter(|status| status.code == code);
    let details = status.and_then(|status| status.details.as_ref());
    details.into_iter().flat_map(|details| &details.causes)
}

/// The uid in the JSON of an object; empty if there is none.
fn uid_of(object: &[u8]) -> String {
    let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    read_object(object, uid).unwrap_or_default()
}

/// The uid of the object that the answer to a deletion is about: the object, or a status that names
/// it. `None` if it does not say.
fn deleted_uid(answer: &[u8]) -> Option<String> {
    let uid = |answer: &Value| {
        let uids = [&answer["metadata"]["uid"], &answer["details"]["uid"]];
        let uid = uids.into_iter().filter_map(Value::as_str).find(|uid| !uid.is_empty());
        uid.map(str::to_owned)
    };
    read_object(answer, uid).flatten()
}

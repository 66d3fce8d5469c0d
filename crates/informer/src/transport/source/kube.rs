//! Lists and watches over a [`kube::Client`].
//!
//! Only the client's transport is used: bodies are passed on as they arrive, and nothing in them is decoded
//! here. Invariant: a 2xx answer is a body, any other a [`SourceError::Status`].

use std::fmt;

use form_urlencoded::Serializer;
use futures::TryStreamExt as _;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use http_body_util::BodyExt as _;

use super::selection::Selection;
use super::{
    Answer, Body, ListRequest, ListWatch, Request, SelectionError, SourceError, WatchRequest,
    refusal,
};
use crate::resource::Resource;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Servers that cannot cut objects down, as some aggregated ones, send whole ones instead.
const METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);

/// Every event of a watch has one object, so here it is not the list.
const METADATA_WATCH: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);

/// The objects of one resource, from an API server.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass_informer::{KubeListWatch, Resource, SelectionError};
///
/// fn pods_on(client: kube::Client, node: &str) -> Result<KubeListWatch, SelectionError> {
///     KubeListWatch::new(client, Resource::of::<Pod>())
///         .label_selector("app in (web, api)")?
///         .field_selector(&format!("spec.nodeName={node}"))
/// }
/// ```
#[derive(Clone)]
#[must_use]
pub struct KubeListWatch {
    client: kube::Client,
    resource: Resource,
    selection: Selection,
    metadata_only: bool,
}

impl KubeListWatch {
    /// All objects of a resource, in all namespaces.
    pub fn new(client: kube::Client, resource: Resource) -> Self {
        Self { client, resource, selection: Selection::default(), metadata_only: false }
    }

    /// Only those in a namespace.
    ///
    /// # Errors
    /// If no namespace can have this name, or the resource is cluster-wide.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Result<Self, SelectionError> {
        self.selection.set_namespace(&self.resource, namespace.into())?;
        Ok(self)
    }

    /// Only those with such labels, as in `app=web,!canary`.
    ///
    /// # Errors
    /// If it cannot be read; the error says where, and what to write instead.
    pub fn label_selector(mut self, selector: &str) -> Result<Self, SelectionError> {
        self.selection.set_labels(selector)?;
        Ok(self)
    }

    /// Only those with such fields, as in `spec.nodeName=node-1,status.phase!=Running`. Which fields can be
    /// selected by depends on the resource, and only the server knows.
    ///
    /// # Errors
    /// If it cannot be read; the error says where, and what to write instead.
    pub fn field_selector(mut self, selector: &str) -> Result<Self, SelectionError> {
        self.selection.set_fields(selector)?;
        Ok(self)
    }

    /// Whether objects come without spec and status. By default they come whole.
    pub fn metadata_only(self, metadata_only: bool) -> Self {
        Self { metadata_only, ..self }
    }

    /// What it is of.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    async fn send(&self, request: &Request) -> Result<Body, SourceError> {
        let request = self.http_request(request)?;
        let response =
            self.client.send(request).await.map_err(|error| SourceError::transport(&error))?;
        if !response.status().is_success() {
            return Err(refusal::read(response).await.into());
        }
        let body = response.into_body().into_data_stream();
        Ok(Box::pin(body.map_err(|error| SourceError::transport(&error))))
    }

    fn http_request(
        &self,
        request: &Request,
    ) -> Result<http::Request<kube::client::Body>, SourceError> {
        let path = self.resource.path(self.selection.namespace.as_deref());
        let query = self.query(request);
        let uri = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut built = http::Request::get(uri).header(ACCEPT, self.accept(request));
        if matches!(request, Request::Watch(_)) {
            // A compressed watch would come in blocks, and events would wait for the next one.
            built = built.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        // The group, version and plural came from discovery or from a caller, and may be no path at all.
        built.body(kube::client::Body::empty()).map_err(|error| SourceError::transport(&error))
    }

    fn accept(&self, request: &Request) -> HeaderValue {
        match request {
            _ if !self.metadata_only => JSON,
            Request::List(_) => METADATA_LIST,
            Request::Watch(_) => METADATA_WATCH,
        }
    }

    fn query(&self, request: &Request) -> String {
        let mut query = Serializer::new(String::new());
        match request {
            Request::List(list) => list.append_to(&mut query),
            Request::Watch(watch) => watch.append_to(&mut query),
        }
        for (name, selector) in
            [("labelSelector", &self.selection.labels), ("fieldSelector", &self.selection.fields)]
        {
            if !selector.is_empty() {
                query.append_pair(name, selector);
            }
        }
        query.finish()
    }
}

impl ListWatch for KubeListWatch {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        Box::pin(self.send(request))
    }
}

impl ListRequest {
    fn append_to(&self, query: &mut Serializer<'_, String>) {
        if let Some(limit) = self.limit {
            query.append_pair("limit", &limit.to_string());
        }
        if let Some(token) = &self.continue_token {
            query.append_pair("continue", token);
        }
    }
}

impl WatchRequest {
    fn append_to(&self, query: &mut Serializer<'_, String>) {
        query.append_pair("watch", "true");
        query.append_pair("allowWatchBookmarks", "true");
        // Zero would be the server's own default, which is half an hour and more.
        query.append_pair("timeoutSeconds", &self.timeout.as_secs().max(1).to_string());
        match &self.from {
            Some(version) => query.append_pair("resourceVersion", version),
            // With no version named this is a consistent read, as client-go asks for it. The server insists
            // on the match.
            None => query
                .append_pair("sendInitialEvents", "true")
                .append_pair("resourceVersionMatch", "NotOlderThan"),
        };
    }
}

impl fmt::Debug for KubeListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeListWatch")
            .field("resource", &self.resource)
            .field("selection", &self.selection)
            .field("metadata_only", &self.metadata_only)
            .finish_non_exhaustive()
    }
}

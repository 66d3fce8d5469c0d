//! Lists and watches over a [`kube::Client`].
//!
//! Bodies are passed on as they arrive, and nothing in them is decoded here.

use std::fmt;

use form_urlencoded::Serializer;
use futures::TryStreamExt as _;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderValue};
use http_body_util::BodyExt as _;

use windlass_indexer::Selector;

use super::error::SourceError;
use super::list_watch::{Answer, Body, ListRequest, ListWatch, Request, WatchRequest};
use super::selection::{SelectionError, check_fields, check_namespace};
use super::send::send;
use crate::resource::Resource;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A server that cannot reduce objects to metadata, as some aggregated ones, sends whole objects.
const METADATA_LIST: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);

/// Every event of a watch has one object, so this asks for objects and not for a list.
const METADATA_WATCH: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
);

/// The objects of one resource, from an API server.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use windlass_informer::source::{KubeListWatch, SelectionError};
/// use windlass_informer::Resource;
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
}

/// Which objects the server sends. An empty selector selects all of them.
#[derive(Clone, Debug, Default)]
struct Selection {
    namespace: Option<String>,
    labels: String,
    fields: String,
    metadata_only: bool,
}

impl KubeListWatch {
    /// All objects of a resource, in all namespaces.
    pub fn new(client: kube::Client, resource: Resource) -> Self {
        Self { client, resource, selection: Selection::default() }
    }

    /// Only objects in a namespace.
    ///
    /// # Errors
    /// If the name is invalid, or the resource is cluster-wide.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Result<Self, SelectionError> {
        let namespace = namespace.into();
        check_namespace(&self.resource, &namespace)?;
        self.selection.namespace = Some(namespace);
        Ok(self)
    }

    /// Only objects with these labels, as in `app=web,!canary`.
    ///
    /// # Errors
    /// If the selector is invalid. The error says where, and what to write instead.
    pub fn label_selector(mut self, selector: &str) -> Result<Self, SelectionError> {
        self.selection.labels = selector.parse::<Selector>()?.to_string();
        Ok(self)
    }

    /// Only objects with these fields, as in `spec.nodeName=node-1,status.phase!=Running`. Which
    /// fields can be selected by depends on the resource, and only the server knows.
    ///
    /// # Errors
    /// If the selector is invalid. The error says where, and what to write instead.
    pub fn field_selector(mut self, selector: &str) -> Result<Self, SelectionError> {
        check_fields(selector)?;
        selector.clone_into(&mut self.selection.fields);
        Ok(self)
    }

    /// Whether objects come without spec and status. By default they come whole.
    pub fn metadata_only(mut self, metadata_only: bool) -> Self {
        self.selection.metadata_only = metadata_only;
        self
    }

    async fn send(&self, request: &Request) -> Result<Body, SourceError> {
        let path = self.resource.path(self.selection.namespace.as_deref());
        let query = self.query(request);
        let uri = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut http_request = http::Request::get(uri).header(ACCEPT, self.accept(request));
        if matches!(request, Request::Watch(_)) {
            // A compressed watch comes in blocks, so events would wait for the next one.
            http_request = http_request.header(ACCEPT_ENCODING, "identity");
        }
        let body = send(&self.client, http_request).await?.into_data_stream();
        Ok(Box::pin(body.map_err(|error| SourceError::transport(&error))))
    }

    fn accept(&self, request: &Request) -> HeaderValue {
        match request {
            _ if !self.selection.metadata_only => JSON,
            Request::List(_) => METADATA_LIST,
            Request::Watch(_) => METADATA_WATCH,
        }
    }

    fn query(&self, request: &Request) -> String {
        let mut query = Serializer::new(String::new());
        match request {
            Request::List(ListRequest { limit, continue_token }) => {
                query.extend_pairs(limit.map(|limit| ("limit", limit.to_string())));
                query.extend_pairs(continue_token.iter().map(|token| ("continue", token)));
            }
            Request::Watch(WatchRequest { from, timeout }) => {
                // Zero would mean the server's own default, which is half an hour and more.
                let seconds = timeout.as_secs().max(1).to_string();
                query.extend_pairs([("watch", "true"), ("allowWatchBookmarks", "true")]);
                query.append_pair("timeoutSeconds", &seconds);
                if let Some(version) = from {
                    query.append_pair("resourceVersion", version);
                } else {
                    // Without a version this is a consistent read, as client-go does it. The
                    // server requires the match.
                    query.append_pair("sendInitialEvents", "true");
                    query.append_pair("resourceVersionMatch", "NotOlderThan");
                }
            }
        }
        let Selection { labels, fields, .. } = &self.selection;
        let selectors = [("labelSelector", labels), ("fieldSelector", fields)];
        query.extend_pairs(selectors.into_iter().filter(|(_, selector)| !selector.is_empty()));
        query.finish()
    }
}

impl ListWatch for KubeListWatch {
    fn request<'a>(&'a self, request: &'a Request) -> Answer<'a> {
        Box::pin(self.send(request))
    }
}

impl fmt::Debug for KubeListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeListWatch")
            .field("resource", &self.resource)
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

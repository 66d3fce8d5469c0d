//! Checks whether caches are up to date with the server.
//!
//! The resource version of a cache says little: a cache learns a new version only when an object
//! that it watches changes. So the server is asked for a list. Every object of the list must be in
//! the cache, in that version or a later one, and every other object of the cache must be newer
//! than the list.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::Request;
use http::header::ACCEPT;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;
use windlass::indexer::{Head, HeadParser, ResourceVersion};
use windlass::informer::{InformerCache, Written};
use windlass::prelude::ObjectKey;
use windlass::reconciler::AnyController;

/// Asks for a list with metadata only.
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// The server's list of a resource.
#[derive(Deserialize)]
struct Listed {
    metadata: ListMeta,
    /// A real server sends `null` for an empty list.
    items: Option<Vec<Value>>,
}

#[derive(Deserialize)]
struct ListMeta {
    #[serde(rename = "resourceVersion")]
    resource_version: String,
}

/// Returns a description of the first cache of these controllers that is not up to date with the
/// server, and what it lacks.
///
/// # Errors
/// If the server does not answer.
pub(crate) async fn first_stale_cache(
    client: &Client,
    controllers: &[Arc<dyn AnyController>],
) -> Result<Option<String>, kube::Error> {
    let mut caches: Vec<InformerCache> = Vec::new();
    for cache in controllers.iter().flat_map(|controller| controller.caches()) {
        if !caches.iter().any(|known| known.is_of_same_cache(&cache)) {
            caches.push(cache);
        }
    }
    for cache in &caches {
        for namespace in cache.namespaces() {
            if let Some(missing) = missing(client, cache, namespace).await? {
                return Ok(Some(format!("the cache of {} {missing}", cache.resource())));
            }
        }
    }
    Ok(None)
}

/// Returns how the cache differs from the server in a namespace; `None` if it is up to date.
async fn missing(
    client: &Client,
    cache: &InformerCache,
    namespace: Option<&str>,
) -> Result<Option<String>, kube::Error> {
    let request = Request::get(cache.resource().path(namespace)).header(ACCEPT, METADATA);
    let request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    let listed: Listed = client.request(request).await?;
    let (answered, parser) = (Instant::now(), HeadParser::default());
    let items = listed.items.iter().flatten();
    let heads = items.filter_map(|item| parser.parse(item.to_string().as_bytes()).ok());
    let heads: Vec<Head> = heads.collect();
    let keys: BTreeSet<ObjectKey> = heads.iter().map(|head| head.key().clone()).collect();
    for head in heads {
        let (key, version) = (head.key().clone(), head.resource_version().clone());
        let written = Written::Object(head);
        // Only the server knows whether a field selector matches an object that the cache does not
        // have.
        if !cache.is_caught_up(&written, answered) && cache.surely_selects(&written) {
            return Ok(Some(format!("does not show {key} at version {version} yet")));
        }
    }
    let version = ResourceVersion::new(&listed.metadata.resource_version);
    for object in &cache.snapshot().all() {
        let head = object.head();
        let is_listed = namespace.is_none() || head.namespace() == namespace;
        if is_listed && !keys.contains(head.key()) && head.resource_version() <= &version {
            return Ok(Some(format!("still shows {}, which is deleted", head.key())));
        }
    }
    Ok(None)
}

//! Asks the server for the resource of a kind: its plural, its scope, its version.
//!
//! kube's discovery asks for every version of a group, and fails if one of them fails. This needs
//! one or two requests, and its errors say which kinds or versions exist.

use std::time::Duration;

use http::header::ACCEPT;
use http_body_util::{BodyExt as _, Limited};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroup, APIResource, APIResourceList};
use kube::api::ApiResource;
use serde::de::DeserializeOwned;

use crate::resource::Resource;
use crate::transport::source::{SourceError, send};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How large it may be. The largest group of a usual cluster has a few dozen resources, in some
/// 20 KiB.
const BODY_MAX: usize = 4 << 20;

/// How many names an error lists.
const NAMES_MAX: usize = 20;

/// Why a kind was not found.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The server has no such kind. It may come, with its definition.
    #[error("no kind {kind} in {place}{}{}", hint(.place), list_names(.found))]
    NoKind {
        /// The kind that was asked for.
        kind: String,
        /// Group and version, or the group alone.
        place: String,
        /// The kinds that exist there, or the versions if there is no such version, or nothing.
        found: Vec<String>,
    },
    /// The server does not store objects of this kind, such as `TokenReview`: there is nothing to
    /// list.
    #[error("{kind} in {api_version} cannot be listed and watched")]
    NotWatchable {
        /// The kind.
        kind: String,
        /// Its group and version.
        api_version: String,
    },
    /// The server could not be asked, or its answer could not be read. Worth a retry.
    #[error("cannot find out about {path}: {error}")]
    Request {
        /// What was asked for.
        path: String,
        /// What went wrong.
        error: SourceError,
    },
}

impl Resource {
    /// Asks the server for the resource of a kind. The group is empty for the core group. Without a
    /// version it is the preferred one of the group, or else the first that has the kind.
    ///
    /// ```
    /// use windlass_informer::{DiscoveryError, Resource};
    ///
    /// async fn foos(client: &kube::Client) -> Result<Resource, DiscoveryError> {
    ///     Resource::discover(client, "samplecontroller.k8s.io", None, "Foo").await
    /// }
    /// ```
    ///
    /// # Errors
    /// If there is no such kind, or it cannot be listed and watched, or the server does not answer.
    /// The error says what exists.
    ///
    /// # Cancel safety
    /// Nothing is kept between calls: after a drop it can be called again.
    pub async fn discover(
        client: &kube::Client,
        group: &str,
        version: Option<&str>,
        kind: &str,
    ) -> Result<Self, DiscoveryError> {
        let candidates = match version {
            Some(version) => vec![version.to_owned()],
            None => versions(client, group).await?,
        };
        let mut found = Vec::new();
        for version in candidates {
            let api_version = join(group, &version);
            let resources = resources(client, group, &api_version).await?.into_iter();
            let (of_kind, others): (Vec<_>, Vec<_>) =
                resources.partition(|listed| listed.kind == kind);
            if let Some(listed) = of_kind.iter().find(|listed| is_watchable(listed)) {
                let resource = ApiResource {
                    group: group.to_owned(),
                    version,
                    api_version,
                    kind: kind.to_owned(),
                    plural: listed.name.clone(),
                };
                return Ok(Self::new(&resource, listed.namespaced));
            }
            if !of_kind.is_empty() {
                return Err(DiscoveryError::NotWatchable { kind: kind.to_owned(), api_version });
            }
            found.extend(others.into_iter().map(|other| other.kind));
        }
        found.sort();
        found.dedup();
        if found.is_empty() && version.is_some() {
            // Most likely there is no such version, so the error names those that exist.
            found = versions(client, group).await?.iter().map(|other| join(group, other)).collect();
        }
        let place = match version {
            Some(version) => join(group, version),
            None if group.is_empty() => "the core group".to_owned(),
            None => group.to_owned(),
        };
        Err(DiscoveryError::NoKind { kind: kind.to_owned(), place, found })
    }
}

fn is_watchable(listed: &APIResource) -> bool {
    ["list", "watch"].iter().all(|verb| listed.verbs.iter().any(|known| known == verb))
}

/// The versions of a group, the preferred one first; none if there is no such group.
async fn versions(client: &kube::Client, group: &str) -> Result<Vec<String>, DiscoveryError> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    let mut found: APIGroup = get(client, &format!("/apis/{group}")).await?;
    // The sort is stable: the others stay in the server's order, by maturity.
    found.versions.sort_by_key(|version| Some(version) != found.preferred_version.as_ref());
    Ok(found.versions.into_iter().map(|found| found.version).collect())
}

/// The resources of a version, without subresources such as `pods/log`; none if there is no such
/// version.
async fn resources(
    client: &kube::Client,
    group: &str,
    api_version: &str,
) -> Result<Vec<APIResource>, DiscoveryError> {
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let mut list: APIResourceList = get(client, &format!("{root}/{api_version}")).await?;
    list.resources.retain(|listed| !listed.name.contains('/'));
    Ok(list.resources)
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Reads a document; an empty one for 404.
async fn get<T: Default + DeserializeOwned>(
    client: &kube::Client,
    path: &str,
) -> Result<T, DiscoveryError> {
    let answer = tokio::time::timeout(TIMEOUT, read(client, path)).await;
    match answer.unwrap_or(Err(SourceError::Silent(TIMEOUT))) {
        Err(error) if error.is_not_found() => Ok(T::default()),
        result => result.map_err(|error| DiscoveryError::Request { path: path.to_owned(), error }),
    }
}

async fn read<T: DeserializeOwned>(client: &kube::Client, path: &str) -> Result<T, SourceError> {
    let request = http::Request::get(path).header(ACCEPT, "application/json");
    let body = Limited::new(send(client, request).await?, BODY_MAX).collect().await;
    let body = body.map_err(|error| SourceError::transport(&*error))?;
    serde_json::from_slice(&body.to_bytes()).map_err(|error| SourceError::transport(&error))
}

/// Groups of custom resources are domains. The server's own mostly are not, and have no
/// definitions.
fn hint(place: &str) -> &'static str {
    if place.contains('.') { ": is its CustomResourceDefinition installed?" } else { "" }
}

fn list_names(found: &[String]) -> String {
    let shown = found[..found.len().min(NAMES_MAX)].join(", ");
    match found.len() {
        0 => " (there is nothing there)".to_owned(),
        1..=NAMES_MAX => format!(" (there: {shown})"),
        count => format!(" (there: {shown} and {} more)", count - NAMES_MAX),
    }
}

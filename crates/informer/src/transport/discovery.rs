//! Which resource a kind is, when only the running server knows: its plural, its scope, its version.
//!
//! Own small requests instead of kube's: one or two where kube's ask for every version of a group and fail with
//! any of them, and errors that say what is there.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{ACCEPT, HeaderValue};
use http_body_util::BodyExt as _;
use kube::api::ApiResource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::resource::Resource;
use crate::transport::source::{SourceError, refusal};

/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// How large it may be. The largest group of a usual cluster has a few dozen resources, in some 20 KiB.
const BODY_MAX: usize = 4 << 20;

/// How many names an error lists.
const NAMES_MAX: usize = 20;

/// Why a kind was not found.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// The server has no such kind. It may come, with its definition.
    #[error("no kind {kind} in {place}{}{}", hint(.place), listed(.found))]
    NoKind {
        /// The kind that was asked for.
        kind: String,
        /// Group and version, or the group alone: where it was looked for.
        place: String,
        /// What is there instead: kinds, or versions if there is no such version, or nothing.
        found: Vec<String>,
    },
    /// The kind is only an answer or an argument, such as `TokenReview`: there is nothing to list.
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

/// The versions of a group, as the server lists them.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Group {
    versions: Vec<GroupVersion>,
    preferred_version: GroupVersion,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GroupVersion {
    version: String,
}

/// The resources of a group in one version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ResourceList {
    resources: Vec<Listed>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Listed {
    name: String,
    kind: String,
    namespaced: bool,
    verbs: Vec<String>,
}

impl Resource {
    /// Asks the server for the resource of a kind. The group is empty for the core group. Without a version it
    /// is the preferred one of the group, or else the first that has the kind.
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
    /// If there is no such kind, or it cannot be listed and watched, or the server does not answer. The error
    /// says what is there.
    ///
    /// # Cancel safety
    /// Nothing is kept between calls: dropped, it can be called again.
    pub async fn discover(
        client: &kube::Client,
        group: &str,
        version: Option<&str>,
        kind: &str,
    ) -> Result<Self, DiscoveryError> {
        match version {
            Some(version) => find_in_version(client, group, version, kind).await,
            None => find_in_group(client, group, kind).await,
        }
    }
}

async fn find_in_version(
    client: &kube::Client,
    group: &str,
    version: &str,
    kind: &str,
) -> Result<Resource, DiscoveryError> {
    let found = match resources(client, group, version).await? {
        Some(resources) => match pick(&resources, group, version, kind)? {
            Some(resource) => return Ok(resource),
            None => kinds(&resources),
        },
        None => versions(client, group).await?.iter().map(|v| join(group, v)).collect(),
    };
    Err(DiscoveryError::NoKind { kind: kind.to_owned(), place: join(group, version), found })
}

async fn find_in_group(
    client: &kube::Client,
    group: &str,
    kind: &str,
) -> Result<Resource, DiscoveryError> {
    let mut found = Vec::new();
    for version in versions(client, group).await? {
        // A version may go away between the two requests.
        let resources = resources(client, group, &version).await?.unwrap_or_default();
        if let Some(resource) = pick(&resources, group, &version, kind)? {
            return Ok(resource);
        }
        found.extend(kinds(&resources));
    }
    found.sort();
    found.dedup();
    let place = if group.is_empty() { "the core group" } else { group };
    Err(DiscoveryError::NoKind { kind: kind.to_owned(), place: place.to_owned(), found })
}

/// The versions of a group, the preferred one first; none if there is no such group.
async fn versions(client: &kube::Client, group: &str) -> Result<Vec<String>, DiscoveryError> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    let found: Option<Group> = get(client, &format!("/apis/{group}")).await?;
    let Some(Group { versions, preferred_version: preferred }) = found else {
        return Ok(Vec::new());
    };
    let mut versions: Vec<String> = versions.into_iter().map(|v| v.version).collect();
    // The order of the others stays: it is the server's, by maturity.
    versions.sort_by_key(|version| *version != preferred.version);
    Ok(versions)
}

/// The resources of a version, without parts of others such as `pods/log`; `None` if there is no such version.
async fn resources(
    client: &kube::Client,
    group: &str,
    version: &str,
) -> Result<Option<Vec<Listed>>, DiscoveryError> {
    let root = if group.is_empty() { "/api" } else { "/apis" };
    let list: Option<ResourceList> =
        get(client, &format!("{root}/{}", join(group, version))).await?;
    Ok(list.map(|mut list| {
        list.resources.retain(|listed| !listed.name.contains('/'));
        list.resources
    }))
}

fn pick(
    resources: &[Listed],
    group: &str,
    version: &str,
    kind: &str,
) -> Result<Option<Resource>, DiscoveryError> {
    let mut of_kind = resources.iter().filter(|listed| listed.kind == kind).peekable();
    if of_kind.peek().is_none() {
        return Ok(None);
    }
    let has = |listed: &Listed, verb: &str| listed.verbs.iter().any(|known| known == verb);
    let api_version = join(group, version);
    let Some(listed) = of_kind.find(|listed| has(listed, "list") && has(listed, "watch")) else {
        return Err(DiscoveryError::NotWatchable { kind: kind.to_owned(), api_version });
    };
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: listed.kind.clone(),
        plural: listed.name.clone(),
    };
    Ok(Some(Resource::new(&resource, listed.namespaced)))
}

/// Reads a document; `None` for 404.
async fn get<T: DeserializeOwned>(
    client: &kube::Client,
    path: &str,
) -> Result<Option<T>, DiscoveryError> {
    let failed = |error| DiscoveryError::Request { path: path.to_owned(), error };
    let answer = tokio::time::timeout(TIMEOUT, read(client, path)).await;
    match answer.unwrap_or(Err(SourceError::Silent(TIMEOUT))) {
        Ok(body) => serde_json::from_slice(&body).map(Some).map_err(|error| {
            // serde quotes what it reads, and no secret is in a list of kinds.
            failed(SourceError::transport(&error))
        }),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

async fn read(client: &kube::Client, path: &str) -> Result<BytesMut, SourceError> {
    let request = http::Request::get(path)
        .header(ACCEPT, HeaderValue::from_static("application/json"))
        .body(kube::client::Body::empty())
        .map_err(|error| SourceError::transport(&error))?;
    let response = client.send(request).await.map_err(|error| SourceError::transport(&error))?;
    if !response.status().is_success() {
        return Err(refusal::read(response).await.into());
    }
    let mut stream = response.into_body();
    let mut body = BytesMut::new();
    while let Some(frame) = stream.frame().await {
        let frame = frame.map_err(|error| SourceError::transport(&error))?;
        body.extend_from_slice(&frame.into_data().unwrap_or_default());
        if body.len() > BODY_MAX {
            return Err(SourceError::transport(&TooLarge));
        }
    }
    Ok(body)
}

#[derive(Debug, thiserror::Error)]
#[error("the answer has more than {BODY_MAX} bytes")]
struct TooLarge;

fn kinds(resources: &[Listed]) -> Vec<String> {
    resources.iter().map(|listed| listed.kind.clone()).collect()
}

fn join(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Groups of custom resources are domains; the server's own mostly are not, and have no definitions.
fn hint(place: &str) -> &'static str {
    if place.contains('.') { ": is its CustomResourceDefinition installed?" } else { "" }
}

fn listed(found: &[String]) -> String {
    if found.is_empty() {
        return " (there is nothing there)".to_owned();
    }
    let mut text = format!(" (there: {}", found[..found.len().min(NAMES_MAX)].join(", "));
    if found.len() > NAMES_MAX {
        let _ = write!(text, " and {} more", found.len() - NAMES_MAX);
    }
    text + ")"
}

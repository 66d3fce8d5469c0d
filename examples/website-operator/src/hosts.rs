//! Which Website has which host: a `ConfigMap` in the operator's own namespace.
//!
//! It stands for whatever an operator keeps outside of its objects, such as a DNS zone. An owner
//! reference cannot lead to another namespace, so nobody removes the entry of a deleted Website but
//! the finalizer.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use windlass::prelude::*;

use crate::Website;

/// The hosts of all Websites.
#[derive(Clone, Debug)]
pub struct Hosts {
    key: ObjectKey,
}

/// The name of the `ConfigMap`.
pub const NAME: &str = "website-hosts";

impl Hosts {
    /// Hosts that are kept in this namespace.
    pub fn new(namespace: &str) -> Self {
        Self { key: ObjectKey::namespaced(namespace, NAME) }
    }

    /// Takes the host for a Website, unless it has it already.
    ///
    /// # Errors
    /// If another Website has the host, or the server refuses something.
    pub async fn claim(&self, site: &Website, cx: &RunContext) -> Result<(), Error> {
        let (host, claimant) = (&site.spec.host, claimant(site));
        let mut holder = claimant.clone();
        let enter = |map: &mut ConfigMap| {
            let hosts = map.data.get_or_insert_default();
            holder.clone_from(hosts.entry(host.clone()).or_insert_with(|| claimant.clone()));
        };
        // This repeats itself if somebody else writes meanwhile, so no two claims succeed.
        if cx.live().modify(&self.key, enter).await?.is_none() {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(self.key.name().to_owned());
            map.metadata.namespace = self.key.namespace().map(str::to_owned);
            map.data = Some([(host.clone(), claimant.clone())].into());
            // If another worker was faster, this is a conflict, and the next run finds the map.
            cx.live().create(&map).await?;
        }
        if holder != claimant {
            return Err(Error::msg(format!(
                "the host {host} belongs to the Website {holder}: choose another one"
            )));
        }
        Ok(())
    }

    /// Gives the host of a Website back, if it has it.
    ///
    /// # Errors
    /// If the server refuses something.
    pub async fn release(&self, site: &Website, cx: &RunContext) -> Result<(), Error> {
        let (host, claimant) = (&site.spec.host, claimant(site));
        let leave = |map: &mut ConfigMap| {
            if let Some(hosts) = &mut map.data
                && hosts.get(host) == Some(&claimant)
            {
                hosts.remove(host);
            }
        };
        cx.live().modify(&self.key, leave).await?;
        Ok(())
    }
}

/// How a Website is called in the map.
fn claimant(site: &Website) -> String {
    format!("{}/{}", site.namespace().unwrap_or_default(), site.name_any())
}

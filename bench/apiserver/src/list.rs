//! All `ConfigMaps` of a filled server, at once or in pages, as a client of `kube` gets them.

use std::path::Path;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};

use crate::Measured;
use crate::meter::Meter;
use crate::server::client;

/// How many objects are on a page; client-go's reflectors ask for as many.
const PAGE: u32 = 500;

pub(crate) async fn measure(
    kubeconfig: &Path,
    pids: &[u32],
    objects: usize,
    paged: bool,
) -> Result<Measured> {
    let client = client(kubeconfig).await?;
    // The connection is made before: it costs the same for any list.
    client.apiserver_version().await?;
    let api = Api::<ConfigMap>::all(client);
    let meter = Meter::start(pids)?;
    let listed = if paged { pages(&api).await? } else { everything(&api).await? };
    let taken = meter.stop()?;
    let listed = listed.iter().filter(|object| object.metadata.labels.is_some()).count();
    ensure!(listed == objects, "{listed} of {objects} objects were listed");
    Ok(vec![
        ("wall_s", taken.wall_s),
        ("cpu_s", taken.cpu_s),
        ("cpu_all_s", taken.cpu_all_s),
        ("client_cpu_s", taken.client_cpu_s),
        ("peak_mb", taken.peak_mb),
        ("peak_all_mb", taken.peak_all_mb),
    ])
}

async fn everything(api: &Api<ConfigMap>) -> Result<Vec<ConfigMap>> {
    Ok(api.list(&ListParams::default()).await?.items)
}

async fn pages(api: &Api<ConfigMap>) -> Result<Vec<ConfigMap>> {
    let mut params = ListParams::default().limit(PAGE);
    let mut objects = Vec::new();
    loop {
        let page = api.list(&params).await?;
        objects.extend(page.items);
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => return Ok(objects),
        }
    }
}

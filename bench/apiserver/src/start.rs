//! From nothing to the first answered list.

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use windlass_apiserver::ApiServer;

use crate::meter::Watch;
use crate::server::{Server, client};
use crate::{Measured, Who};

/// How often a server is started in one process. The real one takes seconds.
fn starts(who: Who) -> usize {
    match who {
        Who::InProcess => 20,
        Who::Embedded => 10,
        Who::Real => 1,
    }
}

pub(crate) async fn measure(who: Who) -> Result<Measured> {
    let mut milliseconds = Vec::new();
    for _ in 0..starts(who) {
        let watch = Watch::start();
        if who == Who::InProcess {
            let server = ApiServer::new();
            ask(kube::Client::new(server.service(), "default")).await?;
            milliseconds.push(watch.seconds() * 1e3);
        } else {
            let server = Server::start(who).await?;
            ask(client(server.kubeconfig()).await?).await?;
            milliseconds.push(watch.seconds() * 1e3);
        }
    }
    Ok(summary(&milliseconds))
}

async fn ask(client: kube::Client) -> Result<()> {
    Api::<ConfigMap>::all(client).list(&ListParams::default()).await?;
    Ok(())
}

/// The first, the middle and the longest start.
fn summary(milliseconds: &[f64]) -> Measured {
    let mut sorted = milliseconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let first = milliseconds.first().copied();
    let middle = sorted.get(sorted.len() / 2).copied();
    [("first_ms", first), ("median_ms", middle), ("max_ms", sorted.last().copied())]
        .into_iter()
        .filter_map(|(metric, value)| Some((metric, value?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_start_is_told_from_the_rest() {
        let expected = [("first_ms", 9.0), ("median_ms", 2.0), ("max_ms", 11.0)];
        assert_eq!(summary(&[9.0, 1.0, 2.0, 11.0, 1.5]), expected);
        assert_eq!(summary(&[]), []);
    }
}

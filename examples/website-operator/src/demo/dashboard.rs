//! The operator with its dashboard: one replica in this process, and Websites that keep changing.
//!
//! The controllers that make pods of Deployments run in the same manager. So the dashboard shows
//! how a change of a Website goes on: to its Deployment, to the pods, and back to the Website's
//! status.

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass::informer::ClientStack;
use windlass::manager::Options;
use windlass_apiserver::ApiServer;
use windlass_workloads::Workloads;

use super::story::{NAMESPACE, say};
use crate::run;
use crate::website::v1;

/// The names of the Websites. The last one wants the host of the one before it, and is refused.
const WEBSITES: [&str; 6] = ["blog", "docs", "forum", "wiki", "shop", "copy-of-shop"];

/// The time between two changes.
const CHANGE_EVERY: Duration = Duration::from_secs(2);

/// Runs the operator with a dashboard at this address.
///
/// # Errors
/// If something cannot start, such as a port that is taken.
pub(super) async fn run(address: &str, stop: CancellationToken) -> Result<()> {
    say(
        "The website operator runs in this process, with an API server and the controllers that make",
    );
    say(
        "pods of Deployments. Websites change every two seconds, and one has a host that is taken.",
    );
    say("Open the dashboard at the URL that comes next. Ctrl-C ends it all.");
    let server = ApiServer::new();
    let connected = server.clone();
    let client = ClientStack::new().around(server.service(), NAMESPACE);
    let manager = run::manager(options(address), NAMESPACE)
        .connect(move |stack| Ok(stack.around(connected.service(), NAMESPACE)))
        .built_controllers(|factory| Workloads::new(factory).controllers())
        .task("changes", move |_| changes(client.clone()));
    Ok(manager.run_until(stop).await?)
}

fn options(address: &str) -> Options {
    let mut options = Options::default().without_http();
    options.dashboard = Some(address.to_owned());
    "127.0.0.1:0".clone_into(&mut options.webhook_bind_address);
    options.webhook_url = Some("https://127.0.0.1:0".to_owned());
    // The line with the URL, and what is wrong.
    "error,windlass_manager::dashboard=info".clone_into(&mut options.log_level);
    options
}

/// Creates the Websites, and changes one after the other, for ever.
async fn changes(client: Client) -> Result<()> {
    let websites: Api<v1::Website> = Api::namespaced(client, NAMESPACE);
    for name in WEBSITES {
        let host = name.trim_start_matches("copy-of-");
        let spec = v1::WebsiteSpec {
            host: format!("{host}.example.com"),
            files: [("index.html".to_owned(), format!("<h1>{name}</h1>"))].into(),
            replicas: Some(1),
            image: None,
        };
        create(&websites, &v1::Website::new(name, spec)).await?;
    }
    for (number, name) in WEBSITES.iter().cycle().enumerate() {
        sleep(CHANGE_EVERY).await;
        let page = format!("<h1>{name}, edition {number}</h1>");
        let spec = json!({"replicas": replicas(number), "files": {"index.html": page}});
        let patch = Patch::Merge(json!({"spec": spec}));
        websites.patch(name, &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

/// How many replicas a Website gets by the change with this number. They are never as many as
/// before, so every change wakes the controllers of Deployments and pods, too.
fn replicas(number: usize) -> usize {
    let round = number / WEBSITES.len();
    (round + 1) % 3 + 1
}

/// Creates a Website as soon as the server knows them and the webhooks answer.
async fn create(websites: &Api<v1::Website>, website: &v1::Website) -> Result<()> {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        if websites.create(&PostParams::default(), website).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
    let created = websites.create(&PostParams::default(), website).await;
    created.map(drop).context("a Website cannot be created")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_gives_its_website_another_number_of_replicas() {
        let mut current = [1; WEBSITES.len()];
        for number in 0..100 {
            let site = &mut current[number % WEBSITES.len()];
            assert_ne!(replicas(number), *site, "change {number}");
            *site = replicas(number);
        }
    }
}

//! Writers that need the webhooks for whatever they do, and note what fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use website_operator::Website;
use website_operator::website::v1;

use crate::rotation::PAUSE;

const WRITERS: usize = 3;

/// Servers take a moment to notice a configuration. From then on, nothing is an excuse.
pub(crate) async fn wait_until_called(client: &Client, namespace: &str) {
    let sites: Api<v1::Website> = Api::namespaced(client.clone(), namespace);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    // The host becomes lowercase by a webhook; without it, it is refused.
    while sites.create(&params, &site("first")).await.is_err() {
        sleep(PAUSE).await;
    }
}

/// A Website that needs a webhook to be valid.
fn site(name: &str) -> v1::Website {
    let files = [("index.html".to_owned(), "<h1>Hello</h1>".to_owned())].into();
    let host = format!("{}.example.com", name.to_uppercase());
    v1::Website::new(name, v1::WebsiteSpec { host, files, ..v1::WebsiteSpec::default() })
}

/// Writers at work.
pub(crate) struct Load {
    tasks: JoinSet<()>,
    stop: CancellationToken,
    notes: Arc<Notes>,
}

/// What they have done.
#[derive(Default)]
struct Notes {
    done: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

impl Load {
    pub(crate) fn start(client: &Client, namespace: &str) -> Self {
        let (stop, notes) = (CancellationToken::new(), Arc::<Notes>::default());
        let mut tasks = JoinSet::new();
        for number in 0..WRITERS {
            let writer = Writer {
                number,
                older: Api::namespaced(client.clone(), namespace),
                newer: Api::namespaced(client.clone(), namespace),
                notes: Arc::clone(&notes),
            };
            tasks.spawn(writer.run(stop.clone()));
        }
        Self { tasks, stop, notes }
    }

    /// How many requests there were so far.
    pub(crate) fn done(&self) -> usize {
        self.notes.done.load(Ordering::Relaxed)
    }

    /// Stops the writers. Returns how many requests there were, and what failed of them.
    pub(crate) async fn end(mut self) -> (usize, Vec<String>) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a writer must not panic");
        }
        let failed = self.notes.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.done(), failed)
    }
}

/// One writer, with objects of its own, so that it is in conflict with nobody.
struct Writer {
    number: usize,
    older: Api<v1::Website>,
    newer: Api<Website>,
    notes: Arc<Notes>,
}

impl Writer {
    async fn run(self, stop: CancellationToken) {
        let mut round = 0_usize;
        while !stop.is_cancelled() {
            self.round(&format!("site-{}-{round}", self.number)).await;
            round += 1;
        }
    }

    /// The life of a Website, in both versions.
    async fn round(&self, name: &str) {
        let patch = PatchParams::default();
        self.note("create", self.older.create(&PostParams::default(), &site(name)).await);
        let change = Patch::Merge(json!({"spec": {"server": {"port": 9090}}}));
        self.note("patch v2", self.newer.patch(name, &patch, &change).await);
        let change = Patch::Merge(json!({"spec": {"replicas": 2}}));
        self.note("patch v1", self.older.patch(name, &patch, &change).await);
        if let Some(read) = self.note("get v2", self.newer.get(name).await) {
            let spec = (read.spec.host, read.spec.server.port, read.spec.replicas);
            if spec != (format!("{name}.example.com"), Some(9090), Some(2)) {
                self.note_failure(format!("get v2: {spec:?}"));
            }
        }
        self.note("delete", self.newer.delete(name, &DeleteParams::default()).await);
    }

    fn note<T>(&self, verb: &str, answer: Result<T, kube::Error>) -> Option<T> {
        self.notes.done.fetch_add(1, Ordering::Relaxed);
        answer.map_err(|error| self.note_failure(format!("{verb}: {error}"))).ok()
    }

    fn note_failure(&self, failure: String) {
        self.notes.failed.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    }
}

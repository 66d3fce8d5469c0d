//! Writers that need the webhooks for whatever they do, and note what fails.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::gadgets::PAUSE;
use crate::gadgets::kinds::{v1, v2};

const WRITERS: usize = 4;

/// Servers take a moment to notice a configuration. From then on, nothing is an excuse.
pub(crate) async fn wait_until_called(client: &Client, namespace: &str) {
    let gadgets: Api<v1::Gadget> = Api::namespaced(client.clone(), namespace);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let new = v1::Gadget::new("first", v1::GadgetSpec { size: None });
    while gadgets.create(&params, &new).await.ok().and_then(|made| made.spec.size).is_none() {
        sleep(PAUSE).await;
    }
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

    /// Stops the writers. Returns how many requests there were, and what failed of them.
    pub(crate) async fn end(mut self) -> (usize, Vec<String>) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("a writer must not panic");
        }
        let failed = self.notes.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.notes.done.load(Ordering::Relaxed), failed)
    }
}

/// One writer, with objects of its own, so that it is in conflict with nobody.
struct Writer {
    number: usize,
    older: Api<v1::Gadget>,
    newer: Api<v2::Gadget>,
    notes: Arc<Notes>,
}

impl Writer {
    async fn run(self, stop: CancellationToken) {
        let mut round = 0_usize;
        while !stop.is_cancelled() {
            self.round(&format!("gadget-{}-{round}", self.number)).await;
            round += 1;
        }
    }

    /// The life of an object, in both versions. It is stored in the newer one.
    async fn round(&self, name: &str) {
        let (post, patch) = (PostParams::default(), PatchParams::default());
        let new = v1::Gadget::new(name, v1::GadgetSpec { size: None });
        let made = self.note("create", self.older.create(&post, &new).await);
        if let Some(made) = made {
            assert_eq!(made.spec.size, Some(7), "it must be defaulted");
        }
        if let Some(read) = self.note("get", self.newer.get(name).await) {
            assert_eq!(read.spec.shape.size, Some(7), "it must be converted");
        }
        let change = Patch::Merge(json!({"spec": {"size": 8}}));
        self.note("patch v1", self.older.patch(name, &patch, &change).await);
        let change = Patch::Merge(json!({"spec": {"shape": {"color": "red"}}}));
        self.note("patch v2", self.newer.patch(name, &patch, &change).await);
        self.note("delete", self.older.delete(name, &DeleteParams::default()).await);
    }

    fn note<T>(&self, verb: &str, answer: Result<T, kube::Error>) -> Option<T> {
        self.notes.done.fetch_add(1, Ordering::Relaxed);
        answer
            .map_err(|error| {
                let mut failed = self.notes.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(format!("{verb}: {error}"));
            })
            .ok()
    }
}

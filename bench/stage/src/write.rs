//! Writing to the server: many requests, some of them at a steady pace.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use http_body_util::BodyExt;
use kube::api::PostParams;
use kube::client::Body;
use kube::core::Request;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::interval;

/// Writes for each index, at most `at_once` at the same time: one every `pace`, or else as fast as
/// the server takes them.
///
/// # Errors
/// The first that a write fails with.
pub async fn each<F>(
    indexes: impl IntoIterator<Item = usize>,
    at_once: usize,
    pace: Option<Duration>,
    write: impl Fn(usize) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(at_once));
    let mut pace = pace.map(interval);
    let mut tasks = JoinSet::new();
    for index in indexes {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        let slot = Arc::clone(&slots).acquire_owned().await?;
        let write = write(index);
        tasks.spawn(async move {
            write.await?;
            drop(slot);
            anyhow::Ok(())
        });
        while let Some(ended) = tasks.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Makes an object at this path, as this manager of its fields.
///
/// # Errors
/// If the server refuses it.
pub async fn create(client: &kube::Client, who: &str, path: &str, object: &Value) -> Result<()> {
    let body = serde_json::to_vec(object)?;
    send(client, Request::new(path).create(&manager(who), body)?).await
}

/// Writes the object of this name at this path anew, as this manager of its fields.
///
/// # Errors
/// If the server refuses it.
pub async fn replace(
    client: &kube::Client,
    who: &str,
    path: &str,
    name: &str,
    object: &Value,
) -> Result<()> {
    let body = serde_json::to_vec(object)?;
    send(client, Request::new(path).replace(name, &manager(who), body)?).await
}

/// The parameters of a write by this manager.
pub fn manager(name: &str) -> PostParams {
    PostParams { field_manager: Some(name.to_owned()), ..PostParams::default() }
}

/// Sends a request, and drops what the server answers if it is content with it.
///
/// # Errors
/// If it is not.
pub async fn send(client: &kube::Client, request: http::Request<Vec<u8>>) -> Result<()> {
    let answer = client.send(request.map(Body::from)).await?;
    let status = answer.status();
    let body = answer.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn every_index_is_written_once() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let write = |index| {
            let written = Arc::clone(&written);
            async move {
                written.lock().expect("nobody panics").push(index);
                Ok(())
            }
        };
        each(0..50, 4, None, write).await.expect("nothing fails");
        let mut written = written.lock().expect("nobody panics").clone();
        written.sort_unstable();
        assert_eq!(written, (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn failure_ends_the_writing() {
        let write = |index| async move {
            ensure!(index != 3, "the third one");
            Ok(())
        };
        let error = each(0..50, 4, None, write).await.expect_err("one fails");
        assert_eq!(error.to_string(), "the third one");
    }
}

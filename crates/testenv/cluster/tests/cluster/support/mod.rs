//! Waits for conditions by watching.

use std::fmt::Debug;
use std::time::Duration;

use futures::{StreamExt as _, pin_mut};
use kube::Api;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde::de::DeserializeOwned;

/// When to give up: much later than anything here takes.
const GIVE_UP: Duration = Duration::from_mins(2);

/// Waits until the objects of a kind satisfy `is_so`, and returns them. Checks at each event, and
/// never sleeps.
pub(crate) async fn until<K>(api: &Api<K>, what: &str, is_so: impl Fn(&[K]) -> bool) -> Vec<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let waiting = tokio::time::timeout(GIVE_UP, follow(api, is_so));
    waiting.await.unwrap_or_else(|_| panic!("never {what}"))
}

async fn follow<K>(api: &Api<K>, is_so: impl Fn(&[K]) -> bool) -> Vec<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let list = api.list(&ListParams::default()).await.expect("a list");
    let version = list.metadata.resource_version.unwrap_or_default();
    let mut objects = list.items;
    let events = api.watch(&WatchParams::default(), &version).await.expect("a watch");
    pin_mut!(events);
    while !is_so(&objects) {
        let event = events.next().await.expect("the watch goes on").expect("an event");
        let (object, is_deleted) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("the watch fails: {status:?}"),
        };
        objects.retain(|held| held.meta().uid != object.meta().uid);
        if !is_deleted {
            objects.push(object);
        }
    }
    objects
}

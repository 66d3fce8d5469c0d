//! Expectations about objects: now, eventually, or never.

use std::panic::Location;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::clock::{Clock, poll};
use crate::diff::difference;
use crate::objects::{ObjectName, TestObject};
use crate::report::{causes, fail, short, state};
use crate::test_cluster::TestCluster;

/// An expectation about an object. Implemented for
///
/// - a [`serde_json::Value`], a part of the object: `json!({"spec": {"replicas": 3}})`. Fields that
///   it does not name are ignored, `null` means that a field is absent, and lists must be complete.
///   A failure shows the difference.
/// - a closure `|object: &K| -> bool`. A failure shows the object.
pub trait Expectation<K> {
    /// Returns the difference from the expectation; `None` if the object matches.
    fn difference(&self, got: &K) -> Option<String>;
}

impl<K: TestObject> Expectation<K> for Value {
    fn difference(&self, got: &K) -> Option<String> {
        let lines = difference(self, &shown(got))?;
        Some(format!("is not as expected (- expected, + got):\n{lines}"))
    }
}

impl<K: TestObject, F: Fn(&K) -> bool> Expectation<K> for F {
    fn difference(&self, got: &K) -> Option<String> {
        (!self(got)).then(|| format!("is not as expected:\n{}", yaml(got)))
    }
}

/// All of these read from the server, not from a cache.
impl TestCluster {
    /// Checks that an object matches now, and returns it.
    ///
    /// # Panics
    /// If it does not exist or does not match; the message shows the difference.
    #[track_caller]
    pub fn expect<K: TestObject>(
        &self,
        name: &str,
        expected: impl Expectation<K>,
    ) -> impl Future<Output = K> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move {
            match self.look(&named, &expected).await {
                Ok(found) => found,
                Err(difference) => fail(at, &difference),
            }
        }
    }

    /// Waits until an object exists and matches, and returns it. On the paused clock, time advances
    /// while nothing happens; on the wall clock, it waits.
    ///
    /// # Panics
    /// If the object does not match in time; the message shows the last difference, and the state
    /// of the controllers. If a controller fails meanwhile.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    #[track_caller]
    pub fn eventually<K: TestObject>(
        &self,
        name: &str,
        expected: impl Expectation<K>,
    ) -> impl Future<Output = K> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move { self.wait_at(at, async || self.look(&named, &expected).await).await }
    }

    /// Waits until an object is gone.
    ///
    /// # Panics
    /// If it still exists at the end; the message shows it, and the state of the controllers. If a
    /// controller fails meanwhile.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    #[track_caller]
    pub fn eventually_gone<K: TestObject>(&self, name: &str) -> impl Future<Output = ()> {
        let (at, named) = (Location::caller(), self.named::<K>(name));
        async move { self.gone_at::<K>(at, &named).await }
    }

    pub(crate) async fn gone_at<K: TestObject>(&self, at: &Location<'_>, named: &ObjectName) {
        let look = async || match self.find::<K>(named).await {
            Ok(None) => Ok(()),
            Ok(Some(found)) => Err(format!("{named} is still there:\n{}", yaml(&found))),
            Err(error) => Err(format!("{named} cannot be read: {}", causes(&error))),
        };
        self.wait_at(at, look).await;
    }

    /// Waits until `look` succeeds, and returns its result: for conditions that are not the state
    /// of one object. A failure shows its last error.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(cluster: windlass_testing::TestCluster) {
    /// cluster
    ///     .eventually_ok(async || match cluster.list::<Pod>().await.len() {
    ///         3 => Ok(()),
    ///         other => Err(format!("{other} pods, and not 3")),
    ///     })
    ///     .await;
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it does not succeed in time, or if a controller fails meanwhile.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    #[track_caller]
    pub fn eventually_ok<T>(
        &self,
        look: impl AsyncFnMut() -> Result<T, String>,
    ) -> impl Future<Output = T> {
        self.wait_at(Location::caller(), look)
    }

    /// Checks that an object does not match during a time: ten minutes on the paused clock, where
    /// they cost nothing, or two seconds on the wall clock. `json!({})` expects that an object does
    /// not exist at all. The object is polled, so a short-lived state may be missed.
    ///
    /// # Panics
    /// If the object matches; the message shows it. If a controller fails meanwhile.
    ///
    /// # Cancel safety
    /// Dropping it half-way only ends the waiting.
    #[track_caller]
    pub fn never<K: TestObject>(
        &self,
        name: &str,
        unwanted: impl Expectation<K>,
    ) -> impl Future<Output = ()> {
        self.never_at(Location::caller(), self.named::<K>(name), unwanted, None)
    }

    /// Like [`never`](Self::never), for another time. See [`Clock::pick`] for a time that differs
    /// by clock.
    ///
    /// # Panics
    /// As [`never`](Self::never).
    ///
    /// # Cancel safety
    /// As [`never`](Self::never).
    #[track_caller]
    pub fn never_within<K: TestObject>(
        &self,
        time: Duration,
        name: &str,
        unwanted: impl Expectation<K>,
    ) -> impl Future<Output = ()> {
        self.never_at(Location::caller(), self.named::<K>(name), unwanted, Some(time))
    }

    async fn never_at<K: TestObject>(
        &self,
        at: &Location<'_>,
        named: ObjectName,
        unwanted: impl Expectation<K>,
        time: Option<Duration>,
    ) {
        let clock = Clock::current();
        let (began, time) = (Instant::now(), time.unwrap_or_else(|| clock.watch_time()));
        let happened = poll(time, async || {
            if let Some(failure) = self.failure() {
                return Some(failure);
            }
            let found = self.look::<K>(&named, &unwanted).await.ok()?;
            let (after, clock) = (short(began.elapsed()), clock.name());
            Some(format!("{named} became so after {after} on {clock}:\n{}", yaml(&found)))
        });
        if let Some(message) = happened.await {
            fail(at, &format!("{message}\n\n{}", state(&self.runnables())));
        }
    }

    /// Waits until `look` succeeds.
    async fn wait_at<T>(
        &self,
        at: &Location<'_>,
        mut look: impl AsyncFnMut() -> Result<T, String>,
    ) -> T {
        let (limit, mut last) = (self.limit(), String::new());
        let waited = poll(limit, async || {
            if let Some(failure) = self.failure() {
                return Some(Err(failure));
            }
            match look().await {
                Ok(found) => Some(Ok(found)),
                Err(difference) => {
                    last = difference;
                    None
                }
            }
        });
        match waited.await {
            Some(Ok(found)) => found,
            Some(Err(failure)) => fail(at, &failure),
            None => fail(
                at,
                &format!(
                    "after {} on {}: {}\n\n{}",
                    short(limit),
                    Clock::current().name(),
                    last.trim_end(),
                    state(&self.runnables())
                ),
            ),
        }
    }

    /// Returns a matching object, or the difference.
    async fn look<K: TestObject>(
        &self,
        named: &ObjectName,
        expected: &impl Expectation<K>,
    ) -> Result<K, String> {
        let found = match self.find::<K>(named).await {
            Ok(Some(found)) => found,
            Ok(None) => return Err(format!("there is no {named}")),
            Err(error) => return Err(format!("{named} cannot be read: {}", causes(&error))),
        };
        match expected.difference(&found) {
            None => Ok(found),
            Some(difference) => Err(format!("{named} {difference}")),
        }
    }

    /// Returns why something that the test runs has failed.
    fn failure(&self) -> Option<String> {
        self.runnables().iter().find_map(|part| part.failure())
    }
}

/// Returns an object without the fields that clutter messages.
fn shown<K: TestObject>(object: &K) -> Value {
    let mut object = serde_json::to_value(object).unwrap_or_default();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn yaml<K: TestObject>(object: &K) -> String {
    let object = shown(object);
    serde_saphyr::to_string(&object).unwrap_or_else(|_| object.to_string())
}

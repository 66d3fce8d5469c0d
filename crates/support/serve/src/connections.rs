//! The connections of a server, and which of them is closed when there is no room for another
//! one.
//!
//! Each connection has a [`Place`], and the number of places is bounded. If all are taken, a new
//! connection gets the place of another one, which is closed. They are closed in this order:
//!
//! 1. connections over which no complete request came yet, the oldest first: they sent nothing,
//!    half a TLS handshake, half a header or half a body;
//! 2. connections whose requests are answered, the one that has been idle longest first: a further
//!    request counts only when it is complete;
//! 3. connections with a request under way, the oldest request first, and only after `busy_min`.
//!    If all are younger, the new connection waits.
//!
//! So connections that are held and not used keep nobody out. Whoever wants to do that has to send
//! as many complete requests as there are places, within the time in which an honest one is
//! answered.
//!
//! Lock order: the key of a place, then the table.

use std::collections::BTreeMap;
use std::collections::btree_map::OccupiedEntry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// The connections of a server.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    busy_min: Duration,
    table: Mutex<Table>,
    /// Notified when a place is free, or its connection may be closed.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// In the order in which they are closed; with what closes them.
    places: BTreeMap<Key, CancellationToken>,
    /// How many connections there have been.
    count: u64,
}

/// What a connection does, since when, and its number, which makes the key unique.
type Key = (Stage, Instant, u64);

/// What a connection does, in the order in which connections are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    New,
    Idle,
    Busy,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    key: Mutex<Key>,
    closed: CancellationToken,
}

impl Connections {
    /// Room for so many connections. A request may be under way for `busy_min` at least.
    pub(crate) fn new(max: usize, busy_min: Duration) -> Arc<Self> {
        let (table, changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { max, busy_min, table, changed })
    }

    /// A place for a new connection, and whether another connection was closed for it.
    ///
    /// Cancel safety: if it is dropped, no place is taken, and no connection is closed.
    pub(crate) async fn place(self: &Arc<Self>) -> (Place, bool) {
        loop {
            // A notification between the look and the wait is not lost: it is stored.
            match self.try_place() {
                Ok(place) => return place,
                Err(until) => tokio::select! {
                    () = self.changed.notified() => {}
                    () = sleep_until(until) => {}
                },
            }
        }
    }

    /// Fails with the time when a connection may be closed, if nothing else happens.
    fn try_place(self: &Arc<Self>) -> Result<(Place, bool), Instant> {
        let (now, closed) = (Instant::now(), CancellationToken::new());
        let mut table = self.lock();
        let mut evicted = None;
        if table.places.len() >= self.max {
            let first = table.places.first_key_value().map(|(key, _)| *key);
            if let Some((Stage::Busy, since, _)) = first
                && now < since + self.busy_min
            {
                return Err(since + self.busy_min);
            }
            evicted = table.places.pop_first();
        }
        table.count += 1;
        let key = (Stage::New, now, table.count);
        table.places.insert(key, closed.clone());
        drop(table);
        let has_evicted = evicted.is_some();
        if let Some((_, closed)) = evicted {
            closed.cancel();
        }
        Ok((Place { connections: Arc::clone(self), key: key.into(), closed }, has_evicted))
    }

    /// Closes the connection that would be closed for another one, unless it has a request under
    /// way. Returns whether there is one.
    pub(crate) fn close_unused(&self) -> bool {
        let mut table = self.lock();
        let first = table.places.first_entry().filter(|entry| entry.key().0 != Stage::Busy);
        let Some(closed) = first.map(OccupiedEntry::remove) else { return false };
        drop(table);
        closed.cancel();
        true
    }

    /// Whether the connection that would be closed next has a request under way.
    #[cfg(test)]
    pub(crate) fn first_is_busy(&self) -> Option<bool> {
        self.lock().places.first_key_value().map(|(key, _)| key.0 == Stage::Busy)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits until the connection has to end, because another one got its place.
    pub(crate) fn closed(&self) -> WaitForCancellationFuture<'_> {
        self.closed.cancelled()
    }

    /// A complete request has come.
    pub(crate) fn set_busy(&self) {
        self.set(Stage::Busy);
    }

    /// All requests are answered.
    pub(crate) fn set_idle(&self) {
        self.set(Stage::Idle);
        self.connections.changed.notify_one();
    }

    fn set(&self, stage: Stage) {
        let mut key = self.key();
        let mut table = self.connections.lock();
        // A connection that is being closed has no entry any more.
        if let Some(closed) = table.places.remove(&*key) {
            *key = (stage, Instant::now(), key.2);
            table.places.insert(*key, closed);
        }
    }

    fn key(&self) -> MutexGuard<'_, Key> {
        self.key.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let key = self.key();
        self.connections.lock().places.remove(&*key);
        self.connections.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A new connection, which must not have to wait.
    fn connect(connections: &Arc<Connections>) -> Place {
        connections.place().now_or_never().expect("there must be room").0
    }

    /// The connections that were closed, by their index.
    fn closed(places: &[Place]) -> Vec<usize> {
        let indexes = 0..places.len();
        indexes.filter(|index| places[*index].closed.is_cancelled()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn unused_connections_are_closed_first_then_idle_ones_then_busy_ones() {
        let connections = Connections::new(6, Duration::ZERO);
        let mut places = Vec::new();
        for _ in 0..6 {
            places.push(connect(&connections));
            advance(SECOND).await;
        }
        for index in [0, 1, 4, 5] {
            places[index].set_busy();
            advance(SECOND).await;
        }
        for index in [4, 0] {
            places[index].set_idle();
            advance(SECOND).await;
        }
        // New: 2, 3. Idle: 4, 0. Busy: 1, 5.
        let mut order = Vec::new();
        for _ in 0..6 {
            let newcomer = connect(&connections);
            newcomer.set_busy();
            order.extend(
                closed(&places)
                    .into_iter()
                    .filter(|index| !order.contains(index))
                    .collect::<Vec<_>>(),
            );
            places.push(newcomer);
            advance(SECOND).await;
        }
        assert_eq!(order, [2, 3, 4, 0, 1, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn request_under_way_has_its_time_before_it_is_closed() {
        let connections = Connections::new(2, SECOND * 5);
        let places = [connect(&connections), connect(&connections)];
        places.iter().for_each(Place::set_busy);
        let start = Instant::now();
        let (_late, has_closed) = connections.place().await;
        assert_eq!((start.elapsed(), has_closed), (SECOND * 5, true));
        assert_eq!(closed(&places), [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn newcomer_waits_only_until_another_connection_is_idle_or_ends() {
        let connections = Connections::new(1, SECOND * 5);
        for ends in [false, true] {
            let place = connect(&connections);
            place.set_busy();
            let start = Instant::now();
            let change = async {
                sleep(SECOND).await;
                if ends {
                    drop(place);
                    return None;
                }
                place.set_idle();
                Some(place)
            };
            let ((newcomer, has_closed), _idle) = tokio::join!(connections.place(), change);
            assert_eq!((start.elapsed(), has_closed), (SECOND, !ends));
            drop(newcomer);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_that_is_closed_neither_comes_back_nor_frees_a_place_twice() {
        let connections = Connections::new(1, Duration::ZERO);
        let old = connect(&connections);
        let new = connect(&connections);
        old.set_busy();
        old.set_idle();
        drop(old);
        assert_eq!(connections.lock().places.len(), 1);
        drop(new);
        assert_eq!(connections.lock().places.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn only_unused_connections_are_closed_when_files_run_out() {
        let connections = Connections::new(3, Duration::ZERO);
        let places = [connect(&connections), connect(&connections)];
        places[0].set_busy();
        assert!(connections.close_unused());
        assert_eq!(closed(&places), [1]);
        assert!(!connections.close_unused());
    }
}

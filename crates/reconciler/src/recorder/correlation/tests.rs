//! The correlator without a server: series, limits, failures.

use k8s_openapi::api::core::v1::ObjectReference;

use super::*;

/// A correlator and its clocks.
struct Stage {
    correlator: Correlator,
    now: Instant,
    wall: Timestamp,
}

impl Stage {
    fn new() -> Self {
        let correlator = Correlator::new("tester".to_owned(), "here".to_owned(), 1);
        let wall = "2026-01-01T00:00:00Z".parse().expect("a time");
        Self { correlator, now: Instant::now(), wall }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall += time;
    }

    fn observe(&mut self, object: &str, note: &str) {
        let regarding = ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some(object.to_owned()),
            ..ObjectReference::default()
        };
        let occurrence = Occurrence::normal(regarding, "Reason", note);
        // What is dropped is counted.
        let _ = self.correlator.observe(&occurrence, self.now, self.wall);
    }

    /// Takes the next job and settles it; tells whether it was a create, and the count.
    fn write(&mut self, is_written: bool) -> Option<(bool, i32)> {
        let job = self.correlator.take()?;
        self.correlator.settle(&job, is_written);
        Some((job.is_new, job.event.series.map_or(1, |series| series.count)))
    }

    fn drain(&mut self) -> Vec<(bool, i32)> {
        std::iter::from_fn(|| self.write(true)).collect()
    }
}

#[test]
fn event_says_who_what_when_and_about_what() {
    let mut stage = Stage::new();
    stage.observe("web", "started");
    let event = stage.correlator.take().expect("a job").event;
    assert!(event.metadata.name.as_deref().is_some_and(|name| name.starts_with("web.")));
    assert_eq!(event.metadata.namespace.as_deref(), Some("shop"));
    assert_eq!(event.reporting_controller.as_deref(), Some("tester"));
    assert_eq!(event.reporting_instance.as_deref(), Some("here"));
    assert_eq!(event.event_time, Some(MicroTime(stage.wall)));
    assert_eq!((event.type_.as_deref(), event.reason.as_deref()), (Some("Normal"), Some("Reason")));
    assert_eq!((event.note.as_deref(), event.series), (Some("started"), None));
}

#[test]
fn same_event_again_becomes_a_series() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    assert_eq!(stage.drain(), [(true, 1)]);
    stage.pass(Duration::from_secs(10));
    stage.observe("web", "a");
    let job = stage.correlator.take().expect("a job");
    let series = job.event.series.as_ref().expect("a series");
    assert_eq!((job.is_new, series.count), (false, 2));
    assert_eq!(series.last_observed_time, MicroTime(stage.wall));
    assert!(job.event.event_time.is_some_and(|time| time.0 < stage.wall));
    let status = stage.correlator.status();
    assert_eq!((status.recorded, status.merged, status.written), (2, 1, 1));
}

#[test]
fn repeats_before_the_write_are_one_write() {
    let mut stage = Stage::new();
    for _ in 0..1000 {
        stage.observe("web", "a");
    }
    assert_eq!(stage.drain(), [(true, 1000)]);
    assert_eq!(stage.correlator.status().dropped, 0);
}

#[test]
fn repeat_during_a_write_is_another_write() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    let job = stage.correlator.take().expect("a job");
    stage.observe("web", "a");
    stage.observe("web", "a");
    stage.correlator.settle(&job, true);
    assert_eq!(stage.drain(), [(false, 3)]);
}

#[test]
fn event_that_rests_for_long_is_a_new_one() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    stage.drain();
    stage.pass(SERIES_WINDOW);
    stage.observe("web", "a");
    assert_eq!(stage.drain(), [(false, 2)]);
    stage.pass(SERIES_WINDOW + Duration::from_secs(1));
    stage.observe("web", "a");
    assert_eq!(stage.drain(), [(true, 1)]);
}

#[test]
fn event_that_still_waits_is_not_doubled_however_long_it_takes() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    stage.pass(10 * SERIES_WINDOW);
    stage.observe("web", "a");
    assert_eq!(stage.drain(), [(true, 2)]);
}

#[test]
fn object_that_floods_is_stopped_and_others_are_not() {
    let mut stage = Stage::new();
    for number in 0..40 {
        stage.observe("noisy", &number.to_string());
    }
    stage.observe("quiet", "a");
    assert_eq!(stage.drain().len(), 25 + 1);
    assert_eq!(stage.correlator.status().dropped, 15);
    stage.pass(Duration::from_mins(5));
    stage.observe("noisy", "x");
    stage.observe("noisy", "y");
    assert_eq!(stage.drain(), [(true, 1)]);
}

#[test]
fn repeats_that_are_held_back_are_counted_by_the_next_write() {
    let mut stage = Stage::new();
    for _ in 0..100 {
        stage.observe("web", "a");
        stage.drain();
    }
    // The event, and 25 updates of its series.
    let status = stage.correlator.status();
    assert_eq!((status.written, status.merged, status.dropped), (26, 99, 0));
    stage.pass(Duration::from_mins(5));
    stage.observe("web", "a");
    assert_eq!(stage.drain(), [(false, 101)]);
}

/// As by a controller that says with each edit of its object that all is well, and what it did.
#[test]
fn repeats_take_nothing_from_new_events() {
    let mut stage = Stage::new();
    for edit in 0..20 {
        stage.observe("web", "synced");
        stage.drain();
        stage.observe("web", &format!("scaled to {edit}"));
        assert_eq!(stage.drain(), [(true, 1)], "edit {edit}");
    }
    assert_eq!(stage.correlator.status().dropped, 0);
}

#[test]
fn queue_is_bounded_and_what_does_not_fit_is_counted() {
    let mut stage = Stage::new();
    for object in 0..=QUEUE_MAX {
        stage.observe(&object.to_string(), "a");
    }
    let status = stage.correlator.status();
    assert_eq!((status.queued, status.dropped), (QUEUE_MAX, 1));
    // What is in the queue takes more of the same.
    stage.observe("0", "a");
    assert_eq!(stage.write(true), Some((true, 2)));
    assert_eq!(stage.drain().len(), QUEUE_MAX - 1);
}

#[test]
fn known_events_are_bounded_and_none_goes_that_waits() {
    let mut stage = Stage::new();
    for object in 0..KNOWN_MAX - 1 {
        stage.observe(&object.to_string(), "a");
        stage.drain();
    }
    stage.observe("waits", "a");
    for object in 0..KNOWN_MAX - 1 {
        stage.observe(&object.to_string(), "b");
        if stage.correlator.status().queued > QUEUE_MAX / 2 {
            let first = stage.correlator.queue.pop_front().expect("the one that waits");
            let settled = stage.drain();
            assert!(settled.iter().all(|(is_new, _)| *is_new));
            stage.correlator.queue.push_front(first);
        }
    }
    assert_eq!(stage.write(true), Some((true, 1)));
    stage.drain();
    // The first of all are forgotten, the last are not.
    stage.observe("0", "a");
    stage.observe(&(KNOWN_MAX - 2).to_string(), "b");
    assert_eq!(stage.drain(), [(true, 1), (false, 2)]);
}

#[test]
fn event_that_was_given_up_is_new_the_next_time() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    assert_eq!(stage.write(false), Some((true, 1)));
    stage.observe("web", "a");
    assert_eq!(stage.write(true), Some((true, 1)));
    stage.observe("web", "a");
    assert_eq!(stage.write(false), Some((false, 2)));
    stage.observe("web", "a");
    assert_eq!(stage.write(true), Some((false, 3)));
    let status = stage.correlator.status();
    assert_eq!((status.written, status.failed), (2, 2));
}

#[test]
fn end_of_a_write_does_not_touch_an_event_that_came_after() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    let job = stage.correlator.take().expect("a job");
    stage.pass(2 * SERIES_WINDOW);
    stage.observe("web", "a");
    stage.correlator.settle(&job, false);
    assert_eq!(stage.drain(), [(true, 1)]);
}

#[test]
fn name_that_is_taken_is_replaced_for_good() {
    let mut stage = Stage::new();
    stage.observe("web", "a");
    let mut job = stage.correlator.take().expect("a job");
    let former = job.event.metadata.name.clone();
    stage.correlator.rename(&mut job, stage.wall);
    assert_ne!(job.event.metadata.name, former);
    stage.correlator.settle(&job, true);
    stage.observe("web", "a");
    let again = stage.correlator.take().expect("a job");
    assert!(!again.is_new);
    assert_eq!(again.event.metadata.name, job.event.metadata.name);
}

#[test]
fn random_history_keeps_its_accounts() {
    for seed in 0..50 {
        let mut stage = Stage::new();
        let mut random = fastrand::Rng::with_seed(seed);
        // What the server has: counts by name.
        let mut server = std::collections::BTreeMap::new();
        for _ in 0..2000 {
            match random.u32(0..10) {
                0..6 => {
                    let (object, note) = (random.u32(0..5), random.u32(0..12));
                    stage.observe(&object.to_string(), &note.to_string());
                }
                6 => stage.pass(Duration::from_secs(random.u64(0..200))),
                _ => {
                    let Some(job) = stage.correlator.take() else { continue };
                    let name = job.event.metadata.name.clone().expect("a name");
                    let count = job.event.series.as_ref().map_or(1, |series| series.count);
                    assert_eq!(job.is_new, !server.contains_key(&name), "seed {seed}");
                    // Something may happen while it is written.
                    stage.observe(&random.u32(0..5).to_string(), "0");
                    if random.u32(0..4) == 0 {
                        stage.correlator.settle(&job, false);
                    } else {
                        stage.correlator.settle(&job, true);
                        let before = server.insert(name, count);
                        assert!(before.is_none_or(|before| before < count), "seed {seed}");
                    }
                }
            }
            let status = stage.correlator.status();
            assert!(status.merged + status.dropped <= status.recorded, "seed {seed}");
            assert!(status.queued <= QUEUE_MAX, "seed {seed}");
        }
        let status = stage.correlator.status();
        let heard: u64 =
            server.values().map(|count| u64::try_from(*count).expect("positive")).sum();
        assert!(heard + status.dropped <= status.recorded, "seed {seed}");
        assert!(status.written >= server.len() as u64, "seed {seed}");
    }
}

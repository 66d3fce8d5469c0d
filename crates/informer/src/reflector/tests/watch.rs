//! How a reflector watches: what is stale, how a watch ends, and what follows.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{
    BackoffConfig, ChangeKind, DeadlineCheck, Reaction, ReflectorConfig, Relist, ServerFeatures,
};
use super::driver::{Driver, gone, internal, silent, status, throttled, too_large, unreachable};
use crate::decode::frames::{EventType, FrameError};
use crate::transport::source::SourceError;

/// The errors of bodies that are cut off or invalid.
fn broken_bodies() -> Vec<FrameError> {
    let expected = "a stream of watch events";
    let offset = 35;
    let objects = 1;
    vec![
        FrameError::Truncated { offset, objects },
        FrameError::Body { expected, found: "a web page".to_owned() },
        FrameError::Kind { expected, kind: Some("Table".to_owned()) },
        FrameError::Malformed { expected: "an object", offset, objects },
        FrameError::TooLarge { frame_max: 100, offset, objects },
    ]
}

// Positions.

#[test]
fn changes_and_bookmarks_bring_the_position_forward() {
    let mut driver = Driver::watching("7");
    assert_eq!(driver.changed(EventType::Added, "8"), ChangeKind::Live);
    assert_eq!(driver.changed(EventType::Modified, "9"), ChangeKind::Live);
    assert_eq!(driver.changed(EventType::Deleted, "10"), ChangeKind::Live);
    assert_eq!(driver.bookmark("15"), None);
    assert_eq!(driver.position().as_deref(), Some("15"));
    assert_eq!(driver.high_water().as_deref(), Some("15"));
    driver.pass(2.0);
    driver.close();
    driver.watch_from("15");
}

#[test]
fn a_duplicate_or_old_change_is_stale_and_moves_nothing() {
    let mut driver = Driver::watching("7");
    driver.changed(EventType::Modified, "9");
    for version in ["9", "8", "7", "009"] {
        assert_eq!(driver.changed(EventType::Modified, version), ChangeKind::Stale, "{version}");
    }
    assert_eq!(driver.bookmark("8"), None);
    assert_eq!(driver.position().as_deref(), Some("9"));
}

#[test]
fn a_deletion_is_never_stale() {
    // A server may send it with the version that the object had.
    let mut driver = Driver::watching("7");
    assert_eq!(driver.changed(EventType::Deleted, "3"), ChangeKind::Live);
    assert_eq!(driver.position().as_deref(), Some("7"));
    assert_eq!(driver.changed(EventType::Deleted, "9"), ChangeKind::Live);
    assert_eq!(driver.position().as_deref(), Some("9"));
}

#[test]
fn a_change_whose_version_cannot_be_read_is_live_and_moves_nothing() {
    let mut driver = Driver::watching("7");
    assert_eq!(driver.reflector.on_change(EventType::Modified, None, driver.now), ChangeKind::Live);
    assert_eq!(driver.changed(EventType::Modified, ""), ChangeKind::Live);
    assert_eq!(driver.bookmark(""), None);
    assert_eq!(driver.position().as_deref(), Some("7"));
}

#[test]
fn what_arrives_when_nothing_was_asked_is_stale() {
    let mut driver = Driver::watching("7");
    driver.fail(&internal());
    assert_eq!(driver.changed(EventType::Modified, "9"), ChangeKind::Stale);
    assert_eq!(driver.bookmark("9"), None);
    assert_eq!(driver.position().as_deref(), Some("7"));
    assert_eq!(driver.reflector.deadline(), None);
    assert_eq!(driver.time_out(), DeadlineCheck::NotYet);
}

// Clean ends.

#[test]
fn a_clean_end_is_resumed_at_once_over_and_over() {
    let mut driver = Driver::watching("7");
    for _ in 0..100 {
        driver.pass(1.0);
        assert_eq!(driver.close(), None);
        driver.watch_from("7");
        driver.open();
    }
}

#[test]
fn a_short_watch_that_brought_nothing_is_not_resumed_in_a_hot_loop() {
    let mut driver = Driver::watching("7");
    driver.pass(5.0);
    driver.close();
    let mut waited = Duration::ZERO;
    for _ in 0..4 {
        driver.watch_from("7");
        driver.open();
        // A change that is already known does not count.
        driver.changed(EventType::Modified, "7");
        driver.bookmark("7");
        driver.pass(0.9);
        assert_eq!(driver.close(), Some(Reaction::Retry));
        waited += driver.wait();
    }
    assert!(waited > Duration::from_millis(40));
    // A watch that delivered something has not failed.
    driver.watch_from("7");
    driver.open();
    driver.changed(EventType::Modified, "8");
    assert_eq!(driver.close(), None);
    driver.watch_from("8");
}

#[test]
fn watches_that_always_end_at_once_end_in_a_list() {
    let mut driver = Driver::watching("7");
    driver.pass(5.0);
    driver.close();
    for attempt in 1..=5 {
        driver.watch_from("7");
        driver.open();
        let relists = driver.close() == Some(Reaction::Relist(Relist::Stuck));
        assert_eq!(relists, attempt == 5);
        driver.wait();
    }
    driver.stream();
}

// Failures.

#[test]
fn a_watch_that_breaks_is_resumed_from_its_position_after_a_wait() {
    let bodies = broken_bodies().into_iter().map(SourceError::from);
    let errors = [internal(), unreachable(), status(503, "ServiceUnavailable", ""), silent()];
    for error in bodies.chain(errors) {
        let mut driver = Driver::watching("7");
        driver.changed(EventType::Modified, "9");
        assert_eq!(driver.fail(&error), Reaction::Retry, "{error}");
        assert!(driver.wait() <= Duration::from_millis(800), "{error}");
        driver.watch_from("9");
    }
}

#[test]
fn gone_is_understood_as_an_answer_and_as_an_event() {
    for opened in [false, true] {
        let mut driver = Driver::watching("7");
        driver.pass(2.0);
        driver.close();
        driver.watch_from("7");
        if opened {
            driver.open();
        }
        assert_eq!(driver.fail(&gone()), Reaction::Relist(Relist::Expired));
        driver.wait();
        driver.stream();
    }
}

#[test]
fn a_fleet_that_expires_together_does_not_list_together() {
    let waits: BTreeSet<_> = (0..100)
        .map(|seed| {
            let mut driver = Driver::with_seed(seed);
            driver.list("7");
            driver.fail(&gone());
            driver.wait()
        })
        .collect();
    assert!(waits.len() > 80, "{} different waits", waits.len());
}

#[test]
fn a_server_that_is_behind_is_retried_once_and_then_listed() {
    let mut driver = Driver::watching("100");
    assert_eq!(driver.fail(&too_large()), Reaction::Retry);
    driver.wait();
    driver.watch_from("100");
    assert_eq!(driver.fail(&too_large()), Reaction::Relist(Relist::ServerBehind));
    driver.wait();
    driver.stream();
}

#[test]
fn a_server_that_caught_up_in_between_is_not_behind_twice_in_a_row() {
    let mut driver = Driver::watching("100");
    for version in ["101", "102", "103"] {
        assert_eq!(driver.fail(&too_large()), Reaction::Retry);
        driver.wait();
        driver.request();
        driver.open();
        driver.changed(EventType::Modified, version);
    }
}

#[test]
fn too_many_requests_wait_as_asked_and_never_list() {
    let mut driver = Driver::watching("7");
    for _ in 0..20 {
        assert_eq!(driver.fail(&throttled(Some(7))), Reaction::Throttled);
        let waited = driver.wait();
        assert!(
            waited >= Duration::from_secs(7) && waited <= Duration::from_secs(37),
            "{waited:?}"
        );
        driver.watch_from("7");
    }
}

#[test]
fn too_many_requests_without_a_time_back_off() {
    let mut driver = Driver::watching("7");
    let waited: Duration = (0..20)
        .map(|_| {
            assert_eq!(driver.fail(&throttled(None)), Reaction::Throttled);
            let waited = driver.wait();
            driver.watch_from("7");
            waited
        })
        .sum();
    assert!(waited > Duration::from_mins(1), "{waited:?}");
}

#[test]
fn a_time_to_wait_is_honoured_whatever_the_code() {
    let SourceError::Status(mut unavailable) = status(503, "ServiceUnavailable", "") else {
        unreachable!("it must be a status")
    };
    unavailable.retry_after = Some(Duration::from_secs(12));
    let mut driver = Driver::watching("7");
    driver.fail(&SourceError::Status(unavailable));
    assert!(driver.wait() >= Duration::from_secs(12));
}

#[test]
fn a_token_that_is_no_longer_good_backs_off_and_stays() {
    let mut driver = Driver::watching("7");
    for _ in 0..20 {
        assert_eq!(driver.fail(&status(401, "Unauthorized", "")), Reaction::Unauthorized);
        driver.wait();
        driver.watch_from("7");
    }
    assert_eq!(driver.fail(&status(403, "Forbidden", "")), Reaction::Forbidden);
    driver.wait();
    // The token was read again, and nothing was lost.
    driver.watch_from("7");
    driver.open();
    assert_eq!(driver.changed(EventType::Modified, "8"), ChangeKind::Live);
}

#[test]
fn a_resource_that_went_away_is_listed_when_it_comes_back() {
    let mut driver = Driver::watching("7");
    for _ in 0..10 {
        assert_eq!(driver.fail(&status(404, "NotFound", "")), Reaction::NotFound);
        driver.wait();
        driver.stream();
    }
    driver.open();
    assert!(driver.initial_events_end("90").is_some());
    assert_eq!(driver.position().as_deref(), Some("90"));
}

#[test]
fn an_object_that_the_server_could_not_read_and_has_removed_leads_to_a_list() {
    // There is no event for the deletion: only a list detects it.
    let mut driver = Driver::watching("3");
    driver.changed(EventType::Added, "4");
    let error = status(500, "StorageReadError", "corrupt object has been deleted");
    assert_eq!(driver.fail(&error), Reaction::Relist(Relist::Unreadable));
    driver.wait();
    driver.list("5");
}

#[test]
fn internal_errors_are_retried_within_a_limit() {
    let mut driver = Driver::watching("7");
    driver.pass(2.0);
    driver.close();
    for attempt in 1..=5 {
        driver.watch_from("7");
        let relists = driver.fail(&internal()) == Reaction::Relist(Relist::Stuck);
        assert_eq!(relists, attempt == 5);
        driver.wait();
    }
    driver.stream();
}

#[test]
fn an_event_that_breaks_every_watch_at_once_leads_to_a_list() {
    for error in broken_bodies() {
        let error = SourceError::from(error);
        let mut driver = Driver::watching("7");
        for attempt in 1..=5 {
            let relists = driver.fail(&error) == Reaction::Relist(Relist::Stuck);
            assert_eq!(relists, attempt == 5, "{error}");
            driver.wait();
            if attempt < 5 {
                driver.watch_from("7");
                driver.open();
            }
        }
        driver.stream();
    }
}

#[test]
fn a_position_that_moves_is_not_stuck() {
    let mut driver = Driver::watching("7");
    for version in 8..40 {
        assert_eq!(driver.fail(&internal()), Reaction::Retry);
        driver.wait();
        driver.request();
        driver.open();
        driver.changed(EventType::Modified, &version.to_string());
    }
}

#[test]
fn a_server_that_is_not_reached_is_no_reason_to_list() {
    // A fleet that listed after each outage would cause the next one.
    let errors = [unreachable(), silent(), status(502, "", ""), status(503, "", "")];
    for error in errors {
        let mut driver = Driver::watching("7");
        driver.fail(&error);
        for _ in 0..50 {
            driver.wait();
            driver.watch_from("7");
            assert_eq!(driver.fail(&error), Reaction::Retry, "{error}");
        }
    }
}

#[test]
fn failures_wait_longer_each_and_half_a_minute_of_health_ends_that() {
    // Full jitter hides the growth of a single wait, so many reflectors are measured.
    let longest = |healthy: f64| {
        let wait = |seed| {
            let mut driver = Driver::with_seed(seed);
            driver.list("7");
            for _ in 0..10 {
                driver.fail(&unreachable());
                driver.wait();
                driver.watch_from("7");
            }
            driver.open();
            driver.bookmark("8");
            driver.pass(healthy);
            driver.fail(&unreachable());
            driver.wait()
        };
        (0..50).map(wait).max()
    };
    assert!(longest(29.0) > Some(Duration::from_secs(25)));
    assert!(longest(30.0) <= Some(Duration::from_millis(800)));
}

#[test]
fn the_waits_can_be_set() {
    let first = Duration::from_millis(50);
    let max = Duration::from_millis(60);
    let backoff = BackoffConfig { first, max, factor: 3, ..BackoffConfig::default() };
    let config = ReflectorConfig { backoff, ..ReflectorConfig::default() };
    let mut driver = Driver::with(config, ServerFeatures::default());
    for _ in 0..20 {
        driver.stream();
        driver.fail(&unreachable());
        assert!(driver.wait() <= Duration::from_millis(60));
    }
}

#[test]
fn the_same_seed_gives_the_same_waits() {
    let waits = |seed| {
        let mut driver = Driver::with_seed(seed);
        (0..10)
            .map(|_| {
                driver.stream();
                driver.fail(&unreachable());
                driver.wait()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(waits(3), waits(3));
    assert_ne!(waits(3), waits(4));
}

// Silence.

#[test]
fn the_timeout_of_a_watch_is_drawn_from_five_to_ten_minutes() {
    let mut driver = Driver::watching("7");
    let timeouts: BTreeSet<_> = (0..100)
        .map(|_| {
            driver.pass(2.0);
            driver.close();
            let timeout = driver.watch_from("7").timeout;
            driver.open();
            timeout
        })
        .collect();
    let range = Duration::from_mins(5)..=Duration::from_mins(10);
    assert!(timeouts.iter().all(|timeout| range.contains(timeout)));
    assert!(timeouts.len() > 90);
    let watch_timeout = Duration::MAX..=Duration::ZERO;
    let odd = ReflectorConfig { watch_timeout, ..ReflectorConfig::default() };
    assert_eq!(Driver::with(odd, ServerFeatures::default()).stream().timeout, Duration::MAX);
}

#[test]
fn a_half_open_watch_ends_after_its_timeout_and_a_grace() {
    let mut driver = Driver::new();
    let timeout = driver.stream().timeout;
    driver.open();
    driver.initial_events_end("7");
    assert_eq!(driver.patience(), timeout + Duration::from_secs(30));
    driver.now += timeout;
    driver.changed(EventType::Modified, "9");
    assert_eq!(driver.patience(), Duration::from_secs(30), "the server has to end it by then");
    driver.pass(30.0);
    assert_eq!(driver.time_out(), DeadlineCheck::Silent(Duration::from_secs(30)));
    assert_eq!(driver.fail(&silent()), Reaction::Retry);
    driver.wait();
    driver.watch_from("9");
    assert_eq!(driver.patience(), Duration::from_secs(30), "for the answer to begin");
}

#[test]
fn a_half_open_watch_ends_earlier_where_bookmarks_come() {
    let mut driver = Driver::watching("7");
    driver.pass(60.0);
    driver.bookmark("8");
    assert!(driver.patience() > Duration::from_mins(4), "one bookmark has no pace");
    driver.pass(60.0);
    driver.bookmark("9");
    assert_eq!(driver.patience(), Duration::from_mins(3));
    driver.pass(100.0);
    driver.changed(EventType::Modified, "10");
    assert_eq!(driver.patience(), Duration::from_mins(3), "anything will do");
    driver.pass(180.0);
    assert_eq!(driver.time_out(), DeadlineCheck::Silent(Duration::from_mins(3)));
    driver.fail(&silent());
    driver.wait();
    // It also applies to the next watch.
    driver.watch_from("10");
    driver.open();
    assert_eq!(driver.patience(), Duration::from_mins(3));
}

#[test]
fn a_reflector_that_was_too_impatient_learns_to_wait() {
    // A server without changes leaves bookmarks out.
    let mut driver = Driver::watching("7");
    for version in ["8", "9"] {
        driver.pass(60.0);
        driver.bookmark(version);
    }
    driver.pass(180.0);
    driver.fail(&silent());
    driver.wait();
    driver.watch_from("9");
    driver.open();
    driver.pass(120.0);
    driver.bookmark("10");
    assert!(driver.patience() > Duration::from_mins(3), "the gap was five minutes");
}

#[test]
fn bookmarks_that_come_fast_do_not_make_it_nervous() {
    let mut driver = Driver::watching("7");
    for version in 8..20 {
        driver.pass(0.1);
        driver.bookmark(&version.to_string());
    }
    assert_eq!(driver.patience(), Duration::from_mins(2));
}

#[test]
fn a_list_body_that_is_something_else_backs_off() {
    let found = "a web page".to_owned();
    let error = SourceError::from(FrameError::Body { expected: "a list", found });
    let mut driver = Driver::paging();
    for _ in 0..5 {
        driver.page_request(Some(500), None);
        driver.open();
        assert_eq!(driver.fail(&error), Reaction::Retry);
        driver.wait();
    }
}

//! How a reflector lists: streamed, in pages, and when it changes from one to the other.

use std::time::Duration;

use super::super::{
    ChangeKind, DeadlineCheck, ListFault, Listed, Reaction, ReflectorConfig, Relist, ServerFeatures,
};
use super::driver::{
    COMPLETE, Driver, gone, internal, no_streaming, no_streams, silent, status, throttled,
    too_large, unreachable,
};
use crate::decode::frames::{EventType, FrameError};
use crate::transport::source::SourceError;

// The streamed list. These are the cases of client-go's watch-list tests.

#[test]
fn a_streamed_list_is_complete_with_its_bookmark_and_goes_on_as_a_watch() {
    let mut driver = Driver::new();
    assert!(driver.reflector.deadline().is_none() && !driver.reflector.is_listing());
    driver.stream();
    driver.open();
    assert_eq!(driver.changed(EventType::Added, "3"), ChangeKind::Initial);
    assert_eq!(driver.changed(EventType::Added, "2"), ChangeKind::Initial);
    assert_eq!(driver.position(), None);
    assert!(driver.reflector.is_listing());
    assert_eq!(driver.initial_events_end("7"), Some(COMPLETE));
    assert!(driver.is_watching());
    assert_eq!(driver.position().as_deref(), Some("7"));
    assert_eq!(driver.server.streams_lists(), Some(true));
    assert_eq!(driver.changed(EventType::Added, "8"), ChangeKind::Live);
}

#[test]
fn without_its_bookmark_a_streamed_list_is_never_complete() {
    let mut driver = Driver::new();
    driver.stream();
    driver.open();
    driver.changed(EventType::Added, "3");
    assert_eq!(driver.position(), None, "an item is no position");
}

#[test]
fn only_the_annotated_bookmark_completes_a_list() {
    let mut driver = Driver::new();
    driver.stream();
    driver.open();
    // Another bookmark means that the server ignores `sendInitialEvents`.
    assert_eq!(driver.bookmark("7"), Some(Listed::Refused(ListFault::NotStreamed)));
    assert_eq!(driver.position(), None);
    assert_eq!(driver.server.streams_lists(), Some(false));
    driver.page_request(Some(500), None);
}

#[test]
fn changes_and_deletions_before_the_bookmark_belong_to_the_list() {
    let mut driver = Driver::new();
    driver.stream();
    driver.open();
    for (change, version) in
        [(EventType::Added, "1"), (EventType::Modified, "3"), (EventType::Deleted, "2")]
    {
        assert_eq!(driver.changed(change, version), ChangeKind::Initial);
    }
    assert_eq!(driver.initial_events_end("4"), Some(COMPLETE));
    assert_eq!(driver.position().as_deref(), Some("4"));
}

#[test]
fn a_server_that_refuses_to_stream_is_listed_in_pages_and_that_is_remembered() {
    let server = ServerFeatures::default();
    let mut driver = Driver::with(ReflectorConfig::default(), server.clone());
    driver.stream();
    assert_eq!(driver.fail(&no_streams()), Reaction::Fallback);
    driver.page_request(Some(500), None);
    assert_eq!(driver.page(Some("7"), None), COMPLETE);
    driver.watch_from("7");
    driver.open();
    assert_eq!(driver.fail(&gone()), Reaction::Relist(Relist::Expired));
    driver.wait();
    driver.page_request(Some(500), None);
    // And for the other reflectors of this server.
    let mut other = Driver::with(ReflectorConfig::default(), server);
    other.page_request(Some(500), None);
}

#[test]
fn all_known_ways_to_refuse_a_streamed_list_are_understood() {
    let ways = [
        status(422, "Invalid", "resourceVersionMatch is forbidden for watch"),
        status(400, "BadRequest", "unknown parameter sendInitialEvents"),
        status(400, "BadRequest", "resourceVersionMatch is forbidden for watch"),
        status(
            500,
            "InternalError",
            "a watch stream was requested by the client but the required storage feature \
             RequestWatchProgress is disabled",
        ),
    ];
    for way in ways {
        let mut driver = Driver::new();
        driver.stream();
        assert_eq!(driver.fail(&way), Reaction::Fallback, "{way}");
        assert_eq!(driver.server.streams_lists(), Some(false), "{way}");
        driver.page_request(Some(500), None);
    }
}

#[test]
fn a_resource_without_watch_is_listed_and_says_nothing_about_its_server() {
    let as_list = FrameError::Kind { expected: "events", kind: Some("PodMetricsList".into()) };
    for error in [status(405, "MethodNotAllowed", "watch"), SourceError::Frame(as_list)] {
        let mut driver = Driver::new();
        driver.stream();
        assert_eq!(driver.fail(&error), Reaction::Fallback);
        assert_eq!(driver.server.streams_lists(), None);
        driver.page_request(Some(500), None);
        assert_eq!(driver.page(Some("7"), None), COMPLETE);
        // Its watches fail, so it is listed again after each backoff.
        for attempt in 1..=5 {
            driver.watch_from("7");
            let reaction = driver.fail(&status(405, "MethodNotAllowed", "watch"));
            assert_eq!(reaction == Reaction::Relist(Relist::Stuck), attempt == 5);
            driver.wait();
        }
        driver.page_request(Some(500), None);
    }
}

#[test]
fn another_error_is_no_reason_to_stop_streaming() {
    // client-go lists in pages after any error, which does not help an overloaded server.
    let transient =
        [internal(), unreachable(), too_large(), status(503, "", ""), throttled(Some(1))];
    let lasting = [status(400, "BadRequest", "bad selector"), status(403, "Forbidden", "")];
    for error in transient.iter().chain(&lasting) {
        let mut driver = Driver::new();
        driver.stream();
        driver.fail(error);
        driver.wait();
        driver.stream();
        assert_eq!(driver.server.streams_lists(), None);
    }
}

#[test]
fn a_throttled_streamed_list_is_streamed_again() {
    let mut driver = Driver::new();
    driver.stream();
    assert_eq!(driver.fail(&throttled(Some(5))), Reaction::Throttled);
    assert!(driver.wait() >= Duration::from_secs(5));
    driver.stream();
}

#[test]
fn a_streamed_list_that_is_cut_begins_again_from_its_start() {
    let mut driver = Driver::new();
    driver.stream();
    driver.open();
    driver.changed(EventType::Added, "3");
    assert_eq!(driver.close(), Some(Reaction::Retry));
    driver.wait();
    driver.stream();
}

#[test]
fn a_watch_that_ends_after_the_list_is_resumed_not_listed() {
    let mut driver = Driver::watching("7");
    driver.pass(60.0);
    assert_eq!(driver.close(), None);
    driver.watch_from("7");
}

#[test]
fn a_watch_that_expires_after_the_list_is_listed_again() {
    let mut driver = Driver::watching("7");
    driver.pass(60.0);
    assert_eq!(driver.fail(&gone()), Reaction::Relist(Relist::Expired));
    driver.wait();
    // client-go would name version 7 here. We name none, so that no stale server can answer.
    driver.stream();
}

#[test]
fn an_expired_or_early_streamed_list_is_streamed_again() {
    // Neither can be about our version, as we name none: the server's cache was not ready.
    for error in [gone(), too_large()] {
        let mut driver = Driver::new();
        driver.stream();
        driver.fail(&error);
        driver.wait();
        driver.stream();
    }
}

#[test]
fn lists_are_streamed_unless_the_server_is_known_not_to() {
    Driver::new().stream();
    Driver::paging().page_request(Some(500), None);
}

// A streamed list that is not completed.

#[test]
fn two_streamed_lists_in_a_row_without_their_bookmark_are_followed_by_pages() {
    for silence in [false, true] {
        let mut driver = Driver::new();
        for reaction in [Reaction::Retry, Reaction::Fallback] {
            driver.stream();
            driver.open();
            driver.changed(EventType::Added, "3");
            let end = if silence { Some(driver.fail(&silent())) } else { driver.close() };
            assert_eq!(end, Some(reaction));
            driver.wait();
        }
        assert_eq!(driver.server.streams_lists(), Some(false));
        driver.page_request(Some(500), None);
    }
}

#[test]
fn a_server_that_did_stream_a_list_is_given_another_chance() {
    let mut driver = Driver::watching("7");
    driver.fail(&gone());
    for _ in 0..2 {
        driver.wait();
        driver.stream();
        driver.open();
        driver.close();
    }
    driver.wait();
    assert_eq!(driver.server.streams_lists(), Some(true));
    driver.page_request(Some(500), None);
    assert_eq!(driver.page(Some("9"), None), COMPLETE);
    driver.watch_from("9");
    driver.fail(&gone());
    driver.wait();
    driver.stream();
}

#[test]
fn a_list_that_makes_no_progress_is_given_up_after_thirty_seconds() {
    let mut driver = Driver::new();
    driver.stream();
    assert_eq!(driver.patience(), Duration::from_secs(30));
    driver.pass(20.0);
    driver.open();
    assert_eq!(driver.patience(), Duration::from_secs(30));
    driver.pass(29.0);
    assert_eq!(driver.time_out(), DeadlineCheck::NotYet);
    driver.reflector.on_progress(driver.now);
    driver.pass(30.0);
    assert_eq!(driver.time_out(), DeadlineCheck::Silent(Duration::from_secs(30)));
    assert_eq!(driver.fail(&silent()), Reaction::Retry);
    driver.wait();
    driver.stream();
}

#[test]
fn a_server_that_never_answers_is_not_taken_for_one_that_cannot_stream() {
    let mut driver = Driver::new();
    for _ in 0..10 {
        driver.stream();
        assert_eq!(driver.fail(&silent()), Reaction::Retry);
        driver.wait();
    }
    driver.stream();
}

// Pages.

#[test]
fn pages_are_followed_to_the_end_at_once() {
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    driver.open();
    assert_eq!(driver.changed(EventType::Added, "3"), ChangeKind::Initial);
    assert_eq!(driver.page(Some("7"), Some("a")), Listed::More);
    assert!(driver.reflector.is_listing());
    driver.page_request(Some(500), Some("a"));
    assert_eq!(driver.page(Some("7"), Some("b")), Listed::More);
    driver.page_request(Some(500), Some("b"));
    assert_eq!(driver.position(), None);
    assert_eq!(driver.page(Some("7"), None), COMPLETE);
    driver.watch_from("7");
}

#[test]
fn lists_name_no_version_so_they_are_paged_however_the_server_caches() {
    // client-go names a version (0, or the last one) and then cannot have pages, unless the
    // server's watch cache is off. Ours are consistent, first and later, and are always paged.
    let mut driver = Driver::paging();
    for version in ["7", "8"] {
        driver.page_request(Some(500), None);
        assert_eq!(driver.page(Some(version), None), COMPLETE);
        driver.watch_from(version);
        driver.fail(&gone());
        driver.wait();
    }
    let config = ReflectorConfig { page_size: 0, ..ReflectorConfig::default() };
    let mut driver = Driver::with(config, no_streaming());
    driver.page_request(None, None);
}

#[test]
fn a_list_that_expires_on_page_two_is_read_in_one_piece_once() {
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    assert_eq!(driver.page(Some("7"), Some("a")), Listed::More);
    driver.page_request(Some(500), Some("a"));
    assert_eq!(driver.fail(&gone()), Reaction::Relist(Relist::Expired));
    driver.wait();
    driver.page_request(None, None);
    assert_eq!(driver.fail(&internal()), Reaction::Retry);
    driver.wait();
    driver.page_request(Some(500), None);
}

#[test]
fn a_list_for_which_the_server_is_too_far_behind_is_read_again_in_full() {
    // client-go drops the version that it named. We never name one; a server that says this is
    // still catching up.
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    assert_eq!(driver.fail(&too_large()), Reaction::Retry);
    driver.wait();
    driver.page_request(Some(500), None);
}

#[test]
fn a_failed_page_begins_the_list_from_its_start() {
    for error in [internal(), unreachable(), throttled(None), silent()] {
        let mut driver = Driver::paging();
        driver.page_request(Some(500), None);
        driver.page(Some("7"), Some("a"));
        driver.page_request(Some(500), Some("a"));
        driver.open();
        driver.fail(&error);
        driver.wait();
        driver.page_request(Some(500), None);
    }
}

#[test]
fn pages_that_do_not_move_on_are_given_up() {
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    driver.page(Some("7"), Some("a"));
    driver.page_request(Some(500), Some("a"));
    assert_eq!(driver.page(Some("7"), Some("a")), Listed::Refused(ListFault::RepeatedToken));
    driver.wait();
    driver.page_request(None, None);
}

// Lists without a version, as some aggregated servers send them.

#[test]
fn a_list_without_a_version_is_watched_from_nothing_and_listed_again_when_that_ends() {
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    assert_eq!(driver.page(None, None), COMPLETE);
    assert_eq!(driver.position(), None);
    driver.watch_from("");
    driver.open();
    // The existing objects arrive first, in any order.
    assert_eq!(driver.changed(EventType::Added, "9"), ChangeKind::Live);
    assert_eq!(driver.changed(EventType::Added, "3"), ChangeKind::Live);
    assert_eq!(driver.position(), None);
    driver.pass(2.0);
    assert_eq!(driver.close(), Some(Reaction::Relist(Relist::Unversioned)));
    assert_eq!(driver.wait(), Duration::from_secs(28), "thirty seconds after the list");
    driver.page_request(Some(500), None);
}

/// A deletion between the list and the watch is in neither. Only another list detects it.
#[test]
fn a_bookmark_does_not_make_up_for_a_list_without_a_version() {
    let mut driver = Driver::paging();
    // A watch from 0 begins anywhere.
    for none in [None, Some(""), Some("0")] {
        driver.page_request(Some(500), None);
        assert_eq!(driver.page(none, None), COMPLETE);
        driver.watch_from("");
        driver.open();
        driver.bookmark("12");
        driver.changed(EventType::Modified, "13");
        driver.bookmark("14");
        assert_eq!(driver.position(), None);
        driver.pass(2.0);
        assert_eq!(driver.close(), Some(Reaction::Relist(Relist::Unversioned)));
        assert!(driver.wait() >= Duration::from_secs(28), "thirty seconds after the list");
    }
    // A watch can resume from a list with a version.
    driver.page_request(Some(500), None);
    driver.page(Some("20"), None);
    driver.watch_from("20");
    driver.open();
    driver.bookmark("21");
    driver.pass(2.0);
    assert_eq!(driver.close(), None);
    driver.watch_from("21");
}

#[test]
fn a_failing_watch_without_a_version_keeps_the_pace() {
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    driver.page(None, None);
    driver.watch_from("");
    assert_eq!(driver.fail(&internal()), Reaction::Relist(Relist::Unversioned));
    assert_eq!(driver.wait(), Duration::from_secs(30));
    driver.page_request(Some(500), None);
}

// Audits.

#[test]
fn an_audit_ends_the_watch_and_lists() {
    let hour = Duration::from_hours(1);
    let config = ReflectorConfig { audit: Some(hour), ..ReflectorConfig::default() };
    let mut driver = Driver::with(config, ServerFeatures::default());
    driver.list("7");
    let start = driver.now;
    loop {
        driver.now = driver.reflector.deadline().expect("it must be watching");
        match driver.time_out() {
            DeadlineCheck::Silent(_) => driver.fail(&silent()),
            DeadlineCheck::Relist(reason) => {
                assert_eq!(reason, Relist::Audit);
                break;
            }
            DeadlineCheck::NotYet => panic!("the deadline has passed"),
        };
        driver.wait();
        driver.watch_from("7");
        driver.open();
    }
    let passed = driver.now - start;
    assert!((hour..=hour + hour / 10).contains(&passed), "{passed:?}");
    driver.list("7");
    assert!(driver.patience() > Duration::from_mins(5), "the next audit is an hour away");
}

#[test]
fn an_audit_that_falls_between_two_watches_lists() {
    let audit = Some(Duration::from_mins(1));
    let config = ReflectorConfig { audit, ..ReflectorConfig::default() };
    let mut driver = Driver::with(config, ServerFeatures::default());
    driver.list("7");
    driver.pass(70.0);
    driver.close();
    driver.stream();
}

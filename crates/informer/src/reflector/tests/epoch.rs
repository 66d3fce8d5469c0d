//! Servers that are behind, clusters that were restored, and versions that are odd.

use std::time::Duration;

use super::super::{
    ChangeKind, DeadlineCheck, ListFault, Listed, ReflectorConfig, Relist, ServerFeatures,
};
use super::driver::{COMPLETE, Driver, gone, internal, status, unreachable};
use crate::decode::frames::EventType;

const WENT_BACK: Listed = Listed::Refused(ListFault::WentBack);
const RESTORED: Listed = Listed::Complete { is_restored: true };

/// Makes the watch end so that a list is next.
fn expire(driver: &mut Driver) {
    driver.fail(&gone());
    driver.wait();
}

fn list_at(driver: &mut Driver, version: &str) -> Option<Listed> {
    driver.stream();
    driver.open();
    driver.initial_events_end(version)
}

#[test]
fn a_list_from_a_stale_server_is_refused_and_asked_for_again() {
    let mut driver = Driver::watching("100");
    driver.changed(EventType::Modified, "120");
    expire(&mut driver);
    assert_eq!(list_at(&mut driver, "110"), Some(WENT_BACK));
    assert_eq!(driver.position().as_deref(), Some("120"));
    driver.wait();
    // Another server answers.
    assert_eq!(list_at(&mut driver, "130"), Some(COMPLETE));
    assert_eq!(driver.position().as_deref(), Some("130"));
}

#[test]
fn a_list_that_is_lower_twice_begins_an_epoch() {
    let mut driver = Driver::watching("100");
    expire(&mut driver);
    assert_eq!(list_at(&mut driver, "50"), Some(WENT_BACK));
    driver.wait();
    assert_eq!(list_at(&mut driver, "51"), Some(RESTORED));
    assert!(driver.is_watching());
    assert_eq!(driver.high_water().as_deref(), Some("51"));
    assert_eq!(driver.changed(EventType::Modified, "52"), ChangeKind::Live);
    // The new epoch has the usual rules.
    expire(&mut driver);
    assert_eq!(list_at(&mut driver, "60"), Some(COMPLETE));
}

#[test]
fn a_list_that_is_not_lower_ends_the_suspicion() {
    let mut driver = Driver::watching("100");
    for _ in 0..3 {
        expire(&mut driver);
        assert_eq!(list_at(&mut driver, "50"), Some(WENT_BACK));
        driver.wait();
        assert_eq!(list_at(&mut driver, "100"), Some(COMPLETE), "equal is not lower");
    }
}

#[test]
fn a_failure_between_two_lower_lists_does_not_end_the_suspicion() {
    let mut driver = Driver::watching("100");
    expire(&mut driver);
    assert_eq!(list_at(&mut driver, "50"), Some(WENT_BACK));
    driver.wait();
    driver.stream();
    driver.fail(&internal());
    driver.wait();
    assert_eq!(list_at(&mut driver, "50"), Some(RESTORED));
}

#[test]
fn lists_in_pages_are_judged_the_same() {
    let mut driver = Driver::paging();
    driver.page_request(Some(500), None);
    assert_eq!(driver.page(Some("100"), None), COMPLETE);
    driver.watch_from("100");
    expire(&mut driver);
    for expected in [WENT_BACK, RESTORED] {
        driver.page_request(Some(500), None);
        assert_eq!(driver.page(Some("50"), Some("a")), Listed::More);
        driver.page_request(Some(500), Some("a"));
        assert_eq!(driver.page(Some("50"), None), expected);
        if expected == WENT_BACK {
            driver.wait();
        }
    }
    driver.watch_from("50");
}

#[test]
fn what_an_interrupted_list_has_brought_counts() {
    // Its objects were applied as they arrived. An older list would sweep them.
    let mut driver = Driver::watching("100");
    expire(&mut driver);
    driver.stream();
    driver.open();
    driver.changed(EventType::Added, "120");
    driver.close();
    driver.wait();
    assert_eq!(list_at(&mut driver, "110"), Some(WENT_BACK));
}

#[test]
fn items_that_are_newer_than_their_list_do_not_refute_it() {
    let mut driver = Driver::new();
    driver.stream();
    driver.open();
    driver.changed(EventType::Added, "120");
    assert_eq!(driver.initial_events_end("110"), Some(COMPLETE));
}

// A restored cluster is silent to a watch from a version that it has not reached.

#[test]
fn a_server_that_was_away_and_then_says_nothing_is_listed() {
    let absences = [
        unreachable(),
        status(503, "", ""),
        status(429, "TooManyRequests", "storage is (re)initializing"),
    ];
    for absence in absences {
        let mut driver = Driver::watching("100");
        driver.pass(30.0);
        driver.close();
        driver.watch_from("100");
        driver.fail(&absence);
        driver.wait();
        driver.watch_from("100");
        driver.open();
        assert_eq!(driver.patience(), Duration::from_mins(2), "{absence}");
        // A clean end in between does not reset the outage.
        driver.pass(60.0);
        assert_eq!(driver.close(), None);
        driver.watch_from("100");
        driver.open();
        assert_eq!(driver.patience(), Duration::from_mins(1), "{absence}");
        driver.pass(60.0);
        assert_eq!(driver.time_out(), DeadlineCheck::Relist(Relist::SilentAfterOutage));
        driver.wait();
        assert_eq!(list_at(&mut driver, "50"), Some(WENT_BACK));
        driver.wait();
        assert_eq!(list_at(&mut driver, "50"), Some(RESTORED));
        assert!(driver.patience() > Duration::from_mins(4));
    }
}

#[test]
fn a_server_that_was_away_and_goes_on_is_believed() {
    for event in [true, false] {
        let mut driver = Driver::watching("100");
        driver.pass(30.0);
        driver.close();
        driver.watch_from("100");
        driver.fail(&unreachable());
        driver.wait();
        driver.watch_from("100");
        driver.open();
        driver.changed(EventType::Modified, "90");
        assert_eq!(driver.patience(), Duration::from_mins(2), "an old one is no sign");
        if event {
            driver.changed(EventType::Modified, "101");
        } else {
            driver.bookmark("101");
        }
        assert!(driver.patience() > Duration::from_mins(4));
    }
}

#[test]
fn an_end_alone_is_no_outage() {
    let mut driver = Driver::watching("100");
    driver.pass(30.0);
    driver.close();
    driver.watch_from("100");
    driver.open();
    assert!(driver.patience() > Duration::from_mins(4));
}

/// An outage counts even if the server is back before the next request. A real server was restored
/// and started within two seconds: the connection of the next watch waited to be accepted, and no
/// request failed.
#[test]
fn a_watch_that_breaks_and_is_resumed_in_silence_is_listed() {
    let mut driver = Driver::watching("100");
    driver.pass(30.0);
    driver.fail(&unreachable());
    driver.wait();
    driver.watch_from("100");
    driver.open();
    assert_eq!(driver.patience(), Duration::from_mins(2));
    driver.pass(120.0);
    assert_eq!(driver.time_out(), DeadlineCheck::Relist(Relist::SilentAfterOutage));
}

#[test]
fn how_long_to_wait_after_an_outage_can_be_set() {
    let outage_silence = Duration::from_secs(5);
    let config = ReflectorConfig { outage_silence, ..ReflectorConfig::default() };
    let mut driver = Driver::with(config, ServerFeatures::default());
    driver.list("100");
    driver.pass(30.0);
    driver.close();
    driver.watch_from("100");
    driver.fail(&unreachable());
    driver.wait();
    driver.watch_from("100");
    driver.open();
    assert_eq!(driver.patience(), Duration::from_secs(5));
}

// Odd versions.

#[test]
fn decimals_of_any_length_compare() {
    let mut driver = Driver::watching("99999999999999999999999");
    assert_eq!(driver.changed(EventType::Modified, "99999999999999999999998"), ChangeKind::Stale);
    assert_eq!(driver.changed(EventType::Modified, "18446744073709551615"), ChangeKind::Stale);
    assert_eq!(driver.changed(EventType::Modified, "100000000000000000000000"), ChangeKind::Live);
    expire(&mut driver);
    assert_eq!(list_at(&mut driver, "7"), Some(WENT_BACK));
}

#[test]
fn other_versions_are_only_equal_or_not() {
    let mut driver = Driver::watching("b-2");
    assert_eq!(driver.changed(EventType::Modified, "b-2"), ChangeKind::Stale);
    assert_eq!(driver.changed(EventType::Modified, "a-1"), ChangeKind::Live);
    assert_eq!(driver.position().as_deref(), Some("a-1"));
    expire(&mut driver);
    assert_eq!(list_at(&mut driver, "a-0"), Some(COMPLETE), "it is not lower");
}

#[test]
fn a_version_is_sent_back_as_it_came() {
    let mut driver = Driver::watching("007");
    driver.pass(2.0);
    driver.close();
    driver.watch_from("007");
}

#[test]
fn a_lower_version_between_versions_that_do_not_compare_is_still_lower() {
    let mut driver = Driver::watching("100");
    assert_eq!(driver.changed(EventType::Modified, "x"), ChangeKind::Live);
    assert_eq!(driver.changed(EventType::Modified, "50"), ChangeKind::Stale);
    assert_eq!(driver.high_water().as_deref(), Some("100"));
}

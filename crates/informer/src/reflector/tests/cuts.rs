//! Watches that a proxy cuts when they are idle.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::{NextStep, Reaction};
use super::driver::{Driver, gone, unreachable};
use crate::transport::source::Request;

/// The shortest of the usual timeouts.
const USUAL: Duration = Duration::from_mins(5);

/// Cuts a watch after so many seconds of silence. Returns the timeout of the next request.
fn cut_after(driver: &mut Driver, silence: f64) -> Duration {
    driver.pass(silence);
    assert_eq!(driver.fail(&unreachable()), Reaction::Retry);
    driver.wait();
    reopen(driver)
}

/// Resumes the watch. Returns the timeout of the request.
fn reopen(driver: &mut Driver) -> Duration {
    let position = driver.reflector.position().expect("it has listed").to_string();
    let timeout = driver.watch_from(&position).timeout;
    driver.open();
    timeout
}

/// The timeouts that follow cuts after these silences.
fn timeouts(silences: &[f64]) -> Vec<Duration> {
    let mut driver = Driver::watching("7");
    let timeout = |(number, &silence): (usize, &f64)| {
        let timeout = cut_after(&mut driver, silence);
        // Without a bookmark, a list would follow the cut.
        driver.bookmark(&(8 + number).to_string());
        timeout
    };
    silences.iter().enumerate().map(timeout).collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn watches_that_are_cut_when_idle_are_resumed_soon_each_time() {
    // Some load balancers cut before the first bookmark.
    let mut driver = Driver::watching("7");
    for version in 8..58 {
        driver.pass(35.0);
        assert_eq!(driver.fail(&unreachable()), Reaction::Retry);
        assert!(driver.wait() <= Duration::from_millis(800), "each is the first one");
        reopen(&mut driver);
        driver.bookmark(&version.to_string());
    }
}

#[test]
fn watches_that_are_cut_after_the_same_silence_are_asked_to_end_before_it() {
    let timeouts = timeouts(&[35.0; 20]);
    assert!(timeouts[0] >= USUAL, "one may be cut by chance");
    let is_below = |timeout: &Duration| (seconds(23)..seconds(32)).contains(timeout);
    assert!(timeouts[1..].iter().all(is_below), "{timeouts:?}");
    let different: BTreeSet<_> = timeouts[1..].iter().collect();
    assert!(different.len() > 4, "those of a fleet must not end together: {different:?}");
}

#[test]
fn shortest_of_similar_silences_counts() {
    for silences in [[35.0, 40.0], [40.0, 35.0]] {
        assert!(timeouts(&silences)[1] < seconds(32), "{silences:?}");
    }
}

#[test]
fn another_silence_than_the_known_one_is_believed_when_it_comes_again() {
    let timeouts = timeouts(&[35.0, 35.0, 15.0, 15.0]);
    assert!(timeouts[2] > seconds(20), "{timeouts:?}");
    assert!(timeouts[3] < seconds(15), "{timeouts:?}");
}

#[test]
fn watches_that_break_for_other_reasons_are_asked_for_as_ever() {
    // A server that restarts now and then; a network that breaks busy connections; both.
    for silences in [[12.0, 40.0, 90.0, 25.0], [9.0, 9.0, 9.0, 9.0], [30.0, 1.0, 60.0, 2.0]] {
        let timeouts = timeouts(&silences);
        assert!(timeouts.iter().all(|timeout| *timeout >= USUAL), "{silences:?}: {timeouts:?}");
    }
}

#[test]
fn watch_that_lives_through_a_longer_silence_refutes_it() {
    // Two restarts of a server, by chance after the same silence.
    let mut driver = Driver::watching("7");
    cut_after(&mut driver, 35.0);
    driver.pass(60.0);
    driver.bookmark("8");
    assert!(cut_after(&mut driver, 35.0) >= USUAL);
    // Cuts are expected, and then the proxy is removed.
    assert!(cut_after(&mut driver, 35.0) < USUAL);
    driver.pass(60.0);
    driver.bookmark("9");
    assert_eq!(driver.reflector.cut_after(), None);
    driver.close();
    assert!(reopen(&mut driver) >= USUAL);
}

#[test]
fn bookmark_before_the_cut_brings_a_quiet_watch_forward() {
    let mut driver = Driver::watching("7");
    cut_after(&mut driver, 35.0);
    let mut timeout = cut_after(&mut driver, 35.0);
    for version in ["8", "9", "10"] {
        driver.pass(timeout.as_secs_f64() - 2.0);
        driver.bookmark(version);
        driver.pass(2.0);
        assert_eq!(driver.close(), None);
        timeout = driver.watch_from(version).timeout;
        driver.open();
    }
}

#[test]
fn end_in_its_time_is_no_cut() {
    let mut driver = Driver::watching("7");
    cut_after(&mut driver, 35.0);
    let mut timeout = cut_after(&mut driver, 35.0);
    driver.bookmark("8");
    let mut passed = 0.0;
    while passed < 3_600.0 {
        assert!(timeout < USUAL, "after {passed} s");
        driver.pass(timeout.as_secs_f64());
        passed += timeout.as_secs_f64();
        assert_eq!(driver.close(), None);
        timeout = reopen(&mut driver);
    }
    assert!(timeout >= USUAL, "the hour must not begin anew");
}

#[test]
fn watches_that_a_proxy_ends_politely_are_cut_as_well() {
    let mut driver = Driver::watching("7");
    let mut timeouts = Vec::new();
    for _ in 0..3 {
        driver.pass(30.0);
        assert_eq!(driver.close(), None);
        timeouts.push(reopen(&mut driver));
    }
    assert!(timeouts[0] >= USUAL, "{timeouts:?}");
    assert!(timeouts[1..].iter().all(|timeout| *timeout < seconds(28)), "{timeouts:?}");
}

#[test]
fn what_cuts_watches_is_tried_again_after_an_hour_and_learned_again_at_once() {
    let mut driver = Driver::watching("7");
    cut_after(&mut driver, 35.0);
    cut_after(&mut driver, 35.0);
    for version in 8..508 {
        driver.pass(10.0);
        driver.bookmark(&version.to_string());
    }
    driver.close();
    assert!(reopen(&mut driver) >= USUAL);
    assert!(cut_after(&mut driver, 35.0) < seconds(32));
}

#[test]
fn streamed_list_gets_its_time_whatever_cuts_watches() {
    let mut driver = Driver::watching("7");
    cut_after(&mut driver, 35.0);
    cut_after(&mut driver, 35.0);
    driver.fail(&gone());
    driver.wait();
    assert!(driver.stream().timeout >= USUAL, "a list is not silent");
}

#[test]
fn idle_cluster_behind_a_proxy_is_not_listed_over_and_over() {
    // Nothing changes, so no version moves, and every watch with a longer timeout is cut.
    let mut driver = Driver::watching("7");
    let began = driver.now;
    let mut lists = 0;
    let mut timeout = USUAL;
    while driver.now < began + Duration::from_mins(30) {
        if timeout < seconds(35) {
            driver.pass(timeout.as_secs_f64());
            driver.close();
        } else {
            driver.pass(35.0);
            driver.fail(&unreachable());
        }
        let request = match driver.next() {
            NextStep::Request(request) => request,
            NextStep::Wait(until) => {
                driver.now = until;
                driver.request()
            }
        };
        let Request::Watch(watch) = request else { panic!("{request:?}") };
        driver.open();
        if watch.wants_initial_events() {
            lists += 1;
            driver.initial_events_end("7");
        }
        timeout = watch.timeout;
    }
    assert!(lists <= 1, "{lists} lists: the first cut may have been a server that is another now");
}

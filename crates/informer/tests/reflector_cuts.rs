//! Watches that something on the way cuts when they are silent.

mod driver;

use std::time::Duration;

use driver::{Driver, gone, unreachable};
use windlass_informer::Reaction;

/// The usual timeouts begin here.
const USUAL: Duration = Duration::from_mins(5);

/// Lets a watch be silent for so many seconds and then be cut. Returns for how long the next one is asked for.
fn cut_after(driver: &mut Driver, silence: f64) -> Duration {
    driver.pass(silence);
    assert_eq!(driver.fail(&unreachable()), Reaction::Retry);
    driver.wait();
    reopen(driver)
}

/// Resumes the watch. Returns for how long it is asked for.
fn reopen(driver: &mut Driver) -> Duration {
    let position = driver.reflector.position().expect("it has listed").to_string();
    let timeout = driver.watch_from(&position).timeout;
    driver.open();
    timeout
}

/// For how long watches are asked for, each after one that was cut after such a silence.
fn timeouts(silences: &[f64]) -> Vec<Duration> {
    let mut driver = Driver::watching("7");
    silences.iter().map(|&silence| cut_after(&mut driver, silence)).collect()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn connections_that_are_cut_when_idle_are_no_reason_to_list_or_to_wait() {
    // As some load balancers do, before the first bookmark.
    let mut driver = Driver::watching("7");
    for _ in 0..50 {
        driver.pass(35.0);
        assert_eq!(driver.fail(&unreachable()), Reaction::Retry);
        assert!(driver.wait() <= Duration::from_millis(800), "each is the first one");
        driver.watch_from("7");
        driver.open();
    }
}

#[test]
fn watches_that_are_cut_after_the_same_silence_are_asked_to_end_before_it() {
    let timeouts = timeouts(&[35.0, 36.0, 35.0, 34.0]);
    assert!(timeouts[0] >= USUAL, "one may be cut by chance");
    let is_below = |timeout: &Duration| (seconds(22)..seconds(33)).contains(timeout);
    assert!(timeouts[1..].iter().all(is_below), "{timeouts:?}");
    assert_ne!(timeouts[1], timeouts[2], "those of a fleet must not end together");
}

#[test]
fn another_silence_than_the_known_one_is_believed_when_it_comes_again() {
    let timeouts = timeouts(&[35.0, 35.0, 15.0, 15.0]);
    assert!(timeouts[2] > seconds(20), "{timeouts:?}");
    assert!(timeouts[3] < seconds(15), "{timeouts:?}");
}

#[test]
fn watches_that_break_for_other_reasons_are_asked_for_as_ever() {
    // A server that restarts now and then; a network that breaks what is busy; both.
    for silences in [[12.0, 40.0, 90.0, 25.0], [9.0, 9.0, 9.0, 9.0], [30.0, 1.0, 60.0, 2.0]] {
        let timeouts = timeouts(&silences);
        assert!(timeouts.iter().all(|timeout| *timeout >= USUAL), "{silences:?}: {timeouts:?}");
    }
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
        assert_eq!(driver.close(), Reaction::Resume);
        timeout = reopen(&mut driver);
        assert!(timeout < seconds(33), "{timeout:?}: an end in time is no cut");
    }
}

#[test]
fn watches_that_a_proxy_ends_politely_are_cut_as_well() {
    let mut driver = Driver::watching("7");
    let mut timeouts = Vec::new();
    for _ in 0..3 {
        driver.pass(30.0);
        assert_eq!(driver.close(), Reaction::Resume);
        timeouts.push(reopen(&mut driver));
    }
    assert!(timeouts[0] >= USUAL, "{timeouts:?}");
    assert!(timeouts[1..].iter().all(|timeout| *timeout < seconds(28)), "{timeouts:?}");
}

#[test]
fn what_cuts_watches_is_forgotten_after_an_hour_and_learned_again_at_once() {
    let mut driver = Driver::watching("7");
    cut_after(&mut driver, 35.0);
    cut_after(&mut driver, 35.0);
    driver.pass(3_600.0);
    driver.bookmark("8");
    driver.close();
    assert!(reopen(&mut driver) >= USUAL);
    assert!(cut_after(&mut driver, 35.0) < seconds(33));
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

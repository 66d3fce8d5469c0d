//! What `/metrics` shows of a process.

use std::fmt;

use http::{Request, Response};
use jiff::Timestamp;
use kube::client::Body;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use tokio::sync::watch;
use tower::{BoxError, service_fn};
use windlass_informer::{ClientStack, ServerClock};
use windlass_manager::{Leadership, Metrics};

#[track_caller]
fn value(scrape: &str, series: &str) -> f64 {
    let prefix = format!("{series} ");
    let value = scrape.lines().find_map(|line| line.strip_prefix(&prefix));
    value.unwrap_or_else(|| panic!("no {series} in:\n{scrape}")).parse().expect("a number")
}

#[test]
fn leader_is_shown_as_one_and_a_standby_as_zero() {
    let metrics = Metrics::new();
    let encode = || metrics.encode();
    assert!(!encode().contains("leader_election"), "there is no election");
    let (leadership, receiver) = watch::channel(Leadership::Standby { leader: None });
    metrics.watch_election("website-operator", receiver);
    let series = r#"leader_election_master_status{name="website-operator"}"#;
    assert!(value(&encode(), series) < 0.5);
    leadership.send_replace(Leadership::Leading);
    assert!(value(&encode(), series) > 0.5);
    // The elector has ended, and says so before.
    leadership.send_replace(Leadership::Standby { leader: Some("other".to_owned()) });
    drop(leadership);
    assert!(value(&encode(), series) < 0.5);
}

#[tokio::test(start_paused = true)]
async fn wrong_clock_is_shown_once_there_was_an_answer() {
    let own: Timestamp = "2026-01-01T00:01:30Z".parse().expect("a time");
    let (metrics, clock) = (Metrics::new(), ServerClock::new(move || own));
    metrics.watch_clock(&clock);
    assert!(!metrics.encode().contains("clock_skew"), "nobody knows yet");
    let server = service_fn(|_: Request<Body>| async {
        let answer = Response::builder().header("date", "Thu, 01 Jan 2026 00:00:00 GMT");
        Ok::<_, BoxError>(answer.body(Body::empty())?)
    });
    let client = ClientStack::new().server_clock(clock).around(server, "default");
    client.send(Request::get("/version").body(Body::empty()).expect("one")).await.expect("sent");
    let skew = value(&metrics.encode(), "windlass_clock_skew_seconds");
    assert!((89.0..=90.0).contains(&skew), "{skew}");
}

#[test]
#[cfg(target_os = "linux")]
fn process_shows_what_it_uses() {
    let metrics = Metrics::new();
    let _open = std::fs::File::open("/proc/self/stat").expect("a file");
    let scrape = metrics.encode();
    let value = |series: &str| value(&scrape, series);
    assert!(value("process_cpu_seconds_total") >= 0.0);
    assert!(value("process_open_fds") >= 4.0);
    assert!(value("process_max_fds") >= value("process_open_fds"));
    let resident = value("process_resident_memory_bytes");
    assert!(resident > 4096.0 && resident < value("process_virtual_memory_bytes"), "{resident}");
    assert!(value("process_virtual_memory_max_bytes") >= value("process_virtual_memory_bytes"));
    // After this program was written.
    assert!(value("process_start_time_seconds") > 1_700_000_000.0);
    assert!(value("process_network_receive_bytes_total") >= 0.0);
    assert!(value("process_network_transmit_bytes_total") >= 0.0);
}

#[test]
fn version_is_shown_and_the_text_is_complete() {
    let scrape = Metrics::new().encode();
    let series = format!(r#"windlass_build_info{{version="{}"}}"#, env!("CARGO_PKG_VERSION"));
    assert!(value(&scrape, &series) > 0.5);
    assert!(scrape.ends_with("# EOF\n"), "{scrape}");
}

#[test]
fn scrape_with_a_collector_that_fails_is_visibly_incomplete() {
    #[derive(Debug)]
    struct Fails;

    impl Collector for Fails {
        fn encode(&self, _: DescriptorEncoder<'_>) -> fmt::Result {
            Err(fmt::Error)
        }
    }

    let mut metrics = Metrics::new();
    metrics.registry_mut().register_collector(Box::new(Fails));
    assert!(!metrics.encode().contains("# EOF"));
}

//! A certificate when its files change and when it expires.

use std::sync::atomic::{AtomicI64, Ordering};

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::time::sleep;
use windlass_testserver::Log;

use super::*;

/// A certificate for some years, and its key.
struct Issued {
    certificate: String,
    key: String,
}

fn issue(from: i32, until: i32) -> Issued {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("valid names");
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(until, 1, 1);
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    Issued { certificate, key: key.serialize_pem() }
}

impl Issued {
    fn write(&self, folder: &TempDir) {
        write(folder, &self.certificate, &self.key);
    }
}

fn write(folder: &TempDir, certificate: &str, key: &str) {
    std::fs::write(folder.path().join(CERTIFICATE_FILE), certificate).expect("written");
    std::fs::write(folder.path().join(KEY_FILE), key).expect("written");
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[tokio::test]
async fn state_follows_the_clock() {
    let folder = folder();
    issue(2020, 2030).write(&folder);
    let now = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&now);
    let clock = move || Timestamp::from_second(clock.load(Ordering::Relaxed)).expect("a time");
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate").clock(clock);
    let (from, until) = (time("2020-01-01T00:00:00Z"), time("2030-01-01T00:00:00Z"));
    for (at, state) in [
        ("2019-12-31T23:59:59Z", CertificateState::NotYetValid { from }),
        ("2020-01-01T00:00:00Z", CertificateState::Valid { until }),
        ("2030-01-01T00:00:00Z", CertificateState::Valid { until }),
        ("2030-01-01T00:00:01Z", CertificateState::Expired { since: until }),
    ] {
        now.store(time(at).as_second(), Ordering::Relaxed);
        assert_eq!(tls.state(), state, "{at}");
        let is_valid = matches!(state, CertificateState::Valid { .. });
        assert_eq!(tls.check().is_ok(), is_valid, "{at}");
    }
    let error = tls.check().expect_err("expired").to_string();
    assert!(error.contains("tls.crt expired at 2030-01-01T00:00:00Z: renew it"), "{error}");
}

#[test]
fn self_signed_certificate_is_valid() {
    let tls = Tls::self_signed().expect("a certificate");
    assert_eq!(tls.check(), Ok(()));
}

#[tokio::test]
async fn certificate_that_never_expires_is_valid() {
    let folder = folder();
    let mut params = CertificateParams::new(["localhost".to_owned()]).expect("valid names");
    // RFC 5280 writes "never" as the last second of 9999.
    params.not_after = date_time_ymd(9999, 12, 31) + Duration::from_secs(86_399);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate").pem();
    write(&folder, &certificate, &key.serialize_pem());
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate");
    assert_eq!(tls.state(), CertificateState::Valid { until: Timestamp::MAX });
}

#[tokio::test]
async fn files_that_cannot_be_used_are_errors_that_say_what_to_do() {
    let (one, other) = (issue(2020, 2030), issue(2020, 2030));
    let secret = "c2VjcmV0LWtleQ==";
    let broken = format!("-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----\n");
    let cut = format!("-----BEGIN PRIVATE KEY {secret}\n");
    for (certificate, key, expected) in [
        (&one.certificate, &other.key, "do not belong together: write"),
        (&one.key, &one.key, "tls.crt contains no certificate in PEM format: write"),
        (&one.certificate, &one.certificate, "tls.key contains no unencrypted private key"),
        (&one.certificate, &cut, "tls.key contains no unencrypted private key"),
        (&one.certificate, &broken, "cannot be used"),
    ] {
        let folder = folder();
        write(&folder, certificate, key);
        let error = Tls::from_folder(folder.path()).await.expect_err(expected);
        let shown = format!("{error} {error:?}");
        assert!(shown.contains(expected), "{shown}");
        assert!(!shown.contains(secret), "{shown}");
    }
    let error = Tls::from_folder(folder().path()).await.expect_err("no files").to_string();
    assert!(error.contains("tls.crt cannot be read"), "{error}");
    assert!(error.contains("mount the Secret"), "{error}");
}

#[tokio::test]
async fn symlink_that_is_replaced_changes_the_certificate() {
    let (folder, old, new) = (folder(), folder(), folder());
    issue(2020, 2090).write(&old);
    issue(2020, 2091).write(&new);
    // Like the kubelet: the files are links into a folder that is a link itself.
    let link = |target: &Path, name: &str| {
        std::os::unix::fs::symlink(target, folder.path().join(name)).expect("a link");
    };
    link(old.path(), "..data");
    link(Path::new("..data/tls.crt"), CERTIFICATE_FILE);
    link(Path::new("..data/tls.key"), KEY_FILE);
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate");
    link(new.path(), "..new");
    std::fs::rename(folder.path().join("..new"), folder.path().join("..data")).expect("renamed");
    tls.reload().await.expect("a new certificate");
    let until = time("2091-01-01T00:00:00Z");
    assert_eq!(tls.state(), CertificateState::Valid { until });
}

#[tokio::test(start_paused = true)]
async fn broken_files_keep_the_certificate_and_are_logged_once() {
    let (folder, log) = (folder(), Log::start());
    issue(2020, 2090).write(&folder);
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate");
    let stop = CancellationToken::new();
    let several_reloads = RELOAD_PERIOD * 5;
    tokio::join!(tls.reload_until(&stop), async {
        sleep(several_reloads).await;
        write(&folder, "nothing", "nothing");
        sleep(several_reloads).await;
        issue(2020, 2091).write(&folder);
        sleep(several_reloads).await;
        stop.cancel();
    });
    let until = time("2091-01-01T00:00:00Z");
    assert_eq!(tls.state(), CertificateState::Valid { until });
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    assert!(lines[0].contains("ERROR") && lines[0].contains("certificate in use is kept"));
    assert!(lines[1].contains("replaced by one that is valid until 2091-01-01"), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn expired_certificate_is_logged_once_until_it_is_replaced() {
    let (folder, log) = (folder(), Log::start());
    issue(2019, 2020).write(&folder);
    let clock = || time("2026-01-01T00:00:00Z");
    let tls = Tls::from_folder(folder.path()).await.expect("a certificate").clock(clock);
    let stop = CancellationToken::new();
    tokio::join!(tls.reload_until(&stop), async {
        sleep(RELOAD_PERIOD * 5).await;
        assert_eq!(log.lines().len(), 1, "{:#?}", log.lines());
        assert!(log.lines()[0].contains("expired at 2020-01-01T00:00:00Z: renew it"));
        issue(2027, 2028).write(&folder);
        sleep(RELOAD_PERIOD * 5).await;
        stop.cancel();
    });
    let lines = log.lines();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[2].contains("is not valid before 2027-01-01T00:00:00Z: set the clock"));
}

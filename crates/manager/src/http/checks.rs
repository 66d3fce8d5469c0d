//! Named checks behind `/healthz`, `/livez` and `/readyz`, answered as Kubernetes' own components
//! answer them.

use std::fmt::Write as _;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::time::timeout;
use windlass_serve::LogLimit;

/// How long a check may take. The kubelet waits for one second by default; this bounds how many
/// checks that hang can accumulate.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// The kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// `/healthz` and `/livez`: a process that fails is restarted.
    Live,
    /// `/readyz`: a process that fails gets no traffic.
    Ready,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It passed. The text is shown after the name.
    Ok(Option<String>),
    /// It did not run, because the request excludes it.
    Excluded,
    /// It failed. The reason is shown: it contains no secrets.
    Failed(String),
    /// It failed. The reason is only logged: it comes from user code, and probes are not
    /// authenticated.
    FailedPrivately(String),
}

type Run = Box<dyn Fn() -> BoxFuture<'static, Finding> + Send + Sync>;

/// One check.
struct Check {
    name: String,
    run: Run,
    /// The last reason that was logged, without its numbers, so that it is not logged at every
    /// probe: many reasons have a counter.
    logged: Mutex<Option<String>>,
    /// Whoever reaches the port can run a check that fails and passes in turn, as often as they
    /// like.
    log: LogLimit,
}

/// The checks of a process. Clones are the same checks.
#[derive(Clone, Default)]
pub(crate) struct Checks {
    live: Arc<Mutex<Vec<Arc<Check>>>>,
    ready: Arc<Mutex<Vec<Arc<Check>>>>,
}

/// The answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) is_ok: bool,
    pub(crate) text: String,
}

impl Finding {
    fn is_ok(&self) -> bool {
        matches!(self, Self::Ok(_) | Self::Excluded)
    }
}

impl Checks {
    /// Adds a check. Checks are shown in the order in which they were added.
    pub(crate) fn add<F: Future<Output = Finding> + Send + 'static>(
        &self,
        probe: Probe,
        name: impl Into<String>,
        run: impl Fn() -> F + Send + Sync + 'static,
    ) {
        let run: Run = Box::new(move || Box::pin(run()));
        let check =
            Check { name: name.into(), run, logged: Mutex::default(), log: LogLimit::new() };
        lock(self.of(probe)).push(Arc::new(check));
    }

    /// The names of the checks.
    pub(crate) fn names(&self, probe: Probe) -> Vec<String> {
        lock(self.of(probe)).iter().map(|check| check.name.clone()).collect()
    }

    /// Runs all checks concurrently, except for the excluded ones. The answer lists them if one
    /// fails or if `is_verbose` is set.
    pub(crate) async fn answer(
        &self,
        probe: Probe,
        endpoint: &str,
        excluded: &[String],
        is_verbose: bool,
    ) -> Answer {
        let checks = lock(self.of(probe)).clone();
        let findings = join_all(checks.iter().map(|check| async {
            let is_excluded = excluded.contains(&check.name);
            if is_excluded { Finding::Excluded } else { check.run().await }
        }));
        let findings = findings.await;
        let is_ok = findings.iter().all(Finding::is_ok);
        if is_ok && !is_verbose {
            return Answer { is_ok, text: "ok".to_owned() };
        }
        let mut text = String::new();
        for (check, finding) in checks.iter().zip(&findings) {
            let _ = writeln!(text, "{}", line(&check.name, finding));
        }
        let verdict = if is_ok { "passed" } else { "failed" };
        let _ = writeln!(text, "{endpoint} check {verdict}");
        Answer { is_ok, text }
    }

    /// Runs one check; `None` if there is none of this name.
    pub(crate) async fn answer_one(&self, probe: Probe, name: &str) -> Option<Answer> {
        let check = lock(self.of(probe)).iter().find(|check| check.name == name).cloned()?;
        let finding = check.run().await;
        let is_ok = finding.is_ok();
        Some(Answer { is_ok, text: if is_ok { "ok".to_owned() } else { line(name, &finding) } })
    }

    fn of(&self, probe: Probe) -> &Mutex<Vec<Arc<Check>>> {
        match probe {
            Probe::Live => &self.live,
            Probe::Ready => &self.ready,
        }
    }
}

/// A line in the style of kube-apiserver's `/readyz?verbose`.
fn line(name: &str, finding: &Finding) -> String {
    match finding {
        Finding::Ok(None) => format!("[+]{name} ok"),
        Finding::Ok(Some(detail)) => format!("[+]{name} ok: {detail}"),
        Finding::Excluded => format!("[+]{name} excluded: ok"),
        Finding::Failed(reason) => format!("[-]{name} failed: {reason}"),
        Finding::FailedPrivately(_) => {
            format!("[-]{name} failed: reason withheld, the log has it")
        }
    }
}

impl Check {
    /// Runs the check within its time limit. A panic is a failure.
    async fn run(&self) -> Finding {
        let run = AssertUnwindSafe(async { (self.run)().await }).catch_unwind();
        let finding = match timeout(CHECK_TIMEOUT, run).await {
            Ok(Ok(finding)) => finding,
            Ok(Err(_)) => Finding::Failed("the check panicked".to_owned()),
            Err(_) => Finding::Failed(format!("no result within {} s", CHECK_TIMEOUT.as_secs())),
        };
        self.log(&finding);
        finding
    }

    fn log(&self, finding: &Finding) {
        let reason = match finding {
            Finding::Ok(_) | Finding::Excluded => None,
            Finding::Failed(reason) | Finding::FailedPrivately(reason) => Some(reason.clone()),
        };
        let without_numbers =
            reason.as_ref().map(|reason| reason.replace(|c: char| c.is_ascii_digit(), ""));
        let mut logged = lock(&self.logged);
        if *logged == without_numbers {
            return;
        }
        if let Some(reason) = &reason {
            // If it is left out, the next failure is as new.
            let Some(line) = self.log.line("failed") else { return };
            let left_out = line.left_out;
            tracing::warn!(check = self.name, reason, left_out, "a check failed");
        } else {
            tracing::info!(check = self.name, "a check passes again");
        }
        *logged = without_numbers;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::advance;
    use windlass_testserver::Log;

    use super::*;

    fn checks(findings: &[(&str, Finding)]) -> Checks {
        let checks = Checks::default();
        for (name, finding) in findings.iter().cloned() {
            checks.add(Probe::Ready, name, move || std::future::ready(finding.clone()));
        }
        checks
    }

    async fn ready(checks: &Checks, excluded: &[&str], is_verbose: bool) -> Answer {
        let excluded: Vec<_> = excluded.iter().map(ToString::to_string).collect();
        checks.answer(Probe::Ready, "readyz", &excluded, is_verbose).await
    }

    #[tokio::test]
    async fn passing_checks_are_listed_only_on_request() {
        let detail = Finding::Ok(Some("standby".to_owned()));
        let checks = checks(&[("ping", Finding::Ok(None)), ("leader-election", detail)]);
        assert_eq!(ready(&checks, &[], false).await.text, "ok");
        let verbose = ready(&checks, &[], true).await;
        assert!(verbose.is_ok);
        let expected = "[+]ping ok\n[+]leader-election ok: standby\nreadyz check passed\n";
        assert_eq!(verbose.text, expected);
    }

    #[tokio::test]
    async fn failing_check_is_named_and_its_reason_is_shown_unless_it_is_the_users() {
        let checks = checks(&[
            ("caches", Finding::Failed("pods.v1 is not complete".to_owned())),
            ("database", Finding::FailedPrivately("password hunter2 is wrong".to_owned())),
        ]);
        let answer = ready(&checks, &[], false).await;
        assert!(!answer.is_ok);
        let expected = "[-]caches failed: pods.v1 is not complete\n\
                        [-]database failed: reason withheld, the log has it\n\
                        readyz check failed\n";
        assert_eq!(answer.text, expected);
        let excluded = ready(&checks, &["caches", "database"], true).await;
        assert!(excluded.text.starts_with("[+]caches excluded: ok\n"), "{}", excluded.text);
        assert!(excluded.is_ok);
        let one = checks.answer_one(Probe::Ready, "caches").await.expect("a check");
        assert_eq!(one.text, "[-]caches failed: pods.v1 is not complete");
        assert_eq!(checks.answer_one(Probe::Ready, "other").await, None);
        assert_eq!(checks.answer_one(Probe::Live, "caches").await, None);
    }

    #[tokio::test]
    async fn reason_that_counts_is_logged_once() {
        let (log, count) = (Log::start(), AtomicU32::new(0));
        let checks = Checks::default();
        checks.add(Probe::Ready, "counts", move || {
            let count = count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Finding::Failed(format!("{count} objects so far")))
        });
        for _ in 0..3 {
            assert!(!ready(&checks, &[], false).await.is_ok);
        }
        assert_eq!(log.lines_with("a check failed").len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_fails_and_passes_in_turn_is_logged_once_a_minute() {
        let (log, count) = (Log::start(), AtomicU32::new(0));
        let checks = Checks::default();
        checks.add(Probe::Ready, "flaps", move || {
            let is_even = count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let failed = Finding::Failed("even".to_owned());
            std::future::ready(if is_even { failed } else { Finding::Ok(None) })
        });
        for lines in [1, 2] {
            for _ in 0..10 {
                ready(&checks, &[], false).await;
            }
            let failures = log.lines_with("a check failed");
            assert_eq!(failures.len(), lines, "{failures:#?}");
            assert_eq!(log.lines_with("a check passes again").len(), lines);
            advance(Duration::from_mins(1)).await;
        }
        assert!(log.lines_with("a check failed")[1].contains("left_out=4"), "{}", log.text());
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_hangs_or_panics_fails() {
        let checks = Checks::default();
        checks.add(Probe::Ready, "hangs", std::future::pending);
        checks.add(Probe::Ready, "panics", || async { panic!("broken") });
        let answer = ready(&checks, &[], false).await;
        let expected = "[-]hangs failed: no result within 5 s\n\
                        [-]panics failed: the check panicked\n\
                        readyz check failed\n";
        assert_eq!(answer.text, expected);
    }
}

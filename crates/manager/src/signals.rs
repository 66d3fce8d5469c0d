//! Signals that end a process.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

/// The exit status after a second signal, as shells report a process that Ctrl-C has ended.
const EXIT_AT_ONCE: i32 = 130;

/// The exit status of a process that cannot end by itself.
pub(crate) const EXIT_BY_FORCE: i32 = 1;

/// How long a log line may hold up the end of a process.
const LOG_TIMEOUT: Duration = Duration::from_secs(1);

/// Cancels `stop` at the first signal (Ctrl-C, or SIGTERM, which Kubernetes sends to stop a pod),
/// and ends the process at the second one. Once `has_ended` is cancelled, the first signal ends it.
///
/// It listens on a thread with a runtime of its own. So a second signal also ends a process whose
/// threads are all blocked, or whose runtime waits for a blocking task while it is dropped. If
/// `overdue` ends before `has_ended` is cancelled, the process ends by force, too.
pub(crate) fn stop_on_signals(
    stop: CancellationToken,
    has_ended: CancellationToken,
    overdue: impl Future<Output = &'static str> + Send + 'static,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _guard = runtime.enter();
        Signals::listen()?
    };
    let ended = has_ended.clone();
    let end_by_signal = async move {
        let first = signals.next().await;
        if !has_ended.is_cancelled() {
            stop.cancel();
            log_within(LOG_TIMEOUT, move || {
                tracing::info!(
                    signal = first,
                    "stopping; a second signal ends the process at once"
                );
            });
            let second = signals.next().await;
            log_within(LOG_TIMEOUT, move || {
                tracing::warn!(signal = second, "a second signal: the process ends at once");
            });
        }
        EXIT_AT_ONCE
    };
    let listen = async move {
        tokio::select! {
            status = end_by_signal => status,
            Some(what) = ended.run_until_cancelled(overdue) => {
                log_within(LOG_TIMEOUT, move || {
                    tracing::error!(
                        "the process ends by force: {what}; every thread may be blocked"
                    );
                });
                EXIT_BY_FORCE
            }
        }
    };
    let name = "windlass-signals".to_owned();
    let thread = thread::Builder::new().name(name);
    thread.spawn(move || std::process::exit(runtime.block_on(listen))).map(drop)
}

/// Ends the process with a status, after a last log line, if that can be written.
pub(crate) fn exit(status: i32, log: impl FnOnce() + Send + 'static) -> ! {
    log_within(LOG_TIMEOUT, log);
    std::process::exit(status)
}

/// Logs on a thread of its own, and waits for it for so long at most. If nobody reads standard
/// error, or a blocked thread has its lock, logging blocks forever.
fn log_within(time: Duration, log: impl FnOnce() + Send + 'static) {
    let (logged, wait) = mpsc::channel::<()>();
    let log = move || {
        log();
        drop(logged);
    };
    if thread::Builder::new().name("windlass-last-log".to_owned()).spawn(log).is_ok() {
        // An error: it has logged, or the time is over.
        let _ = wait.recv_timeout(time);
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> &'static str {
        // If signals cannot be received, the process runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_that_cannot_be_written_holds_up_nothing() {
        let (unblock, blocked) = mpsc::channel::<()>();
        log_within(Duration::from_millis(1), move || {
            let _ = blocked.recv();
        });
        drop(unblock);
    }

    #[test]
    fn line_is_waited_for() {
        let (log, logged) = mpsc::channel();
        log_within(Duration::MAX, move || log.send("line").expect("the test waits"));
        assert_eq!(logged.try_recv(), Ok("line"));
    }
}

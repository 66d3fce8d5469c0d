//! Signals that end a process.

use std::io;
use std::thread;

use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

/// The exit status after a second signal, as shells report a process that Ctrl-C has ended.
const EXIT_AT_ONCE: i32 = 130;

/// The exit status of a process that cannot end by itself.
pub(crate) const EXIT_BY_FORCE: i32 = 1;

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
            tracing::info!(signal = first, "stopping; a second signal ends the process at once");
            stop.cancel();
            let second = signals.next().await;
            tracing::warn!(signal = second, "a second signal: the process ends at once");
        }
        EXIT_AT_ONCE
    };
    let listen = async move {
        tokio::select! {
            status = end_by_signal => status,
            Some(what) = ended.run_until_cancelled(overdue) => {
                tracing::error!("the process ends by force: {what}; every thread may be blocked");
                EXIT_BY_FORCE
            }
        }
    };
    let name = "windlass-signals".to_owned();
    let thread = thread::Builder::new().name(name);
    thread.spawn(move || std::process::exit(runtime.block_on(listen))).map(drop)
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

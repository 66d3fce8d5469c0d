//! Signals that end a process.

use std::io;

use tokio_util::sync::CancellationToken;

/// The exit status after a second signal, as shells report a process that Ctrl-C has ended.
const EXIT_AT_ONCE: i32 = 130;

/// Cancels `stop` at the first signal (Ctrl-C, or SIGTERM, which Kubernetes sends to stop a pod),
/// and ends the process at the second one. It listens from now on, and not only when it is awaited.
pub(crate) fn stop_on_signals(
    stop: CancellationToken,
) -> io::Result<impl Future<Output = ()> + Send> {
    let mut signals = Signals::listen()?;
    Ok(async move {
        let first = signals.next().await;
        tracing::info!(signal = first, "stopping; a second signal ends the process at once");
        stop.cancel();
        let second = signals.next().await;
        tracing::warn!(signal = second, "a second signal: the process ends at once");
        std::process::exit(EXIT_AT_ONCE);
    })
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

//! Stopping on a signal.

use std::io;

use tokio::signal::ctrl_c;
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by Ctrl-C or SIGTERM, which Kubernetes sends to stop a pod. For
/// [`Controller::run`](crate::Controller::run), which then finishes the runs that are under way. A
/// second signal changes nothing: to end the process at once, kill it.
///
/// # Errors
/// Returns an error if the signal handler cannot be installed.
///
/// # Panics
/// Panics if it is not called within a tokio runtime.
pub fn stop_on_signal() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (signal, token) = (listen()?, stop.clone());
    #[expect(clippy::disallowed_methods, reason = "it lives as long as the process")]
    tokio::spawn(async move {
        signal.await;
        tracing::info!("received a signal to stop");
        token.cancel();
    });
    Ok(stop)
}

/// Waits for a signal. It listens from now on, and not only when it is awaited.
#[cfg(unix)]
fn listen() -> io::Result<impl Future<Output = ()> + Send> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
fn listen() -> io::Result<impl Future<Output = ()> + Send> {
    Ok(async {
        // If signals cannot be received, the process runs until it is killed.
        if ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

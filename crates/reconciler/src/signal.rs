//! Stopping when the process is asked to.

use std::io;

use tokio::signal::ctrl_c;
use tokio_util::sync::CancellationToken;

/// A token that is cancelled when the process is asked to end: by Ctrl-C, or by SIGTERM, as Kubernetes asks a pod. For
/// [`Controller::run`](crate::Controller::run), which then finishes what is under way. A second signal is as the first:
/// who cannot wait kills the process.
///
/// # Errors
/// If the system does not let it listen.
///
/// # Panics
/// If it is not called within a tokio runtime.
pub fn stop_on_signal() -> io::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let (asked, token) = (listen()?, stop.clone());
    #[expect(
        clippy::disallowed_methods,
        reason = "it lasts as long as the process, and owns nothing"
    )]
    tokio::spawn(async move {
        asked.await;
        tracing::info!("asked to stop");
        token.cancel();
    });
    Ok(stop)
}

/// Listens from now on, not only from when it is awaited.
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
        // Without a way to be asked it goes on until it is killed.
        if ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

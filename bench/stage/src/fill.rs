//! Filling the server: every object by a few writes, many objects at once.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use tokio::time::Instant;

use crate::each;

/// Objects that are being written at once: more do not make the server faster.
const CONCURRENCY: usize = 24;

/// Makes so many objects, of which a reader knows as `what`, and shows how far it is.
///
/// Returns the seconds that it took.
///
/// # Errors
/// The first that a write fails with.
pub async fn fill<F>(objects: usize, what: &str, write: impl Fn(usize) -> F) -> Result<f64>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let began = Instant::now();
    each(0..objects, CONCURRENCY, None, |index| {
        show(index, objects, what);
        write(index)
    })
    .await?;
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[2K");
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Shows how far it is: on a terminal often and in place, elsewhere a few times.
fn show(made: usize, objects: usize, what: &str) {
    let on_terminal = std::io::stderr().is_terminal();
    let step = (objects / if on_terminal { 100 } else { 4 }).max(1);
    if made == 0 || !made.is_multiple_of(step) {
        return;
    }
    let text = format!("    {made} of {objects} {what}");
    // Progress that cannot be shown must not end the run.
    let _ = if on_terminal {
        write!(std::io::stderr(), "\r\x1b[2K{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
}

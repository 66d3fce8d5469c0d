//! Progress messages for a command that prints nothing for minutes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::process::Stopwatch;

/// Short enough that nobody thinks it hangs, long enough that a log stays short.
const INTERVAL: Duration = Duration::from_secs(15);

/// Runs `work`, and regularly prints how long it has been running.
pub(super) fn shown<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let watch = Stopwatch::start();
    let (under_way, is_over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            while is_over.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                eprintln!("    {name}: {:.0} s so far", watch.elapsed().as_secs_f64());
            }
        });
        let result = work();
        drop(under_way);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_of_the_work_is_returned_as_soon_as_it_is_there() {
        assert_eq!(shown("adding", || 1 + 1), 2);
    }
}

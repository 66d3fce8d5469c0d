//! A bound for log lines that each event can cause: objects are written by others, and thousands of
//! them may be bad at once.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many lines are written in a period: enough to see which objects are affected.
const LINES_MAX: u64 = 20;

const PERIOD: Duration = Duration::from_mins(1);

/// Allows [`LINES_MAX`] lines a minute.
#[derive(Default)]
pub(crate) struct LogLimit {
    /// When the period began, and how many lines were asked for in it.
    period: Mutex<Option<(Instant, u64)>>,
}

/// A line that may be written.
pub(crate) struct Line {
    /// How many were left out in the period before, if any: a field of the line.
    pub(crate) left_out: Option<u64>,
}

impl LogLimit {
    /// The line, if it may be written now.
    pub(crate) fn line(&self) -> Option<Line> {
        let now = Instant::now();
        let mut period = self.period.lock();
        match &mut *period {
            Some((began, asked)) if now < *began + PERIOD => {
                *asked += 1;
                (*asked <= LINES_MAX).then_some(Line { left_out: None })
            }
            ended => {
                let asked = ended.replace((now, 1)).map_or(0, |(_, asked)| asked);
                let left_out = asked.checked_sub(LINES_MAX).filter(|&left_out| left_out > 0);
                Some(Line { left_out })
            }
        }
    }
}

//! Deeply nested JSON: how deep a text is, and threads whose stacks are large enough for it.
//!
//! Kubernetes API servers take objects of 10,000 levels, because Go's decoder does. Whatever
//! decodes, clones, compares, writes or drops such a value calls itself once for each level. A
//! thread of tokio has a stack of 2 MiB, which is not enough, and an overflow ends the process. So
//! a text is measured before it is decoded: one that is deeper than [`SHALLOW_MAX`] is handled on a
//! thread with a large stack, and one that is deeper than [`DEPTH_MAX`] is refused.
//!
//! ```
//! use serde_json::Value;
//! use windlass_nesting::{depth, from_slice, with_stack_for};
//!
//! let text = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
//! let is_list = with_stack_for(depth(text.as_bytes()), || {
//!     // The value is dropped here, too.
//!     from_slice::<Value>(text.as_bytes()).is_ok_and(|value| value.is_array())
//! });
//! assert_eq!(is_list.ok(), Some(true));
//! ```
//!
//! Invariant: a value that may be deep never leaves the thread with the large stack. Bytes do.
//!
//! There is no pool. A thread is started for each deep text, or for each poll of a future that
//! handles one, and the caller waits for it. So there are never more of them than callers: than
//! worker threads of the runtime.

use std::cell::Cell;
use std::io;
use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::slice;
use std::task::{Context, Poll};
use std::thread;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::runtime::Handle;
use tracing::Span;

/// The depth up to which a text is handled on any thread. `serde_json` itself reads 127 levels; the
/// rest is room for envelopes and changes.
pub const SHALLOW_MAX: usize = 100;

/// The depth up to which a text is handled at all: the 10,000 levels of Go's decoder, and the
/// levels of what an API server wraps around an object, such as a review or a list.
pub const DEPTH_MAX: usize = 10_016;

/// The size of a large stack: 26 KB for each level. Decoding without optimisations takes about a
/// tenth of that. It is address space: only the pages that are used take memory.
const STACK: usize = 256 << 20;

thread_local! {
    static IS_LARGE: Cell<bool> = const { Cell::new(false) };
}

/// Why there is no stack for a text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StackError {
    /// It is deeper than [`DEPTH_MAX`].
    #[error("it is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// The system refuses the thread.
    #[error("no thread with a large stack can be started: {0}")]
    Thread(#[from] io::Error),
}

/// What an allocation takes beyond its bytes: a header, and what they are rounded up to.
const ALLOCATION: usize = 32;

/// An element of a list, or a field: a list has up to twice the room that it needs, and the old
/// room as long as it grows.
const ELEMENT: usize = 3 * size_of::<Value>();

/// The first room of a list has four elements.
const LIST: usize = 4 * size_of::<Value>() + ALLOCATION;

/// A node of a `BTreeMap`, which is what `serde_json` has for an object: eleven keys and values,
/// and a pointer and two numbers. A map with one field has all of it.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 16 + ALLOCATION;

/// A field that is not the first. A node has five at least, and there is an inner one for every
/// five. The comma before it counts, too.
const FIELD: usize = (NODE + NODE / 4) / 5 - ELEMENT;

/// What is known of a text before it is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measured {
    /// How deep it is nested, by the brackets outside of its strings. Of a text that is not JSON,
    /// it is at least what a decoder has seen when it finds that out.
    pub depth: usize,
    /// How many bytes of memory it takes, at most, as a [`Value`]. That may be a hundred times
    /// what the text has.
    pub memory: usize,
}

/// Measures a text.
pub fn measure(json: &[u8]) -> Measured {
    let mut measuring = Measuring::default();
    measuring.read(json);
    measuring.measured
}

/// Measures the text of a value, without keeping it.
///
/// # Errors
/// Returns an error if the value cannot be written as JSON.
pub fn measure_written(value: &impl Serialize) -> serde_json::Result<Measured> {
    let mut measuring = Measuring::default();
    serde_json::to_writer(&mut measuring, value)?;
    Ok(measuring.measured)
}

/// A text that is measured part by part.
#[derive(Default)]
struct Measuring {
    measured: Measured,
    depth: usize,
    /// The last byte that means something outside of strings.
    last: u8,
    is_in_string: bool,
    is_escaped: bool,
}

impl Measuring {
    fn read(&mut self, json: &[u8]) {
        let mut bytes = json.iter();
        self.skip_string(&mut bytes);
        while let Some(byte) = bytes.next() {
            let memory = match byte {
                b'"' => {
                    self.is_in_string = true;
                    self.measured.memory += ALLOCATION;
                    self.skip_string(&mut bytes);
                    continue;
                }
                b'{' | b'[' => {
                    self.depth += 1;
                    self.measured.depth = self.measured.depth.max(self.depth);
                    if *byte == b'[' { LIST } else { 0 }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    0
                }
                b':' if self.last == b'{' => NODE,
                b':' => FIELD,
                b',' => ELEMENT,
                _ => continue,
            };
            self.measured.memory += memory;
            self.last = *byte;
        }
    }

    /// Reads to the end of the string, if there is one that has begun.
    fn skip_string(&mut self, bytes: &mut slice::Iter<'_, u8>) {
        let begin = bytes.len();
        while self.is_in_string {
            match bytes.next() {
                None => break,
                Some(_) if self.is_escaped => self.is_escaped = false,
                Some(b'"') => self.is_in_string = false,
                Some(b'\\') => self.is_escaped = true,
                Some(_) => {}
            }
        }
        self.measured.memory += begin - bytes.len();
    }
}

impl io::Write for Measuring {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        self.read(json);
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How deep a text is nested: [`Measured::depth`].
pub fn depth(json: &[u8]) -> usize {
    measure(json).depth
}

/// Decodes a text, without a limit of its depth: the caller has checked that, and provides the
/// stack.
///
/// # Errors
/// Returns an error if the text is not JSON, or does not decode as `T`.
pub fn from_slice<'de, T: Deserialize<'de>>(json: &'de [u8]) -> serde_json::Result<T> {
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    deserializer.disable_recursion_limit();
    let value = T::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Reads something of a text of any depth; `None` if it is not JSON, or too deep. What it returns
/// must be shallow.
pub fn read_object<T: Send>(json: &[u8], read: impl FnOnce(&Value) -> T + Send) -> Option<T> {
    let read = || Some(read(&from_slice(json).ok()?));
    with_stack_for(depth(json), read).ok().flatten()
}

/// Whether this thread has a large stack.
pub fn has_large_stack() -> bool {
    IS_LARGE.get()
}

/// Runs `run` where there is stack enough for a text of this depth. What it returns must be
/// shallow.
///
/// # Errors
/// Returns an error if the text is too deep, or there is no thread for it.
///
/// # Panics
/// Panics if `run` does.
pub fn with_stack_for<T: Send>(
    depth: usize,
    run: impl FnOnce() -> T + Send,
) -> Result<T, StackError> {
    if depth <= SHALLOW_MAX {
        Ok(run())
    } else if depth <= DEPTH_MAX {
        Ok(on_large_stack(run)?)
    } else {
        Err(StackError::TooDeep)
    }
}

/// Runs `run` on a thread with a large stack, and waits for it. If this thread has a large stack
/// already, it runs here. What it returns must be shallow.
///
/// # Errors
/// Returns an error if the system refuses the thread.
///
/// # Panics
/// Panics if `run` does.
pub fn on_large_stack<T: Send>(run: impl FnOnce() -> T + Send) -> io::Result<T> {
    if has_large_stack() {
        return Ok(run());
    }
    let (runtime, span) = (Handle::try_current().ok(), Span::current());
    let run = move || {
        IS_LARGE.set(true);
        // For timers and tasks of a future.
        let _runtime = runtime.as_ref().map(Handle::enter);
        span.in_scope(run)
    };
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("large-stack".to_owned()).stack_size(STACK);
        let thread = builder.spawn_scoped(scope, run)?;
        Ok(thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// A future that is polled and dropped on a thread with a large stack. Its output must be shallow.
///
/// Each poll blocks the caller as if it were polled in place. Task-locals are not there.
///
/// # Cancel safety
/// Dropping it drops the inner future.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct LargeStack<F: Future + Send> {
    /// `None` when it has ended.
    future: Option<Pin<Box<F>>>,
}

impl<F: Future + Send> LargeStack<F> {
    /// Wraps a future.
    pub fn new(future: F) -> Self {
        Self { future: Some(Box::pin(future)) }
    }
}

impl<F: Future<Output: Send> + Send> Future for LargeStack<F> {
    type Output = io::Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (slot, waker) = (&mut self.future, cx.waker().clone());
        let polled = on_large_stack(|| {
            let future = slot.as_mut().expect("a future must not be polled after its end");
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_ready() {
                *slot = None;
            }
            polled
        });
        match polled {
            Ok(polled) => polled.map(Ok),
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl<F: Future + Send> Drop for LargeStack<F> {
    fn drop(&mut self) {
        let Some(future) = self.future.take() else { return };
        let mut future = Some(future);
        if on_large_stack(|| drop(future.take())).is_err() {
            // A leak of memory is better than the end of the process.
            mem::forget(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::sync::mpsc;
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
    }

    #[test]
    fn depth_counts_brackets_outside_of_strings() {
        for (text, expected) in [
            ("", 0),
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[1,{"b":2}],"c":[[[]]]}"#, 4),
            (r#"["[[[[", "\"[[[", "\\", {}]"#, 2),
            (r#"["\\\"[["]"#, 1),
            // It is not JSON, and a decoder sees no more than this.
            ("]]]][[[", 3),
            (r#""[[["#, 0),
        ] {
            assert_eq!(depth(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(depth(nested(1_000).as_bytes()), 1_000);
    }

    #[test]
    fn what_is_written_is_measured_as_its_text() {
        for value in [
            json!(1),
            json!({"a": [1, {"b": "\\\"[["}], "c\n": [[[]]], "": {}}),
            json!(["x".repeat(1_000), {"y": null, "z": 1.5}]),
        ] {
            let written = measure_written(&value).expect("it is JSON");
            assert_eq!(written, measure(value.to_string().as_bytes()), "{value}");
        }
    }

    #[test]
    fn the_deepest_values_can_be_handled_in_every_way() {
        let text = nested(DEPTH_MAX);
        let written = with_stack_for(depth(text.as_bytes()), || {
            let value: Value = from_slice(text.as_bytes()).expect("it is JSON");
            let mut other = value.clone();
            assert!(value == other && !format!("{value:?}").is_empty());
            other["a"]["b"] = json!(2);
            let typed = Vec::<Value>::deserialize(json!([value])).expect("a list");
            serde_json::to_value(&typed).expect("it is JSON")[0].to_string()
        });
        assert_eq!(written.expect("there is a stack"), text);
    }

    #[test]
    fn a_text_that_is_too_deep_is_refused_unread() {
        let refused = with_stack_for(DEPTH_MAX + 1, || panic!("it must not run"));
        assert!(matches!(refused, Err::<(), _>(StackError::TooDeep)));
    }

    #[test]
    fn what_follows_a_text_is_an_error() {
        assert!(from_slice::<Value>(b"{} x").is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_has_its_runtime_and_its_stack_in_every_poll() {
        let answer = LargeStack::new(async {
            assert!(has_large_stack());
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(has_large_stack());
            Handle::try_current().is_ok()
        });
        assert!(answer.await.expect("there is a thread"));
        assert!(!has_large_stack());
    }

    #[tokio::test]
    async fn a_future_that_is_given_up_is_dropped_where_it_was_polled() {
        struct Dropped(mpsc::Sender<bool>);

        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.send(has_large_stack()).expect("the test waits");
            }
        }

        let (sender, dropped) = mpsc::channel();
        let mut given_up = Box::pin(LargeStack::new(async move {
            let _dropped = Dropped(sender);
            pending::<()>().await;
        }));
        assert!(is_pending_once(&mut given_up).await);
        drop(given_up);
        assert_eq!(dropped.recv(), Ok(true));
    }

    /// Polls a future once; returns whether it is pending.
    async fn is_pending_once(future: &mut Pin<Box<impl Future>>) -> bool {
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[test]
    fn a_panic_is_passed_on() {
        let caught = std::panic::catch_unwind(|| on_large_stack(|| panic!("as the test wants it")));
        assert!(caught.is_err());
    }
}

//! What clients may use of a server.

use std::time::Duration;

/// The limits of a server, which depend on who its clients are.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many connections there may be at a time, or fewer if the process may have few open
    /// files. Another one gets the place of one that is not used. `None`: as many as come.
    pub connections: Option<usize>,
    /// How long a request may be under way before its connection may be closed for another one.
    pub busy_min: Duration,
    /// The largest header, and how much of a body is read at once. With the number of connections,
    /// it bounds the memory that clients can use.
    pub buffer_bytes: usize,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// How long a client may take to read an answer.
    pub answer_timeout: Option<Duration>,
    /// How long a connection may last. Other clients reconnect.
    pub lifetime: Option<Duration>,
    /// How long the request that is under way at the end of the lifetime may still take.
    pub last_request: Duration,
    /// How long requests under way may take after the server was stopped.
    pub drain: Duration,
}

impl Limits {
    /// For a server in a test environment, whose clients mean well: as many as come, and a watch
    /// lasts as long as its client reads it. It would not end by itself, so it is cut soon after
    /// the stop. The buffer is hyper's default. Go's clients close an idle connection after 90 s,
    /// and the server must not be the first, because the request that is just being sent would
    /// fail.
    pub const TRUSTED: Self = Self {
        connections: None,
        busy_min: Duration::ZERO,
        buffer_bytes: 408 * 1024,
        idle_timeout: Duration::from_mins(2),
        answer_timeout: None,
        lifetime: None,
        last_request: Duration::ZERO,
        drain: Duration::from_millis(100),
    };
}

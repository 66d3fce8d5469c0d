//! A connection that is left alone for a moment after it was read, while data comes over it steadily.
//!
//! An event that comes alone costs a controller several times what it costs among others: a thread wakes up for it, and
//! all that it needs has left the processor's caches since the last one. So what comes steadily is left to gather in the kernel
//! for some milliseconds, as network cards do it with packets. When that is worth it, [`Pace`] decides.
//!
//! Not to read the connection would not be enough: the runtime would still be woken for everything that arrives. So
//! the socket is taken out of what the runtime polls, and put back when the moment is over. Whatever has arrived is
//! reported then as if it came at that time, which holds on every system, for the end of the connection too.

mod pace;

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

use pace::Pace;

/// A connection that may be left alone.
pub(super) struct Gathering {
    socket: Socket,
    pace: Pace,
}

enum Socket {
    Polled(TcpStream),
    /// Left alone, until then.
    Aside(std::net::TcpStream, Pin<Box<Sleep>>),
    /// The runtime did not take it, or not back.
    Lost,
}

impl Gathering {
    /// At most for so long; not at all, if that is zero.
    pub(super) fn new(socket: TcpStream, pause: Duration) -> Self {
        Self { socket: Socket::Polled(socket), pace: Pace::new(pause, Instant::now()) }
    }

    /// The socket, in what the runtime polls.
    fn polled(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        if let Socket::Aside(..) = self.socket
            && let Socket::Aside(socket, _) = mem::replace(&mut self.socket, Socket::Lost)
        {
            self.pace.resumed(Instant::now());
            self.socket = Socket::Polled(TcpStream::from_std(socket)?);
        }
        match &mut self.socket {
            Socket::Polled(socket) => Ok(Pin::new(socket)),
            Socket::Aside(..) | Socket::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// All that was there has been read.
    fn drained(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(until) = self.pace.drained(Instant::now()) else { return Ok(()) };
        if let Socket::Polled(socket) = mem::replace(&mut self.socket, Socket::Lost) {
            let mut timer = Box::pin(sleep_until(until));
            if timer.as_mut().poll(cx).is_ready() {
                cx.waker().wake_by_ref();
            }
            self.socket = Socket::Aside(socket.into_std()?, timer);
        }
        Ok(())
    }
}

impl AsyncRead for Gathering {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Socket::Aside(_, timer) = &mut this.socket {
            ready!(timer.as_mut().poll(cx));
        }
        let before = buffer.filled().len();
        match this.polled()?.poll_read(cx, buffer) {
            Poll::Ready(read) => {
                this.pace.came(buffer.filled().len() - before, Instant::now());
                Poll::Ready(read)
            }
            Poll::Pending => {
                // Without a budget nothing was tried.
                if has_budget_remaining() {
                    this.drained(cx)?;
                }
                Poll::Pending
            }
        }
    }
}

/// Nothing is sent while events come, but for what TLS may have to say; the moment is over then.
impl AsyncWrite for Gathering {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().polled()?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().polled()?.poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket keeps nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().polled()?.poll_shutdown(cx)
    }
}

impl Connection for Gathering {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const PAUSE: Duration = Duration::from_millis(3);

    impl Gathering {
        fn is_aside(&self) -> bool {
            matches!(self.socket, Socket::Aside(..))
        }
    }

    /// A connection, and the server at its other end.
    async fn connected(pause: Duration) -> (Gathering, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("an address");
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Gathering::new(client.expect("a connection"), pause), server.expect("a connection").0)
    }

    async fn read(connection: &mut Gathering, count: usize) -> String {
        let mut read = vec![0; count];
        connection.read_exact(&mut read).await.expect("so many bytes");
        String::from_utf8(read).expect("text")
    }

    /// Has so much come that more will gather.
    async fn make_steady(connection: &mut Gathering, server: &mut TcpStream) {
        for _ in 0..100 {
            server.write_all(b"x").await.expect("open");
            read(connection, 1).await;
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
            if connection.is_aside() {
                return;
            }
        }
        panic!("it is not left alone");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_steadily_gathers_and_is_read_when_the_moment_is_over() {
        let (mut connection, mut server) = connected(PAUSE).await;
        make_steady(&mut connection, &mut server).await;
        for _ in 0..20 {
            let began = Instant::now();
            for byte in [b"a", b"b", b"c"] {
                server.write_all(byte).await.expect("open");
                assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending(), "it came early");
            }
            assert_eq!(read(&mut connection, 3).await, "abc");
            assert!(began.elapsed() >= PAUSE, "{:?}", began.elapsed());
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
            assert!(connection.is_aside());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_silence_is_read_at_once() {
        let (mut connection, mut server) = connected(PAUSE).await;
        make_steady(&mut connection, &mut server).await;
        let silence = tokio::time::timeout(Duration::from_secs(1), connection.read_u8());
        silence.await.expect_err("nothing is sent");
        assert!(!connection.is_aside());
        for _ in 0..4 {
            server.write_all(b"x").await.expect("open");
            let began = Instant::now();
            read(&mut connection, 1).await;
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn end_of_the_connection_is_seen_after_what_came_before_it() {
        let (mut connection, mut server) = connected(PAUSE).await;
        make_steady(&mut connection, &mut server).await;
        server.write_all(b"the end").await.expect("open");
        drop(server);
        let mut rest = String::new();
        connection.read_to_string(&mut rest).await.expect("no error");
        assert_eq!(rest, "the end");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_to_write_does_not_wait() {
        let (mut connection, mut server) = connected(PAUSE).await;
        make_steady(&mut connection, &mut server).await;
        let began = Instant::now();
        connection.write_all(b"ping").await.expect("open");
        let mut ping = [0; 4];
        server.read_exact(&mut ping).await.expect("open");
        assert_eq!((&ping, began.elapsed()), (b"ping", Duration::ZERO));
        server.write_all(b"pong").await.expect("open");
        assert_eq!(read(&mut connection, 4).await, "pong");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_pause_everything_is_read_at_once() {
        let (mut connection, mut server) = connected(Duration::ZERO).await;
        for _ in 0..100 {
            server.write_all(b"x").await.expect("open");
            read(&mut connection, 1).await;
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
            assert!(!connection.is_aside());
        }
    }
}

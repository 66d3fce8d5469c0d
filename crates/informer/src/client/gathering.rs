//! A connection that is left alone for a moment after it was read, while data comes over it steadily.
//!
//! An event that comes alone costs a controller more than one among others: a thread wakes up for it, and all
//! that it needs has left the processor's caches since the last one. So what comes steadily is left to gather in the kernel for
//! some milliseconds, as network cards do it with packets. When that is worth it, [`Pace`] decides.
//!
//! Not to read the connection would not be enough: the runtime would still be woken for everything that arrives. So
//! the socket is taken out of what the runtime polls, and read directly each time that a moment is over. When a moment has
//! brought nothing, it is put back; whatever arrives meanwhile is then reported as if it came at that time.

mod pace;

use std::future::Future as _;
use std::io::{self, IoSlice, Read as _};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

use pace::Pace;

/// A connection that may be left alone.
pub(super) struct Gathering {
    socket: Socket,
    pace: Pace,
    /// Whose timers and polling are used, whoever reads.
    runtime: Handle,
}

enum Socket {
    Polled(TcpStream),
    Aside(Aside),
    /// The runtime did not let go of it, or take it back.
    Lost,
}

/// A socket that the runtime does not poll.
struct Aside {
    socket: std::net::TcpStream,
    /// Rings when the moment is over.
    timer: Pin<Box<Sleep>>,
    reader: Waker,
}

impl Gathering {
    /// Leaves a socket alone for so long at a time, and up to a millisecond longer, as timers are; not at all, if that is zero.
    /// It has to be called in the runtime that polls the socket.
    pub(super) fn new(socket: TcpStream, moment: Duration) -> Self {
        let pace = Pace::new(moment, Instant::now());
        Self { socket: Socket::Polled(socket), pace, runtime: Handle::current() }
    }

    /// Reads it the next time when the moment is over.
    fn leave_alone(&mut self, until: Instant, reader: &Waker) -> io::Result<()> {
        if let Socket::Aside(aside) = &mut self.socket {
            aside.timer.as_mut().reset(until);
        } else if let Socket::Polled(socket) = mem::replace(&mut self.socket, Socket::Lost) {
            let _entered = self.runtime.enter();
            let (socket, timer) = (socket.into_std()?, Box::pin(sleep_until(until)));
            self.socket = Socket::Aside(Aside { socket, timer, reader: reader.clone() });
        }
        Ok(())
    }

    /// Has the runtime poll it again.
    fn attend(&mut self) -> io::Result<()> {
        self.socket = match mem::replace(&mut self.socket, Socket::Lost) {
            Socket::Aside(aside) => {
                let _entered = self.runtime.enter();
                Socket::Polled(TcpStream::from_std(aside.socket)?)
            }
            other => other,
        };
        Ok(())
    }

    /// Writes something. Who reads is told if the moment is over early, because nobody else would.
    fn write<T>(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Socket::Aside(aside) = &self.socket {
            let reader = aside.reader.clone();
            let attended = self.attend();
            reader.wake();
            attended?;
        }
        let Socket::Polled(socket) = &mut self.socket else { return Poll::Ready(Err(lost())) };
        let written = write(Pin::new(socket));
        self.pace.wrote(written.is_pending());
        written
    }
}

impl Aside {
    /// Reads what is there when the moment is over; `None` if that is nothing.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Option<io::Result<()>>> {
        self.reader.clone_from(cx.waker());
        // Also after it has rung, for the task's budget.
        ready!(self.timer.as_mut().poll(cx));
        let room = buffer.initialize_unfilled();
        let read = loop {
            match self.socket.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Poll::Ready(None);
                }
                read => break read,
            }
        };
        Poll::Ready(Some(read.map(|read| buffer.advance(read))))
    }
}

fn lost() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Gathering {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        loop {
            let (read, is_aside) = match &mut this.socket {
                Socket::Aside(aside) => (ready!(aside.poll_read(cx, buffer)), true),
                Socket::Polled(socket) => match Pin::new(socket).poll_read(cx, buffer) {
                    Poll::Ready(read) => (Some(read), false),
                    // The task's budget is spent, whatever is there; it is woken for the rest.
                    Poll::Pending if !has_budget_remaining() => return Poll::Pending,
                    Poll::Pending => (None, false),
                },
                Socket::Lost => return Poll::Ready(Err(lost())),
            };
            let now = Instant::now();
            if let Some(read) = read {
                this.pace.came(buffer.filled().len() - before, now);
                return Poll::Ready(read);
            }
            match this.pace.drained(now) {
                Some(until) => this.leave_alone(until, cx.waker())?,
                None if is_aside => this.attend()?,
                None => return Poll::Pending,
            }
        }
    }
}

/// While events come, nothing is sent but for what TLS may have to say.
impl AsyncWrite for Gathering {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(|socket| socket.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().write(|socket| socket.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket keeps nothing back.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().write(|socket| socket.poll_shutdown(cx))
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

    const MOMENT: Duration = Duration::from_millis(3);

    impl Gathering {
        fn is_aside(&self) -> bool {
            matches!(self.socket, Socket::Aside(..))
        }
    }

    /// A connection, and the server at its other end.
    async fn connected(moment: Duration) -> (Gathering, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("an address");
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        (Gathering::new(client.expect("a connection"), moment), server.expect("a connection").0)
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
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        for _ in 0..20 {
            let began = Instant::now();
            for byte in [b"a", b"b", b"c"] {
                server.write_all(byte).await.expect("open");
                assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
            }
            assert_eq!(read(&mut connection, 3).await, "abc");
            assert!(began.elapsed() >= MOMENT, "{:?}", began.elapsed());
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
            assert!(connection.is_aside());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_silence_is_read_at_once() {
        let (mut connection, mut server) = connected(MOMENT).await;
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
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        server.write_all(b"the end").await.expect("open");
        drop(server);
        let mut rest = String::new();
        connection.read_to_string(&mut rest).await.expect("no error");
        assert_eq!(rest, "the end");
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_to_write_does_not_wait() {
        let (mut connection, mut server) = connected(MOMENT).await;
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
    async fn who_reads_is_told_when_a_write_ends_the_moment() {
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        let (mut reader, mut writer) = tokio::io::split(connection);
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move { reader.read_u8().await });
        tokio::task::yield_now().await;
        writer.write_all(b"ping").await.expect("open");
        server.write_all(b"x").await.expect("open");
        let read = tokio::time::timeout(Duration::from_mins(1), tasks.join_next()).await;
        let read = read.expect("it is woken").expect("a task").expect("no panic");
        assert_eq!(read.expect("open"), b'x');
    }

    #[tokio::test(start_paused = true)]
    async fn reset_is_seen() {
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        server.set_zero_linger().expect("a socket");
        drop(server);
        let error = connection.read_u8().await.expect_err("it is reset");
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }

    /// Whether there was a byte, for somebody who is in no runtime.
    fn read_outside(connection: &mut Gathering) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let cx = &mut Context::from_waker(Waker::noop());
        Pin::new(connection)
            .poll_read(cx, &mut buffer)
            .map_err(|error| panic!("{error}"))
            .is_ready()
    }

    #[test]
    fn whoever_reads_need_not_be_in_the_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (mut connection, mut server) = runtime.block_on(connected(Duration::from_millis(20)));
        let mut times_alone = 0;
        // What comes soon depends on the machine, so it may take some time.
        while times_alone < 3 {
            runtime.block_on(server.write_all(b"x")).expect("open");
            while !read_outside(&mut connection) {
                runtime.block_on(tokio::task::yield_now());
            }
            assert!(!read_outside(&mut connection));
            times_alone += u32::from(connection.is_aside());
        }
        while connection.is_aside() {
            assert!(!read_outside(&mut connection));
            runtime.block_on(tokio::task::yield_now());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_moment_everything_is_read_at_once() {
        let (mut connection, mut server) = connected(Duration::ZERO).await;
        for _ in 0..100 {
            server.write_all(b"x").await.expect("open");
            read(&mut connection, 1).await;
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
            assert!(!connection.is_aside());
        }
    }
}

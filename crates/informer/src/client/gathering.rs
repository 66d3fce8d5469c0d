//! A connection that is left alone for a moment after it was read, while data comes over it steadily.
//!
//! An event that comes alone costs a controller more than one among others: a thread wakes up for it, and all
//! that it needs has left the processor's caches since the last one. So what comes steadily is left to gather in the kernel, as
//! network cards do it with packets: until it is enough, or some milliseconds are over. When that is worth it, and what is
//! enough, [`Pace`] decides.
//!
//! Not to read the connection would not do: the runtime would still be woken for everything that arrives. It is not below the
//! socket's [`Mark`]. What is there when the time is over is read without asking the runtime, which knows nothing of it.

mod mark;
mod pace;

use std::future::Future as _;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::coop::{has_budget_remaining, poll_proceed};
use tokio::time::{Instant, Sleep, sleep_until};

use mark::Mark;
use pace::{Alone, Pace};

/// A connection that may be left alone.
pub(super) struct Gathering {
    socket: TcpStream,
    pace: Pace,
    /// None where it is never left alone.
    gathers: Option<Gathers>,
}

/// What it takes to leave a socket alone.
struct Gathers {
    mark: Mark,
    /// Rings when the moment is over.
    timer: Pin<Box<Sleep>>,
    /// Whose timers are used, whoever reads.
    runtime: Handle,
}

impl Gathering {
    /// Leaves a socket alone for so long at most, and up to a millisecond longer, as timers are; not at all, if that is zero, or on
    /// a system that cannot do it. It has to be called in the runtime that polls the socket.
    pub(super) fn new(socket: TcpStream, moment: Duration) -> Self {
        let now = Instant::now();
        let mark = if moment.is_zero() { None } else { Mark::of(&socket).ok() };
        let moment = if mark.is_some() { moment } else { Duration::ZERO };
        let gathers = mark.map(|mark| Gathers {
            mark,
            timer: Box::pin(sleep_until(now)),
            runtime: Handle::current(),
        });
        Self { socket, pace: Pace::new(moment, now), gathers }
    }

    /// Reads what is there, if the socket is not left alone, or no longer; `None` if that is nothing.
    fn poll_once(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Option<io::Result<()>>> {
        match (Pin::new(&mut self.socket).poll_read(cx, buffer), &mut self.gathers) {
            (Poll::Ready(read), _) => Poll::Ready(Some(read)),
            // The task's budget is spent, whatever is there; it is woken for the rest.
            (Poll::Pending, _) if !has_budget_remaining() => Poll::Pending,
            (Poll::Pending, Some(gathers)) if gathers.mark.has_more() => {
                ready!(poll_proceed(cx)).made_progress();
                Poll::Ready(gathers.mark.read(buffer))
            }
            (Poll::Pending, Some(gathers)) if self.pace.is_alone() => {
                ready!(gathers.timer.as_mut().poll(cx));
                Poll::Ready(gathers.mark.read(buffer))
            }
            (Poll::Pending, _) => Poll::Ready(None),
        }
    }

    fn write<T>(
        &mut self,
        write: impl FnOnce(Pin<&mut TcpStream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.pace.wrote();
        write(Pin::new(&mut self.socket))
    }
}

impl Gathers {
    fn leave_alone(&mut self, alone: &Alone) {
        self.mark.raise(alone.enough);
        // A new one, because the runtime would wake up at the old time for one that is put off.
        let _entered = self.runtime.enter();
        self.timer.set(sleep_until(alone.until));
    }

    /// Has the runtime tell of everything that comes. Returns what has come before that, and was not told.
    fn attend(&mut self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        match self.mark.lower() {
            Ok(true) => self.mark.read(buffer),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
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
            let mut read = ready!(this.poll_once(cx, buffer));
            let now = Instant::now();
            if read.is_none()
                && let Some(gathers) = &mut this.gathers
            {
                if let Some(alone) = this.pace.drained(now) {
                    gathers.leave_alone(&alone);
                    continue;
                }
                read = gathers.attend(buffer);
            }
            let Some(read) = read else { return Poll::Pending };
            this.pace.came(buffer.filled().len() - before, now);
            return Poll::Ready(read);
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::task::Waker;

    use futures::poll;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(3);

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
            if connection.pace.is_alone() {
                return;
            }
        }
        panic!("it is not left alone");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_steadily_gathers_and_is_read_when_the_moment_is_over() {
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        let began = Instant::now();
        for byte in [b"a", b"b", b"c"] {
            server.write_all(byte).await.expect("open");
            assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
        }
        assert_eq!(read(&mut connection, 3).await, "abc");
        assert!(began.elapsed() >= MOMENT, "{:?}", began.elapsed());
        assert!(poll!(std::pin::pin!(connection.read_u8())).is_pending());
        assert!(connection.pace.is_alone());
    }

    /// Whether nothing is read, although the runtime had the time to tell of it.
    async fn is_pending(connection: &mut Gathering) -> bool {
        tokio::task::yield_now().await;
        poll!(std::pin::pin!(connection.read_u8())).is_pending()
    }

    /// Has so much come in every moment that it is expected.
    async fn expect(connection: &mut Gathering, server: &mut TcpStream, bytes: usize) {
        make_steady(connection, server).await;
        let text = vec![b'x'; bytes];
        for _ in 0..50 {
            tokio::time::sleep(MOMENT).await;
            server.write_all(&text).await.expect("open");
            read(connection, bytes).await;
            assert!(is_pending(connection).await);
            assert!(connection.pace.is_alone());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn enough_is_read_before_the_moment_is_over() {
        let (mut connection, mut server) = connected(MOMENT).await;
        expect(&mut connection, &mut server, 1_500).await;
        let began = Instant::now();
        server.write_all(&[b'x'; 800]).await.expect("open");
        assert!(is_pending(&mut connection).await);
        server.write_all(&[b'x'; 400]).await.expect("open");
        read(&mut connection, 1_200).await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn all_is_read_that_gathered_however_little_room_there_is() {
        let (mut connection, mut server) = connected(MOMENT).await;
        expect(&mut connection, &mut server, 15_000).await;
        server.write_all(&[b'x'; 4_000]).await.expect("open");
        assert!(is_pending(&mut connection).await);
        let began = Instant::now();
        read(&mut connection, 1_000).await;
        let rung = began.elapsed();
        assert!(rung >= MOMENT, "{rung:?}");
        read(&mut connection, 3_000).await;
        assert_eq!(began.elapsed(), rung);
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_before_the_mark_was_lowered_is_read_whatever_the_kernel_tells() {
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        server.write_all(b"abc").await.expect("open");
        assert!(is_pending(&mut connection).await);
        // As if all had been read, and something written. The runtime can tell nothing meanwhile.
        connection.pace = Pace::new(MOMENT, Instant::now());
        for byte in *b"abc" {
            match poll!(std::pin::pin!(connection.read_u8())) {
                Poll::Ready(read) => assert_eq!(read.expect("open"), byte),
                Poll::Pending => panic!("{byte} is not read"),
            }
        }
        assert!(!connection.pace.is_alone());
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_after_a_silence_is_read_at_once() {
        let (mut connection, mut server) = connected(MOMENT).await;
        make_steady(&mut connection, &mut server).await;
        let silence = tokio::time::timeout(Duration::from_secs(1), connection.read_u8());
        silence.await.expect_err("nothing is sent");
        assert!(!connection.pace.is_alone());
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
            times_alone += u32::from(connection.pace.is_alone());
        }
        while connection.pace.is_alone() {
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
            assert!(!connection.pace.is_alone());
        }
    }
}

//! How much has to arrive in a socket before anybody is woken for it: its low-water mark.

use std::io::{self, Read as _};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// A socket's mark.
pub(super) struct Mark {
    /// The same socket, to read what is below the mark: the runtime knows nothing of that.
    socket: std::net::TcpStream,
    bytes: u32,
    /// Whether the last reading took all that there was room for.
    has_more: bool,
}

impl Mark {
    /// Some systems take a mark and wake for less nevertheless, as gVisor does.
    ///
    /// # Errors
    /// If the system has none, or the process no descriptor left.
    #[cfg(target_os = "linux")]
    pub(super) fn of(socket: &TcpStream) -> io::Result<Self> {
        use std::os::fd::AsFd as _;

        let socket = std::net::TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        set(&socket, 1)?;
        Ok(Self { socket, bytes: 1, has_more: false })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: &TcpStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sets it to about so many bytes. A system may refuse that, and then wakes for less.
    pub(super) fn raise(&mut self, bytes: u32) {
        if self.bytes.abs_diff(bytes) > bytes / 8 && set(&self.socket, bytes).is_ok() {
            self.bytes = bytes;
        }
    }

    /// Everything wakes from now on. Returns whether something may be there that has not.
    ///
    /// # Errors
    /// If the system refuses it.
    pub(super) fn lower(&mut self) -> io::Result<bool> {
        let was_raised = self.bytes > 1;
        if was_raised {
            set(&self.socket, 1)?;
            self.bytes = 1;
        }
        Ok(was_raised)
    }

    /// Whether more may be there than the last reading had room for, of which the runtime does not tell.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Reads what is there, also below the mark; `None` if that is nothing.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let room = buffer.initialize_unfilled();
        let read = loop {
            match self.socket.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.has_more = read.as_ref().is_ok_and(|&read| read > 0 && read == room.len());
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            read => Some(read.map(|read| buffer.advance(read))),
        }
    }
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no crate that is in wide use has a safe function for this option")]
fn set(socket: &std::net::TcpStream, bytes: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let size = libc::socklen_t::try_from(size_of_val(&bytes)).expect("some bytes");
    // SAFETY: the descriptor is open, since the socket is borrowed, and so many bytes are read from the pointer, which is a
    // reference's.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            size,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn set(_: &std::net::TcpStream, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::Duration;

    use futures::poll;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    /// A socket, its mark, and the server at its other end.
    async fn marked() -> (TcpStream, Mark, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("an address");
        let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
        let client = client.expect("a connection");
        let mark = Mark::of(&client).expect("Linux has marks");
        (client, mark, server.expect("a connection").0)
    }

    /// What can be read at once into so much room.
    fn read(mark: &mut Mark, room: usize) -> Vec<u8> {
        let mut room = vec![0; room];
        let mut buffer = ReadBuf::new(&mut room);
        if let Some(read) = mark.read(&mut buffer) {
            read.expect("open");
        }
        buffer.filled().to_vec()
    }

    /// Reads so much that is not announced. On loopback it is there almost at once.
    async fn read_all(mark: &mut Mark, count: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < count {
            all.append(&mut read(mark, 100));
            tokio::task::yield_now().await;
        }
        all
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_below_the_mark_wakes_nobody_but_can_be_read() {
        let (client, mut mark, mut server) = marked().await;
        mark.raise(6);
        server.write_all(b"abc").await.expect("open");
        let readable = tokio::time::timeout(Duration::from_mins(1), client.readable());
        readable.await.expect_err("it is below the mark");
        server.write_all(b"def").await.expect("open");
        client.readable().await.expect("open");
        assert_eq!(read(&mut mark, 100), b"abcdef");

        server.write_all(b"ghi").await.expect("open");
        assert_eq!(read_all(&mut mark, 3).await, b"ghi");
        assert_eq!(read(&mut mark, 100), b"");
    }

    #[tokio::test]
    async fn everything_wakes_when_the_mark_is_lowered() {
        let (client, mut mark, mut server) = marked().await;
        assert!(!mark.lower().expect("a socket"), "it was not raised");
        mark.raise(1_000);
        assert!(mark.lower().expect("a socket"));
        let mut readable = std::pin::pin!(client.readable());
        assert!(poll!(readable.as_mut()).is_pending());
        server.write_all(b"x").await.expect("open");
        readable.await.expect("open");
        assert_eq!(read(&mut mark, 100), b"x");
    }

    #[tokio::test]
    async fn more_may_be_there_if_there_was_no_room() {
        let (client, mut mark, mut server) = marked().await;
        server.write_all(b"abcdefgh").await.expect("open");
        client.readable().await.expect("open");
        let read: Vec<_> = (0..4).map(|_| (read(&mut mark, 3), mark.has_more())).collect();
        let expected = [(&b"abc"[..], true), (b"def", true), (b"gh", false), (b"", false)];
        assert_eq!(read, expected.map(|(read, has_more)| (read.to_vec(), has_more)));
    }

    #[tokio::test]
    async fn mark_stays_where_it_is_for_about_the_same() {
        let (_client, mut mark, _server) = marked().await;
        let raised = [1_000, 1_100, 900, 1_200].map(|bytes| {
            mark.raise(bytes);
            mark.bytes
        });
        assert_eq!(raised, [1_000, 1_000, 1_000, 1_200]);
    }
}

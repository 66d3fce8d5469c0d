//! How much has to arrive in a socket before anybody is woken for it: its low-water mark.

use std::io::{self, Read as _};

use tokio::io::ReadBuf;
use tokio::net::TcpStream;

/// A socket's mark.
pub(super) struct Mark {
    /// The same socket, to read what is below the mark: the runtime knows nothing of that.
    socket: std::net::TcpStream,
    bytes: u32,
}

impl Mark {
    /// # Errors
    /// If the system has no marks that count for whoever polls.
    #[cfg(target_os = "linux")]
    pub(super) fn of(socket: &TcpStream) -> io::Result<Self> {
        use std::os::fd::AsFd as _;

        let socket = std::net::TcpStream::from(socket.as_fd().try_clone_to_owned()?);
        set(&socket, 1)?;
        Ok(Self { socket, bytes: 1 })
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: &TcpStream) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sets it to about so many bytes. A system may refuse that, and then wakes for less.
    pub(super) fn raise(&mut self, bytes: u32) {
        if self.bytes.abs_diff(bytes) > bytes / 4 && set(&self.socket, bytes).is_ok() {
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

    /// Reads what is there, also below the mark; `None` if that is nothing.
    pub(super) fn read(&mut self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        let room = buffer.initialize_unfilled();
        let read = loop {
            match self.socket.read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                read => break read,
            }
        };
        Some(read.map(|read| buffer.advance(read)))
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

    fn read(mark: &mut Mark) -> Vec<u8> {
        let mut room = [0; 100];
        let mut buffer = ReadBuf::new(&mut room);
        if let Some(read) = mark.read(&mut buffer) {
            read.expect("open");
        }
        buffer.filled().to_vec()
    }

    #[tokio::test]
    async fn what_is_below_the_mark_wakes_nobody_but_can_be_read() {
        let (client, mut mark, mut server) = marked().await;
        mark.raise(6);
        server.write_all(b"abc").await.expect("open");
        let readable =
            tokio::time::timeout(std::time::Duration::from_millis(20), client.readable());
        readable.await.expect_err("it is below the mark");
        server.write_all(b"def").await.expect("open");
        client.readable().await.expect("open");
        assert_eq!(read(&mut mark), b"abcdef");

        server.write_all(b"ghi").await.expect("open");
        assert_eq!(read(&mut mark), b"ghi");
        assert_eq!(read(&mut mark), b"");
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
        assert_eq!(read(&mut mark), b"x");
    }

    #[tokio::test]
    async fn mark_stays_where_it_is_for_about_the_same() {
        let (_client, mut mark, _server) = marked().await;
        let raised = [1_000, 1_200, 900, 1_400].map(|bytes| {
            mark.raise(bytes);
            mark.bytes
        });
        assert_eq!(raised, [1_000, 1_000, 1_000, 1_400]);
    }
}

//! One request and its answer, by HTTP/1.1, over a connection of their own.
//!
//! hyper would do it with a task for the connection, which hands each chunk to the reader's task and then waits to be
//! asked for the next. Here the reader reads the connection itself, and gets the chunks that have arrived as one piece. There is
//! nothing else to a connection that carries a single answer: it is dropped with the body.
//!
//! It is for answers as the API server gives them. What is compressed, or switches to another protocol, is refused.

mod chunked;
mod head;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Frame;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio_util::io::poll_read_buf;

use chunked::Chunked;

/// How much is read at once: as much as one record of TLS can hold.
const READ: usize = 16 << 10;

/// What the head of an answer may take.
const HEAD_MAX: usize = 64 << 10;

/// Why there is no answer, or not all of it.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeError {
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(#[from] io::Error),
    /// It was closed before the answer was complete. By its source kube tells that the request can be made again.
    #[error("the server closed the connection before the end of its answer")]
    Closed(#[source] io::Error),
    /// The head of the answer is none.
    #[error("the answer of the server cannot be read: {0}")]
    Unreadable(#[from] httparse::Error),
    /// It is not as the API server answers.
    #[error("the answer of the server cannot be read: {0}")]
    Malformed(&'static str),
}

/// The body of an answer, read by whoever polls it.
pub(super) struct Incoming<C> {
    connection: C,
    /// What has arrived and was not passed on.
    arrived: BytesMut,
    extent: Extent,
}

/// How far a body goes.
#[derive(Debug, PartialEq, Eq)]
enum Extent {
    /// It comes in chunks, and the last one is empty.
    Chunked(Chunked),
    /// So many bytes are left.
    Length(u64),
    /// Until the server closes the connection.
    Close,
}

/// Sends a request that has no body, and waits for the head of its answer.
pub(super) async fn exchange<C>(
    mut connection: C,
    request: &Request<()>,
) -> Result<Response<Incoming<C>>, ExchangeError>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    connection.write_all(&head::of(request)).await?;
    connection.flush().await?;
    let mut arrived = BytesMut::with_capacity(READ);
    let (response, extent) = loop {
        if let Some(answer) = head::parse(&mut arrived)? {
            break answer;
        }
        if arrived.len() >= HEAD_MAX {
            return Err(ExchangeError::Malformed("its head has no end"));
        }
        arrived.reserve(READ);
        if connection.read_buf(&mut arrived).await? == 0 {
            return Err(ExchangeError::closed());
        }
    };
    tracing::debug!(status = response.status().as_u16(), path = request.uri().path(), "answered");
    Ok(response.map(|()| Incoming { connection, arrived, extent }))
}

impl ExchangeError {
    fn closed() -> Self {
        Self::Closed(io::ErrorKind::UnexpectedEof.into())
    }
}

impl Extent {
    const NOTHING: Self = Self::Length(0);

    fn is_complete(&self) -> bool {
        match self {
            Self::Chunked(chunked) => chunked.is_complete(),
            Self::Length(left) => *left == 0,
            Self::Close => false,
        }
    }

    /// What is wrong with it, if something is.
    fn problem(&self) -> Option<ExchangeError> {
        let Self::Chunked(chunked) = self else { return None };
        chunked.problem().map(ExchangeError::Malformed)
    }

    /// Takes what has arrived, without what only frames it. What comes after the end is not ours.
    fn take(&mut self, arrived: &mut BytesMut) -> Bytes {
        let length = match self {
            Self::Chunked(chunked) => chunked.unframe(arrived),
            Self::Length(left) => {
                let length =
                    usize::try_from(*left).map_or(arrived.len(), |left| left.min(arrived.len()));
                *left -= length as u64;
                length
            }
            Self::Close => arrived.len(),
        };
        arrived.truncate(length);
        arrived.split().freeze()
    }
}

impl<C: AsyncRead + Unpin> http_body::Body for Incoming<C> {
    type Data = Bytes;
    type Error = ExchangeError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ExchangeError>>> {
        let this = self.get_mut();
        let read = ready!(this.poll_read(cx));
        if matches!(read, None | Some(Err(_))) {
            // Nothing may be read of a connection that is out of step.
            this.extent = Extent::NOTHING;
        }
        Poll::Ready(read.map(|read| read.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.extent.is_complete()
    }
}

impl<C: AsyncRead + Unpin> Incoming<C> {
    /// The next piece; `None` at the end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ExchangeError>>> {
        loop {
            if !self.arrived.is_empty() {
                let piece = self.extent.take(&mut self.arrived);
                if !piece.is_empty() {
                    return Poll::Ready(Some(Ok(piece)));
                }
            }
            if let Some(problem) = self.extent.problem() {
                return Poll::Ready(Some(Err(problem)));
            }
            if self.extent.is_complete() {
                return Poll::Ready(None);
            }
            // The room of the last piece is taken again when its reader has dropped it.
            self.arrived.reserve(READ);
            let read = ready!(poll_read_buf(Pin::new(&mut self.connection), cx, &mut self.arrived));
            match read {
                Ok(0) if self.extent == Extent::Close => return Poll::Ready(None),
                Ok(0) => return Poll::Ready(Some(Err(ExchangeError::closed()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::BodyExt as _;
    use tokio::io::{join, sink};
    use tokio_util::io::StreamReader;

    use super::*;

    /// Asks a server that says `answer`, in pieces of `size` bytes, and then closes the connection.
    async fn ask(
        answer: &'static [u8],
        size: usize,
    ) -> Result<Response<Incoming<impl AsyncRead + AsyncWrite + Unpin>>, ExchangeError> {
        let pieces = stream::iter(answer.chunks(size).map(io::Result::Ok));
        let request = Request::get("http://server/api/v1/pods?watch=true").body(()).expect("valid");
        exchange(join(StreamReader::new(pieces), sink()), &request).await
    }

    /// The body of such an answer.
    async fn body(answer: &'static [u8], size: usize) -> Result<String, ExchangeError> {
        let collected = ask(answer, size).await?.into_body().collect().await?;
        Ok(String::from_utf8(collected.to_bytes().to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn body_is_read_however_it_is_framed_and_in_any_pieces() {
        let answers: [&[u8]; 4] = [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\none tw\r\n7;x=y\r\no three\r\n0\r\nX: y\r\n\r\nrest",
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\none two threerest",
            b"HTTP/1.1 200 OK\r\n\r\none two three",
            b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200\r\n\r\none two three",
        ];
        for answer in answers {
            for size in [1, 2, 3, 7, 1000] {
                let text = body(answer, size).await.expect("a body");
                assert_eq!(text, "one two three", "of {:?}", String::from_utf8_lossy(answer));
            }
        }
    }

    #[tokio::test]
    async fn refusal_has_its_status_headers_and_body() {
        let answer: &[u8] =
            b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}";
        let response = ask(answer, 1000).await.expect("an answer");
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "7");
        assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "{}");
    }

    #[tokio::test]
    async fn answer_that_is_cut_is_an_error() {
        let answers: [&[u8]; 5] = [
            b"",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\none",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\none",
        ];
        for answer in answers {
            let error = body(answer, 1000).await.expect_err("it is cut");
            let ExchangeError::Closed(cause) = error else { panic!("{error}") };
            assert_eq!(cause.kind(), io::ErrorKind::UnexpectedEof);
        }
    }

    #[tokio::test]
    async fn answer_that_is_none_is_an_error_and_nothing_follows_it() {
        let endless = Box::leak(vec![b'x'; 2 * HEAD_MAX].into_boxed_slice());
        endless[..17].copy_from_slice(b"HTTP/1.1 200 OK\r\n");
        let error = body(b"220 mail.example.com ESMTP\r\n\r\n", 1000).await.expect_err("no HTTP");
        assert_eq!(
            error.to_string(),
            "the answer of the server cannot be read: invalid HTTP version"
        );
        let answers: [&'static [u8]; 8] = [
            endless,
            b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\none",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\none",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        ];
        for answer in answers {
            let error = body(answer, 1000).await.expect_err("it is no answer");
            assert!(matches!(error, ExchangeError::Malformed(_)), "{error}");
        }
        let chunks: &[u8] =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\nno chunk\r\n";
        let mut body = ask(chunks, 1000).await.expect("a head").into_body();
        let first = body.frame().await.expect("a piece").expect("it is whole");
        assert_eq!(first.into_data().expect("data"), "one");
        body.frame().await.expect("an error").expect_err("it is no chunk");
        assert!(body.frame().await.is_none());
    }

    /// Pieces that are kept, and room of those that are not, which is read into again.
    #[tokio::test]
    async fn long_body_comes_as_it_was_sent_whichever_pieces_are_kept() {
        let mut answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        let mut sent = Vec::new();
        for length in (1..200).map(|number| number * 7_919 % 3_001 + 1) {
            let data: Vec<u8> = (b'a'..=b'z').cycle().take(length).collect();
            answer.extend_from_slice(format!("{length:x}\r\n").as_bytes());
            answer.extend_from_slice(&data);
            answer.extend_from_slice(b"\r\n");
            sent.extend_from_slice(&data);
        }
        answer.extend_from_slice(b"0\r\n\r\n");
        let answer: &'static [u8] = answer.leak();
        for (size, keeps) in [(1_000, 1), (20_000, 3), (100_000, 2), (1_000_000, 100)] {
            let mut body = ask(answer, size).await.expect("a head").into_body();
            let (mut read, mut kept) = (Vec::new(), Vec::new());
            for number in 1.. {
                let Some(frame) = body.frame().await else { break };
                let piece = frame.expect("no error").into_data().expect("data");
                let start = read.len();
                read.extend_from_slice(&piece);
                if number % keeps == 0 {
                    kept.push((start, piece));
                }
            }
            assert!(read == sent, "in pieces of {size}");
            assert!(kept.iter().all(|(start, piece)| sent[*start..].starts_with(piece)));
        }
    }

    #[tokio::test]
    async fn answers_without_a_body_are_complete() {
        let response = ask(b"HTTP/1.1 204 No Content\r\n\r\n", 1000).await.expect("an answer");
        assert!(http_body::Body::is_end_stream(response.body()));
    }
}

//! A connection together with what is known of its peer, which every call over it is told, and with what lasts as long as it
//! does and may end it. Must not know what travels over it, nor who a peer is.

use super::peer::Visitor;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::DropGuard;
use tonic::transport::server::Connected;

/// What lasts as long as a connection.
pub(super) trait Held: Unpin {
    /// Whether the connection may go on. Asked before each read and write, since a peer that takes nothing is not read from
    /// either; wakes whoever reads or writes when that changes.
    fn may_go_on(&mut self, _cx: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }

    /// So many bytes were read.
    fn heard(&mut self, _bytes: usize) {}

    /// Something was written.
    fn answered(&mut self) {}

    /// What was to be written is.
    fn taken(&mut self) {}

    /// Nothing can be written now. Whether that may go on; wakes the writer when that changes.
    fn untaken(&mut self, _cx: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }
}

impl Held for DropGuard {}

/// A connection over `stream`.
pub(super) struct Connection<S, H> {
    stream: S,
    visitor: Visitor,
    held: H,
}

impl<S, H> Connection<S, H> {
    /// Over `stream`, whose other end is `visitor`. `held` is dropped with it.
    pub(super) fn new(stream: S, visitor: Visitor, held: H) -> Connection<S, H> {
        Connection { stream, visitor, held }
    }
}

impl<S, H: Held> Connection<S, H> {
    // What came of writing, unless it has waited for its peer for too long.
    fn wrote<T>(&mut self, cx: &mut Context<'_>, came: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &came {
            Poll::Ready(_) => self.held.taken(),
            Poll::Pending => self.held.untaken(cx)?,
        }
        came
    }
}

impl<S, H> Connected for Connection<S, H> {
    type ConnectInfo = Visitor;

    fn connect_info(&self) -> Visitor {
        self.visitor.clone()
    }
}

impl<S: AsyncRead + Unpin, H: Held> AsyncRead for Connection<S, H> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.held.may_go_on(cx)?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.held.heard(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin, H: Held> AsyncWrite for Connection<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.held.may_go_on(cx)?;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if written.is_ready() {
            self.held.answered();
        }
        self.wrote(cx, written)
    }

    // Frames of HTTP/2 are heads and bodies: together they are one call of the kernel.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.held.may_go_on(cx)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if written.is_ready() {
            self.held.answered();
        }
        self.wrote(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.held.may_go_on(cx)?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.wrote(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.held.may_go_on(cx)?;
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::super::peer::PeerInfo;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn what_lies_in_several_places_is_written_at_once() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let visitor = Visitor::alone(ours.peer());
        let mut connection = Connection::new(ours, visitor, CancellationToken::new().drop_guard());
        assert!(connection.is_write_vectored());
        let written = connection.write_vectored(&[IoSlice::new(b"head "), IoSlice::new(b"and body")]).await.unwrap();
        assert_eq!(written, 13);
        drop(connection);
        let mut read = String::new();
        theirs.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "head and body");
    }
}

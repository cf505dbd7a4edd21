//! A connection with the information about its peer that every call over it receives, and with hooks that observe it
//! and may end it.

use super::peer::ConnectionInfo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::DropGuard;
use tonic::transport::server::Connected;

/// Observes a connection and lives as long as it does.
pub(super) trait ConnectionHooks: Unpin {
    /// Fails when the connection has to end. Called before each read and write, since the transport does not read from
    /// a peer that reads nothing; wakes the reader or writer when the result changes.
    fn check_open(&mut self, _cx: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }

    /// `bytes` were read.
    fn on_read(&mut self, _bytes: usize) {}

    /// Bytes were written.
    fn on_write(&mut self) {}

    /// The pending write made progress.
    fn on_write_ready(&mut self) {}

    /// The pending write is blocked. Fails when it has been for too long; wakes the writer when the result changes.
    fn on_write_blocked(&mut self, _cx: &mut Context<'_>) -> io::Result<()> {
        Ok(())
    }
}

impl ConnectionHooks for DropGuard {}

/// A connection over `stream` with its hooks.
pub(super) struct Connection<S, H> {
    stream: S,
    info: ConnectionInfo,
    hooks: H,
}

impl<S, H> Connection<S, H> {
    /// Wraps `stream`. `hooks` is dropped with the connection.
    pub(super) fn new(stream: S, info: ConnectionInfo, hooks: H) -> Connection<S, H> {
        Connection { stream, info, hooks }
    }
}

impl<S, H: ConnectionHooks> Connection<S, H> {
    // Passes on the result of a write, or an error when the peer has blocked writes for too long.
    fn check_write<T>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &result {
            Poll::Ready(_) => self.hooks.on_write_ready(),
            Poll::Pending => self.hooks.on_write_blocked(cx)?,
        }
        result
    }
}

impl<S, H> Connected for Connection<S, H> {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl<S: AsyncRead + Unpin, H: ConnectionHooks> AsyncRead for Connection<S, H> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.hooks.check_open(cx)?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.hooks.on_read(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin, H: ConnectionHooks> AsyncWrite for Connection<S, H> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.hooks.check_open(cx)?;
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        if written.is_ready() {
            self.hooks.on_write();
        }
        self.check_write(cx, written)
    }

    // An HTTP/2 frame is a head and a body: a vectored write sends both in one system call.
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.hooks.check_open(cx)?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        if written.is_ready() {
            self.hooks.on_write();
        }
        self.check_write(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.hooks.check_open(cx)?;
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.check_write(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.hooks.check_open(cx)?;
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.check_write(cx, shut)
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
    async fn writes_several_buffers_at_once() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let info = ConnectionInfo::single(ours.peer());
        let mut connection = Connection::new(ours, info, CancellationToken::new().drop_guard());
        assert!(connection.is_write_vectored());
        let written = connection.write_vectored(&[IoSlice::new(b"head "), IoSlice::new(b"and body")]).await.unwrap();
        assert_eq!(written, 13);
        drop(connection);
        let mut read = String::new();
        theirs.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, "head and body");
    }
}

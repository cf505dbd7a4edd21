//! Notices that nothing can be written to the client any more, at once and not with the next line of input. Must not know what
//! is written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use tokio::sync::watch;

/// A writer that tells of its first error.
pub(crate) struct WatchedOutput<W> {
    inner: W,
    failed: watch::Sender<Option<io::ErrorKind>>,
}

/// Becomes true when the output has failed.
pub(crate) struct EndOfOutput(watch::Receiver<Option<io::ErrorKind>>);

impl EndOfOutput {
    /// Wraps `inner`.
    pub(crate) fn watch<W>(inner: W) -> (WatchedOutput<W>, EndOfOutput) {
        let (failed, end) = watch::channel(None);
        (WatchedOutput { inner, failed }, EndOfOutput(end))
    }

    /// Waits for the first error.
    pub(crate) async fn come(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            // The writer is gone without one.
            std::future::pending::<()>().await;
        }
    }

    /// The error, but of a client that has gone, which is its right.
    pub(crate) fn cause(&self) -> Option<io::Error> {
        self.0.borrow().filter(|kind| *kind != io::ErrorKind::BrokenPipe).map(io::Error::from)
    }
}

impl<W> WatchedOutput<W> {
    fn heed<T>(&self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &done {
            self.failed.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert(error.kind());
                is_first
            });
        }
        done
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WatchedOutput<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.heed(done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(cx);
        self.heed(done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.heed(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// A disk without room.
    struct Full;

    impl AsyncWrite for Full {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::StorageFull.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn the_first_error_is_told_unless_the_client_has_gone() {
        let (mut output, mut end) = EndOfOutput::watch(Full);
        assert!(end.cause().is_none());
        output.write_all(b"one").await.unwrap_err();
        end.come().await;
        assert_eq!(end.cause().unwrap().kind(), io::ErrorKind::StorageFull);
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        drop(theirs);
        let (mut output, mut end) = EndOfOutput::watch(ours);
        output.write_all(b"one").await.unwrap_err();
        end.come().await;
        assert!(end.cause().is_none());
    }
}

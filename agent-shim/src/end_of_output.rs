//! Detects that stdout can no longer be written, at once rather than with the next line of input.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use tokio::sync::watch;

/// A writer that signals its first error.
pub(crate) struct WatchedOutput<W> {
    inner: W,
    failed: watch::Sender<Option<io::ErrorKind>>,
}

/// Receives the first error of the output.
pub(crate) struct EndOfOutput(watch::Receiver<Option<io::ErrorKind>>);

impl EndOfOutput {
    /// Wraps `inner`.
    pub(crate) fn watch<W>(inner: W) -> (WatchedOutput<W>, EndOfOutput) {
        let (failed, end) = watch::channel(None);
        (WatchedOutput { inner, failed }, EndOfOutput(end))
    }

    /// Waits for the first error.
    pub(crate) async fn wait(&mut self) {
        if self.0.wait_for(Option::is_some).await.is_err() {
            // The writer was dropped without an error.
            std::future::pending::<()>().await;
        }
    }

    /// The first error, except a broken pipe: a client may leave at any time.
    pub(crate) fn error(&self) -> Option<io::Error> {
        self.0.borrow().filter(|kind| *kind != io::ErrorKind::BrokenPipe).map(io::Error::from)
    }
}

impl<W> WatchedOutput<W> {
    fn record_error<T>(&self, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
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
        self.record_error(done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_flush(cx);
        self.record_error(done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.record_error(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// A full disk.
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
    async fn reports_the_first_error_except_a_broken_pipe() {
        let (mut output, mut end) = EndOfOutput::watch(Full);
        assert!(end.error().is_none());
        output.write_all(b"one").await.unwrap_err();
        end.wait().await;
        assert_eq!(end.error().unwrap().kind(), io::ErrorKind::StorageFull);
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        drop(theirs);
        let (mut output, mut end) = EndOfOutput::watch(ours);
        output.write_all(b"one").await.unwrap_err();
        end.wait().await;
        assert!(end.error().is_none());
    }
}

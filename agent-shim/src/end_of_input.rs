//! Detects that the client has closed stdin, at once rather than after the calls in flight have ended.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;

/// A reader that signals its end.
pub(crate) struct WatchedInput<R> {
    inner: R,
    // Dropped at the end of input or at the first error.
    open: Option<watch::Sender<()>>,
}

/// Receives the signal that the input has ended.
pub(crate) struct EndOfInput(watch::Receiver<()>);

impl EndOfInput {
    /// Wraps `inner`.
    pub(crate) fn watch<R>(inner: R) -> (WatchedInput<R>, EndOfInput) {
        let (open, closed) = watch::channel(());
        (WatchedInput { inner, open: Some(open) }, EndOfInput(closed))
    }

    /// Waits for the end of the input, then for `grace`.
    pub(crate) async fn wait_with_grace(mut self, grace: Duration) {
        // Nothing is ever sent: the loop ends when the sender is dropped.
        while self.0.changed().await.is_ok() {}
        tokio::time::sleep(grace).await;
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedInput<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let ended = match &polled {
            Poll::Pending => false,
            Poll::Ready(Ok(())) => buf.filled().len() == before && buf.remaining() > 0,
            Poll::Ready(Err(_)) => true,
        };
        if ended {
            self.open = None;
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn signals_the_end_when_it_is_read() {
        let (mut input, end) = EndOfInput::watch(&b"one"[..]);
        let mut text = String::new();
        assert_eq!(input.read_to_string(&mut text).await.unwrap(), 3);
        end.wait_with_grace(Duration::ZERO).await;
    }
}

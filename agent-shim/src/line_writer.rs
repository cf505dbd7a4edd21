//! Writes whole lines, one after the other, from futures that run at the same time.

use std::io;
use std::sync::Arc;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;

/// A writer of lines. Clones share the output.
pub(crate) struct LineWriter<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for LineWriter<W> {
    fn clone(&self) -> Self {
        LineWriter(self.0.clone())
    }
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    pub(crate) fn new(output: W) -> LineWriter<W> {
        LineWriter(Arc::new(Mutex::new(Some(output))))
    }

    /// Writes these bytes, which end in a line end, if there are any.
    pub(crate) async fn write(self, bytes: Vec<u8>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut output = self.0.lock().await;
        let output = output.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        output.write_all(&bytes).await?;
        output.flush().await
    }

    /// Closes the output.
    pub(crate) async fn close(&self) {
        self.0.lock().await.take();
    }
}

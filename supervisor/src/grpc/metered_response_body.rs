//! The response body: counts its bytes until the peer has read them. The transport polls a body for its next bytes
//! before it knows that the peer wants them, and keeps them for as long as the peer likes; so the bytes carry their own
//! count, which ends when the last of them is dropped. Large answers are handed over in pieces, and the rest is dropped
//! after a time.

use super::status;
use crate::tenants::allowance::{Gauge, Reservation};
use http_body::{Body as HttpBody, Frame};
use proctor_core::bounds::{ANSWER_READ_TIMEOUT, UNREAD_BYTES_MAX};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::HeaderMap;

/// Largest piece handed over at once. A peer can keep four of them for as long as its connection lasts.
const PIECE_BYTES: usize = 128 * 1_024;

/// A response body with counted bytes.
pub(super) struct MeteredResponseBody {
    body: Body,
    unread: Arc<Gauge>,
    /// Pieces of a frame that was too large to hand over at once.
    pieces: Option<Pieces>,
    over: bool,
    /// Reservation of the call until its response is read.
    _call: Option<Reservation>,
}

struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    left: usize,
}

/// Bytes with their reservation.
struct CountedBytes {
    bytes: Bytes,
    _reservation: Reservation,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

// All the bytes stay counted while any slice of them exists.
fn counted(bytes: Bytes, reservation: Reservation) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _reservation: reservation })
}

impl MeteredResponseBody {
    pub(super) fn new(body: Body, unread: Arc<Gauge>, call: Option<Reservation>) -> MeteredResponseBody {
        MeteredResponseBody { body, unread, pieces: None, over: false, _call: call }
    }

    // Ends the body with `status` in its trailers.
    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.over = true;
        self.pieces = None;
        self.body = Body::empty();
        let mut trailers = HeaderMap::new();
        if status.add_header(&mut trailers).is_err() {
            tracing::error!(%status, "a status could not be encoded in headers");
        }
        Frame::trailers(trailers)
    }

    fn hand_over(&mut self, bytes: Bytes) -> Option<Frame<Bytes>> {
        let Some(reservation) = self.unread.try_add(bytes.len() as u64, UNREAD_BYTES_MAX) else {
            return Some(self.end(&status::too_much_unread()));
        };
        let (len, bytes) = (bytes.len(), counted(bytes, reservation));
        if len <= PIECE_BYTES {
            return Some(Frame::data(bytes));
        }
        // One piece waits while the transport holds another.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(timeout(ANSWER_READ_TIMEOUT, send_pieces(bytes, Arc::clone(&self.unread), sender)));
        self.pieces = Some(Pieces { receiver, left: len });
        None
    }
}

// Copies each piece, since a slice would keep all the bytes alive. The copies exceed the bound by a piece or two.
async fn send_pieces(mut bytes: Bytes, unread: Arc<Gauge>, pieces: mpsc::Sender<Bytes>) {
    while !bytes.is_empty() {
        let Ok(slot) = pieces.reserve().await else { return };
        let piece = Bytes::copy_from_slice(&bytes.split_to(PIECE_BYTES.min(bytes.len())));
        let reservation = unread.add(piece.len() as u64);
        slot.send(counted(piece, reservation));
    }
}

impl HttpBody for MeteredResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        loop {
            if let Some(Pieces { receiver, left }) = &mut self.pieces {
                match ready!(receiver.poll_recv(cx)) {
                    Some(piece) => {
                        *left -= piece.len();
                        return Poll::Ready(Some(Ok(Frame::data(piece))));
                    }
                    None if *left == 0 => self.pieces = None,
                    None => return Poll::Ready(Some(Ok(self.end(&status::response_unread(ANSWER_READ_TIMEOUT))))),
                }
            }
            if self.over {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => {
                        if let Some(frame) = self.hand_over(bytes) {
                            return Poll::Ready(Some(Ok(frame)));
                        }
                    }
                    Err(mut other) => {
                        if let Some(trailers) = other.trailers_mut() {
                            status::add_missing_reason(trailers);
                        }
                        return Poll::Ready(Some(Ok(other)));
                    }
                },
                end => return Poll::Ready(end),
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over || (self.pieces.is_none() && self.body.is_end_stream())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::poll_fn;
    use futures_util::{FutureExt, stream};
    use std::time::Duration;
    use tokio::time::advance;
    use tokio_stream::Stream;
    use tonic::Code;
    use tonic_types::StatusExt;

    struct StreamBody<S>(S);

    impl<S: Stream<Item = Bytes> + Unpin> HttpBody for StreamBody<S> {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Pin::new(&mut self.0).poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    // A response whose body yields frames of these sizes.
    fn response(unread: &Arc<Gauge>, sizes: &'static [usize]) -> MeteredResponseBody {
        let bytes = sizes.iter().enumerate().map(|(byte, size)| vec![u8::try_from(byte).unwrap(); *size].into());
        MeteredResponseBody::new(Body::new(StreamBody(stream::iter(bytes))), Arc::clone(unread), None)
    }

    async fn next(body: &mut MeteredResponseBody) -> Option<Frame<Bytes>> {
        poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await.transpose().unwrap()
    }

    fn quota(frame: Frame<Bytes>) -> String {
        let status = Status::from_header_map(frame.trailers_ref().unwrap()).unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.get_details_retry_info().is_some());
        status.get_details_error_info().unwrap().metadata["quota"].clone()
    }

    #[tokio::test]
    async fn sends_the_same_bytes_in_pieces_and_counts_them_until_they_are_dropped() {
        const SIZES: [usize; 4] = [10, PIECE_BYTES * 3 + 1, 0, PIECE_BYTES];
        let unread = Arc::default();
        let mut answer = response(&unread, &SIZES);
        let mut pieces = Vec::new();
        while let Some(frame) = next(&mut answer).await {
            pieces.push(frame.into_data().unwrap());
        }
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE_BYTES));
        let whole: Vec<u8> = pieces.iter().flatten().copied().collect();
        let expected: Vec<u8> = (0..).zip(SIZES).flat_map(|(byte, size)| vec![byte; size]).collect();
        assert!(whole == expected, "{} of {}", whole.len(), expected.len());
        drop(answer);
        assert_eq!(unread.now(), expected.len() as u64, "the transport still holds them");
        let part = pieces.swap_remove(0).split_to(1);
        drop(pieces);
        assert_eq!(unread.now(), 10, "a slice keeps all of its bytes");
        drop(part);
        assert_eq!(unread.now(), 0);
    }

    #[tokio::test]
    async fn a_peer_that_reads_nothing_gets_no_more_than_its_bound() {
        let unread = Arc::default();
        let kept = Gauge::try_add(&unread, UNREAD_BYTES_MAX - 15, UNREAD_BYTES_MAX);
        let mut one = response(&unread, &[10, 10]);
        let frame = next(&mut one).await.unwrap();
        assert_eq!(quota(next(&mut one).await.unwrap()), "answer_bytes");
        assert!(one.is_end_stream() && next(&mut one).await.is_none());
        drop(frame);
        let mut other = response(&unread, &[10]);
        assert!(next(&mut other).await.unwrap().is_data());
        drop(kept);
    }

    #[tokio::test(start_paused = true)]
    async fn drops_the_rest_of_an_unread_answer_after_the_timeout() {
        let unread = Arc::default();
        let mut answer = response(&unread, &[PIECE_BYTES * 100]);
        let first = next(&mut answer).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(unread.now(), (PIECE_BYTES * 102) as u64, "the whole answer, one piece read and one waiting");
        advance(ANSWER_READ_TIMEOUT + Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
        assert_eq!(unread.now(), (PIECE_BYTES * 2) as u64);
        drop(first);
        assert!(next(&mut answer).await.unwrap().is_data());
        assert_eq!(quota(next(&mut answer).await.unwrap()), "answer_time");
        assert!(next(&mut answer).now_or_never().unwrap().is_none());
        assert_eq!(unread.now(), 0);
    }

    #[tokio::test]
    async fn dropping_a_response_releases_its_bytes() {
        let unread = Arc::default();
        let mut answer = response(&unread, &[PIECE_BYTES * 9]);
        assert!(next(&mut answer).await.is_some());
        drop(answer);
        while unread.now() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

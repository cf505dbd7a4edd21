//! The body of an answer on its way out: counted until its peer has taken it. The transport asks a body for its next bytes before
//! it knows that the peer wants them, and keeps them for as long as the peer pleases; so bytes carry their own count, which ends
//! when the last of them is gone, and what is large is handed over in pieces, while the rest is not kept for ever. Must not know
//! what is in it.

use super::status;
use crate::tenants::allowance::{Gauge, Reservation, UNTAKEN_BYTES_MAX};
use http_body::{Body as HttpBody, Frame};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Bytes;
use tonic::codegen::http::HeaderMap;

/// Bytes that are handed over at once. It is what a peer can have kept for as long as its connection lasts, four times over.
const PIECE: usize = 128 * 1_024;

/// How long what is larger may take to be taken: the largest answer is within it at 2 Mbit/s.
const TAKING: Duration = Duration::from_secs(300);

/// A body whose bytes are counted.
pub(super) struct Answer {
    body: Body,
    untaken: Arc<Gauge>,
    /// The rest of what the body gave at once.
    pieces: Option<Pieces>,
    over: bool,
    /// What the call counts as for as long as its answer lasts.
    _call: Option<Reservation>,
}

struct Pieces {
    receiver: mpsc::Receiver<Bytes>,
    left: usize,
}

/// Bytes together with their count.
struct Weighed {
    bytes: Bytes,
    _counted: Reservation,
}

impl AsRef<[u8]> for Weighed {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

// As long as any part of them is anywhere, all of them are counted.
fn weighed(bytes: Bytes, counted: Reservation) -> Bytes {
    Bytes::from_owner(Weighed { bytes, _counted: counted })
}

impl Answer {
    pub(super) fn new(body: Body, untaken: Arc<Gauge>, call: Option<Reservation>) -> Answer {
        Answer { body, untaken, pieces: None, over: false, _call: call }
    }

    // The end, in the place of what would have come.
    fn end(&mut self, status: &Status) -> Frame<Bytes> {
        self.over = true;
        self.pieces = None;
        self.body = Body::empty();
        let mut trailers = HeaderMap::new();
        if status.add_header(&mut trailers).is_err() {
            tracing::error!(%status, "a status that is no header");
        }
        Frame::trailers(trailers)
    }

    fn hand_over(&mut self, bytes: Bytes) -> Option<Frame<Bytes>> {
        let Some(counted) = self.untaken.add_within(bytes.len() as u64, UNTAKEN_BYTES_MAX) else {
            return Some(self.end(&status::too_much_untaken()));
        };
        let (len, bytes) = (bytes.len(), weighed(bytes, counted));
        if len <= PIECE {
            return Some(Frame::data(bytes));
        }
        // One piece waits while the transport has another.
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(timeout(TAKING, hand_out(bytes, Arc::clone(&self.untaken), sender)));
        self.pieces = Some(Pieces { receiver, left: len });
        None
    }
}

// Copies, since a part of the bytes would keep all of them. They are beyond the bound by a piece or two.
async fn hand_out(mut bytes: Bytes, untaken: Arc<Gauge>, pieces: mpsc::Sender<Bytes>) {
    while !bytes.is_empty() {
        let Ok(room) = pieces.reserve().await else { return };
        let piece = Bytes::copy_from_slice(&bytes.split_to(PIECE.min(bytes.len())));
        let counted = untaken.add(piece.len() as u64);
        room.send(weighed(piece, counted));
    }
}

impl HttpBody for Answer {
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
                    None => return Poll::Ready(Some(Ok(self.end(&status::left_lying(TAKING))))),
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
                            status::give_reason(trailers);
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
    use tokio::time::advance;
    use tokio_stream::Stream;
    use tonic::Code;
    use tonic_types::StatusExt;

    struct Of<S>(S);

    impl<S: Stream<Item = Bytes> + Unpin> HttpBody for Of<S> {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Pin::new(&mut self.0).poll_next(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
        }
    }

    // An answer whose body gives so many bytes at a time.
    fn answer(untaken: &Arc<Gauge>, sizes: &'static [usize]) -> Answer {
        let bytes = sizes.iter().enumerate().map(|(byte, size)| vec![u8::try_from(byte).unwrap(); *size].into());
        Answer::new(Body::new(Of(stream::iter(bytes))), Arc::clone(untaken), None)
    }

    async fn next(answer: &mut Answer) -> Option<Frame<Bytes>> {
        poll_fn(|cx| Pin::new(&mut *answer).poll_frame(cx)).await.transpose().unwrap()
    }

    fn quota(frame: Frame<Bytes>) -> String {
        let status = Status::from_header_map(frame.trailers_ref().unwrap()).unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.get_details_retry_info().is_some());
        status.get_details_error_info().unwrap().metadata["quota"].clone()
    }

    #[tokio::test]
    async fn what_comes_is_the_same_in_pieces_and_is_counted_until_the_last_is_gone() {
        const SIZES: [usize; 4] = [10, PIECE * 3 + 1, 0, PIECE];
        let untaken = Arc::default();
        let mut answer = answer(&untaken, &SIZES);
        let mut taken = Vec::new();
        while let Some(frame) = next(&mut answer).await {
            taken.push(frame.into_data().unwrap());
        }
        assert!(taken.iter().all(|piece| piece.len() <= PIECE));
        let whole: Vec<u8> = taken.iter().flatten().copied().collect();
        let wanted: Vec<u8> = (0..).zip(SIZES).flat_map(|(byte, size)| vec![byte; size]).collect();
        assert!(whole == wanted, "{} of {}", whole.len(), wanted.len());
        drop(answer);
        assert_eq!(untaken.now(), wanted.len() as u64, "what the transport still has");
        let part = taken.swap_remove(0).split_to(1);
        drop(taken);
        assert_eq!(untaken.now(), 10, "a part keeps all of its bytes");
        drop(part);
        assert_eq!(untaken.now(), 0);
    }

    #[tokio::test]
    async fn whoever_takes_nothing_gets_no_more_than_its_bound() {
        let untaken = Arc::default();
        let kept = Gauge::add_within(&untaken, UNTAKEN_BYTES_MAX - 15, UNTAKEN_BYTES_MAX);
        let mut one = answer(&untaken, &[10, 10]);
        let held = next(&mut one).await.unwrap();
        assert_eq!(quota(next(&mut one).await.unwrap()), "answer_bytes");
        assert!(one.is_end_stream() && next(&mut one).await.is_none());
        drop(held);
        let mut other = answer(&untaken, &[10]);
        assert!(next(&mut other).await.unwrap().is_data());
        drop(kept);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_of_a_large_answer_is_not_kept_for_ever() {
        let untaken = Arc::default();
        let mut answer = answer(&untaken, &[PIECE * 100]);
        let first = next(&mut answer).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(untaken.now(), (PIECE * 102) as u64, "the whole, one piece taken and one that waits");
        advance(TAKING + Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
        assert_eq!(untaken.now(), (PIECE * 2) as u64);
        drop(first);
        assert!(next(&mut answer).await.unwrap().is_data());
        assert_eq!(quota(next(&mut answer).await.unwrap()), "answer_time");
        assert!(next(&mut answer).now_or_never().unwrap().is_none());
        assert_eq!(untaken.now(), 0);
    }

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_any_more_is_gone() {
        let untaken = Arc::default();
        let mut answer = answer(&untaken, &[PIECE * 9]);
        assert!(next(&mut answer).await.is_some());
        drop(answer);
        while untaken.now() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

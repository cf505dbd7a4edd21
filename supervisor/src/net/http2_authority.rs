//! Rewrites the authority of calls over a unix socket into a valid host. gRPC's C core (Python, C++, Ruby) sends the
//! socket's path, percent-encoded, and grpc-java the path as it is; the HTTP/2 library here accepts neither as a host
//! and refuses the call. The authority has no use here, so each byte that no host has becomes a `-`. Its length stays,
//! and with it the frames (RFC 9113) and the header tables (RFC 7541) of both ends.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;

const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;

const NAME: &[u8] = b":authority";

/// Index of that name in the static table of RFC 7541.
const NAME_INDEX: u8 = 1;

/// A connection whose calls have valid authorities.
pub(super) struct AuthorityRewriter<S> {
    stream: S,
    frames: FrameState,
}

impl<S> AuthorityRewriter<S> {
    /// Wraps a connection from which nothing has been read.
    pub(super) fn new(stream: S) -> AuthorityRewriter<S> {
        AuthorityRewriter { stream, frames: FrameState::Preface { read: 0 } }
    }
}

/// Position of the next byte in a stream of frames.
#[derive(Debug, Clone, Copy)]
enum FrameState {
    Preface {
        read: usize,
    },
    Head {
        head: [u8; HEAD_BYTES],
        read: usize,
        /// Position at the end of the last header block: a CONTINUATION frame continues there.
        field: FieldState,
    },
    /// Inside a frame without header fields.
    Other {
        left: usize,
        field: FieldState,
    },
    Fields {
        left: usize,
        /// Whether the next byte is the length of the padding.
        padded: bool,
        /// Bytes before the fields.
        before: usize,
        padding: usize,
        field: FieldState,
    },
    /// The stream is not HTTP/2.
    Unknown,
}

impl FrameState {
    // Rewrites the next bytes of the stream.
    fn rewrite(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let passed = match *self {
                FrameState::Unknown => return,
                FrameState::Other { left, .. } => left.min(bytes.len()),
                _ => 1,
            };
            let (now, rest) = bytes.split_at_mut(passed);
            *self = self.after(now);
            bytes = rest;
        }
    }

    fn after(self, now: &mut [u8]) -> FrameState {
        let byte = now[0];
        match self {
            FrameState::Unknown => FrameState::Unknown,
            FrameState::Preface { read } if byte != PREFACE[read] => FrameState::Unknown,
            FrameState::Preface { read } if read + 1 < PREFACE.len() => FrameState::Preface { read: read + 1 },
            FrameState::Preface { .. } => FrameState::head(FieldState::Begin),
            FrameState::Head { mut head, read, field } => {
                head[read] = byte;
                if read + 1 < HEAD_BYTES {
                    FrameState::Head { head, read: read + 1, field }
                } else {
                    FrameState::from_head(head, field)
                }
            }
            FrameState::Other { left, field } if left > now.len() => {
                FrameState::Other { left: left - now.len(), field }
            }
            FrameState::Other { field, .. } => FrameState::head(field),
            FrameState::Fields { left, mut padded, mut before, mut padding, mut field } => {
                if padded {
                    (padded, padding) = (false, usize::from(byte));
                } else if before > 0 {
                    before -= 1;
                } else if left > padding {
                    field = field.after(&mut now[0]);
                }
                match left - 1 {
                    0 => FrameState::head(field),
                    left => FrameState::Fields { left, padded, before, padding, field },
                }
            }
        }
    }

    fn head(field: FieldState) -> FrameState {
        FrameState::Head { head: [0; HEAD_BYTES], read: 0, field }
    }

    fn from_head(head: [u8; HEAD_BYTES], field: FieldState) -> FrameState {
        let left = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        match (left, kind) {
            (0, HEADERS) => FrameState::head(FieldState::Begin),
            (0, _) => FrameState::head(field),
            (_, HEADERS) => {
                let before = if flags & PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
                FrameState::Fields { left, padded: flags & PADDED != 0, before, padding: 0, field: FieldState::Begin }
            }
            (_, CONTINUATION) => FrameState::Fields { left, padded: false, before: 0, padding: 0, field },
            _ => FrameState::Other { left, field },
        }
    }
}

/// Position of the next byte in a block of header fields.
#[derive(Debug, Clone, Copy)]
enum FieldState {
    Begin,
    /// Inside the rest of an index; whether a value follows.
    Index {
        literal: bool,
    },
    NameLength,
    Name {
        left: usize,
        /// Number of leading bytes that equal [`NAME`]; `None` after a difference.
        same: Option<usize>,
    },
    ValueLength {
        authority: bool,
    },
    Value {
        left: usize,
        authority: bool,
    },
    /// Inside the rest of the length of a name or a value.
    Length {
        so_far: usize,
        shift: u32,
        text: FieldText,
    },
    /// After an unreadable field: the rest of the block is left alone.
    Unknown,
}

/// The text whose length is being read.
#[derive(Debug, Clone, Copy)]
enum FieldText {
    Name { plain: bool },
    Value { authority: bool },
}

impl FieldState {
    fn after(self, byte: &mut u8) -> FieldState {
        match self {
            FieldState::Begin => FieldState::from_first_byte(*byte),
            FieldState::Index { .. } if *byte & 0x80 != 0 => self,
            FieldState::Index { literal: true } => FieldState::ValueLength { authority: false },
            FieldState::Index { literal: false } => FieldState::Begin,
            FieldState::NameLength => FieldState::length(*byte, FieldText::Name { plain: *byte & 0x80 == 0 }),
            FieldState::Name { left, same } => {
                let same = same.filter(|at| NAME.get(*at) == Some(byte)).map(|at| at + 1);
                match left - 1 {
                    0 => FieldState::ValueLength { authority: same == Some(NAME.len()) },
                    left => FieldState::Name { left, same },
                }
            }
            // Compressed values are left alone.
            FieldState::ValueLength { authority } => {
                FieldState::length(*byte, FieldText::Value { authority: authority && *byte & 0x80 == 0 })
            }
            FieldState::Value { left, authority } => {
                if authority && !byte.is_ascii_alphanumeric() && *byte != b'.' {
                    *byte = b'-';
                }
                match left - 1 {
                    0 => FieldState::Begin,
                    left => FieldState::Value { left, authority },
                }
            }
            FieldState::Length { so_far, shift, text } => {
                let more = usize::from(*byte & 0x7f) << shift;
                match *byte & 0x80 {
                    0 => FieldState::text(so_far + more, text),
                    // Longer than any header list may be.
                    _ if shift >= 21 => FieldState::Unknown,
                    _ => FieldState::Length { so_far: so_far + more, shift: shift + 7, text },
                }
            }
            FieldState::Unknown => FieldState::Unknown,
        }
    }

    // The field state after its first byte, which holds the kind and the start of the name's index.
    fn from_first_byte(byte: u8) -> FieldState {
        let (mask, literal) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            // An update of the table size.
            0x20.. => (0x1f, false),
            _ => (0x0f, true),
        };
        match byte & mask {
            index if index == mask => FieldState::Index { literal },
            _ if !literal => FieldState::Begin,
            0 => FieldState::NameLength,
            index => FieldState::ValueLength { authority: index == NAME_INDEX },
        }
    }

    fn length(byte: u8, text: FieldText) -> FieldState {
        match usize::from(byte & 0x7f) {
            0x7f => FieldState::Length { so_far: 0x7f, shift: 0, text },
            length => FieldState::text(length, text),
        }
    }

    fn text(left: usize, text: FieldText) -> FieldState {
        match (left, text) {
            (0, FieldText::Name { .. }) => FieldState::ValueLength { authority: false },
            (0, FieldText::Value { .. }) => FieldState::Begin,
            (_, FieldText::Name { plain }) => FieldState::Name { left, same: plain.then_some(0) },
            (_, FieldText::Value { authority }) => FieldState::Value { left, authority },
        }
    }
}

impl<S: Connected> Connected for AuthorityRewriter<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityRewriter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.frames.rewrite(&mut buf.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AuthorityRewriter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first bytes from grpcio 1.85 for Python, up to the end of its first headers.
    const PYTHON: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x24\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\
        \x03\x00\x00\x00\x00\x00\x04\x00@\x00\x00\x00\x05\x00@\x00\x00\x00\x06\x00\x00@\x00\xfe\x03\x00\x00\x00\x01\x00\x00\
        \x04\x08\x00\x00\x00\x00\x00\x00?\x00\x01\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\xe9\x01\x04\x00\x00\x00\x01@\
        \x05:path\x1c/grpc.health.v1.Health/Check@\n:authority\x0etmp%2Fa@b.sock\x83\x86@\x0ccontent-type\x10application/grpc\
        @\x02te\x08trailers@\x14grpc-accept-encoding\x17identity, deflate, gzip@\x0cgrpc-timeout\x022S@\nuser-agent0grpc-\
        python/1.85.3 grpc-c/58.0.0 (linux; chttp2)\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x05";

    fn rewritten_stream(pieces: &[&[u8]]) -> Vec<u8> {
        let mut frames = FrameState::Preface { read: 0 };
        let mut all = Vec::new();
        for piece in pieces {
            let mut piece = piece.to_vec();
            frames.rewrite(&mut piece);
            all.extend(piece);
        }
        all
    }

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&len[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn rewritten(frames: &[Vec<u8>]) -> Vec<u8> {
        rewritten_stream(&[PREFACE, &frames.concat()])[PREFACE.len()..].to_vec()
    }

    #[test]
    fn rewrites_only_the_authority_and_keeps_its_length() {
        let mut expected = PYTHON.to_vec();
        let at = PYTHON.windows(14).position(|bytes| bytes == b"tmp%2Fa@b.sock").unwrap();
        expected[at..at + 14].copy_from_slice(b"tmp-2Fa-b.sock");
        assert_eq!(rewritten_stream(&[PYTHON]), expected);
        for cut in 0..PYTHON.len() {
            assert_eq!(rewritten_stream(&[&PYTHON[..cut], &PYTHON[cut..]]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn reads_every_form_of_a_field() {
        let long = [b"%".as_slice(); 300].concat();
        let dashes = [b"-".as_slice(); 300].concat();
        for (block, expected) in [
            // An index of the static table as other clients write it: with indexing, without, never.
            (b"\x41\x04/a/b".to_vec(), b"\x41\x04-a-b".to_vec()),
            (b"\x01\x04/a/b".to_vec(), b"\x01\x04-a-b".to_vec()),
            (b"\x11\x04/a/b".to_vec(), b"\x11\x04-a-b".to_vec()),
            // After an index of several bytes, a table size, and a name of several bytes.
            (
                b"\xff\x80\x01\x3f\x80\x01\x7f\x01\x02%%\x41\x01%".to_vec(),
                b"\xff\x80\x01\x3f\x80\x01\x7f\x01\x02%%\x41\x01-".to_vec(),
            ),
            (
                [b"\x41\x7f\xad\x01", long.as_slice(), b"\x04\x01%"].concat(),
                [b"\x41\x7f\xad\x01", dashes.as_slice(), b"\x04\x01%"].concat(),
            ),
            (
                [b"\x40\x7f\xad\x01", long.as_slice(), b"\x01%\x41\x01%"].concat(),
                [b"\x40\x7f\xad\x01", long.as_slice(), b"\x01%\x41\x01-"].concat(),
            ),
            // A name with the same start; a compressed value; an empty one.
            (
                b"\x40\x0b:authority2\x01%\x41\x81%\x41\x00\x41\x01%".to_vec(),
                b"\x40\x0b:authority2\x01%\x41\x81%\x41\x00\x41\x01-".to_vec(),
            ),
            // A length that no header has.
            (b"\x41\xff\xff\xff\xff\xff\x01%%".to_vec(), b"\x41\xff\xff\xff\xff\xff\x01%%".to_vec()),
        ] {
            assert_eq!(rewritten(&[frame(HEADERS, 4, &block)]), frame(HEADERS, 4, &expected));
            // The same, cut into a frame and its continuation, and with padding and priority.
            let (one, other) = block.split_at(block.len() / 2);
            let (expected_one, expected_other) = expected.split_at(block.len() / 2);
            let padded = |fields: &[u8]| [b"\x03%%%%%", fields, b"%%%"].concat();
            let data = frame(0, 0, b"\x41\x01%");
            assert_eq!(
                rewritten(&[
                    data.clone(),
                    frame(HEADERS, PADDED | PRIORITY, &padded(one)),
                    frame(CONTINUATION, 4, other)
                ]),
                [
                    data,
                    frame(HEADERS, PADDED | PRIORITY, &padded(expected_one)),
                    frame(CONTINUATION, 4, expected_other)
                ]
                .concat()
            );
        }
        // An incomplete block is dropped when the next one starts.
        let frames = [frame(HEADERS, 4, b"\x41"), frame(HEADERS, 4, b"\x83\x41\x01%")];
        assert_eq!(rewritten(&frames)[19..], *b"\x83\x41\x01-");
    }

    #[test]
    fn leaves_other_protocols_unchanged() {
        let text = b"GET / HTTP/1.1\r\n:authority: a%b\r\n\r\n";
        assert_eq!(rewritten_stream(&[text]), text);
    }

    proptest! {
        #[test]
        fn keeps_the_length_of_any_stream_however_it_is_cut(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..400) {
            let whole = rewritten_stream(&[PREFACE, &bytes]);
            prop_assert_eq!(whole.len(), PREFACE.len() + bytes.len());
            let at = at.min(bytes.len());
            prop_assert_eq!(rewritten_stream(&[PREFACE, &bytes[..at], &bytes[at..]]), whole);
        }
    }
}

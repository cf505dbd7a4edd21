//! What clients name as the authority of their calls on a unix socket, made readable. gRPC's C core (Python, C++, Ruby) names
//! the socket's path, percent-encoded, and grpc-java the path as it is; the HTTP/2 library here takes neither for a host and
//! refuses the call. Nobody reads the name, so each byte of it that no host has becomes a `-`. The length stays, and so do
//! frames (RFC 9113) and the table of header fields (RFC 7541) that both ends keep. Must not know any other header.

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

/// Where that name is in the static table of RFC 7541.
const NAME_INDEX: u8 = 1;

/// A connection whose calls have readable authorities.
pub(super) struct ReadableAuthority<S> {
    stream: S,
    frames: Frames,
}

impl<S> ReadableAuthority<S> {
    /// Over a connection of which nothing has been read.
    pub(super) fn over(stream: S) -> ReadableAuthority<S> {
        ReadableAuthority { stream, frames: Frames::Preface { read: 0 } }
    }
}

/// Where in a stream of frames the next byte is.
#[derive(Debug, Clone, Copy)]
enum Frames {
    Preface {
        read: usize,
    },
    Head {
        head: [u8; HEAD_BYTES],
        read: usize,
        /// Where the last header block was: a CONTINUATION goes on there.
        field: Field,
    },
    /// In a frame that has no header fields.
    Other {
        left: usize,
        field: Field,
    },
    Fields {
        left: usize,
        /// Whether the next byte is the length of the padding.
        padded: bool,
        /// Bytes that come before the fields.
        before: usize,
        padding: usize,
        field: Field,
    },
    /// In something other than HTTP/2.
    Unknown,
}

impl Frames {
    // Rewrites what has been read next.
    fn pass(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let passed = match *self {
                Frames::Unknown => return,
                Frames::Other { left, .. } => left.min(bytes.len()),
                _ => 1,
            };
            let (now, rest) = bytes.split_at_mut(passed);
            *self = self.after(now);
            bytes = rest;
        }
    }

    fn after(self, now: &mut [u8]) -> Frames {
        let byte = now[0];
        match self {
            Frames::Unknown => Frames::Unknown,
            Frames::Preface { read } if byte != PREFACE[read] => Frames::Unknown,
            Frames::Preface { read } if read + 1 < PREFACE.len() => Frames::Preface { read: read + 1 },
            Frames::Preface { .. } => Frames::head(Field::Begin),
            Frames::Head { mut head, read, field } => {
                head[read] = byte;
                if read + 1 < HEAD_BYTES {
                    Frames::Head { head, read: read + 1, field }
                } else {
                    Frames::of(head, field)
                }
            }
            Frames::Other { left, field } if left > now.len() => Frames::Other { left: left - now.len(), field },
            Frames::Other { field, .. } => Frames::head(field),
            Frames::Fields { left, mut padded, mut before, mut padding, mut field } => {
                if padded {
                    (padded, padding) = (false, usize::from(byte));
                } else if before > 0 {
                    before -= 1;
                } else if left > padding {
                    field = field.after(&mut now[0]);
                }
                match left - 1 {
                    0 => Frames::head(field),
                    left => Frames::Fields { left, padded, before, padding, field },
                }
            }
        }
    }

    fn head(field: Field) -> Frames {
        Frames::Head { head: [0; HEAD_BYTES], read: 0, field }
    }

    fn of(head: [u8; HEAD_BYTES], field: Field) -> Frames {
        let left = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let (kind, flags) = (head[3], head[4]);
        match (left, kind) {
            (0, HEADERS) => Frames::head(Field::Begin),
            (0, _) => Frames::head(field),
            (_, HEADERS) => {
                let before = if flags & PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
                Frames::Fields { left, padded: flags & PADDED != 0, before, padding: 0, field: Field::Begin }
            }
            (_, CONTINUATION) => Frames::Fields { left, padded: false, before: 0, padding: 0, field },
            _ => Frames::Other { left, field },
        }
    }
}

/// Where in a block of header fields the next byte is.
#[derive(Debug, Clone, Copy)]
enum Field {
    Begin,
    /// In the rest of an index; whether a value follows.
    Index {
        literal: bool,
    },
    NameLength,
    Name {
        left: usize,
        /// Bytes that are those of [`NAME`] so far; `None` if one is not.
        same: Option<usize>,
    },
    ValueLength {
        authority: bool,
    },
    Value {
        left: usize,
        authority: bool,
    },
    /// In the rest of the length of a name, or of a value.
    Length {
        so_far: usize,
        shift: u32,
        of: Text,
    },
    /// Behind something that cannot be read: the rest of the block is left alone.
    Unknown,
}

/// A text of which the length is being read.
#[derive(Debug, Clone, Copy)]
enum Text {
    Name { plain: bool },
    Value { authority: bool },
}

impl Field {
    fn after(self, byte: &mut u8) -> Field {
        match self {
            Field::Begin => Field::of(*byte),
            Field::Index { .. } if *byte & 0x80 != 0 => self,
            Field::Index { literal: true } => Field::ValueLength { authority: false },
            Field::Index { literal: false } => Field::Begin,
            Field::NameLength => Field::length(*byte, Text::Name { plain: *byte & 0x80 == 0 }),
            Field::Name { left, same } => {
                let same = same.filter(|at| NAME.get(*at) == Some(byte)).map(|at| at + 1);
                match left - 1 {
                    0 => Field::ValueLength { authority: same == Some(NAME.len()) },
                    left => Field::Name { left, same },
                }
            }
            // Of a value that is compressed, nothing is read.
            Field::ValueLength { authority } => {
                Field::length(*byte, Text::Value { authority: authority && *byte & 0x80 == 0 })
            }
            Field::Value { left, authority } => {
                if authority && !byte.is_ascii_alphanumeric() && *byte != b'.' {
                    *byte = b'-';
                }
                match left - 1 {
                    0 => Field::Begin,
                    left => Field::Value { left, authority },
                }
            }
            Field::Length { so_far, shift, of } => {
                let more = usize::from(*byte & 0x7f) << shift;
                match *byte & 0x80 {
                    0 => Field::text(so_far + more, of),
                    // Longer than any list of headers may be.
                    _ if shift >= 21 => Field::Unknown,
                    _ => Field::Length { so_far: so_far + more, shift: shift + 7, of },
                }
            }
            Field::Unknown => Field::Unknown,
        }
    }

    // By the first byte of a field: the kind and the beginning of the index of its name.
    fn of(byte: u8) -> Field {
        let (mask, literal) = match byte {
            0x80.. => (0x7f, false),
            0x40.. => (0x3f, true),
            // The size of the table.
            0x20.. => (0x1f, false),
            _ => (0x0f, true),
        };
        match byte & mask {
            index if index == mask => Field::Index { literal },
            _ if !literal => Field::Begin,
            0 => Field::NameLength,
            index => Field::ValueLength { authority: index == NAME_INDEX },
        }
    }

    fn length(byte: u8, of: Text) -> Field {
        match usize::from(byte & 0x7f) {
            0x7f => Field::Length { so_far: 0x7f, shift: 0, of },
            length => Field::text(length, of),
        }
    }

    fn text(left: usize, of: Text) -> Field {
        match (left, of) {
            (0, Text::Name { .. }) => Field::ValueLength { authority: false },
            (0, Text::Value { .. }) => Field::Begin,
            (_, Text::Name { plain }) => Field::Name { left, same: plain.then_some(0) },
            (_, Text::Value { authority }) => Field::Value { left, authority },
        }
    }
}

impl<S: Connected> Connected for ReadableAuthority<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ReadableAuthority<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.frames.pass(&mut buf.filled_mut()[before..]);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ReadableAuthority<S> {
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

    /// What grpcio 1.85 for Python sends first, up to the end of its first headers.
    const PYTHON: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x24\x04\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\
        \x03\x00\x00\x00\x00\x00\x04\x00@\x00\x00\x00\x05\x00@\x00\x00\x00\x06\x00\x00@\x00\xfe\x03\x00\x00\x00\x01\x00\x00\
        \x04\x08\x00\x00\x00\x00\x00\x00?\x00\x01\x00\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00\xe9\x01\x04\x00\x00\x00\x01@\
        \x05:path\x1c/grpc.health.v1.Health/Check@\n:authority\x0etmp%2Fa@b.sock\x83\x86@\x0ccontent-type\x10application/grpc\
        @\x02te\x08trailers@\x14grpc-accept-encoding\x17identity, deflate, gzip@\x0cgrpc-timeout\x022S@\nuser-agent0grpc-\
        python/1.85.3 grpc-c/58.0.0 (linux; chttp2)\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x00\x05";

    fn passed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut frames = Frames::Preface { read: 0 };
        let mut all = Vec::new();
        for piece in pieces {
            let mut piece = piece.to_vec();
            frames.pass(&mut piece);
            all.extend(piece);
        }
        all
    }

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&len[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn rewritten(frames: &[Vec<u8>]) -> Vec<u8> {
        passed(&[PREFACE, &frames.concat()])[PREFACE.len()..].to_vec()
    }

    #[test]
    fn the_authority_alone_is_rewritten_and_keeps_its_length() {
        let mut wanted = PYTHON.to_vec();
        let at = PYTHON.windows(14).position(|bytes| bytes == b"tmp%2Fa@b.sock").unwrap();
        wanted[at..at + 14].copy_from_slice(b"tmp-2Fa-b.sock");
        assert_eq!(passed(&[PYTHON]), wanted);
        for cut in 0..PYTHON.len() {
            assert_eq!(passed(&[&PYTHON[..cut], &PYTHON[cut..]]), wanted, "cut at {cut}");
        }
    }

    #[test]
    fn every_form_of_a_field_is_read() {
        let long = [b"%".as_slice(); 300].concat();
        let dashes = [b"-".as_slice(); 300].concat();
        for (block, wanted) in [
            // An index of the static table, as others write it: with indexing, without, never.
            (b"\x41\x04/a/b".to_vec(), b"\x41\x04-a-b".to_vec()),
            (b"\x01\x04/a/b".to_vec(), b"\x01\x04-a-b".to_vec()),
            (b"\x11\x04/a/b".to_vec(), b"\x11\x04-a-b".to_vec()),
            // Behind an index of several bytes, a size of the table, and a name of several bytes.
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
            // A name that only begins alike; a compressed value; an empty one.
            (
                b"\x40\x0b:authority2\x01%\x41\x81%\x41\x00\x41\x01%".to_vec(),
                b"\x40\x0b:authority2\x01%\x41\x81%\x41\x00\x41\x01-".to_vec(),
            ),
            // A length that no header has.
            (b"\x41\xff\xff\xff\xff\xff\x01%%".to_vec(), b"\x41\xff\xff\xff\xff\xff\x01%%".to_vec()),
        ] {
            assert_eq!(rewritten(&[frame(HEADERS, 4, &block)]), frame(HEADERS, 4, &wanted));
            // The same, cut into a frame and its continuation, and behind padding and priority.
            let (one, other) = block.split_at(block.len() / 2);
            let (wanted_one, wanted_other) = wanted.split_at(block.len() / 2);
            let padded = |fields: &[u8]| [b"\x03%%%%%", fields, b"%%%"].concat();
            let data = frame(0, 0, b"\x41\x01%");
            assert_eq!(
                rewritten(&[
                    data.clone(),
                    frame(HEADERS, PADDED | PRIORITY, &padded(one)),
                    frame(CONTINUATION, 4, other)
                ]),
                [data, frame(HEADERS, PADDED | PRIORITY, &padded(wanted_one)), frame(CONTINUATION, 4, wanted_other)]
                    .concat()
            );
        }
        // A block that was not whole is forgotten with the next one.
        let frames = [frame(HEADERS, 4, b"\x41"), frame(HEADERS, 4, b"\x83\x41\x01%")];
        assert_eq!(rewritten(&frames)[19..], *b"\x83\x41\x01-");
    }

    #[test]
    fn what_is_not_http2_passes_as_it_is() {
        let text = b"GET / HTTP/1.1\r\n:authority: a%b\r\n\r\n";
        assert_eq!(passed(&[text]), text);
    }

    proptest! {
        #[test]
        fn whatever_comes_keeps_its_length_however_it_is_cut(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..400) {
            let whole = passed(&[PREFACE, &bytes]);
            prop_assert_eq!(whole.len(), PREFACE.len() + bytes.len());
            let at = at.min(bytes.len());
            prop_assert_eq!(passed(&[PREFACE, &bytes[..at], &bytes[at..]]), whole);
        }
    }
}

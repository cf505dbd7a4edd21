//! Reads numbers and pieces from bytes that a run left: `None` where they end early or a number has no room.

/// What is left of the bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> ByteReader<'a> {
        ByteReader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Number of the bytes left.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (piece, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(piece)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.bytes(1).map(|piece| piece[0])
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.first_chunk().map(|word| u32::from_le_bytes(*word))
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    /// Bytes behind their length, a word of `u64`.
    pub(super) fn sized(&mut self) -> Option<&'a [u8]> {
        let len = self.u64()?;
        self.bytes(usize::try_from(len).ok()?)
    }

    /// `len` bytes behind a head of `head_len`, then what fills both up to a multiple of eight, as far as there is any.
    pub(super) fn padded(&mut self, head_len: usize, len: usize) -> Option<&'a [u8]> {
        let piece = self.bytes(len)?;
        let padding = (head_len + len).next_multiple_of(8) - (head_len + len);
        self.bytes(padding.min(self.len()))?;
        Some(piece)
    }

    /// A number in LEB128 (DWARF 5, section 7.6).
    pub(super) fn leb128(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return None;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number in LEB128 that has 32 bits.
    pub(super) fn leb128_u32(&mut self) -> Option<u32> {
        u32::try_from(self.leb128()?).ok()
    }

    /// A length in LEB128.
    pub(super) fn leb128_len(&mut self) -> Option<usize> {
        usize::try_from(self.leb128()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_numbers_of_every_width() {
        let mut reader = ByteReader::new(&[7, 1, 0, 0, 0, 0xff, 0x7f]);
        assert_eq!((reader.byte(), reader.u32(), reader.leb128()), (Some(7), Some(1), Some(16_383)));
        assert!(reader.is_empty() && reader.byte().is_none());
    }

    #[test]
    fn reads_pieces_with_padding_behind_them() {
        let mut reader = ByteReader::new(&[1, 2, 0, 0, 3, 0]);
        assert_eq!(reader.padded(4, 2), Some(&[1, 2][..]));
        assert_eq!((reader.len(), reader.padded(4, 1)), (2, Some(&[3][..])));
        assert!(reader.is_empty() && reader.padded(4, 1).is_none());
    }

    #[test]
    fn rejects_a_number_of_more_than_64_bits() {
        let largest = [0xff; 9].into_iter().chain([0x01]).collect::<Vec<u8>>();
        assert_eq!(ByteReader::new(&largest).leb128(), Some(u64::MAX));
        let beyond = [0xff; 9].into_iter().chain([0x02]).collect::<Vec<u8>>();
        assert_eq!(ByteReader::new(&beyond).leb128(), None);
        assert_eq!(ByteReader::new(&[0x80; 11]).leb128(), None);
        assert_eq!(ByteReader::new(&[0x80]).leb128(), None, "cut");
        assert_eq!(ByteReader::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]).leb128_u32(), None);
    }
}

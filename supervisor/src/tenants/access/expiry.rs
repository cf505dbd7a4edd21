//! Expiry times of revocation lists and certificates, read from their DER. The TLS library verifies them and does not
//! expose these times.

use crate::calendar::Date;

/// The tags of UTCTime and GeneralizedTime.
const TIMES: [u8; 2] = [0x17, 0x18];

/// The tag of a sequence.
const SEQUENCE: u8 = 0x30;

/// The time by which a list promises its successor, in seconds since 1970 (RFC 5280, 5.1.2.5); `None` if the bytes are
/// no such list in DER.
pub(super) fn next_update(mut list: &[u8]) -> Option<u64> {
    let (_, mut list) = element(&mut list)?;
    let (_, mut signed) = element(&mut list)?;
    // Version, algorithm, issuer, this update, next update.
    let elements = std::iter::from_fn(|| element(&mut signed));
    let (tag, time) = elements.filter(|(tag, _)| TIMES.contains(tag)).nth(1)?;
    seconds(tag, time)
}

/// The first and the last second of a certificate's validity, since 1970 (RFC 5280, 4.1.2.5); `None` if the bytes are
/// no certificate in DER.
pub(super) fn validity(mut certificate: &[u8]) -> Option<(u64, u64)> {
    let (_, mut certificate) = element(&mut certificate)?;
    let (_, mut signed) = element(&mut certificate)?;
    // Version and serial number are no sequences; then come algorithm, issuer, validity.
    let elements = std::iter::from_fn(|| element(&mut signed));
    let (_, mut validity) = elements.filter(|(tag, _)| *tag == SEQUENCE).nth(2)?;
    let mut time = || element(&mut validity).and_then(|(tag, time)| seconds(tag, time));
    Some((time()?, time()?))
}

// A time in the form of certificates and lists: UTC, to the second.
fn seconds(tag: u8, time: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(time).ok()?.strip_suffix('Z')?;
    let text = match tag == TIMES[0] {
        true if text < "50" => format!("20{text}"),
        true => format!("19{text}"),
        false => text.to_owned(),
    };
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let date = Date { year: part(0, 4)?, month: part(4, 6)?, day: part(6, 8)? };
    let seconds = part(8, 10)? * 3_600 + part(10, 12)? * 60 + part(12, 14)?;
    date.days()?.checked_mul(86_400)?.checked_add(seconds)
}

// Takes the first of several elements off `der`: its tag and content.
fn element<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (len, rest) = match first.checked_sub(0x80) {
        None => (usize::from(*first), rest),
        Some(bytes) => {
            let (bytes, rest) = rest.split_at_checked(bytes.into())?;
            let len = bytes.iter().try_fold(0_usize, |len, byte| len.checked_mul(256)?.checked_add((*byte).into()))?;
            (len, rest)
        }
    };
    let (content, rest) = rest.split_at_checked(len)?;
    *der = rest;
    Some((*tag, content))
}

//! Durations and sizes as people write them: `300s`, `5m`, `2GiB`, `512MB`. One exact parser serves durations, sizes and
//! processors: `humantime` refuses plain numbers and `0.001h` and adds up `1month 2h`, and `bytesize` takes `M` for a
//! power of 1,000, computes fractions as floats and turns what is too large into the largest size.

use serde::{Deserialize, Deserializer, de};
use std::fmt;
use std::str::FromStr;

/// A duration of at least one millisecond: `250ms`, `300s`, `5m`, `1h`; a bare number is seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duration {
    /// Milliseconds.
    pub ms: u64,
}

/// A size in bytes: `2GiB`, `512MiB`, `1GB` (powers of 1,000), `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes {
    /// Bytes.
    pub bytes: u64,
}

/// Processors, to a thousandth: `2`, `0.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpus {
    /// Thousandths of a processor.
    pub millis: u32,
}

const DURATIONS: [(&str, u64); 5] = [("", 1_000), ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];
const SIZES: [(&str, u64); 11] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
];

// Parses a decimal number with one of `units`. The result is rounded down and must be at least one.
fn parse(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    match value(text, units, example)? {
        0 => Err(format!("must be more than zero, got {text:?}")),
        value => Ok(value),
    }
}

fn value(text: &str, units: &[(&str, u64)], example: &str) -> Result<u64, String> {
    let bad = || format!("expected something like {example}, got {text:?}");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = units.iter().find(|(name, _)| *name == unit.trim()).map(|(_, factor)| *factor).ok_or_else(bad)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 9 || fraction.contains('.') {
        return Err(bad());
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let whole: u128 = whole.parse::<u64>().map_err(|_| bad())?.into();
    let fraction: u128 = fraction.parse::<u64>().map_err(|_| bad())?.into();
    let value = (whole * scale + fraction) * u128::from(factor) / scale;
    u64::try_from(value).map_err(|_| format!("{text:?} is too large"))
}

/// Milliseconds of a duration that may be zero.
pub fn milliseconds(text: &str) -> Result<u64, String> {
    value(text, &DURATIONS, "300s or 5m")
}

impl FromStr for Duration {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &DURATIONS, "300s or 5m").map(|ms| Duration { ms })
    }
}

impl FromStr for Bytes {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse(text, &SIZES, "2GiB or 512MB").map(|bytes| Bytes { bytes })
    }
}

impl FromStr for Cpus {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let millis = parse(text, &[("", 1_000)], "2 or 0.5")?;
        u32::try_from(millis).map(|millis| Cpus { millis }).map_err(|_| format!("{text:?} is too large"))
    }
}

// Numbers may be unquoted in the file.
fn deserialize<'de, T: FromStr<Err = String>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Text<T>(std::marker::PhantomData<T>);
    impl<T: FromStr<Err = String>> de::Visitor<'_> for Text<T> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number with a unit")
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
            text.parse().map_err(E::custom)
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
        fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
            self.visit_str(&number.to_string())
        }
    }
    deserializer.deserialize_any(Text(std::marker::PhantomData))
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_with_units() {
        let ms = |text: &str| text.parse::<Duration>().map(|duration| duration.ms);
        assert_eq!(ms("300s"), Ok(300_000));
        assert_eq!(ms("1.5"), Ok(1_500));
        assert_eq!(ms("2m"), Ok(120_000));
        let bytes = |text: &str| text.parse::<Bytes>().map(|size| size.bytes);
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(["0", "0s", "1.5"].map(milliseconds), [Ok(0), Ok(0), Ok(1_500)]);
        assert!(milliseconds("-1").is_err() && milliseconds("").is_err());
        assert_eq!("0.5".parse::<Cpus>(), Ok(Cpus { millis: 500 }));
        for (text, expected) in [("12h", 43_200_000), ("5 m", 300_000), ("0.001h", 3_600), ("250ms", 250), ("7", 7_000)]
        {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
        for (text, expected) in [("64MiB", 64 << 20), ("1.5GiB", 3 << 29), ("4096", 4_096), ("1 kB", 1_000)] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for bad in ["", "-1", "0", "0.0001ms", "3 weeks", "NaN", "1..2", "1.", "99999999999999999999h"] {
            assert!(ms(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn refusals_name_the_accepted_form() {
        let ms = |text: &str| text.parse::<Duration>().unwrap_err();
        for bad in ["1month", "2h 30m", "5min", "1d", "1us", "m", ".5s", " 5s"] {
            assert_eq!(ms(bad), format!("expected something like 300s or 5m, got {bad:?}"));
        }
        assert_eq!(ms("0ms"), "must be more than zero, got \"0ms\"");
        let bytes = |text: &str| text.parse::<Bytes>().unwrap_err();
        for bad in ["1M", "64mb", "1PiB", "1.GiB", "1,5GiB"] {
            assert_eq!(bytes(bad), format!("expected something like 2GiB or 512MB, got {bad:?}"));
        }
        assert_eq!(bytes("18446744073709551615TiB"), "\"18446744073709551615TiB\" is too large");
    }
}

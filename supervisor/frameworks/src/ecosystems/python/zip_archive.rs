//! Writes Python modules as one archive, from which Python imports them. For such modules Python keeps and reads no bytecode outside
//! of the archive, so nothing that tests leave in a cache can replace an injected module.
//!
//! The format is PKWARE's APPNOTE.TXT 6.3, with entries stored uncompressed.

use crate::contract::InjectedFile;

/// 1980-01-01, the earliest date of the format, as it encodes time and date.
const TIME_AND_DATE: [u8; 4] = [0, 0, 0x21, 0];

/// Version needed to read an entry: 1.0.
const VERSION: [u8; 2] = [10, 0];

/// The archive at `path` with these modules, each with its name.
pub(super) fn archive(path: String, modules: &[(&str, &[u8])]) -> InjectedFile {
    let (mut bytes, mut directory) = (Vec::new(), Vec::new());
    for (module, source) in modules {
        let name = format!("{module}.py");
        let offset = le32(bytes.len());
        // What the entry and its directory record have in common: flags, method, time, checksum, sizes, lengths.
        let mut common = [VERSION.as_slice(), &[0; 4], &TIME_AND_DATE, &crc32fast::hash(source).to_le_bytes()].concat();
        common.extend(le32(source.len()));
        common.extend(le32(source.len()));
        common.extend(&le32(name.len())[..2]);
        common.extend([0; 2]);
        bytes.extend([b"PK\x03\x04".as_slice(), &common, name.as_bytes(), source].concat());
        directory.extend([b"PK\x01\x02".as_slice(), &VERSION, &common, &[0; 10], &offset, name.as_bytes()].concat());
    }
    let count = &le32(modules.len())[..2];
    let end = [&[0; 4], count, count, &le32(directory.len()), &le32(bytes.len()), &[0; 2]].concat();
    bytes.extend([directory.as_slice(), b"PK\x05\x06", &end].concat());
    InjectedFile { path, bytes, executable: false }
}

/// Injected modules have some ten KiB.
fn le32(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_its_modules_and_their_directory() {
        // The check value of the format's CRC-32.
        assert_eq!(crc32fast::hash(b"123456789"), 0xCBF4_3926);
        let file = archive("p.zip".to_owned(), &[("a", b"x = 1\n"), ("bc", b"")]);
        let bytes = &file.bytes;
        let find = |word: &[u8]| bytes.windows(word.len()).position(|window| window == word);
        assert_eq!(find(b"PK\x03\x04"), Some(0));
        assert_eq!(find(b"a.pyx = 1\n"), Some(30));
        let end = find(b"PK\x05\x06").unwrap();
        assert_eq!((bytes.len() - end, &bytes[end + 8..end + 12]), (22, &[2, 0, 2, 0][..]));
        let directory = usize::from(bytes[end + 16]);
        assert_eq!(bytes[directory..][..4], *b"PK\x01\x02");
        assert_eq!(find(b"PK\x01\x02"), Some(directory));
    }
}

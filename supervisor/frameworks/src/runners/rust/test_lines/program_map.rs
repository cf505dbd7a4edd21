//! Reads what the recorder (`recorder.c`) copies from a program once: which functions its counters belong to, and LLVM's coverage
//! mapping of these functions.
//!
//! A file is [`MAGIC`], then pieces behind their lengths: the target's package, kind and crate as lines; functions; the
//! sections `__llvm_covmap` and `__llvm_covfun`. A test can write such a file itself: its size is bounded, and so are the
//! work and the memory that it causes.

use super::byte_reader::ByteReader;
use super::coverage_mapping::FunctionMapping;
use crate::parsing::growing_spans::GrowingSpans;
use flate2::{Decompress, FlushDecompress};
use md5::{Digest, Md5};
use proctor_core::bounds::{COVERED_FILES_MAX, PATH_BYTES_MAX};
use proctor_core::coverage::LineSpan;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use thiserror::Error;

/// First line of a file.
pub(super) const MAGIC: &str = "proctor-rust-map 1";

/// Most MiB of each section of a program that the recorder copies. A program of a million lines has about as many.
pub(super) const SECTION_MIB_MAX: usize = 32;

/// Most regions, expressions and lines that are read of the programs of a run. Two of them take at most 20 bytes.
const WORK_MAX: usize = 16_000_000;

/// Most counters of one program.
const COUNTERS_MAX: u64 = 16_000_000;

const MIB: usize = 1024 * 1024;

/// Most memory for the names of the files of a run's programs, without compression.
const NAMES_BYTES_MAX: usize = 64 * MIB;

/// Most bytes of a directory and a name in it. Longer ones are not joined: a list may have one long directory for many names.
const ABSOLUTE_PATH_BYTES_MAX: usize = 2 * PATH_BYTES_MAX;

/// Bytes before the names of files in one list, and before the mapping of one function.
const NAMES_HEAD_BYTES: usize = 16;
const MAPPING_HEAD_BYTES: usize = 28;

/// Bytes of a function in the list that the recorder makes: two hashes, the number of its first counter, and their count.
const FUNCTION_BYTES: usize = 24;

/// Versions of the coverage mapping that are known, as its header has them: 6 and 7, less one.
const KNOWN_VERSIONS: std::ops::RangeInclusive<u32> = 5..=6;

/// What may still be read of the programs of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct MapBudget {
    work: usize,
    names_bytes: usize,
}

impl Default for MapBudget {
    fn default() -> MapBudget {
        MapBudget { work: WORK_MAX, names_bytes: NAMES_BYTES_MAX }
    }
}

impl MapBudget {
    fn take_names(&mut self, bytes: usize) -> Result<(), MapError> {
        self.names_bytes = self.names_bytes.checked_sub(bytes).ok_or(MapError::TooLarge)?;
        Ok(())
    }
}

/// Why the map of a program is not used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum MapError {
    /// There is none.
    #[error("the program did not say which lines its counters count")]
    Missing,
    /// It is not in the form that the recorder writes.
    #[error("what the program says of its counters is damaged or cut off")]
    Damaged,
    /// It is larger than what is read.
    #[error("the programs are too large")]
    TooLarge,
    /// The program has counters, and no mapping or one that is too large.
    #[error("the program has no mapping of its counters, or one of over {SECTION_MIB_MAX} MiB")]
    NoMapping,
    /// The profile runtime is one that proctor does not know.
    #[error("the form of its counters is not known")]
    Counters,
    /// rustc wrote it in a form that proctor does not know.
    #[error("version {version} of LLVM's coverage mapping is not known")]
    Version {
        /// The version, counted from 1.
        version: u64,
    },
}

/// What cargo calls a program that has tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProgramTarget {
    pub(super) package: String,
    pub(super) kind: TargetKind,
    /// Name of the crate, which has `_` for each `-` of the target's.
    pub(super) crate_name: String,
}

/// Kind of a target as far as the compiler's environment tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TargetKind {
    Lib,
    /// A program or an example.
    Bin,
    /// An integration test or a benchmark.
    Test,
}

/// A program.
#[derive(Debug, Default)]
pub(super) struct ProgramMap {
    /// `None` for a program without tests.
    pub(super) target: Option<ProgramTarget>,
    /// Functions by the number of their first counter.
    functions: Vec<CountedFunction>,
    /// Functions of the mapping.
    mappings: Vec<MappedFunction>,
    /// Paths relative to the workspace by number; names outside of it have none.
    paths: Vec<String>,
}

/// The number of the path of each name in a list of files; names outside of the workspace have none.
type PathList = Rc<[Option<u32>]>;

#[derive(Debug)]
struct CountedFunction {
    first: u32,
    count: u32,
    mapping: usize,
}

#[derive(Debug)]
struct MappedFunction {
    mapping: FunctionMapping,
    /// The number of the path of each name in the function's list.
    paths: PathList,
}

/// Lines by file, relative to the workspace.
pub(super) type FileLines = BTreeMap<String, GrowingSpans>;

impl ProgramMap {
    /// Reads a file. `relative` makes an absolute path relative to the workspace, `None` outside of it.
    pub(super) fn parse(
        content: &[u8],
        relative: impl Fn(&str) -> Option<String>,
        budget: &mut MapBudget,
    ) -> Result<ProgramMap, MapError> {
        let rest = content.strip_prefix(MAGIC.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let mut reader = ByteReader::new(rest.ok_or(MapError::Damaged)?);
        let damaged = || MapError::Damaged;
        let target = parse_target(reader.sized().ok_or_else(damaged)?);
        let count = reader.u64().ok_or_else(damaged)?;
        if count == u64::MAX {
            return Err(MapError::Counters);
        }
        let count = usize::try_from(count).map_err(|_| MapError::Damaged)?;
        let functions = reader.bytes(count.checked_mul(FUNCTION_BYTES).ok_or_else(damaged)?).ok_or_else(damaged)?;
        let names = reader.sized().ok_or_else(damaged)?;
        let mappings = reader.sized().filter(|_| reader.is_empty()).ok_or_else(damaged)?;
        // The recorder leaves out a section that is too large.
        if count > 0 && mappings.is_empty() || names.len().max(mappings.len()) > SECTION_MIB_MAX * MIB {
            return Err(MapError::NoMapping);
        }
        let mut map = ProgramMap { target, ..ProgramMap::default() };
        let by_hash = map.read_mappings(names, mappings, relative, budget)?;
        map.read_functions(functions, &by_hash)?;
        Ok(map)
    }

    /// Reads the mapping of each function. Returns its number by the hashes of its name and of its form.
    fn read_mappings(
        &mut self,
        names: &[u8],
        mappings: &[u8],
        relative: impl Fn(&str) -> Option<String>,
        budget: &mut MapBudget,
    ) -> Result<HashMap<(u64, u64), usize>, MapError> {
        let lists = self.read_names(names, relative, budget)?;
        let mut by_hash = HashMap::new();
        let mut reader = ByteReader::new(mappings);
        // Behind the last record may be padding, which has less bytes than a record's head.
        while reader.len() >= MAPPING_HEAD_BYTES {
            let mut record = || -> Option<_> {
                let name = reader.u64()?;
                let bytes = usize::try_from(reader.u32()?).ok()?;
                let (form, list) = (reader.u64()?, reader.u64()?);
                Some((name, form, list, reader.padded(MAPPING_HEAD_BYTES, bytes)?))
            };
            let (name, form, list, bytes) = record().ok_or(MapError::Damaged)?;
            let paths: PathList = lists.get(&list).ok_or(MapError::Damaged)?.clone();
            let mapping = FunctionMapping::parse(bytes, paths.len(), &mut budget.work);
            let mapping = mapping.ok_or(if budget.work == 0 { MapError::TooLarge } else { MapError::Damaged })?;
            by_hash.insert((name, form), self.mappings.len());
            self.mappings.push(MappedFunction { mapping, paths });
        }
        Ok(by_hash)
    }

    /// Reads the lists of names of files, by their hash.
    fn read_names(
        &mut self,
        section: &[u8],
        relative: impl Fn(&str) -> Option<String>,
        budget: &mut MapBudget,
    ) -> Result<HashMap<u64, PathList>, MapError> {
        let mut lists = HashMap::new();
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut reader = ByteReader::new(section);
        while reader.len() >= NAMES_HEAD_BYTES {
            let mut word = || reader.u32().ok_or(MapError::Damaged);
            let [_, size, _, version] = [word()?, word()?, word()?, word()?];
            if !KNOWN_VERSIONS.contains(&version) {
                return Err(MapError::Version { version: u64::from(version) + 1 });
            }
            let size = usize::try_from(size).map_err(|_| MapError::Damaged)?;
            let encoded = reader.padded(NAMES_HEAD_BYTES, size).ok_or(MapError::Damaged)?;
            let digest = Md5::digest(encoded);
            let hash = digest.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            if lists.contains_key(&hash) {
                continue;
            }
            let names = parse_names(encoded, budget)?;
            let dir = names.first().cloned().unwrap_or_default();
            let mut number = |name: &String| {
                if dir.len() + name.len() > ABSOLUTE_PATH_BYTES_MAX {
                    return Ok(None);
                }
                let path = if name.starts_with('/') { name.clone() } else { format!("{dir}/{name}") };
                let path = relative(&path).filter(|path| !path.is_empty() && path.len() <= PATH_BYTES_MAX);
                let Some(path) = path else { return Ok(None) };
                if let Some(known) = numbers.get(&path) {
                    return Ok(Some(*known));
                }
                let next = u32::try_from(self.paths.len()).ok().filter(|_| self.paths.len() < COVERED_FILES_MAX);
                if let Some(next) = next {
                    // A long directory is in each path.
                    budget.take_names(2 * (path.len() + size_of::<String>()))?;
                    self.paths.push(path.clone());
                    numbers.insert(path, next);
                }
                Ok(next)
            };
            lists.insert(hash, names.iter().map(&mut number).collect::<Result<PathList, MapError>>()?);
        }
        Ok(lists)
    }

    fn read_functions(&mut self, functions: &[u8], by_hash: &HashMap<(u64, u64), usize>) -> Result<(), MapError> {
        let mut reader = ByteReader::new(functions);
        let mut counters = 0;
        while !reader.is_empty() {
            let read = (reader.u64(), reader.u64(), reader.u32(), reader.u32());
            let (Some(name), Some(form), Some(first), Some(count)) = read else { return Err(MapError::Damaged) };
            counters += u64::from(count);
            if counters > COUNTERS_MAX || first.checked_add(count).is_none() {
                return Err(MapError::TooLarge);
            }
            if let Some(mapping) = by_hash.get(&(name, form)) {
                self.functions.push(CountedFunction { first, count, mapping: *mapping });
            }
        }
        self.functions.sort_by_key(|function| function.first);
        Ok(())
    }

    /// Lines that can be executed.
    pub(super) fn executable(&self) -> FileLines {
        let mut lines = FileLines::new();
        for function in &self.mappings {
            self.add_lines(function, function.mapping.executable(), &mut lines);
        }
        lines
    }

    /// Adds the lines that were executed where these counters have a value, sorted by number. Takes from `work_left` what it
    /// costs; `None` if that is not enough.
    pub(super) fn add_executed(
        &self,
        counts: &[(u32, u64)],
        work_left: &mut usize,
        lines: &mut FileLines,
    ) -> Option<()> {
        let mut rest = counts;
        let mut values = Vec::new();
        while let Some((number, _)) = rest.first() {
            // The functions before this place begin at the counter or before it.
            let behind = self.functions.partition_point(|function| function.first <= *number);
            let function = behind.checked_sub(1).and_then(|at| self.functions.get(at));
            let Some(function) = function.filter(|function| *number - function.first < function.count) else {
                rest = &rest[1..];
                continue;
            };
            let mapped = &self.mappings[function.mapping];
            let count = usize::try_from(function.count).ok()?;
            *work_left = work_left.checked_sub(mapped.mapping.size() + count)?;
            values.clear();
            values.resize(count, 0);
            let own = rest.partition_point(|(number, _)| *number - function.first < function.count);
            for (number, value) in &rest[..own] {
                if let Some(place) = usize::try_from(*number - function.first).ok().and_then(|at| values.get_mut(at)) {
                    *place = *value;
                }
            }
            rest = &rest[own..];
            self.add_lines(mapped, mapped.mapping.executed(&values), lines);
        }
        Some(())
    }

    fn add_lines(
        &self,
        function: &MappedFunction,
        spans: impl Iterator<Item = (u32, LineSpan)>,
        lines: &mut FileLines,
    ) {
        for (name, span) in spans {
            let number = usize::try_from(name).ok().and_then(|name| function.paths.get(name)).copied().flatten();
            let path = number.and_then(|number| self.paths.get(usize::try_from(number).ok()?));
            let Some(path) = path else { continue };
            match lines.get_mut(path) {
                Some(known) => known.push(span),
                None => lines.entry(path.clone()).or_default().push(span),
            }
        }
    }
}

fn parse_target(text: &[u8]) -> Option<ProgramTarget> {
    let mut lines = std::str::from_utf8(text).ok()?.lines();
    let (package, kind, crate_name) = (lines.next()?.to_owned(), lines.next()?, lines.next()?.to_owned());
    let kind = match kind {
        "lib" => TargetKind::Lib,
        "bin" => TargetKind::Bin,
        "test" => TargetKind::Test,
        _ => return None,
    };
    Some(ProgramTarget { package, kind, crate_name })
}

/// Reads names of files, which may be compressed.
fn parse_names(encoded: &[u8], budget: &mut MapBudget) -> Result<Vec<String>, MapError> {
    let mut reader = ByteReader::new(encoded);
    let lengths = (reader.leb128_len(), reader.leb128_len(), reader.leb128_len());
    let (Some(count), Some(len), Some(compressed)) = lengths else { return Err(MapError::Damaged) };
    // Each name has a byte for its length at least.
    if count > len {
        return Err(MapError::Damaged);
    }
    budget.take_names(len.saturating_add(count.saturating_mul(size_of::<String>())))?;
    let plain = if compressed == 0 {
        reader.bytes(len).ok_or(MapError::Damaged)?.to_vec()
    } else {
        let compressed = reader.bytes(compressed).ok_or(MapError::Damaged)?;
        let mut plain = Vec::with_capacity(len);
        Decompress::new(true)
            .decompress_vec(compressed, &mut plain, FlushDecompress::Finish)
            .map_err(|_| MapError::Damaged)?;
        plain
    };
    let mut reader = ByteReader::new(&plain);
    let mut names = Vec::new();
    for _ in 0..count {
        let name = reader.leb128_len().and_then(|len| reader.bytes(len)).ok_or(MapError::Damaged)?;
        names.push(String::from_utf8_lossy(name).into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests;

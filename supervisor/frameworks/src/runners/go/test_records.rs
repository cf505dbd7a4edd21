//! Reads the records that a test process leaves of its top-level tests (`testing_records.go.txt` writes them): which counters
//! changed while which tests ran, and tables that say which lines a counter counts; and the same counters of tests that then ran alone
//! (`testing_alone.go.txt`).
//!
//! A test can write this file itself: its size is bounded, and so are the work and the memory that it causes. Records that are cut off,
//! damaged or of another format measure nothing.

use proctor_core::coverage::LineSpan;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use thiserror::Error;

/// First line of a file.
pub(super) const MAGIC: &str = "proctor-go-tests 1";

/// Most bytes of the records of one process: 10,000 tests that execute 1,000 blocks each.
pub(super) const RECORDS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Most bytes of the records of all processes of a run: some 1,000 packages of a hundred tests.
pub(super) const ALL_RECORDS_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Most blocks that are read from the tables of one process. A module of a million lines has about 400,000.
const BLOCKS_MAX: usize = 4_000_000;

/// Most intervals, names in them, functions and texts of tables that are read of one process. Each takes about 100 bytes of memory,
/// and few of the file.
const ITEMS_MAX: usize = 1_000_000;

/// Length of a table's head (`MetaSymbolHeader` of Go's `internal/coverage`), and the place of the number of functions in it.
const TABLE_HEAD: usize = 44;
const FUNCTION_COUNT_AT: usize = 40;

/// Why the records of a process are not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum RecordsError {
    #[error("the test process recorded nothing")]
    Missing,
    #[error("its records are damaged or cut off")]
    Damaged,
    #[error("its records are too large")]
    TooLarge,
    #[error("its tests clear the counters")]
    Cleared,
}

/// A function: number of its table, and its number in it, from 0.
type Function = (usize, u32);

/// Executed blocks by function.
type Executed = BTreeMap<Function, BTreeSet<u32>>;

/// What the processes of a package recorded.
#[derive(Debug)]
pub(super) struct TestRecords<'a> {
    /// The top-level tests that started.
    pub(super) started: BTreeSet<&'a str>,
    /// Those that also ran in a process of their own, and executed no less there.
    pub(super) alone: BTreeSet<&'a str>,
    /// Executed blocks by the tests that ran meanwhile: none, one, or several that ran at the same time. What a test executed alone is here,
    /// too.
    executed: BTreeMap<BTreeSet<&'a str>, Executed>,
    tables: Vec<Table<'a>>,
    /// What is left of [`ITEMS_MAX`].
    items_left: usize,
}

/// Executed lines by file, as the tables name it.
pub(super) type NamedLines<'a> = HashMap<&'a str, Vec<LineSpan>>;

/// The same by tests.
pub(super) type LinesByTests<'a> = BTreeMap<BTreeSet<&'a str>, NamedLines<'a>>;

impl<'a> TestRecords<'a> {
    /// Reads a whole file, and those of the tests that ran alone; of these one that is damaged says nothing.
    pub(super) fn parse(content: &'a [u8], alone: &[&'a [u8]]) -> Result<TestRecords<'a>, RecordsError> {
        if content.is_empty() {
            return Err(RecordsError::Missing);
        }
        if content.len() > RECORDS_BYTES_MAX {
            return Err(RecordsError::TooLarge);
        }
        let rest = content.strip_prefix(MAGIC.as_bytes()).and_then(|rest| rest.strip_prefix(b"\n"));
        let mut reader = Reader { rest: rest.ok_or(RecordsError::Damaged)? };
        let mut records = TestRecords {
            started: BTreeSet::new(),
            alone: BTreeSet::new(),
            executed: BTreeMap::new(),
            tables: Vec::new(),
            items_left: ITEMS_MAX,
        };
        loop {
            match reader.byte().ok_or(RecordsError::Damaged)? {
                b'E' if reader.rest.is_empty() => {
                    alone.iter().for_each(|content| records.add_alone(content));
                    return Ok(records);
                }
                b'F' => return Err(RecordsError::TooLarge),
                b'C' => return Err(RecordsError::Cleared),
                kind if records.read(kind, &mut reader).is_some() => {}
                _ if records.items_left == 0 => return Err(RecordsError::TooLarge),
                _ => return Err(RecordsError::Damaged),
            }
        }
    }

    fn read(&mut self, kind: u8, reader: &mut Reader<'a>) -> Option<()> {
        match kind {
            b'T' => {
                take(&mut self.items_left, 1)?;
                self.started.insert(reader.text()?);
            }
            b'I' => {
                let (running, executed) = read_interval(reader, &mut self.items_left)?;
                add(self.executed.entry(running).or_default(), executed);
            }
            b'M' => self.tables.push(Table::parse(reader.bytes()?, &mut self.items_left)?),
            _ => return None,
        }
        Some(())
    }

    /// Adds what a test executed alone. It ran as it does beside the others only if it executed no less there.
    fn add_alone(&mut self, content: &'a [u8]) {
        let Some((test, mut executed)) = read_alone(content, &mut self.items_left) else { return };
        if !self.started.contains(test) {
            return;
        }
        let mut beside = self.executed.iter().filter(|(running, _)| running.contains(test));
        if beside.all(|(_, beside)| has_all_of(&executed, beside)) {
            self.alone.insert(test);
        }
        if let Some(of_all) = self.executed.get(&BTreeSet::new()) {
            for (function, blocks) in &mut executed {
                let known = of_all.get(function);
                blocks.retain(|block| !known.is_some_and(|known| known.contains(block)));
            }
            executed.retain(|_, blocks| !blocks.is_empty());
        }
        add(self.executed.entry(BTreeSet::from([test])).or_default(), executed);
    }

    /// The executed lines by the tests that ran meanwhile.
    pub(super) fn lines(&self) -> Result<LinesByTests<'a>, RecordsError> {
        let mut known: HashMap<Function, Option<FunctionBlocks<'a>>> = HashMap::new();
        let mut blocks_left = BLOCKS_MAX;
        let mut lines: LinesByTests<'a> = BTreeMap::new();
        for (running, executed) in &self.executed {
            let by_file = lines.entry(running.clone()).or_default();
            for (function, counters) in executed {
                if !known.contains_key(function) {
                    let (table, number) = *function;
                    let blocks = match self.tables.get(table) {
                        Some(table) => Some(table.function(number, &mut blocks_left).ok_or(RecordsError::Damaged)?),
                        None => None,
                    };
                    known.insert(*function, blocks);
                }
                let Some(Some(blocks)) = known.get(function) else { continue };
                let spans = by_file.entry(blocks.file).or_default();
                for counter in counters {
                    let block = usize::try_from(*counter).ok().and_then(|counter| blocks.spans.get(counter));
                    spans.push(*block.ok_or(RecordsError::Damaged)?);
                }
            }
        }
        Ok(lines)
    }
}

/// Whether all blocks of `some` are in `all`.
fn has_all_of(all: &Executed, some: &Executed) -> bool {
    some.iter().all(|(function, blocks)| all.get(function).is_some_and(|all| blocks.is_subset(all)))
}

fn add(to: &mut Executed, more: Executed) {
    for (function, blocks) in more {
        match to.entry(function) {
            Entry::Vacant(entry) => _ = entry.insert(blocks),
            Entry::Occupied(mut entry) => entry.get_mut().extend(blocks),
        }
    }
}

/// Reads the names of the running tests, then per function: numbers of its package and itself, counters as distances, 0.
fn read_interval<'a>(reader: &mut Reader<'a>, items_left: &mut usize) -> Option<(BTreeSet<&'a str>, Executed)> {
    let mut running = BTreeSet::new();
    take(items_left, 1)?;
    for _ in 0..reader.number()? {
        take(items_left, 1)?;
        running.insert(reader.text()?);
    }
    let mut executed = Executed::new();
    loop {
        // Packages count from 1. Those of the runtime have fixed numbers, which no table has.
        let package = reader.number()?;
        if package == 0 {
            // The writer leaves out what executed nothing.
            return (!executed.is_empty()).then_some((running, executed));
        }
        take(items_left, 1)?;
        let function = (usize::try_from(package).ok()? - 1, reader.number()?);
        let mut counter = 0_u32;
        let mut blocks = Vec::new();
        loop {
            match reader.number()? {
                0 => break,
                distance => counter = counter.checked_add(distance)?,
            }
            blocks.push(counter - 1);
        }
        // In order, so that the set is built at once.
        executed.entry(function).or_default().append(&mut blocks.into_iter().collect());
    }
}

/// Reads the records of a process that ran one test alone: its name and intervals, and the end.
fn read_alone<'a>(content: &'a [u8], items_left: &mut usize) -> Option<(&'a str, Executed)> {
    let mut reader = Reader { rest: content };
    let (mut test, mut executed) = (None, Executed::new());
    loop {
        take(items_left, 1)?;
        match reader.byte()? {
            b'T' if test.is_none() => test = Some(reader.text()?),
            b'I' => add(&mut executed, read_interval(&mut reader, items_left)?.1),
            b'E' if reader.rest.is_empty() => return Some((test?, executed)),
            _ => return None,
        }
    }
}

/// The blocks of a function by the number of their counter.
#[derive(Debug)]
struct FunctionBlocks<'a> {
    file: &'a str,
    spans: Vec<LineSpan>,
}

/// The functions of a package, as the compiler writes them (`internal/coverage/encodemeta`).
#[derive(Debug)]
struct Table<'a> {
    bytes: &'a [u8],
    functions: u32,
    strings: Vec<&'a str>,
}

impl<'a> Table<'a> {
    fn parse(bytes: &'a [u8], items_left: &mut usize) -> Option<Table<'a>> {
        let functions = word(bytes, FUNCTION_COUNT_AT)?;
        let strings_at = usize::try_from(functions).ok()?.checked_mul(4)?.checked_add(TABLE_HEAD)?;
        let mut reader = Reader { rest: bytes.get(strings_at..)? };
        let count = usize::try_from(reader.number()?).ok()?;
        take(items_left, count.saturating_add(1))?;
        // Each takes a byte or more.
        let mut strings = Vec::with_capacity(count.min(reader.rest.len()));
        for _ in 0..count {
            strings.push(reader.text()?);
        }
        Some(Table { bytes, functions, strings })
    }

    fn function(&self, number: u32, blocks_left: &mut usize) -> Option<FunctionBlocks<'a>> {
        if number >= self.functions {
            return None;
        }
        let offset = word(self.bytes, usize::try_from(number).ok()?.checked_mul(4)?.checked_add(TABLE_HEAD)?)?;
        let mut reader = Reader { rest: self.bytes.get(usize::try_from(offset).ok()?..)? };
        let count = usize::try_from(reader.number()?).ok()?;
        let (_name, file) = (reader.number()?, reader.number()?);
        let file = self.strings.get(usize::try_from(file).ok()?)?;
        *blocks_left = blocks_left.checked_sub(count)?;
        let mut spans = Vec::with_capacity(count.min(reader.rest.len()));
        for _ in 0..count {
            let [first, _, last, _, _statements] =
                [reader.number(), reader.number(), reader.number(), reader.number(), reader.number()];
            let span = LineSpan { first: first?, last: last? };
            if span.first == 0 || span.last < span.first {
                return None;
            }
            spans.push(span);
        }
        Some(FunctionBlocks { file, spans })
    }
}

/// Takes `count` of what is left, or all and `None`.
fn take(left: &mut usize, count: usize) -> Option<()> {
    let is_enough = *left >= count;
    *left = left.saturating_sub(count);
    is_enough.then_some(())
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// Takes values from the front of bytes; `None` where they end or are not sound.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    /// A number of seven bits a byte, the lowest first.
    fn number(&mut self) -> Option<u32> {
        let mut number = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).ok();
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

#[cfg(test)]
pub(super) mod sample;
#[cfg(test)]
mod tests;

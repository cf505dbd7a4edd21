//! Which sets of tests executed which lines of one file: runs of lines with the same combination of sets.
//!
//! Sets of tests are numbers here. Lines of one function are mostly executed by the same sets, so that each distinct
//! combination is stored once, as a compressed bitmap, and a run of lines takes twelve bytes.

use super::LineSpan;
use crate::bounds::SPANS_PER_FILE_MAX;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use roaring::RoaringBitmap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashMap;
use std::iter::Peekable;

/// Memory of one container of a bitmap besides its numbers, in bytes.
const CONTAINER_BYTES: usize = 48;

/// Lines that one set executed, as they are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SetSpan {
    pub(super) set: u32,
    pub(super) span: LineSpan,
}

/// Sets by line of one file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct LineSets {
    /// Sorted and disjoint.
    runs: Vec<LineRun>,
    /// Distinct combinations of sets, in no order.
    combinations: Vec<RoaringBitmap>,
    /// The sets of any line.
    any: RoaringBitmap,
    /// Memory of the bitmaps.
    bitmap_bytes: usize,
}

/// Consecutive lines that the same sets executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineRun {
    lines: LineSpan,
    /// Position in [`LineSets::combinations`].
    combination: u32,
}

impl LineSets {
    /// The sets of any line.
    pub(super) fn any(&self) -> &RoaringBitmap {
        &self.any
    }

    /// The sets that executed one of these lines.
    pub(super) fn executing(&self, spans: &[LineSpan]) -> RoaringBitmap {
        let mut found = RoaringBitmap::new();
        for span in spans {
            let begin = self.runs.partition_point(|run| run.lines.last < span.first);
            let runs = self.runs[begin..].iter().take_while(|run| run.lines.first <= span.last);
            runs.for_each(|run| found |= &self.combinations[run.combination as usize]);
        }
        found
    }

    /// The combinations of sets with equal lines.
    pub(super) fn combinations(&self) -> &[RoaringBitmap] {
        &self.combinations
    }

    /// Consecutive lines that the same sets executed, with the position of these sets in [`LineSets::combinations`].
    pub(super) fn runs(&self) -> impl Iterator<Item = (LineSpan, usize)> + '_ {
        self.runs.iter().map(|run| (run.lines, run.combination as usize))
    }

    /// Memory use in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bitmap_bytes + self.runs.len() * size_of::<LineRun>()
    }

    /// Removes sets from all lines.
    pub(super) fn remove(&mut self, removed: &RoaringBitmap) {
        if self.any.is_disjoint(removed) {
            return;
        }
        let mut unlimited = usize::MAX;
        let mut builder = Builder::new(&self.any - removed, &mut unlimited);
        let left: Vec<Option<u32>> =
            self.combinations.iter().map(|sets| builder.combination(&(sets - removed))).collect();
        for run in &self.runs {
            builder.push(run.lines, left[run.combination as usize]);
        }
        *self = builder.lines;
    }

    /// Adds lines, at most `bytes_left` more bytes, and takes what they need from it. Returns how many runs of lines were left
    /// out; the file keeps at most [`SPANS_PER_FILE_MAX`] of them.
    pub(super) fn add(&mut self, mut spans: Vec<SetSpan>, bytes_left: &mut usize) -> usize {
        // A stable sort takes little time for what is sorted already, and adapters report test by test.
        spans.sort();
        merge_touching(&mut spans);
        *bytes_left += self.memory_bytes();
        let added: RoaringBitmap = spans.iter().map(|span| span.set).collect();
        let any = &self.any | &added;
        if bitmap_bytes(&any) > *bytes_left {
            *bytes_left = bytes_left.saturating_sub(self.memory_bytes());
            return spans.len();
        }
        // The old lines stay in memory until the new ones are complete.
        let (added, mut left_out) = if self.runs.is_empty() {
            let mut builder = Builder::new(any, bytes_left);
            builder.sweep(spans);
            (builder.lines, builder.left_out)
        } else {
            let mut bytes = *bytes_left;
            let mut builder = Builder::new(added, &mut bytes);
            builder.sweep(spans);
            let (added, left_out) = (builder.lines, builder.left_out);
            let mut builder = Builder::new(any, bytes_left);
            builder.overlay(self, &added);
            (builder.lines, left_out + builder.left_out)
        };
        *self = added;
        if self.runs.is_empty() {
            left_out = left_out.max(1);
        }
        left_out
    }
}

/// Builds the lines of a file from the first to the last.
struct Builder<'a> {
    lines: LineSets,
    /// Positions of combinations by signature.
    known: HashMap<u64, Vec<u32>>,
    bytes_left: &'a mut usize,
    left_out: usize,
}

impl<'a> Builder<'a> {
    fn new(any: RoaringBitmap, bytes_left: &'a mut usize) -> Builder<'a> {
        let bitmap_bytes = bitmap_bytes(&any);
        *bytes_left = bytes_left.saturating_sub(bitmap_bytes);
        let lines = LineSets { any, bitmap_bytes, ..LineSets::default() };
        Builder { lines, known: HashMap::new(), bytes_left, left_out: 0 }
    }

    /// Goes over the lines of spans that are sorted by set and touch no other span of their set.
    fn sweep(&mut self, spans: Vec<SetSpan>) {
        let mut starts: Vec<(u32, u32)> = spans.iter().map(|one| (one.span.first, one.set)).collect();
        let mut ends: Vec<(u32, u32)> = spans.iter().map(|one| (one.span.last, one.set)).collect();
        drop(spans);
        starts.sort_unstable();
        ends.sort_unstable();
        let (mut starts, mut ends) = (starts.into_iter().peekable(), ends.into_iter().peekable());
        let (mut active, mut signature) = (RoaringBitmap::new(), 0);
        let mut first: Option<u32> = starts.peek().map(|(first, _)| *first);
        while let Some(at) = first {
            for (_, set) in std::iter::from_fn(|| starts.next_if(|(start, _)| *start == at)) {
                active.insert(set);
                signature ^= mixed(set);
            }
            let last = last_of_run(at, &mut starts, &mut ends);
            if !active.is_empty() {
                let combination = self.intern(signature, &active);
                self.push(LineSpan { first: at, last }, combination);
            }
            for (_, set) in std::iter::from_fn(|| ends.next_if(|(end, _)| *end == last)) {
                active.remove(set);
                signature ^= mixed(set);
            }
            let next_start = starts.peek().map(|(start, _)| *start);
            first = if active.is_empty() { next_start } else { last.checked_add(1) };
        }
    }

    /// Unites the lines of two files.
    fn overlay(&mut self, one: &LineSets, other: &LineSets) {
        let mut united: HashMap<(Option<u32>, Option<u32>), Option<u32>> = HashMap::new();
        let (mut left, mut right) = (one.runs.iter().peekable(), other.runs.iter().peekable());
        let mut next = Some(0);
        while let Some(from) = next {
            while left.next_if(|run| run.lines.last < from).is_some() {}
            while right.next_if(|run| run.lines.last < from).is_some() {}
            let heads = [left.peek(), right.peek()].map(|run| run.copied().copied());
            let Some(first) = heads.iter().flatten().map(|run| run.lines.first.max(from)).min() else { return };
            let at = heads.map(|run| run.filter(|run| run.lines.first <= first));
            let ends = heads
                .iter()
                .flatten()
                .map(|run| if run.lines.first <= first { run.lines.last } else { run.lines.first - 1 });
            let last = ends.min().unwrap_or(first);
            let key = (at[0].map(|run| run.combination), at[1].map(|run| run.combination));
            let combination = match united.get(&key) {
                Some(known) => *known,
                None => {
                    let sets = |lines: &LineSets, at: Option<u32>| {
                        at.map_or_else(RoaringBitmap::new, |at| lines.combinations[at as usize].clone())
                    };
                    let combination = self.combination(&(sets(one, key.0) | sets(other, key.1)));
                    united.insert(key, combination);
                    combination
                }
            };
            self.push(LineSpan { first, last }, combination);
            next = last.checked_add(1);
        }
    }

    /// Position of a combination, which is added if it is new; `None` if it is empty or does not fit.
    fn combination(&mut self, sets: &RoaringBitmap) -> Option<u32> {
        if sets.is_empty() { None } else { self.intern(sets.iter().fold(0, |sum, set| sum ^ mixed(set)), sets) }
    }

    fn intern(&mut self, signature: u64, sets: &RoaringBitmap) -> Option<u32> {
        let known = self.known.entry(signature).or_default();
        if let Some(same) = known.iter().find(|at| self.lines.combinations[**at as usize] == *sets) {
            return Some(*same);
        }
        let bytes = bitmap_bytes(sets);
        let at = u32::try_from(self.lines.combinations.len()).ok().filter(|_| bytes <= *self.bytes_left)?;
        *self.bytes_left -= bytes;
        self.lines.bitmap_bytes += bytes;
        // A clone has no spare capacity.
        self.lines.combinations.push(sets.clone());
        known.push(at);
        Some(at)
    }

    fn push(&mut self, lines: LineSpan, combination: Option<u32>) {
        let Some(combination) = combination else {
            // Lines without any set are no loss, but only a removal has such.
            self.left_out += 1;
            return;
        };
        let runs = &mut self.lines.runs;
        let has_room = runs.len() < SPANS_PER_FILE_MAX && size_of::<LineRun>() <= *self.bytes_left;
        match runs.last_mut() {
            Some(run) if run.combination == combination && run.lines.last.checked_add(1) == Some(lines.first) => {
                run.lines.last = lines.last;
            }
            _ if has_room => {
                *self.bytes_left -= size_of::<LineRun>();
                runs.push(LineRun { lines, combination });
            }
            _ => self.left_out += 1,
        }
    }
}

/// Last line from `at` on before a span begins or behind which one ends.
fn last_of_run(
    at: u32,
    starts: &mut Peekable<impl Iterator<Item = (u32, u32)>>,
    ends: &mut Peekable<impl Iterator<Item = (u32, u32)>>,
) -> u32 {
    let before_start = starts.peek().map_or(u32::MAX, |(start, _)| start - 1);
    ends.peek().map_or(at, |(end, _)| *end).min(before_start).max(at)
}

/// Merges spans that touch, of spans sorted by set and line.
fn merge_touching(spans: &mut Vec<SetSpan>) {
    spans.dedup_by(|next, kept| {
        let touches = next.set == kept.set && next.span.first <= kept.span.last.saturating_add(1);
        if touches {
            kept.span.last = kept.span.last.max(next.span.last);
        }
        touches
    });
}

/// Memory of a bitmap in bytes.
fn bitmap_bytes(bitmap: &RoaringBitmap) -> usize {
    let statistics = bitmap.statistics();
    let numbers =
        statistics.n_bytes_array_containers + statistics.n_bytes_bitset_containers + statistics.n_bytes_run_containers;
    size_of::<RoaringBitmap>()
        + CONTAINER_BYTES * statistics.n_containers as usize
        + usize::try_from(numbers).unwrap_or(usize::MAX / 2)
}

/// A number of which the sum without carry tells combinations apart (the finaliser of `SplitMix64`).
fn mixed(set: u32) -> u64 {
    let mut word = u64::from(set).wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// The stored form: numbers as text would take five times the space.
#[derive(Serialize, Deserialize)]
struct StoredLines {
    /// First line, last line and combination of each run as little-endian words, in base 64.
    runs: String,
    /// Combinations in the portable form of roaring bitmaps, in base 64.
    combinations: Vec<String>,
}

impl Serialize for LineSets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let words = |run: &LineRun| [run.lines.first, run.lines.last, run.combination].map(u32::to_le_bytes).concat();
        let runs: Vec<u8> = self.runs.iter().flat_map(words).collect();
        let packed = |sets: &RoaringBitmap| {
            let mut bytes = Vec::with_capacity(sets.serialized_size());
            sets.serialize_into(&mut bytes).map(|()| BASE64.encode(bytes)).map_err(serde::ser::Error::custom)
        };
        let combinations = self.combinations.iter().map(packed).collect::<Result<_, _>>()?;
        StoredLines { runs: BASE64.encode(runs), combinations }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LineSets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LineSets, D::Error> {
        let stored = StoredLines::deserialize(deserializer)?;
        let invalid = |_| serde::de::Error::custom("no lines of a coverage index");
        let bytes = BASE64.decode(stored.runs).map_err(|error| invalid(error.to_string()))?;
        let word = |chunk: &[u8], at: usize| chunk[4 * at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
        let run = |chunk: &[u8]| LineRun {
            lines: LineSpan { first: word(chunk, 0), last: word(chunk, 1) },
            combination: word(chunk, 2),
        };
        let runs: Vec<LineRun> = bytes.chunks_exact(12).map(run).collect();
        let unpacked = |text: &String| {
            let bytes = BASE64.decode(text).map_err(|error| invalid(error.to_string()))?;
            RoaringBitmap::deserialize_from(&bytes[..]).map_err(|error| invalid(error.to_string()))
        };
        let combinations = stored.combinations.iter().map(unpacked).collect::<Result<Vec<_>, _>>()?;
        let is_sound =
            |run: &LineRun| run.lines.first <= run.lines.last && (run.combination as usize) < combinations.len();
        let is_sorted = runs.is_sorted_by(|one, next| one.lines.last < next.lines.first);
        if bytes.len() % 12 != 0 || !is_sorted || !runs.iter().all(is_sound) {
            return Err(invalid(String::new()));
        }
        let mut any = RoaringBitmap::new();
        combinations.iter().for_each(|sets| any |= sets);
        let bitmap_bytes = combinations.iter().chain([&any]).map(bitmap_bytes).sum();
        Ok(LineSets { runs, combinations, any, bitmap_bytes })
    }
}

//! Reads what LLVM's coverage mapping says of a function: which lines each of its counters counts.
//!
//! The format is that of <https://llvm.org/docs/CoverageMappingFormat.html>, version 6 and 7 (LLVM 13 to 22). Of its regions
//! only those of code count. A line is executed if a region that begins on it is, or the innermost one around its beginning.

use super::byte_reader::ByteReader;
use proctor_core::coverage::LineSpan;

/// Tag of a counter that counts nothing, of one by number, and of the two kinds of expressions.
const ZERO: u32 = 0;
const COUNTER: u32 = 1;
const DIFFERENCE: u32 = 2;
const SUM: u32 = 3;

/// Bits of a tag.
const TAG_BITS: u32 = 2;

/// Bit of a region without a counter of its own that stands for another file, and the place of the kind of any other such one.
const EXPANSION: u32 = 1 << TAG_BITS;
const KIND_SHIFT: u32 = TAG_BITS + 1;

/// Kinds of regions.
const CODE: u32 = 0;
const SKIPPED: u32 = 2;
const BRANCH: u32 = 4;
const DECISION: u32 = 5;
const DECISION_BRANCH: u32 = 6;

/// Bit of the last column that marks the gap between two regions.
const GAP: u32 = 1 << 31;

/// The number of executions of a region: a tag, and the number of a counter or an expression.
type Counter = u32;

/// A function's regions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FunctionMapping {
    /// Both sides of each expression.
    expressions: Vec<(Counter, Counter)>,
    /// Lines in the order of their files, with the end of their counters in `deciding`.
    runs: Vec<LineRun>,
    deciding: Vec<Counter>,
    /// Places of the expressions that decide, each behind its sides.
    order: Vec<usize>,
}

/// Lines of one file that are executed or not together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineRun {
    /// Number of the file in its list of names.
    file: u32,
    lines: LineSpan,
    deciding_end: u32,
}

/// A region of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Region {
    first: (u32, u32),
    /// Behind the last column.
    last: (u32, u32),
    counter: Counter,
    is_gap: bool,
}

impl FunctionMapping {
    /// Reads the mapping of one function. `names` is the number of names of files. Takes from `work_left` what it costs in time
    /// and memory.
    pub(super) fn parse(bytes: &[u8], names: usize, work_left: &mut usize) -> Option<FunctionMapping> {
        let mut reader = ByteReader::new(bytes);
        let files = read_list(&mut reader, work_left, |reader| {
            let name = reader.leb128_u32()?;
            (usize::try_from(name).ok()? < names).then_some(name)
        })?;
        let pair = |reader: &mut ByteReader<'_>| Some((reader.leb128_u32()?, reader.leb128_u32()?));
        let expressions = read_list(&mut reader, work_left, pair)?;
        let mut mapping = FunctionMapping { expressions, ..FunctionMapping::default() };
        for file in files {
            let mut line = 0_u32;
            let regions = read_list(&mut reader, work_left, |reader| read_region(reader, &mut line))?;
            mapping.add_lines(file, regions.into_iter().flatten().collect(), work_left)?;
        }
        mapping.order_expressions();
        Some(mapping)
    }

    /// Adds the lines of the regions of one file.
    fn add_lines(&mut self, file: u32, mut regions: Vec<Region>, work_left: &mut usize) -> Option<()> {
        regions.sort_by_key(|region| (region.first, std::cmp::Reverse(region.last)));
        regions.dedup();
        let ends = |region: &Region| [region.first.0, region.first.0 + 1, region.last.0, region.last.0 + 1];
        let mut borders: Vec<u32> = regions.iter().flat_map(ends).collect();
        borders.sort_unstable();
        borders.dedup();
        let mut open: Vec<Region> = Vec::new();
        let mut regions = regions.into_iter().peekable();
        for (at, line) in borders.iter().enumerate() {
            let start = self.deciding.len();
            while open.pop_if(|region| region.last <= (*line, 1)).is_some() {}
            if let Some(innermost) = open.last().copied() {
                let same = |region: &&Region| (region.first, region.last) == (innermost.first, innermost.last);
                let around = &open[open.len() - open.iter().rev().take_while(same).count()..];
                take(work_left, around.len())?;
                self.deciding.extend(around.iter().filter(|region| !region.is_gap).map(|region| region.counter));
            }
            while let Some(region) = regions.next_if(|region| region.first.0 == *line) {
                self.deciding.extend((!region.is_gap).then_some(region.counter));
                open.push(region);
            }
            let added = self.deciding.len() - start;
            take(work_left, 1 + added)?;
            let next = borders.get(at + 1).copied().unwrap_or(line + 1);
            if added > 0 && *line > 0 {
                let lines = LineSpan { first: *line, last: next - 1 };
                self.runs.push(LineRun { file, lines, deciding_end: u32::try_from(self.deciding.len()).ok()? });
            }
        }
        Some(())
    }

    /// Lines that can be executed, with the number of their file's name.
    pub(super) fn executable(&self) -> impl Iterator<Item = (u32, LineSpan)> + '_ {
        self.runs.iter().map(|run| (run.file, run.lines))
    }

    /// How much work [`FunctionMapping::executed`] is.
    pub(super) fn size(&self) -> usize {
        1 + self.runs.len() + self.deciding.len() + 2 * self.expressions.len()
    }

    /// Lines that were executed when the function's counters had these values.
    pub(super) fn executed<'m>(&'m self, counts: &[u64]) -> impl Iterator<Item = (u32, LineSpan)> + use<'m> {
        let values = self.values(counts);
        let is_executed: Vec<bool> = self.deciding.iter().map(|counter| value(*counter, counts, &values) > 0).collect();
        let mut start = 0;
        self.runs.iter().filter_map(move |run| {
            let end = usize::try_from(run.deciding_end).unwrap_or(start);
            let deciding = &is_executed[start..end];
            start = end;
            deciding.contains(&true).then_some((run.file, run.lines))
        })
    }

    /// Puts the places of the expressions that decide in an order in which each comes behind its sides. One that contains
    /// itself comes before a side, which counts as 0 then.
    fn order_expressions(&mut self) {
        let mut is_known = vec![false; 2 * self.expressions.len()];
        let mut open: Vec<(usize, bool)> = Vec::new();
        for wanted in self.deciding.iter().filter_map(|counter| place(*counter)) {
            open.push((wanted, false));
            while let Some((at, has_sides)) = open.pop() {
                if has_sides {
                    self.order.push(at);
                } else if is_known.get(at) == Some(&false) {
                    is_known[at] = true;
                    open.push((at, true));
                    let (left, right) = self.expressions[at / 2];
                    open.extend([left, right].into_iter().filter_map(place).map(|side| (side, false)));
                }
            }
        }
    }

    /// The values of the expressions, by place.
    fn values(&self, counts: &[u64]) -> Vec<i64> {
        let mut values = vec![0; if self.order.is_empty() { 0 } else { 2 * self.expressions.len() }];
        for at in &self.order {
            let (left, right) = self.expressions[at / 2];
            let [left, right] = [left, right].map(|counter| value(counter, counts, &values));
            let is_sum = at % 2 == 1;
            values[*at] = if is_sum { left.saturating_add(right) } else { left.saturating_sub(right) };
        }
        values
    }
}

/// The place of an expression's value: the same two sides may be a difference and a sum.
fn place(counter: Counter) -> Option<usize> {
    let number = usize::try_from(counter >> TAG_BITS).ok()?;
    match counter & (EXPANSION - 1) {
        DIFFERENCE => Some(2 * number),
        SUM => Some(2 * number + 1),
        _ => None,
    }
}

fn value(counter: Counter, counts: &[u64], values: &[i64]) -> i64 {
    if let Some(place) = place(counter) {
        return values.get(place).copied().unwrap_or(0);
    }
    let number = usize::try_from(counter >> TAG_BITS).ok().filter(|_| counter & (EXPANSION - 1) == COUNTER);
    let count = number.and_then(|number| counts.get(number)).copied().unwrap_or(0);
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Takes from the work left; nothing is left if that is not enough.
fn take(work_left: &mut usize, work: usize) -> Option<()> {
    let rest = work_left.checked_sub(work);
    *work_left = rest.unwrap_or(0);
    rest.map(|_| ())
}

/// Reads a list with its length before it. Each entry has a byte at least.
fn read_list<T>(
    reader: &mut ByteReader<'_>,
    work_left: &mut usize,
    mut read: impl FnMut(&mut ByteReader<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let len = reader.leb128_len()?;
    take(work_left, len)?;
    let mut list = Vec::new();
    for _ in 0..len {
        list.push(read(reader)?);
    }
    Some(list)
}

/// Reads a region that begins `line` lines and more below the last one. `Some(None)` for a kind that is not of code.
#[expect(clippy::option_option, reason = "damaged, of another kind, or a region")]
fn read_region(reader: &mut ByteReader<'_>, line: &mut u32) -> Option<Option<Region>> {
    let head = reader.leb128_u32()?;
    let mut is_code = true;
    if head & (EXPANSION - 1) == ZERO {
        let more = match (head & EXPANSION, head >> KIND_SHIFT) {
            (EXPANSION, _) | (_, SKIPPED) => Some(0),
            (_, CODE) => None,
            (_, BRANCH | DECISION) => Some(2),
            (_, DECISION_BRANCH) => Some(5),
            _ => return None,
        };
        is_code = more.is_none();
        for _ in 0..more.unwrap_or(0) {
            reader.leb128_u32()?;
        }
    }
    *line = line.checked_add(reader.leb128_u32()?)?;
    let first_column = reader.leb128_u32()?;
    let last_line = line.checked_add(reader.leb128_u32()?).filter(|last| *last < u32::MAX)?;
    let last_column = reader.leb128_u32()?;
    let is_gap = last_column & GAP != 0;
    let last_column = last_column & !GAP;
    let (first, last) = match (first_column, last_column) {
        // A region without columns has whole lines.
        (0, 0) => ((*line, 1), (last_line, u32::MAX)),
        _ => ((*line, first_column), (last_line, last_column)),
    };
    let counter = if head & (EXPANSION - 1) == ZERO { ZERO } else { head };
    Some((is_code && first <= last).then_some(Region { first, last, counter, is_gap }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WORK: usize = 10_000;

    fn counter(number: u32) -> u32 {
        number << TAG_BITS | COUNTER
    }

    fn difference(number: u32) -> u32 {
        number << TAG_BITS | DIFFERENCE
    }

    fn sum(number: u32) -> u32 {
        number << TAG_BITS | SUM
    }

    fn leb(value: u32) -> Vec<u8> {
        let (mut value, mut bytes) = (value, Vec::new());
        loop {
            let byte = u8::try_from(value & 0x7f).unwrap();
            value >>= 7;
            if value == 0 {
                bytes.push(byte);
                return bytes;
            }
            bytes.push(byte | 0x80);
        }
    }

    /// The mapping of one file with these expressions and regions: head, line distance, column, lines, last column.
    fn mapping(expressions: &[(u32, u32)], regions: &[[u32; 5]]) -> Vec<u8> {
        let mut words = vec![1, 1, u32::try_from(expressions.len()).unwrap()];
        words.extend(expressions.iter().flat_map(|(left, right)| [*left, *right]));
        words.push(u32::try_from(regions.len()).unwrap());
        words.extend(regions.iter().flatten());
        words.into_iter().flat_map(leb).collect()
    }

    fn lines(spans: impl Iterator<Item = (u32, LineSpan)>) -> Vec<u32> {
        let mut lines: Vec<u32> = spans.flat_map(|(_, span)| span.first..=span.last).collect();
        lines.sort_unstable();
        lines.dedup();
        lines
    }

    #[test]
    fn a_line_belongs_to_the_innermost_region_around_its_beginning_and_to_those_that_begin_on_it() {
        let bytes = mapping(&[], &[[counter(0), 1, 1, 9, 2], [counter(1), 3, 5, 2, 6]]);
        let mapping = FunctionMapping::parse(&bytes, 2, &mut { WORK }).unwrap();
        assert_eq!(lines(mapping.executable()), (1..=10).collect::<Vec<_>>());
        assert_eq!(lines(mapping.executed(&[1, 0])), [1, 2, 3, 4, 7, 8, 9, 10]);
        assert_eq!(lines(mapping.executed(&[1, 1])), (1..=10).collect::<Vec<_>>());
        assert_eq!(lines(mapping.executed(&[0, 0])), [0; 0]);
        assert_eq!(lines(mapping.executed(&[])), [0; 0], "counters that the records lack");
    }

    #[test]
    fn counters_may_be_sums_and_differences() {
        let expressions = [(counter(0), counter(1)), (difference(0), counter(2))];
        let regions = [[counter(0), 1, 1, 0, 9], [difference(0), 1, 1, 0, 9], [sum(1), 1, 1, 0, 9]];
        let mapping = FunctionMapping::parse(&mapping(&expressions, &regions), 2, &mut { WORK }).unwrap();
        assert_eq!(lines(mapping.executed(&[3, 3, 0])), [1]);
        assert_eq!(lines(mapping.executed(&[3, 1, 0])), [1, 2, 3]);
        assert_eq!(lines(mapping.executed(&[3, 3, 1])), [1, 3]);
        assert_eq!(lines(mapping.executed(&[1, 3, 0])), [1], "a test that began within the function");
    }

    #[test]
    fn an_expression_that_contains_itself_is_no_endless_loop() {
        let expressions = [(sum(1), counter(0)), (sum(0), counter(0)), (sum(9), difference(2))];
        let regions = [[sum(0), 1, 1, 0, 9], [sum(2), 1, 1, 0, 9]];
        let mapping = FunctionMapping::parse(&mapping(&expressions, &regions), 2, &mut { WORK }).unwrap();
        assert_eq!(lines(mapping.executed(&[1])), [1]);
    }

    #[test]
    fn only_regions_of_code_count() {
        let kind = |kind: u32| kind << KIND_SHIFT;
        let bytes = mapping(
            &[],
            &[[kind(SKIPPED), 1, 1, 0, 9], [EXPANSION, 1, 1, 0, 9], [counter(0), 1, 1, 0, GAP | 9], [ZERO, 1, 0, 1, 0]],
        );
        let gaps = FunctionMapping::parse(&bytes, 2, &mut { WORK }).unwrap();
        assert_eq!(lines(gaps.executable()), [4, 5]);
        let branch: Vec<u8> =
            [1, 1, 0, 1, kind(BRANCH), counter(0), ZERO, 1, 1, 0, 9].into_iter().flat_map(leb).collect();
        assert_eq!(FunctionMapping::parse(&branch, 2, &mut { WORK }), Some(FunctionMapping::default()));
        let unknown = mapping(&[], &[[kind(7), 1, 1, 0, 9]]);
        assert_eq!(FunctionMapping::parse(&unknown, 2, &mut { WORK }), None);
    }

    #[test]
    fn regions_around_many_lines_are_work_also_if_they_are_gaps() {
        let around = (0..300).map(|number| [counter(number), u32::from(number == 0), 1, 2_000, GAP | 9]);
        let regions: Vec<[u32; 5]> = around.chain((0..300).map(|_| [counter(0), 2, 1, 0, 9])).collect();
        let mut work_left = 1_000_000;
        FunctionMapping::parse(&mapping(&[], &regions), 2, &mut work_left).unwrap();
        assert!(1_000_000 - work_left > 300 * 300, "{work_left} left");
    }

    #[test]
    fn rejects_what_is_cut_or_too_large() {
        let whole = mapping(&[(counter(0), counter(1))], &[[counter(0), 1, 1, 9, 2], [counter(1), 3, 5, 2, 6]]);
        for len in 0..whole.len() {
            assert_eq!(FunctionMapping::parse(&whole[..len], 2, &mut { WORK }), None, "{len}");
        }
        assert_eq!(FunctionMapping::parse(&whole, 1, &mut { WORK }), None, "a file without a name");
        let mut few = 5;
        assert_eq!((FunctionMapping::parse(&whole, 2, &mut few), few), (None, 0));
        let overflow = mapping(&[], &[[counter(0), u32::MAX, 1, 9, 2]]);
        assert_eq!(FunctionMapping::parse(&overflow, 2, &mut { WORK }), None);
        let huge: Vec<u8> = [0xff, 0xff, 0xff, 0xff, 0xff, 0x01].to_vec();
        assert_eq!(FunctionMapping::parse(&huge, 2, &mut { WORK }), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_the_bound(bytes in prop::collection::vec(0_u8..40, 0..400)) {
            if let Some(mapping) = FunctionMapping::parse(&bytes, 40, &mut { WORK }) {
                let executable: Vec<(u32, LineSpan)> = mapping.executable().collect();
                prop_assert!(mapping.executed(&[1, 2, 3]).all(|line| executable.contains(&line)));
            }
        }
    }
}

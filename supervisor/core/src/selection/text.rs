//! The text of a file as a selection compares it: a hash of its content, and a hash of each line. So the line numbers of a
//! measurement can be moved along later edits without keeping the text.

use super::body::Body;
use super::file_kind::Ecosystem;
use super::go::bodies::go_bodies;
use super::go::line_shapes::go_line_shapes;
use super::javascript_bodies::bodies;
use super::line_shape::LineShape;
use super::python_bodies::python_bodies;
use super::rust_bodies::rust_bodies;
use crate::bounds::{TEXT_BYTES_MAX, TEXT_LINES_MAX};
use crate::coverage::{LineSpan, common_lines};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

/// Most pairs of lines that a diff may have to compare, once equal beginnings and ends are cut off. A larger difference
/// counts as one changed block.
const DIFF_PAIRS_MAX: usize = 4_000_000;

/// Bit of a line's hash that is set for lines inside of a function.
const BODY: u32 = 1;

/// Bits of a line's hash that have the number of its kind.
const SHAPE: u32 = ((1 << LineShape::BITS) - 1) << SHAPE_SHIFT;
const SHAPE_SHIFT: u32 = 1;

/// A hash of a whole content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentHash(pub [u8; 16]);

/// The text of one file at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileText {
    /// Hash of the content; for a link, of where it leads.
    pub content: ContentHash,
    /// `None` for a file that is not compared by line: binary, too large, or no source. Stored as `lines`, hashes do not have the lines'
    /// kinds.
    #[serde(rename = "shaped_lines")]
    lines: Option<LineHashes>,
}

/// One hash for each line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LineHashes(Arc<[u32]>);

impl LineHashes {
    /// The hashes of the lines alone: a line that is now inside of a function is the same line.
    fn contents(&self) -> Vec<u32> {
        self.0.iter().map(|hash| hash & !(BODY | SHAPE)).collect()
    }
}

impl FileText {
    /// A file that is compared as a whole.
    #[must_use]
    pub fn whole(content: ContentHash) -> FileText {
        FileText { content, lines: None }
    }

    /// A source file with this content at `path`. Text with NUL bytes, and text over [`TEXT_BYTES_MAX`] or
    /// [`TEXT_LINES_MAX`], is compared as a whole.
    #[must_use]
    pub fn of_source(path: &str, bytes: &[u8], content: ContentHash) -> FileText {
        if bytes.len() > TEXT_BYTES_MAX || bytes.contains(&0) {
            return FileText::whole(content);
        }
        let text = std::str::from_utf8(bytes).unwrap_or_default();
        let (bodies, shapes) = (bodies_of(path, text).unwrap_or_default(), shapes_of(path, text));
        let mut hashes = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            // A changed line ending alone changes no line; the content's hash shows it.
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if hashes.len() == TEXT_LINES_MAX {
                return FileText::whole(content);
            }
            let is_body = bodies.get(hashes.len()).is_some_and(Option::is_some);
            let shape = shapes.get(hashes.len()).map_or(0, |shape| shape.number());
            hashes.push(line_hash(line) & !(BODY | SHAPE) | u32::from(is_body) | shape << SHAPE_SHIFT);
        }
        FileText { content, lines: Some(LineHashes(hashes.into())) }
    }

    /// Number of lines; 0 for a file that is compared as a whole.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.lines.as_ref().map_or(0, |lines| lines.0.len())
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<FileText>() + self.lines() * size_of::<u32>()
    }

    /// A number that tells the contents of one file apart.
    #[must_use]
    pub fn content_number(&self) -> u64 {
        let ContentHash([a, b, c, d, e, f, g, h, ..]) = self.content;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }

    /// The hashes of its lines, sorted; empty if it is not known by line.
    #[must_use]
    pub(crate) fn sorted_lines(&self) -> Vec<u32> {
        let mut hashes = self.lines.as_ref().map_or_else(Vec::new, |lines| lines.0.to_vec());
        hashes.sort_unstable();
        hashes
    }

    fn is_body(&self, line: usize) -> bool {
        self.lines.as_ref().is_some_and(|lines| lines.0.get(line).is_some_and(|hash| hash & BODY != 0))
    }

    fn shape(&self, line: usize) -> LineShape {
        let hash = self.lines.as_ref().and_then(|lines| lines.0.get(line));
        hash.map_or(LineShape::Other, |hash| LineShape::from_number((hash & SHAPE) >> SHAPE_SHIFT))
    }
}

// FNV-1a, folded. Whoever makes two lines equal misleads only a selection of its own tests.
fn line_hash(line: &[u8]) -> u32 {
    let hash = line
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    let folded = (hash ^ (hash >> 32)) & u64::from(u32::MAX);
    u32::try_from(folded).unwrap_or_default()
}

// As hexadecimal digits: a list of numbers would be twice as long in a stored session.
impl Serialize for LineHashes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut digits = String::with_capacity(self.0.len() * 8);
        for hash in self.0.iter() {
            // Writing to a string cannot fail.
            _ = write!(digits, "{hash:08x}");
        }
        serializer.serialize_str(&digits)
    }
}

impl<'de> Deserialize<'de> for LineHashes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LineHashes, D::Error> {
        let digits = String::deserialize(deserializer)?;
        let hash = |chunk: &[u8]| {
            let text = std::str::from_utf8(chunk).ok().filter(|text| text.len() == 8)?;
            u32::from_str_radix(text, 16).ok()
        };
        let hashes: Option<Vec<u32>> = digits.as_bytes().chunks(8).map(hash).collect();
        let hashes = hashes.ok_or_else(|| serde::de::Error::custom("line hashes are groups of 8 digits"))?;
        Ok(LineHashes(hashes.into()))
    }
}

/// A changed block: these old lines became these new ones, both counted from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk {
    old: Range<usize>,
    new: Range<usize>,
}

/// How the lines of an old text have moved in a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineMap {
    /// In order; `None` if the files can only be compared as a whole.
    hunks: Option<Vec<Hunk>>,
    old_lines: usize,
    new_lines: usize,
    changes_declarations: bool,
    executing: Option<Vec<LineSpan>>,
}

impl LineMap {
    /// Compares two texts of a file.
    #[must_use]
    pub fn new(old: &FileText, new: &FileText) -> LineMap {
        let hunks = match (&old.lines, &new.lines) {
            _ if old.content == new.content => Some(Vec::new()),
            // Texts that differ although all of their lines are equal differ in line endings.
            (Some(before), Some(after)) => {
                Some(diff(&before.contents(), &after.contents())).filter(|hunks| !hunks.is_empty())
            }
            _ => None,
        };
        let is_declaration = |hunk: &Hunk| {
            hunk.old.clone().any(|line| !old.is_body(line)) || hunk.new.clone().any(|line| !new.is_body(line))
        };
        let changes_declarations =
            hunks.as_ref().is_none_or(|hunks| hunks.iter().any(is_declaration) || moves_out_of_bodies(hunks, old, new));
        let executing = hunks.as_ref().filter(|_| !changes_declarations).and_then(|hunks| executing(hunks, old, new));
        LineMap { hunks, old_lines: old.lines(), new_lines: new.lines(), changes_declarations, executing }
    }

    /// Whether the two texts can be compared by line.
    #[must_use]
    pub fn knows_lines(&self) -> bool {
        self.hunks.is_some()
    }

    /// Whether unchanged lines may have other numbers in the new text.
    #[must_use]
    pub fn moves_lines(&self) -> bool {
        self.hunks.as_ref().is_none_or(|hunks| hunks.iter().any(|hunk| hunk.old.len() != hunk.new.len()))
    }

    /// Whether a line outside of all function bodies changed, or may have.
    #[must_use]
    pub fn changes_declarations(&self) -> bool {
        self.changes_declarations
    }

    /// Old lines of each changed block: what executes none of them does not come by what changed, and runs as before. `None` where that
    /// cannot be told by the kinds of the lines.
    #[must_use]
    pub fn executing_lines(&self) -> Option<&[LineSpan]> {
        self.executing.as_deref()
    }

    /// Lines of the new text that changed, from 1. Where lines were removed, those around the place.
    #[must_use]
    pub fn changed_lines(&self) -> Vec<LineSpan> {
        let spans = self.hunks.iter().flatten();
        spans.filter_map(|hunk| span(&widened(&hunk.new, self.new_lines))).collect()
    }

    /// Lines of the new text that the old one does not have, from 1: none where only lines were removed or only line endings
    /// changed. `None` if the files can only be compared as a whole.
    #[must_use]
    pub fn new_lines(old: &FileText, new: &FileText) -> Option<Vec<LineSpan>> {
        let (Some(before), Some(after)) = (&old.lines, &new.lines) else {
            return (old.content == new.content).then(Vec::new);
        };
        Some(diff(&before.contents(), &after.contents()).iter().filter_map(|hunk| span(&hunk.new)).collect())
    }

    /// Where those of the old `lines` that did not change are in the new text; none if the files can only be compared as a
    /// whole. `lines` are sorted and disjoint.
    #[must_use]
    pub fn moved(&self, lines: &[LineSpan]) -> Vec<LineSpan> {
        let Some(hunks) = &self.hunks else { return Vec::new() };
        let tail = Hunk { old: self.old_lines..self.old_lines, new: self.new_lines..self.new_lines };
        let (mut moved, mut old_at, mut new_at) = (Vec::new(), 0, 0);
        for hunk in hunks.iter().chain([&tail]) {
            let unchanged = span(&(old_at..hunk.old.start));
            for kept in unchanged.map(|unchanged| common_lines(lines, &[unchanged])).unwrap_or_default() {
                let place =
                    |line: u32| u32::try_from((line as usize + new_at).saturating_sub(old_at)).unwrap_or(u32::MAX);
                moved.push(LineSpan { first: place(kept.first), last: place(kept.last) });
            }
            (old_at, new_at) = (hunk.old.end, hunk.new.end);
        }
        moved
    }

    /// The old lines that became `lines` of the new text. Of new lines those that they replaced, else those around the
    /// place. Without a comparison by line, every old line.
    #[must_use]
    pub fn old_lines_around(&self, lines: LineSpan) -> Vec<LineSpan> {
        self.map(lines, true)
    }

    /// The old lines that became `lines` of the new text. New lines have those that they replaced, or none.
    #[must_use]
    pub fn old_lines(&self, lines: LineSpan) -> Vec<LineSpan> {
        self.map(lines, false)
    }

    fn map(&self, lines: LineSpan, around: bool) -> Vec<LineSpan> {
        let Some(hunks) = &self.hunks else { return span(&(0..self.old_lines)).into_iter().collect() };
        let index = |line: u32| usize::try_from(line).unwrap_or(usize::MAX);
        let (first, end) = (index(lines.first).saturating_sub(1), index(lines.last).min(self.new_lines));
        let mut found = Vec::new();
        let (mut old_at, mut new_at) = (0, 0);
        let tail = Hunk { old: self.old_lines..self.old_lines, new: self.new_lines..self.new_lines };
        for hunk in hunks.iter().chain([&tail]) {
            // The unchanged lines before the block.
            let unchanged = first.max(new_at)..end.min(hunk.new.start);
            if !unchanged.is_empty() {
                found.extend(span(&(unchanged.start - new_at + old_at..unchanged.end - new_at + old_at)));
            }
            if hunk.new.start < end && first < hunk.new.end {
                let old = if around { widened(&hunk.old, self.old_lines) } else { hunk.old.clone() };
                found.extend(span(&old));
            }
            (old_at, new_at) = (hunk.old.end, hunk.new.end);
        }
        found
    }
}

// Whether an unchanged line is inside of a function in one of the texts alone.
fn moves_out_of_bodies(hunks: &[Hunk], old: &FileText, new: &FileText) -> bool {
    unchanged(hunks, old, new).any(|(before, after)| old.is_body(before) != new.is_body(after))
}

// The unchanged lines, each by its numbers in both texts, from 0.
fn unchanged(hunks: &[Hunk], old: &FileText, new: &FileText) -> impl Iterator<Item = (usize, usize)> {
    let begins = [(0, 0)].into_iter().chain(hunks.iter().map(|hunk| (hunk.old.end, hunk.new.end)));
    let ends = hunks.iter().map(|hunk| (hunk.old.start, hunk.new.start)).chain([(old.lines(), new.lines())]);
    begins.zip(ends).flat_map(|((old_at, new_at), (old_end, new_end))| (old_at..old_end).zip(new_at..new_end))
}

// The old lines that are executed by all that comes by a block, each by itself: of lines of one statement, one may belong to no part that
// the runner counts.
fn executing(hunks: &[Hunk], old: &FileText, new: &FileText) -> Option<Vec<LineSpan>> {
    // Behind a quote that changed, lines may be others.
    if unchanged(hunks, old, new).any(|(before, after)| old.shape(before) != new.shape(after)) {
        return None;
    }
    let lines: Option<Vec<Vec<usize>>> = hunks.iter().map(|hunk| executing_block(hunk, old, new)).collect();
    lines?.concat().into_iter().map(|line| span(&(line..line + 1))).collect()
}

fn executing_block(hunk: &Hunk, old: &FileText, new: &FileText) -> Option<Vec<usize>> {
    let [before, after] = [(old, &hunk.old), (new, &hunk.new)]
        .map(|(text, lines)| lines.clone().map(|line| text.shape(line)).collect::<Vec<LineShape>>());
    let is_alike =
        before.len() == after.len() && before.iter().zip(&after).all(|(before, after)| before.may_become(*after));
    let executed = if is_alike {
        (0..before.len()).filter(|number| before[*number].is_executed()).collect()
    } else {
        LineShape::statements(after)?;
        LineShape::statements(before)?
    };
    if !executed.is_empty() {
        return Some(executed.into_iter().map(|number| hunk.old.start + number).collect());
    }
    // What is new has its place between two lines.
    let is_there = |line: &usize| old.shape(*line) != LineShape::Blank;
    let behind = (hunk.old.end..old.lines()).find(is_there);
    let before = (0..hunk.old.start).rev().find(is_there);
    let behind = behind.filter(|line| old.is_body(*line) && old.shape(*line).begins_statement());
    Some(vec![behind.or_else(|| before.filter(|line| old.shape(*line).leads_on()))?])
}

/// For each line of a source the body of a function around it; `None` for a language of which they are not known.
pub(super) fn bodies_of(path: &str, text: &str) -> Option<Vec<Option<Body>>> {
    // Vue's and Svelte's sources have more than JavaScript.
    let has_more = [".vue", ".svelte"].iter().any(|end| path.ends_with(end));
    match Ecosystem::of_source(path)? {
        Ecosystem::JavaScript if !has_more => Some(bodies(text)),
        Ecosystem::Rust => Some(rust_bodies(text)),
        Ecosystem::Python => Some(python_bodies(text)),
        Ecosystem::Go => Some(go_bodies(text)),
        Ecosystem::JavaScript => None,
    }
}

// The kind of each line of a source; none for a language of which they are not known.
fn shapes_of(path: &str, text: &str) -> Vec<LineShape> {
    match Ecosystem::of_source(path) {
        Some(Ecosystem::Go) => go_line_shapes(text),
        Some(Ecosystem::JavaScript | Ecosystem::Python | Ecosystem::Rust) | None => Vec::new(),
    }
}

// An empty range as the lines around its place.
fn widened(range: &Range<usize>, lines: usize) -> Range<usize> {
    if range.is_empty() { range.start.saturating_sub(1)..(range.end + 1).min(lines) } else { range.clone() }
}

fn span(range: &Range<usize>) -> Option<LineSpan> {
    let line = |index: usize| u32::try_from(index).ok();
    (!range.is_empty()).then(|| Some(LineSpan { first: line(range.start + 1)?, last: line(range.end)? })).flatten()
}

fn diff(old: &[u32], new: &[u32]) -> Vec<Hunk> {
    let same_start = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[same_start..], &new[same_start..]);
    let same_end = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old, new) = (&old[..old.len() - same_end], &new[..new.len() - same_end]);
    let at = |range: Range<usize>| range.start + same_start..range.end + same_start;
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    if old.len().saturating_mul(new.len()) > DIFF_PAIRS_MAX {
        return vec![Hunk { old: at(0..old.len()), new: at(0..new.len()) }];
    }
    // The blocks are what is between two equal ones: the library lists a removal and an insertion at the same place apart.
    let end = DiffOp::Equal { old_index: old.len(), new_index: new.len(), len: 0 };
    let (mut hunks, mut old_at, mut new_at) = (Vec::new(), 0, 0);
    for op in capture_diff_slices(Algorithm::Myers, old, new).into_iter().chain([end]) {
        let DiffOp::Equal { old_index, new_index, len } = op else { continue };
        if old_index > old_at || new_index > new_at {
            hunks.push(Hunk { old: at(old_at..old_index), new: at(new_at..new_index) });
        }
        (old_at, new_at) = (old_index + len, new_index + len);
    }
    hunks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(text: &str) -> FileText {
        let mut content = [0_u8; 16];
        for (at, byte) in text.bytes().enumerate() {
            content[at % 16] = content[at % 16].wrapping_mul(31).wrapping_add(byte);
        }
        FileText::of_source("a.go", text.as_bytes(), ContentHash(content))
    }

    fn span(first: u32, last: u32) -> LineSpan {
        LineSpan { first, last }
    }

    #[test]
    fn lines_move_along_edits() {
        let map = LineMap::new(&text("a\nb\nc\nd\n"), &text("x\ny\na\nb\nd\ne\n"));
        assert_eq!(map.old_lines(span(3, 3)), [span(1, 1)]);
        assert_eq!(map.old_lines(span(5, 5)), [span(4, 4)]);
        assert_eq!(map.old_lines(span(1, 1)), [], "a new line was not measured");
        assert_eq!(map.old_lines_around(span(1, 1)), [span(1, 1)], "but stands beside one that was");
        assert_eq!(map.old_lines(span(2, 4)), [span(1, 2)]);
        assert_eq!(map.changed_lines(), [span(1, 2), span(4, 5), span(6, 6)], "around the removed line, too");
        let replaced = LineMap::new(&text("a\nb\nc\n"), &text("a\nB\nc\n"));
        assert_eq!((replaced.old_lines(span(2, 2)), replaced.changed_lines()), (vec![span(2, 2)], vec![span(2, 2)]));
        assert_eq!(replaced.old_lines(span(9, 9)), [], "behind the end");
    }

    #[test]
    fn knows_the_lines_outside_of_function_bodies() {
        let before = "package a\n\nconst N = 1\n\nfunc F() int {\n\treturn N\n}\n";
        for (old, new, changes) in [
            ("\treturn N", "\treturn N + 1", false),
            ("N = 1", "N = 2", true),
            ("func F() int", "func F() int64", true),
            ("\treturn N\n", "", false),
            ("}\n", "}\n\nfunc G() {\n\tF()\n}\n", true),
        ] {
            let map = LineMap::new(&text(before), &text(&before.replace(old, new)));
            assert!(map.knows_lines());
            assert_eq!(map.changes_declarations(), changes, "{new}");
        }
    }

    #[test]
    fn knows_the_old_lines_that_all_executes_which_comes_by_an_edit() {
        let before =
            "package a\n\nfunc F() int {\n\tx := `a\n`\n\n\tif x {\n\t\ty()\n\t} else if z {\n\t}\n\treturn 1\n}\n";
        for (old, new, lines) in [
            ("return 1", "return 2", Some(vec![span(11, 11)])),
            ("if x {", "if !x {", Some(vec![span(7, 7)])),
            ("if z {", "if !z {", Some(vec![span(9, 9)])),
            ("\t\ty()\n\t} else if z", "\t\tz()\n\t} else if y", Some(vec![span(8, 8), span(9, 9)])),
            ("`a\n`", "`a\n\n`", Some(vec![span(5, 5)])),
            ("\t\ty()\n", "", Some(vec![span(8, 8)])),
            ("\treturn 1", "\ty()\n\treturn 1", Some(vec![span(11, 11)])),
            ("{\n\t}", "{\n\t\ty()\n\t}", Some(vec![span(9, 9)])),
            ("if x {", "for x {", Some(vec![span(7, 7)])),
            ("\t}\n\treturn", "\t}\n\tif y {\n\t}\n\treturn", Some(vec![span(11, 11)])),
            ("\tif x {\n\t\ty()\n\t} else if z {\n\t}\n", "", Some(vec![span(7, 7)])),
            ("\treturn 1\n", "\tswitch x {\n\tcase 1:\n\t}\n\treturn 2\n", Some(vec![span(11, 11)])),
            ("} else if z {", "} else {", None),
            ("\t}\n\treturn", "\t} else {\n\t}\n\treturn", None),
            ("\t\ty()\n", "\t\ty()\n\t}\n\tif y {\n", None),
            ("`a\n`", "1", Some(vec![span(4, 4), span(5, 5)])),
            ("\n\n\tif x", "\n\ty()\n\tif x", Some(vec![span(7, 7)])),
            ("`\n\n\tif x", "`+a\n\ty()\n\tif !x", None),
            ("\t}\n\treturn", "\t} // z\n\ty()\n\treturn", None),
            ("`a\n`", "`a\n`+`", None),
            ("F() int", "F() int64", None),
        ] {
            let map = LineMap::new(&text(before), &text(&before.replace(old, new)));
            assert_eq!(map.executing_lines().map(<[LineSpan]>::to_vec), lines, "{old:?} {new:?}");
        }
    }

    #[test]
    fn texts_that_have_no_lines_to_compare_changed_as_a_whole() {
        let [binary, changed] = [text("a\0b"), text("a\0c")];
        assert!(!LineMap::new(&binary, &changed).knows_lines());
        assert!(!LineMap::new(&text("a\n"), &changed).knows_lines());
        let endings = LineMap::new(&text("a\nb\n"), &text("a\r\nb\r\n"));
        assert!(!endings.knows_lines() && endings.changes_declarations(), "only the line endings differ");
        assert_eq!(LineMap::new(&text("a\nb\n"), &text("a\r\nc\r\n")).changed_lines(), [span(2, 2)]);
        assert!(
            text(&"x\n".repeat(TEXT_LINES_MAX + 1)).lines() == 0 && text(&"x".repeat(TEXT_BYTES_MAX + 1)).lines() == 0
        );
        assert_eq!(FileText::of_source("a.py", b"caf\xe9\n\xff", ContentHash([1; 16])).lines(), 2, "not UTF-8");
    }

    proptest! {
        #[test]
        fn an_unchanged_line_maps_to_a_line_with_the_same_text(
            old in prop::collection::vec(0_u8..5, 0..60),
            new in prop::collection::vec(0_u8..5, 0..60),
        ) {
            let join = |lines: &[u8]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            let map = LineMap::new(&text(&join(&old)), &text(&join(&new)));
            prop_assume!(map.knows_lines());
            let changed = map.changed_lines();
            for line in 1..=u32::try_from(new.len()).unwrap() {
                let is_changed = changed.iter().any(|span| (span.first..=span.last).contains(&line));
                let found = map.old_lines(span(line, line));
                prop_assert!(is_changed || found.len() == 1 && found[0].first == found[0].last);
                if !is_changed {
                    prop_assert_eq!(old[found[0].first as usize - 1], new[line as usize - 1]);
                }
                let around = map.old_lines_around(span(line, line));
                prop_assert!(old.is_empty() || !around.is_empty(), "a changed line has old lines beside it");
            }
            let lines_of = |spans: &[LineSpan]| spans.iter().flat_map(|span| span.first..=span.last).collect::<Vec<u32>>();
            let added = LineMap::new_lines(&text(&join(&old)), &text(&join(&new))).unwrap();
            let all_old: Vec<LineSpan> = (1..=u32::try_from(old.len()).unwrap()).map(|line| span(line, line)).collect();
            let moved = lines_of(&map.moved(&all_old));
            let mut all = [lines_of(&added), moved.clone()].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (1..=u32::try_from(new.len()).unwrap()).collect::<Vec<u32>>(), "new or kept");
            for line in moved {
                let found = map.old_lines(span(line, line));
                prop_assert_eq!(map.moved(&found), vec![span(line, line)]);
            }
            let json = serde_json::to_string(&text(&join(&old))).unwrap();
            prop_assert_eq!(serde_json::from_str::<FileText>(&json).unwrap(), text(&join(&old)));
        }
    }
}

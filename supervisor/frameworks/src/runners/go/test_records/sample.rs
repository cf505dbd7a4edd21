//! Writes records as a test process does.

use super::{FUNCTION_COUNT_AT, MAGIC, TABLE_HEAD};

fn number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    number(out, text.len());
    out.extend(text);
}

/// A table of functions of one file, each with blocks of one line.
pub(in super::super) fn table(file: &str, functions: &[&[u32]]) -> Vec<u8> {
    let mut strings = Vec::new();
    number(&mut strings, 2);
    text(&mut strings, b"F");
    text(&mut strings, file.as_bytes());
    let mut out = vec![0; TABLE_HEAD];
    out[FUNCTION_COUNT_AT..].copy_from_slice(&u32::try_from(functions.len()).unwrap().to_le_bytes());
    let mut bodies = Vec::new();
    for lines in functions {
        let at = TABLE_HEAD + 4 * functions.len() + strings.len() + bodies.len();
        out.extend(u32::try_from(at).unwrap().to_le_bytes());
        [lines.len(), 0, 1].into_iter().for_each(|value| number(&mut bodies, value));
        for line in *lines {
            [*line, 1, *line, 9, 1].into_iter().for_each(|value| number(&mut bodies, value as usize));
        }
        bodies.push(0);
    }
    [out, strings, bodies].concat()
}

/// Tests that run meanwhile, and distances of counters by package and function.
pub(in super::super) type Interval<'a> = (&'a [&'a str], &'a [(usize, usize, &'a [usize])]);

/// Records of a process, as the test binary writes them.
pub(in super::super) fn records(started: &[&str], intervals: &[Interval<'_>], tables: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("{MAGIC}\n").into_bytes();
    add(&mut out, started, intervals);
    for table in tables {
        out.push(b'M');
        text(&mut out, table);
    }
    out.push(b'E');
    out
}

fn add(out: &mut Vec<u8>, started: &[&str], intervals: &[Interval<'_>]) {
    for test in started {
        out.push(b'T');
        text(out, test.as_bytes());
    }
    for (running, executed) in intervals {
        out.push(b'I');
        number(out, running.len());
        running.iter().for_each(|test| text(out, test.as_bytes()));
        for (package, function, distances) in *executed {
            [*package, *function].into_iter().for_each(|value| number(out, value));
            distances.iter().for_each(|distance| number(out, *distance));
            out.push(0);
        }
        out.push(0);
    }
}

/// Records of a process that ran one test alone.
pub(in super::super) fn alone(test: &str, intervals: &[Interval<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    add(&mut out, &[test], intervals);
    out.push(b'E');
    out
}

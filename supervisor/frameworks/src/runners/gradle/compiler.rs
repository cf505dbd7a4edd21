//! Reads compiler errors of the JVM's languages, by file.

use regex::Regex;
use std::sync::LazyLock;

/// Most files with errors of one task.
const FILES_MAX: usize = 1_000;

/// A file that does not compile: its first error, and the compiler's output about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileErrors {
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) message: String,
    pub(super) output: String,
}

/// First lines of errors: javac, Kotlin's compiler in its two formats, Groovy's, Scala's.
const FIRST_LINES: &[&str] = &[
    r"^(?P<file>[^\s:][^:]*\.java):(?P<line>\d+): error: (?P<message>.+)$",
    r"^e: (?:file://)?(?P<file>[^:]+\.kts?): ?\(?(?P<line>\d+)[:,] ?\d+\)?:? (?P<message>.+)$",
    r"^(?P<file>[^\s:][^:]*\.groovy): (?P<line>\d+): (?P<message>.+?)(?: @ line \d+, column \d+\.)?$",
    r"^\[Error\] (?P<file>[^\s:][^:]*\.scala):(?P<line>\d+)(?::\d+)?: (?P<message>.+)$",
];

/// A line that ends the output of an error: a warning, a note or a count.
const OTHER_LINE: &str =
    r"^(?:w: |\[Warn\] |warning: |Note: |\d+ errors?$|\d+ warnings?$|[^\s:][^:]*\.java:\d+: warning: )";

static ERRORS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| FIRST_LINES.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect());
static ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(OTHER_LINE).ok());

/// The files with compiler errors, in the order of their first errors.
pub(super) fn compile_errors(output: &str) -> Vec<FileErrors> {
    let mut files: Vec<FileErrors> = Vec::new();
    let mut current = None;
    for line in output.lines() {
        if let Some(found) = ERRORS.iter().find_map(|pattern| pattern.captures(line)) {
            let number = found["line"].parse().unwrap_or_default();
            let known = files.iter().position(|error| error.file == found["file"]);
            current = known.or_else(|| (files.len() < FILES_MAX).then_some(files.len()));
            if known.is_none() && current.is_some() {
                let (file, message) = (found["file"].to_owned(), found["message"].trim().to_owned());
                files.push(FileErrors { file, line: number, message, output: String::new() });
            }
        } else if ENDS.as_ref().is_some_and(|end| end.is_match(line)) {
            current = None;
        }
        if let Some(error) = current.and_then(|current| files.get_mut(current)) {
            error.output.push_str(line);
            error.output.push('\n');
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!((ERRORS.len(), ENDS.is_some()), (FIRST_LINES.len(), true));
    }

    #[test]
    fn reads_the_errors_of_each_compiler() {
        for (line, file, number, message) in [
            ("src/A.java:8: error: ';' expected", "src/A.java", 8, "';' expected"),
            ("e: file:///ws/A.kt:12:5 Unresolved reference: x", "/ws/A.kt", 12, "Unresolved reference: x"),
            ("e: /ws/A.kt: (12, 5): Unresolved reference: x", "/ws/A.kt", 12, "Unresolved reference: x"),
            (
                "src/A.groovy: 8: unable to resolve class B @ line 8, column 1.",
                "src/A.groovy",
                8,
                "unable to resolve class B",
            ),
            ("[Error] src/A.scala:8:5: not found: value x", "src/A.scala", 8, "not found: value x"),
        ] {
            let found = compile_errors(line);
            assert_eq!((found.len(), found[0].file.as_str(), found[0].line), (1, file, number), "{line}");
            assert_eq!(found[0].message, message);
        }
        assert!(
            compile_errors("src/A.java:8: warning: [deprecation] x\nNote: y\nw: /ws/A.kt: (1, 2): unused\n").is_empty()
        );
    }

    #[test]
    fn gathers_the_output_of_each_file() {
        let found = compile_errors(
            "B.java:4: error: cannot find symbol\n  Foo y;\n  symbol:   class Foo\nA.java:3: error: no\n  x\n\
             B.java:9: error: more\nB.java:10: warning: old\n  z\n2 errors\n",
        );
        let found_output: Vec<(&str, u32, &str)> =
            found.iter().map(|one| (one.file.as_str(), one.line, one.output.as_str())).collect();
        let b = "B.java:4: error: cannot find symbol\n  Foo y;\n  symbol:   class Foo\nB.java:9: error: more\n";
        assert_eq!(found_output, [("B.java", 4, b), ("A.java", 3, "A.java:3: error: no\n  x\n")]);
    }
}

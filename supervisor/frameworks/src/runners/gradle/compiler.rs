//! Reads what compilers of the JVM's languages say of files that they refuse. Must not know which task called them.

use regex::Regex;
use std::sync::LazyLock;

/// Most files that one task blames.
const FILES_MAX: usize = 1_000;

/// A file that does not compile: its first error, and all that was said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) message: String,
    pub(super) said: String,
}

/// Shapes of lines that begin an error: javac, Kotlin's compiler in its two forms, Groovy's, Scala's.
const SHAPES: &[&str] = &[
    r"^(?P<file>[^\s:][^:]*\.java):(?P<line>\d+): error: (?P<message>.+)$",
    r"^e: (?:file://)?(?P<file>[^:]+\.kts?): ?\(?(?P<line>\d+)[:,] ?\d+\)?:? (?P<message>.+)$",
    r"^(?P<file>[^\s:][^:]*\.groovy): (?P<line>\d+): (?P<message>.+?)(?: @ line \d+, column \d+\.)?$",
    r"^\[Error\] (?P<file>[^\s:][^:]*\.scala):(?P<line>\d+)(?::\d+)?: (?P<message>.+)$",
];

/// A line that says something else and ends what belongs to an error.
const OTHER: &str = r"^(?:w: |\[Warn\] |warning: |Note: |\d+ errors?$|\d+ warnings?$|[^\s:][^:]*\.java:\d+: warning: )";

static ERRORS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| SHAPES.iter().filter_map(|shape| Regex::new(shape).ok()).collect());
static ENDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(OTHER).ok());

/// The files that compilers blame, in the order of their first errors.
pub(super) fn refused(output: &str) -> Vec<Refused> {
    let mut found: Vec<Refused> = Vec::new();
    let mut current = None;
    for line in output.lines() {
        if let Some(error) = ERRORS.iter().find_map(|shape| shape.captures(line)) {
            let number = error["line"].parse().unwrap_or_default();
            let known = found.iter().position(|refused| refused.file == error["file"]);
            current = known.or_else(|| (found.len() < FILES_MAX).then_some(found.len()));
            if known.is_none() && current.is_some() {
                let (file, message) = (error["file"].to_owned(), error["message"].trim().to_owned());
                found.push(Refused { file, line: number, message, said: String::new() });
            }
        } else if ENDS.as_ref().is_some_and(|end| end.is_match(line)) {
            current = None;
        }
        if let Some(refused) = current.and_then(|current| found.get_mut(current)) {
            refused.said.push_str(line);
            refused.said.push('\n');
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_regex() {
        assert_eq!((ERRORS.len(), ENDS.is_some()), (SHAPES.len(), true));
    }

    #[test]
    fn each_compiler_is_understood() {
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
            let found = refused(line);
            assert_eq!((found.len(), found[0].file.as_str(), found[0].line), (1, file, number), "{line}");
            assert_eq!(found[0].message, message);
        }
        assert!(refused("src/A.java:8: warning: [deprecation] x\nNote: y\nw: /ws/A.kt: (1, 2): unused\n").is_empty());
    }

    #[test]
    fn what_is_said_of_a_file_stays_together() {
        let found = refused(
            "B.java:4: error: cannot find symbol\n  Foo y;\n  symbol:   class Foo\nA.java:3: error: no\n  x\n\
             B.java:9: error: more\nB.java:10: warning: old\n  z\n2 errors\n",
        );
        let said: Vec<(&str, u32, &str)> =
            found.iter().map(|one| (one.file.as_str(), one.line, one.said.as_str())).collect();
        let b = "B.java:4: error: cannot find symbol\n  Foo y;\n  symbol:   class Foo\nB.java:9: error: more\n";
        assert_eq!(said, [("B.java", 4, b), ("A.java", 3, "A.java:3: error: no\n  x\n")]);
    }
}

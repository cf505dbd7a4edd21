//! Says what a line of Maven's console means, as far as no file tells it. Must not know what comes of it.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// A test class begins.
    Running(&'a str),
    /// A test class has ended.
    Ran(&'a str),
    /// A compiler found an error.
    Compiler { file: &'a str, line: u32, message: &'a str },
    /// The project itself cannot be read, at this place if it is known.
    Project { file: Option<&'a str>, line: Option<u32>, message: &'a str },
    /// A goal failed.
    Goal { goal: &'a str, project: &'a str, why: &'a str },
    /// A test JVM ended without a word.
    Crashed,
    /// Names of the classes that it was running follow.
    CrashedTests,
    /// More about what the compiler found.
    Detail(&'a str),
    /// Another line of what is wrong.
    More(&'a str),
    /// No test was selected, which the project takes for an error.
    NothingSelected,
    /// A module was passed over because one that it needs failed.
    PassedOver(&'a str),
    /// Nothing of interest.
    Other,
}

type Meaning = for<'a> fn(&Captures<'a>) -> Option<Said<'a>>;

fn group<'a>(found: &Captures<'a>, number: usize) -> Option<&'a str> {
    found.get(number).map(|found| found.as_str())
}

/// Shapes of lines, the surest first.
const SHAPES: &[(&str, Meaning)] = &[
    // Before Surefire 2.20 this has no level.
    (r"^(?:\[INFO\] )?Running ([\w.$]+)\s*$", |found| group(found, 1).map(Said::Running)),
    (r"^(?:\[\w+\] )?Tests run: .* in ([\w.$]+)\s*$", |found| group(found, 1).map(Said::Ran)),
    // javac; Kotlin's compiler in its two forms.
    (r"^\[ERROR\] (/[^\[]+):\[(\d+)(?:,\d+)?\] (?:error: )?(.+)$", compiler),
    (r"^\[ERROR\] (?:file://)?(/[^:]+): ?\(?(\d+)[:,] ?\d+\)?:? (.+)$", compiler),
    (
        r"^\[(?:ERROR|FATAL)\] (Non-[a-z]+ .*POM.*|'[\w.]+' .+|Malformed POM .+|Unresolveable .+|Child module .+)$",
        |found| {
            let message = group(found, 1)?;
            let (message, place) = message.split_once(" @ ").unwrap_or((message, ""));
            let (file, line) = place.split_once(", line ").unwrap_or((place, ""));
            let line = line.split(',').next().and_then(|line| line.parse().ok());
            let file = file.starts_with('/').then_some(file);
            let message = message.trim_end_matches(" and").trim();
            Some(Said::Project { file, line: line.filter(|_| file.is_some()), message })
        },
    ),
    (r"^\[ERROR\] Failed to execute goal (?:(\S+)(?: \([^)]*\))? )?on project ([^\s:]+): ?(.*)$", |found| {
        Some(Said::Goal { goal: group(found, 1).unwrap_or_default(), project: group(found, 2)?, why: group(found, 3)? })
    }),
    (
        r"^\[ERROR\] (Plugin \S+ or one of its dependencies could not be resolved.*|No plugin found for prefix .*|The goal you specified requires a project.*|Could not find the selected project in the reactor.*|The project .* has \d+ errors?)$",
        |found| Some(Said::Project { file: None, line: None, message: group(found, 1)? }),
    ),
    (r"^\[ERROR\] Crashed tests:", |_| Some(Said::CrashedTests)),
    (
        r"^\[ERROR\] (?:ExecutionException )?The forked VM terminated without|^\[ERROR\] There was an error in the forked process",
        |_| Some(Said::Crashed),
    ),
    (r"No tests? matching pattern .* (?:was|were) executed|No tests were executed!", |_| Some(Said::NothingSelected)),
    (r"^\[INFO\] (\S.*?) \.+ SKIPPED\s*$", |found| group(found, 1).map(Said::PassedOver)),
    (r"^  ((?:symbol|location): .+)$", |found| group(found, 1).map(Said::Detail)),
    (r"^\[ERROR\] +(\S.*)$", |found| group(found, 1).map(Said::More)),
];

fn compiler<'a>(found: &Captures<'a>) -> Option<Said<'a>> {
    let line = group(found, 2)?.parse().ok()?;
    Some(Said::Compiler { file: group(found, 1)?, line, message: group(found, 3)?.trim() })
}

static READ: LazyLock<Vec<(Regex, Meaning)>> =
    LazyLock::new(|| SHAPES.iter().filter_map(|(shape, meaning)| Some((Regex::new(shape).ok()?, *meaning))).collect());

/// What `line` says.
pub(super) fn said(line: &str) -> Said<'_> {
    // Most lines are what tests print.
    let may_matter = line.starts_with(['[', ' ']) || line.starts_with("Running ") || line.starts_with("Tests run:");
    if !may_matter {
        return Said::Other;
    }
    READ.iter().find_map(|(shape, meaning)| meaning(&shape.captures(line)?)).unwrap_or(Said::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_is_a_regex() {
        assert_eq!(READ.len(), SHAPES.len());
    }

    #[test]
    fn lines_are_read_in_all_their_forms() {
        let compiler = |line, message| Said::Compiler { file: "/ws/src/A.java", line, message };
        for (line, meaning) in [
            ("[INFO] Running com.x.FooTest", Said::Running("com.x.FooTest")),
            ("Running com.x.FooTest$In", Said::Running("com.x.FooTest$In")),
            ("[INFO] Running twice as fast", Said::Other),
            (
                "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in com.x.A",
                Said::Ran("com.x.A"),
            ),
            ("[ERROR] Tests run: 2, Failures: 1, Time elapsed: 0.1 s <<< FAILURE! - in com.x.A", Said::Ran("com.x.A")),
            ("[ERROR] /ws/src/A.java:[12,5] ';' expected", compiler(12, "';' expected")),
            ("[ERROR] /ws/src/A.java: (12, 5) unresolved", compiler(12, "unresolved")),
            ("[ERROR] file:///ws/src/A.java:12:5 unresolved", compiler(12, "unresolved")),
            (
                "[ERROR] Malformed POM /ws/pom.xml: no end @ /ws/pom.xml, line 9, column 3",
                Said::Project {
                    file: Some("/ws/pom.xml"),
                    line: Some(9),
                    message: "Malformed POM /ws/pom.xml: no end",
                },
            ),
            (
                "[ERROR] Failed to execute goal org.x:y:1:test (default-test) on project p: There are test failures.",
                Said::Goal { goal: "org.x:y:1:test", project: "p", why: "There are test failures." },
            ),
            (
                "[ERROR] Failed to execute goal on project p: Could not resolve dependencies",
                Said::Goal { goal: "", project: "p", why: "Could not resolve dependencies" },
            ),
            ("[ERROR] Crashed tests:", Said::CrashedTests),
            ("[ERROR] The forked VM terminated without properly saying goodbye.", Said::Crashed),
            ("[INFO] web ............... SKIPPED", Said::PassedOver("web")),
            ("  symbol:   class B", Said::Detail("symbol:   class B")),
            ("[INFO] BUILD SUCCESS", Said::Other),
        ] {
            assert_eq!(said(line), meaning, "{line}");
        }
    }
}

//! Parses the lines of Maven's console that no XML file reports.

use regex::{Captures, Regex};
use std::sync::LazyLock;

/// LineParser of a console line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConsoleLine<'a> {
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
    /// A test JVM ended abruptly.
    Crashed,
    /// The names of the classes that it was running follow.
    CrashedTests,
    /// A detail of a compiler error.
    Detail(&'a str),
    /// A further line of an error.
    More(&'a str),
    /// No test was selected, and the project treats that as an error.
    NothingSelected,
    /// A module was skipped because a module that it needs failed.
    Skipped(&'a str),
    /// An irrelevant line.
    Other,
}

type LineParser = for<'a> fn(&Captures<'a>) -> Option<ConsoleLine<'a>>;

fn group<'a>(found: &Captures<'a>, number: usize) -> Option<&'a str> {
    found.get(number).map(|found| found.as_str())
}

/// Patterns of lines, the most specific first.
const PATTERNS: &[(&str, LineParser)] = &[
    // Without a level before Surefire 2.20.
    (r"^(?:\[INFO\] )?Running ([\w.$]+)\s*$", |found| group(found, 1).map(ConsoleLine::Running)),
    (r"^(?:\[\w+\] )?Tests run: .* in ([\w.$]+)\s*$", |found| group(found, 1).map(ConsoleLine::Ran)),
    // javac; Kotlin's compiler in its two formats.
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
            Some(ConsoleLine::Project { file, line: line.filter(|_| file.is_some()), message })
        },
    ),
    (r"^\[ERROR\] Failed to execute goal (?:(\S+)(?: \([^)]*\))? )?on project ([^\s:]+): ?(.*)$", |found| {
        Some(ConsoleLine::Goal {
            goal: group(found, 1).unwrap_or_default(),
            project: group(found, 2)?,
            why: group(found, 3)?,
        })
    }),
    (
        r"^\[ERROR\] (Plugin \S+ or one of its dependencies could not be resolved.*|No plugin found for prefix .*|The goal you specified requires a project.*|Could not find the selected project in the reactor.*|The project .* has \d+ errors?)$",
        |found| Some(ConsoleLine::Project { file: None, line: None, message: group(found, 1)? }),
    ),
    (r"^\[ERROR\] Crashed tests:", |_| Some(ConsoleLine::CrashedTests)),
    (
        r"^\[ERROR\] (?:ExecutionException )?The forked VM terminated without|^\[ERROR\] There was an error in the forked process",
        |_| Some(ConsoleLine::Crashed),
    ),
    (r"No tests? matching pattern .* (?:was|were) executed|No tests were executed!", |_| {
        Some(ConsoleLine::NothingSelected)
    }),
    (r"^\[INFO\] (\S.*?) \.+ SKIPPED\s*$", |found| group(found, 1).map(ConsoleLine::Skipped)),
    (r"^  ((?:symbol|location): .+)$", |found| group(found, 1).map(ConsoleLine::Detail)),
    (r"^\[ERROR\] +(\S.*)$", |found| group(found, 1).map(ConsoleLine::More)),
];

fn compiler<'a>(found: &Captures<'a>) -> Option<ConsoleLine<'a>> {
    let line = group(found, 2)?.parse().ok()?;
    Some(ConsoleLine::Compiler { file: group(found, 1)?, line, message: group(found, 3)?.trim() })
}

static PARSERS: LazyLock<Vec<(Regex, LineParser)>> = LazyLock::new(|| {
    PATTERNS.iter().filter_map(|(pattern, meaning)| Some((Regex::new(pattern).ok()?, *meaning))).collect()
});

/// Parses a line.
pub(super) fn parse_line(line: &str) -> ConsoleLine<'_> {
    // Most lines are output of tests.
    let may_matter = line.starts_with(['[', ' ']) || line.starts_with("Running ") || line.starts_with("Tests run:");
    if !may_matter {
        return ConsoleLine::Other;
    }
    PARSERS.iter().find_map(|(pattern, meaning)| meaning(&pattern.captures(line)?)).unwrap_or(ConsoleLine::Other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(PARSERS.len(), PATTERNS.len());
    }

    #[test]
    fn parses_lines_in_all_their_formats() {
        let compiler = |line, message| ConsoleLine::Compiler { file: "/ws/src/A.java", line, message };
        for (line, meaning) in [
            ("[INFO] Running com.x.FooTest", ConsoleLine::Running("com.x.FooTest")),
            ("Running com.x.FooTest$In", ConsoleLine::Running("com.x.FooTest$In")),
            ("[INFO] Running twice as fast", ConsoleLine::Other),
            (
                "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s -- in com.x.A",
                ConsoleLine::Ran("com.x.A"),
            ),
            (
                "[ERROR] Tests run: 2, Failures: 1, Time elapsed: 0.1 s <<< FAILURE! - in com.x.A",
                ConsoleLine::Ran("com.x.A"),
            ),
            ("[ERROR] /ws/src/A.java:[12,5] ';' expected", compiler(12, "';' expected")),
            ("[ERROR] /ws/src/A.java: (12, 5) unresolved", compiler(12, "unresolved")),
            ("[ERROR] file:///ws/src/A.java:12:5 unresolved", compiler(12, "unresolved")),
            (
                "[ERROR] Malformed POM /ws/pom.xml: no end @ /ws/pom.xml, line 9, column 3",
                ConsoleLine::Project {
                    file: Some("/ws/pom.xml"),
                    line: Some(9),
                    message: "Malformed POM /ws/pom.xml: no end",
                },
            ),
            (
                "[ERROR] Failed to execute goal org.x:y:1:test (default-test) on project p: There are test failures.",
                ConsoleLine::Goal { goal: "org.x:y:1:test", project: "p", why: "There are test failures." },
            ),
            (
                "[ERROR] Failed to execute goal on project p: Could not resolve dependencies",
                ConsoleLine::Goal { goal: "", project: "p", why: "Could not resolve dependencies" },
            ),
            ("[ERROR] Crashed tests:", ConsoleLine::CrashedTests),
            ("[ERROR] The forked VM terminated without properly saying goodbye.", ConsoleLine::Crashed),
            ("[INFO] web ............... SKIPPED", ConsoleLine::Skipped("web")),
            ("  symbol:   class B", ConsoleLine::Detail("symbol:   class B")),
            ("[INFO] BUILD SUCCESS", ConsoleLine::Other),
        ] {
            assert_eq!(parse_line(line), meaning, "{line}");
        }
    }
}

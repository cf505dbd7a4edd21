//! Names and places a JUnit XML test case as the JVM runners' adapters do.

use super::source_index::SourceIndex;
use super::test_names::split;
use crate::formats::junit::UNNAMED_TEST;
use crate::parsing::output_tail::strip_ansi;
use proctor_core::test_case::{TestCase, TestId, TestOutcome};
use std::collections::HashMap;

/// Most names that are counted.
const NAMES_MAX: usize = 100_000;

/// Names test cases; counts names so that two tests of the same name stay apart.
#[derive(Debug, Default)]
pub(crate) struct CaseNamer(HashMap<TestId, u32>);

impl CaseNamer {
    /// The test with its file as its package, `com.example.FooTest#adds` as its name, and the place of its failure. A class without
    /// a known file has the package `otherwise`.
    pub(crate) fn name_case(
        &mut self,
        case: TestCase,
        sources: &SourceIndex,
        module: &str,
        otherwise: &str,
    ) -> TestCase {
        // A failure outside of tests has the class's name alone.
        let method = if case.name == UNNAMED_TEST { "" } else { case.name.as_str() };
        let TestId { package, name } = id(sources, module, otherwise, &case.package, method);
        let name = self.unique_name(TestId { package: package.clone(), name });
        let stack = case.stack.map(|text| without_escapes(&text));
        let place = stack.as_deref().and_then(|stack| sources.stack_location(module, stack));
        let (mut expected, mut actual) = (case.expected, case.actual);
        if let (Some(marked), Some(other)) = (&expected, &actual)
            && stack.as_deref().is_some_and(|stack| COMPARISONS.iter().any(|thrown| stack.starts_with(thrown)))
            && let Some((whole, other)) = unmarked(marked, other)
        {
            (expected, actual) = (Some(whole), Some(other));
        }
        let (file, line) = place.unzip();
        let first = stack.as_deref().and_then(|stack| stack.lines().next()).map(str::trim);
        let message = case.message.map(|message| without_escapes(&message)).map(|message| match case.outcome {
            // The exception's line has the class as well as the message.
            TestOutcome::Error => {
                first.filter(|first| first.ends_with(message.as_str())).unwrap_or(&message).to_owned()
            }
            TestOutcome::Skipped => without_type(&message).to_owned(),
            _ => message,
        });
        let case = TestCase {
            nodeid: name.clone(),
            package,
            name,
            file: file.map(str::to_owned),
            line,
            message,
            expected,
            actual,
            stack,
            output: case.output.map(|text| without_escapes(&text)),
            ..case
        };
        case.bounded()
    }

    fn unique_name(&mut self, id: TestId) -> String {
        let name = id.name.clone();
        if self.0.len() >= NAMES_MAX && !self.0.contains_key(&id) {
            return name;
        }
        let count = self.0.entry(id).or_default();
        *count += 1;
        if *count == 1 { name } else { format!("{name} ({count})") }
    }
}

/// The id of the test `name`: `com.example.FooTest#adds`, or a class alone.
pub(crate) fn test_id(sources: &SourceIndex, module: &str, otherwise: &str, name: &str) -> TestId {
    let (class, method) = split(name);
    id(sources, module, otherwise, class, method.unwrap_or_default())
}

/// The id of a test class as a whole.
pub(crate) fn class_id(sources: &SourceIndex, module: &str, otherwise: &str, class: &str) -> TestId {
    id(sources, module, otherwise, class, "")
}

fn id(sources: &SourceIndex, module: &str, otherwise: &str, class: &str, method: &str) -> TestId {
    let package = sources.class_file(module, class).unwrap_or(otherwise).to_owned();
    let name = if method.is_empty() { class.to_owned() } else { format!("{class}#{method}") };
    TestId { package, name }
}

/// Exceptions of assertions that mark where two texts differ.
const COMPARISONS: [&str; 2] = ["org.junit.ComparisonFailure", "junit.framework.ComparisonFailure"];

/// `Hello[!]` and `Hello[]` without the marks; `None` if the assertion shortened a common part (`...`).
fn unmarked(expected: &str, actual: &str) -> Option<(String, String)> {
    let pairs = |(one, other): &(char, char)| one == other;
    let shared = expected.chars().zip(actual.chars()).take_while(pairs).map(|(one, _)| one).collect::<String>();
    let head = shared.strip_suffix('[')?;
    let (one, other) = (expected.strip_prefix(&shared)?, actual.strip_prefix(&shared)?);
    let tail =
        one.chars().rev().zip(other.chars().rev()).take_while(pairs).map(|(one, _)| one.len_utf8()).sum::<usize>();
    let (one, end) = one.split_at(one.len() - tail);
    let other = &other[..other.len() - tail];
    let end = end.strip_prefix(']')?;
    let is_whole = !head.starts_with("...") && !end.ends_with("...");
    is_whole.then(|| (format!("{head}{one}{end}"), format!("{head}{other}{end}")))
}

/// `org.opentest4j.TestAbortedException: no moon` without the exception's class.
fn without_type(message: &str) -> &str {
    match message.split_once(": ") {
        Some((thrown, rest)) if thrown.ends_with("Exception") && !thrown.contains(' ') => rest,
        _ => message,
    }
}

/// Surefire's forms of the escape character, which XML cannot contain: in an attribute, and in a text.
const ESCAPES: [&str; 2] = ["&#27;", "&amp#27;"];

fn without_escapes(text: &str) -> String {
    if !ESCAPES.iter().any(|escape| text.contains(escape)) {
        return text.to_owned();
    }
    strip_ansi(&ESCAPES.iter().fold(text.to_owned(), |text, escape| text.replace(escape, "\u{1b}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_difference_marks_from_values() {
        let owned = |(one, other): (&str, &str)| Some((one.to_owned(), other.to_owned()));
        assert_eq!(unmarked("Hello[!]", "Hello[]"), owned(("Hello!", "Hello")));
        assert_eq!(unmarked("a[[b]]c", "a[[é]]c"), owned(("a[b]c", "a[é]c")));
        assert_eq!(unmarked("[a]", "[b]"), owned(("a", "b")));
        assert_eq!(unmarked("...x[a]", "...x[b]"), None);
        assert_eq!(unmarked("5", "4"), None);
    }

    #[test]
    fn two_tests_of_one_name_stay_apart() {
        let (mut namer, sources) = (CaseNamer::default(), SourceIndex::default());
        let id = TestId { package: "com.x.FooTest".into(), name: "adds".into() };
        let case = TestCase::new(id, String::new(), TestOutcome::Passed);
        let mut name = || namer.name_case(case.clone(), &sources, "a", "a/pom.xml").nodeid;
        assert_eq!([name(), name()], ["com.x.FooTest#adds", "com.x.FooTest#adds (2)"]);
    }

    #[test]
    fn an_error_names_its_exception_and_a_skip_its_reason() {
        let message = |outcome, message: &str, stack: &str| {
            let id = TestId { package: "com.x.FooTest".into(), name: "t".into() };
            let case = TestCase {
                message: Some(message.into()),
                stack: Some(stack.into()),
                ..TestCase::new(id, String::new(), outcome)
            };
            CaseNamer::default().name_case(case, &SourceIndex::default(), "", "pom.xml").message.unwrap()
        };
        assert_eq!(message(TestOutcome::Error, "no", "java.io.IOException: no\n\tat x"), "java.io.IOException: no");
        assert_eq!(message(TestOutcome::Failed, "no", "java.io.IOException: no\n\tat x"), "no");
        assert_eq!(message(TestOutcome::Skipped, "org.x.TestAbortedException: no moon", ""), "no moon");
        assert_eq!(without_escapes("&amp#27;[31mred&#27;[0m"), "red");
    }
}

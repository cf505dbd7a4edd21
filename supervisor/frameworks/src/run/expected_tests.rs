//! The expected tests of a rerun that have not reported a result yet: a rerun passes only if each of them did.

use crate::ecosystems::js::{EXTENSIONS, TITLE_SEPARATOR};
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// Beginnings of the title of a Mocha hook, which Cypress uses too.
const HOOKS: [&str; 4] = ["\"before all\" hook", "\"before each\" hook", "\"after all\" hook", "\"after each\" hook"];

/// What unittest names, after the class or alone, when a fixture of a whole class or module fails.
const FIXTURES: [&str; 4] = ["setUpClass", "setUpModule", "tearDownClass", "tearDownModule"];

/// What JUnit and Gradle name after the class when it fails outside of its tests.
const CLASS_FAILURES: [&str; 2] = ["initializationError", "executionError"];

/// Beginnings of the names that Gradle gives to its JVMs, which it reports when one crashes.
const JVMS: [&str; 2] = ["Gradle Test Executor ", "Gradle Test Run "];

/// How the name of a Python subtest continues behind the name of its test. A passed test reports no subtests.
const SUBTESTS: [&str; 2] = ["/(", "/["];

/// Separators between a class, suite or parent and its children, and between a test and its parameters.
const CHILD_SEPARATORS: [&str; 8] = ["/", "#", "::", ".", "$", "[", "(", " with data set "];

/// End of a doctest's name, with the line number, which an edit above the doctest changes.
const DOCTEST_LINE: &str = " (line ";

/// The tests of [`Selection::Exactly`] without a result so far, at most as many as the selection has.
#[derive(Debug, Clone, Default)]
pub struct ExpectedTests(BTreeMap<String, Package>);

#[derive(Debug, Clone, Default)]
struct Package {
    names: BTreeSet<String>,
    /// Expected names that the result of another name stands for.
    stand_ins: BTreeMap<String, Vec<String>>,
    /// Expected names that any result of the package stands for.
    any: Vec<String>,
}

impl ExpectedTests {
    /// Expects nothing for a selection that names no tests. Packages that did not build are not expected: they may have no tests.
    #[must_use]
    pub fn from_selection(selection: &Selection) -> ExpectedTests {
        let mut expected = ExpectedTests::default();
        let Selection::Exactly(targets) = selection else { return expected };
        for target in targets {
            let RerunTarget::Test(TestId { package: file, name }) = target else { continue };
            let package = expected.0.entry(file.clone()).or_default();
            package.names.insert(name.clone());
            let without_line = doctest_item(name);
            let parent_of_subtest = parent_of_subtest(file, name);
            if is_reported_only_on_failure(name) {
                package.any.push(name.clone());
            } else if let Some(other) = without_line.or(parent_of_subtest) {
                package.stand_ins.entry(other.to_owned()).or_default().push(name.clone());
            }
        }
        expected
    }

    /// Records that a test reported a result.
    pub fn record(&mut self, package: &str, name: &str) {
        let Some(expected) = self.0.get_mut(package) else { return };
        expected.names.remove(name);
        // A class or parent that failed as a whole counts as run once something within it reports.
        let within: &[&str] = if has_titles(package) { &[TITLE_SEPARATOR] } else { &CHILD_SEPARATORS };
        for (at, _) in within.iter().flat_map(|mark| name.match_indices(mark)) {
            expected.names.remove(&name[..at]);
        }
        let names = [Some(name), doctest_item(name)].into_iter().flatten();
        let answered = names.filter_map(|name| expected.stand_ins.remove(name)).flatten();
        for name in answered.chain(expected.any.drain(..)) {
            expected.names.remove(&name);
        }
        if expected.names.is_empty() {
            self.0.remove(package);
        }
    }

    /// The tests without a result.
    #[must_use]
    pub fn missing(&self) -> Vec<TestId> {
        let of = |(package, expected): (&String, &Package)| -> Vec<TestId> {
            expected.names.iter().map(|name| TestId { package: package.clone(), name: name.clone() }).collect()
        };
        self.0.iter().flat_map(of).collect()
    }
}

/// Whether the name is reported only on failure: a hook or fixture outside of tests, or a process. Any other result of its file
/// shows that it did not fail. A test's own name may contain the same words, so they count only where a runner puts them.
fn is_reported_only_on_failure(name: &str) -> bool {
    is_hook(name) || is_fixture(name) || is_class_failure(name) || JVMS.iter().any(|jvm| name.starts_with(jvm))
}

/// Whether the last title of `name` is a Mocha hook: `"before each" hook: its own name for "a test"`. The quoted part may look
/// like several titles.
pub(crate) fn is_hook(name: &str) -> bool {
    let begins = [0].into_iter().chain(name.match_indices(TITLE_SEPARATOR).map(|(at, _)| at + TITLE_SEPARATOR.len()));
    begins.map(|at| &name[at..]).any(is_hook_title)
}

fn is_hook_title(title: &str) -> bool {
    let Some(rest) = HOOKS.iter().find_map(|hook| title.strip_prefix(hook)) else { return false };
    let is_for_something = [" for \"", " in \""].iter().any(|of| rest.contains(of)) && rest.ends_with(['"', '…']);
    let goes_on = [": ", " for \"", " in \""].iter().any(|on| rest.starts_with(on));
    rest.is_empty() || (goes_on && is_for_something)
}

/// `Outer.Inner.setUpClass`; a second one ends in `#2`.
fn is_fixture(name: &str) -> bool {
    let name = name.split_once('#').map_or(name, |(name, _)| name);
    let last = name.rsplit('.').next().unwrap_or(name);
    FIXTURES.contains(&last) && !name.contains(char::is_whitespace)
}

/// `com.example.FooTest#initializationError`; a second one ends in ` (2)`.
fn is_class_failure(name: &str) -> bool {
    let method = name.rsplit('#').next().unwrap_or(name);
    CLASS_FAILURES.contains(&method.split_once(" (").map_or(method, |(method, _)| method))
}

/// Whether the file's tests are named by sentences, one of which may be the beginning of another: JavaScript and RSpec.
fn has_titles(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| extension == "rb" || EXTENSIONS.contains(&extension))
}

/// The test of a Python subtest. In other languages a test with such a name is a test like any other.
fn parent_of_subtest<'a>(file: &str, name: &'a str) -> Option<&'a str> {
    let begins = SUBTESTS.iter().find_map(|begins| name.split_once(begins));
    begins.filter(|_| file.ends_with(".py")).map(|(test, _)| test)
}

/// `src/lib.rs - item`, without the line number behind it.
fn doctest_item(name: &str) -> Option<&str> {
    let (item, _) = name.split_once(DOCTEST_LINE)?;
    let (file, _) = item.rsplit_once(" -")?;
    [".rs", ".md"].iter().any(|extension| file.ends_with(extension)).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(file: &str, wanted: &[&str], reported: &[&str]) -> Vec<String> {
        let test = |name: &&str| RerunTarget::Test(TestId { package: file.to_owned(), name: (*name).to_owned() });
        let targets = wanted.iter().map(test).chain([RerunTarget::Package("broken".into())]).collect();
        let mut expected = ExpectedTests::from_selection(&Selection::Exactly(targets));
        reported.iter().for_each(|name| expected.record(file, name));
        expected.record("other", "T");
        expected.missing().into_iter().map(|id| id.name).collect()
    }

    fn check(file: &str, wanted: &str, reported: &str, answered: bool) {
        let expected = if answered { vec![] } else { vec![wanted.to_owned()] };
        assert_eq!(missing(file, &[wanted], &[reported]), expected, "{wanted}: {reported}");
    }

    #[test]
    fn a_result_of_the_test_or_of_its_stand_in_counts_as_run() {
        for (wanted, reported, answered) in [
            ("T", "T", true),
            ("T", "U", false),
            ("T/a", "T", false),
            ("T", "T/a", true),
            ("T", "T2", false),
            ("T", "T_a", false),
            ("T", "T of another kind", false),
            ("CartTest::testAdds", "CartTest::testAdds with data set #0", true),
            ("adds", "adds(int)[1]", true),
            ("com.example.Foo", "com.example.Foo$Inner#adds", true),
            ("com.example.FooTest", "com.example.FooTest#adds", true),
            ("Money.test_all/(n=2)", "Money.test_all", true),
            ("Money.test_all/[deep] (n=2)", "Money.test_all", true),
            ("Money.test_all/(n=2)", "Money.test_other", false),
            ("Money.setUpClass", "Money.test_all", true),
            ("Outer.Money.tearDownClass#2", "Outer.Money.test_all", true),
            ("setUpModule", "Money.test_all", true),
            ("Money.test_setUpClass_once", "Money.test_all", false),
            ("the page > calls Money.setUpClass", "the page > opens", false),
            ("Cart > \"before all\" hook for \"adds\"", "Cart > adds", true),
            ("Cart > \"after each\" hook: a > b for \"c > d\"", "Cart > adds", true),
            ("\"after all\" hook in \"{root}\"", "Cart > adds", true),
            ("\"after all\" hook", "Cart > adds", true),
            ("Cart > calls the \"before each\" hook once", "Cart > adds", false),
            ("Cart > \"before each\" hook > is called", "Cart > adds", false),
            ("Cart > \"before each\" hook is called", "Cart > adds", false),
            ("com.example.FooTest#initializationError", "com.example.FooTest#adds", true),
            ("com.example.FooTest#executionError (2)", "com.example.FooTest#adds", true),
            ("com.example.FooTest#throws initializationError", "com.example.FooTest#adds", false),
            ("Gradle Test Executor 3", "com.example.FooTest#adds", true),
            ("Gradle Test Run :test", "com.example.FooTest#adds", true),
            ("com.example.FooTest#names its Gradle Test Executor 3", "com.example.FooTest#adds", false),
            ("src/lib.rs - add (line 3)", "src/lib.rs - add (line 9)", true),
            ("src/lib.rs - add (line 3)", "src/lib.rs - sub (line 3)", false),
            ("src/../README.md - (line 3)", "src/../README.md - (line 5)", true),
            ("reads (line 1)", "reads (line 2)", false),
        ] {
            check("test_x.py", wanted, reported, answered);
        }
        for (wanted, reported, answered) in [
            ("adds", "adds twice", false),
            ("adds", "adds (twice)", false),
            ("adds", "adds/subtracts", false),
            ("adds", "adds.", false),
            ("Cart", "Cart > adds", true),
            ("Cart > adds", "Cart > adds > once", true),
        ] {
            check("src/cart.test.ts", wanted, reported, answered);
            check("spec/cart_spec.rb", wanted, reported, answered);
        }
        assert_eq!(missing("p", &["T/[empty]"], &["T"]), ["T/[empty]"], "a Go subtest, which may be gone");
        assert_eq!(missing("p", &["A", "B", "C"], &["B"]), ["A", "C"]);
        assert!(ExpectedTests::from_selection(&Selection::All).missing().is_empty());
    }
}

//! Which of the tests that a run was to run have told nothing yet: a rerun of what failed has passed only when each of them
//! did. Must not know how a runner was told of them.

use crate::ecosystems::js::{EXTENSIONS, TITLES};
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// How Mocha, and Cypress with it, begins the title of a hook.
const HOOKS: [&str; 4] = ["\"before all\" hook", "\"before each\" hook", "\"after all\" hook", "\"after each\" hook"];

/// What unittest names after the class, or alone, when a fixture of a whole class or module fails.
const FIXTURES: [&str; 4] = ["setUpClass", "setUpModule", "tearDownClass", "tearDownModule"];

/// What JUnit and Gradle name after the class when it fails outside of its tests.
const OUTSIDE: [&str; 2] = ["initializationError", "executionError"];

/// How Gradle calls its JVMs, which are told of when one is gone.
const JVMS: [&str; 2] = ["Gradle Test Executor ", "Gradle Test Run "];

/// How Python's subtests go on behind the name of their test, which tells that all of them held.
const SUBTESTS: [&str; 2] = ["/(", "/["];

/// What stands between the name of a class, a suite or a parent and what is within it, and between a test and its parameters.
const WITHIN: [&str; 8] = ["/", "#", "::", ".", "$", "[", "(", " with data set "];

/// What a doctest's name ends with, which an edit above it changes.
const DOCTEST_LINE: &str = " (line ";

/// The tests of [`Selection::Exactly`] of which nothing came so far. As many as the selection has.
#[derive(Debug, Clone, Default)]
pub struct Awaited(BTreeMap<String, Package>);

#[derive(Debug, Clone, Default)]
struct Package {
    names: BTreeSet<String>,
    /// Names that another name answers for.
    instead: BTreeMap<String, Vec<String>>,
    /// Names that any test of the package answers for.
    any: Vec<String>,
}

impl Awaited {
    /// Nothing, for a selection that names no tests. Packages that did not build are not awaited: they may have none.
    #[must_use]
    pub fn of(selection: &Selection) -> Awaited {
        let mut awaited = Awaited::default();
        let Selection::Exactly(targets) = selection else { return awaited };
        for target in targets {
            let RerunTarget::Test(TestId { package: file, name }) = target else { continue };
            let package = awaited.0.entry(file.clone()).or_default();
            package.names.insert(name.clone());
            let without_line = doctest(name);
            let of_subtest = of_subtest(file, name);
            if is_no_test(name) {
                package.any.push(name.clone());
            } else if let Some(other) = without_line.or(of_subtest) {
                package.instead.entry(other.to_owned()).or_default().push(name.clone());
            }
        }
        awaited
    }

    /// Takes in that something came of a test.
    pub fn told(&mut self, package: &str, name: &str) {
        let Some(awaited) = self.0.get_mut(package) else { return };
        awaited.names.remove(name);
        // A class or a parent that failed as a whole is there again when something within it is.
        let within: &[&str] = if has_titles(package) { &[TITLES] } else { &WITHIN };
        for (at, _) in within.iter().flat_map(|mark| name.match_indices(mark)) {
            awaited.names.remove(&name[..at]);
        }
        let instead = [Some(name), doctest(name)].into_iter().flatten();
        let answered = instead.filter_map(|name| awaited.instead.remove(name)).flatten();
        for name in answered.chain(awaited.any.drain(..)) {
            awaited.names.remove(&name);
        }
        if awaited.names.is_empty() {
            self.0.remove(package);
        }
    }

    /// The tests of which nothing came.
    #[must_use]
    pub fn rest(&self) -> Vec<TestId> {
        let of = |(package, awaited): (&String, &Package)| -> Vec<TestId> {
            awaited.names.iter().map(|name| TestId { package: package.clone(), name: name.clone() }).collect()
        };
        self.0.iter().flat_map(of).collect()
    }
}

/// Whether it is the name of what is told only when it fails: a hook or a fixture outside of tests, or what a runner says of a
/// process. That its file told of any test means that they held. A test may have the same words in its own name, so they
/// count only where a runner puts them.
fn is_no_test(name: &str) -> bool {
    is_hook(name) || is_fixture(name) || is_outside(name) || JVMS.iter().any(|jvm| name.starts_with(jvm))
}

/// Whether the last title of `name` is a hook's of Mocha's: `"before each" hook: its own name for "a test"`. What is quoted may
/// look like several titles.
pub(crate) fn is_hook(name: &str) -> bool {
    let begins = [0].into_iter().chain(name.match_indices(TITLES).map(|(at, _)| at + TITLES.len()));
    begins.map(|at| &name[at..]).any(is_title_of_hook)
}

fn is_title_of_hook(title: &str) -> bool {
    let Some(rest) = HOOKS.iter().find_map(|hook| title.strip_prefix(hook)) else { return false };
    let is_for_something = [" for \"", " in \""].iter().any(|of| rest.contains(of)) && rest.ends_with(['"', '…']);
    let goes_on = [": ", " for \"", " in \""].iter().any(|on| rest.starts_with(on));
    rest.is_empty() || (goes_on && is_for_something)
}

/// `Outer.Inner.setUpClass`, of which there may be a second, `#2`.
fn is_fixture(name: &str) -> bool {
    let name = name.split_once('#').map_or(name, |(name, _)| name);
    let last = name.rsplit('.').next().unwrap_or(name);
    FIXTURES.contains(&last) && !name.contains(char::is_whitespace)
}

/// `com.example.FooTest#initializationError`, of which there may be a second, ` (2)`.
fn is_outside(name: &str) -> bool {
    let method = name.rsplit('#').next().unwrap_or(name);
    OUTSIDE.contains(&method.split_once(" (").map_or(method, |(method, _)| method))
}

/// Whether a test of this file is named by a sentence, which may begin as another test's does: JavaScript's and RSpec's.
fn has_titles(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| extension == "rb" || EXTENSIONS.contains(&extension))
}

/// The test of a subtest of Python's. In other languages a test of such a name is one like any other.
fn of_subtest<'a>(file: &str, name: &'a str) -> Option<&'a str> {
    let begins = SUBTESTS.iter().find_map(|begins| name.split_once(begins));
    begins.filter(|_| file.ends_with(".py")).map(|(test, _)| test)
}

/// `src/lib.rs - item`, without the line behind it.
fn doctest(name: &str) -> Option<&str> {
    let (item, _) = name.split_once(DOCTEST_LINE)?;
    let (file, _) = item.rsplit_once(" -")?;
    [".rs", ".md"].iter().any(|extension| file.ends_with(extension)).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(file: &str, wanted: &[&str], told: &[&str]) -> Vec<String> {
        let test = |name: &&str| RerunTarget::Test(TestId { package: file.to_owned(), name: (*name).to_owned() });
        let targets = wanted.iter().map(test).chain([RerunTarget::Package("broken".into())]).collect();
        let mut awaited = Awaited::of(&Selection::Exactly(targets));
        told.iter().for_each(|name| awaited.told(file, name));
        awaited.told("other", "T");
        awaited.rest().into_iter().map(|id| id.name).collect()
    }

    fn check(file: &str, wanted: &str, told: &str, answered: bool) {
        let expected = if answered { vec![] } else { vec![wanted.to_owned()] };
        assert_eq!(rest(file, &[wanted], &[told]), expected, "{wanted}: {told}");
    }

    #[test]
    fn a_test_is_answered_by_itself_and_by_what_runs_in_its_place() {
        for (wanted, told, answered) in [
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
            check("test_x.py", wanted, told, answered);
        }
        for (wanted, told, answered) in [
            ("adds", "adds twice", false),
            ("adds", "adds (twice)", false),
            ("adds", "adds/subtracts", false),
            ("adds", "adds.", false),
            ("Cart", "Cart > adds", true),
            ("Cart > adds", "Cart > adds > once", true),
        ] {
            check("src/cart.test.ts", wanted, told, answered);
            check("spec/cart_spec.rb", wanted, told, answered);
        }
        assert_eq!(rest("p", &["T/[empty]"], &["T"]), ["T/[empty]"], "a subtest of Go's, which may be gone");
        assert_eq!(rest("p", &["A", "B", "C"], &["B"]), ["A", "C"]);
        assert!(Awaited::of(&Selection::All).rest().is_empty());
    }
}

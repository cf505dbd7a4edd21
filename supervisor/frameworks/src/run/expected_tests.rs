//! The tests selected by name that have not reported a result yet: a run of them passes only if each of them did.

use crate::FRAMEWORKS;
use crate::contract::Manifest;
use crate::ecosystems::js::TITLE_SEPARATOR;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::{TestCase, TestId};
use std::collections::{BTreeMap, BTreeSet};

/// Separators between a class, suite or parent and its children, and between a test and its parameters.
const CHILD_SEPARATORS: &[&str] = &["/", "#", "::", ".", "$", "[", "("];

/// Stands for the package of a name that may be in any.
const ANY_PACKAGE: &str = "";

/// The tests of [`Selection::Exactly`] without a result so far, at most as many as the selection has; by package, which is empty for
/// a name that may be in any.
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
            let (file, name) = match target {
                RerunTarget::Test(TestId { package, name }) => (package.as_str(), name),
                RerunTarget::Name(name) => (ANY_PACKAGE, name),
                RerunTarget::Package(_) => continue,
            };
            let package = expected.0.entry(file.to_owned()).or_default();
            package.names.insert(name.clone());
            if manifests().any(|manifest| (manifest.rerun_names.is_reported_only_on_failure)(name)) {
                package.any.push(name.clone());
            } else if let Some(other) = stable_part(name).or_else(|| parent(file, name)) {
                package.stand_ins.entry(other.to_owned()).or_default().push(name.clone());
            }
        }
        expected
    }

    /// Records that a test reported a result.
    pub fn record(&mut self, test: &TestCase) {
        let TestCase { nodeid, package, name, .. } = test;
        self.record_in(package, package, name);
        if package != ANY_PACKAGE && self.0.contains_key(ANY_PACKAGE) {
            self.record_in(ANY_PACKAGE, package, name);
            self.record_in(ANY_PACKAGE, package, nodeid);
        }
    }

    fn record_in(&mut self, key: &str, package: &str, name: &str) {
        let Some(expected) = self.0.get_mut(key) else { return };
        expected.names.remove(name);
        // A class or parent that failed as a whole counts as run once something within it reports.
        for (at, _) in separators(package).into_iter().flat_map(|mark| name.match_indices(mark)) {
            expected.names.remove(&name[..at]);
        }
        let names = [Some(name), stable_part(name)].into_iter().flatten();
        let answered = names.filter_map(|name| expected.stand_ins.remove(name)).flatten();
        for name in answered.chain(expected.any.drain(..)) {
            expected.names.remove(&name);
        }
        if expected.names.is_empty() {
            self.0.remove(key);
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

/// The manifests of all frameworks: a selection does not tell which of them ran a test.
fn manifests() -> impl Iterator<Item = &'static Manifest> {
    FRAMEWORKS.iter().map(|framework| framework.manifest())
}

/// The manifests of the frameworks with test files of this extension; all for any package.
fn manifests_of(file: &str) -> impl Iterator<Item = &'static Manifest> {
    let is_any = file == ANY_PACKAGE;
    let extension = file.rsplit_once('.').map(|(_, extension)| extension);
    manifests()
        .filter(move |manifest| is_any || extension.is_some_and(|extension| manifest.extensions.contains(&extension)))
}

/// The separators between parent and child in names of this file's tests.
fn separators(file: &str) -> Vec<&'static str> {
    if manifests_of(file).any(|manifest| manifest.rerun_names.are_titles) {
        return vec![TITLE_SEPARATOR];
    }
    CHILD_SEPARATORS.iter().chain(manifests().flat_map(|manifest| manifest.rerun_names.separators)).copied().collect()
}

fn stable_part(name: &str) -> Option<&str> {
    manifests().find_map(|manifest| (manifest.rerun_names.stable_part)(name))
}

fn parent<'a>(file: &str, name: &'a str) -> Option<&'a str> {
    manifests_of(file).find_map(|manifest| (manifest.rerun_names.parent)(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::TestOutcome;

    fn case(file: &str, name: &str) -> TestCase {
        let id = TestId { package: file.to_owned(), name: name.to_owned() };
        TestCase::new(id, format!("{file}::{name}"), TestOutcome::Passed)
    }

    fn missing(file: &str, wanted: &[&str], reported: &[&str]) -> Vec<String> {
        let test = |name: &&str| RerunTarget::Test(TestId { package: file.to_owned(), name: (*name).to_owned() });
        let targets = wanted.iter().map(test).chain([RerunTarget::Package("broken".into())]).collect();
        let mut expected = ExpectedTests::from_selection(&Selection::Exactly(targets));
        reported.iter().for_each(|name| expected.record(&case(file, name)));
        expected.record(&case("other", "T"));
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

    #[test]
    fn a_name_without_a_package_is_answered_by_name_or_node_id_in_any_package() {
        for (wanted, file, reported, answered) in [
            ("adds", "a.test.js", "adds", true),
            ("a.test.js::adds", "a.test.js", "adds", true),
            ("adds", "a.test.js", "adds twice", false),
            ("Cart", "a.test.js", "Cart > adds", true),
            ("TestA", "example.com/p", "TestA/x", true),
            ("Money.test_all/(n=2)", "test_money.py", "Money.test_all", true),
            ("src/lib.rs - add (line 3)", "p::doc/lib", "src/lib.rs - add (line 9)", true),
            ("TestA", "example.com/p", "TestAb", false),
        ] {
            let selection = Selection::Exactly(vec![RerunTarget::Name(wanted.to_owned())]);
            let mut expected = ExpectedTests::from_selection(&selection);
            expected.record(&case(file, reported));
            let missing = TestId { package: String::new(), name: wanted.to_owned() };
            assert_eq!(expected.missing(), if answered { vec![] } else { vec![missing] }, "{wanted}: {reported}");
        }
    }
}

//! Tests selected by name, for each framework: every name of a listing and of a report runs exactly its test, whatever
//! characters it has.

use proctor_tests::test_workspace::TestWorkspace;
use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Frameworks whose runs take seconds. Their names are run in two halves.
const SLOW: [&str; 6] = ["cypress/", "gradle/", "jest/", "maven/", "playwright/", "vitest/"];

/// A framework's tests: a fixture, a file with names that are hard to select, and what the runner cannot leave out.
struct Framework {
    fixture: &'static str,
    /// Path and content of a further file; an empty path for none.
    file: (&'static str, &'static str),
    /// The part of a node id that the runner can select: tests with the same part run together.
    selectable: fn(&str) -> String,
}

fn itself(nodeid: &str) -> String {
    nodeid.to_owned()
}

/// An executed test.
struct Executed {
    name: String,
    outcome: String,
}

/// The executed tests of a report by node id.
fn executed(report: &Value) -> BTreeMap<String, Executed> {
    let tests = report["tests"].as_array().unwrap().iter().filter(|test| test["outcome"] != "skipped");
    tests
        .map(|test| (text(test, "nodeid"), Executed { name: text(test, "name"), outcome: text(test, "outcome") }))
        .collect()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

fn nodeids(tests: &BTreeMap<String, Executed>) -> BTreeSet<&str> {
    tests.keys().map(String::as_str).collect()
}

/// A test with the tests above and below it: a parent runs its subtests, and a subtest its parent's own code.
fn with_family<'a>(nodeid: &'a str, all: &'a BTreeMap<String, Executed>) -> BTreeSet<&'a str> {
    let is_below = |name: &str, other: &str| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
    let is_relative = |other: &&str| is_below(nodeid, other) || is_below(other, nodeid);
    all.keys().map(String::as_str).filter(is_relative).chain([nodeid]).collect()
}

/// The report of a run of the tests with these names.
fn run(workspace: &TestWorkspace, names: &[&str]) -> Value {
    let names = names.iter().map(|name| format!("--test={name}"));
    // Other suites check which lines the tests execute.
    let options = ["run", "--coverage", "off", "--output", "json"].map(str::to_owned);
    let arguments: Vec<String> = options.into_iter().chain(names).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = workspace.proctor(&arguments);
    let report = output.json();
    assert_eq!(output.status == 0, report["outcome"] == "passed", "{output:?}");
    report
}

impl Framework {
    fn check(&self) {
        let workspace = TestWorkspace::with_fixture(self.fixture);
        if !self.file.0.is_empty() {
            workspace.write(self.file.0, self.file.1);
        }
        let all = executed(&run(&workspace, &[]));
        let listed = workspace.proctor(&["list", "--output", "json"]).json();
        let listed = listed["tests"].as_array().unwrap().iter().map(|test| text(test, "name"));
        let failed: Vec<&str> = nodeids(&all).into_iter().filter(|nodeid| all[*nodeid].outcome != "passed").collect();
        // Go lists no subtests.
        let subtests = all.keys().filter(|nodeid| self.fixture.starts_with("go/") && !nodeid.is_empty());
        let names: BTreeSet<String> =
            listed.chain(failed.iter().map(|nodeid| (*nodeid).to_owned())).chain(subtests.cloned()).collect();
        assert!(!all.is_empty() && !failed.is_empty() && !names.is_empty(), "{names:?}");
        let mut names: Vec<&String> = names.iter().collect();
        let mut failing = vec![failed[0]];
        names.retain(|name| *name != failed[0]);
        if SLOW.iter().any(|framework| self.fixture.starts_with(framework)) {
            names.retain(|name| all.iter().any(|(nodeid, test)| nodeid == *name || test.name == **name));
            // Both halves have names with characters that a runner could read as a pattern.
            names.sort_by_key(|name| Reverse(name.chars().filter(|c| !c.is_ascii_alphanumeric()).count()));
            let half = |first: usize| names.iter().skip(first).step_by(2).map(|name| name.as_str());
            self.check_names(&workspace, &all, &half(0).collect::<Vec<_>>());
            failing.extend(half(1));
        } else {
            names.iter().for_each(|name| self.check_names(&workspace, &all, &[name.as_str()]));
        }
        self.check_rerun(&workspace, &all, &failing);
        self.check_missing(&workspace, &all);
    }

    /// Exactly the tests of these names are executed, and all of them have a result.
    fn check_names(&self, workspace: &TestWorkspace, all: &BTreeMap<String, Executed>, names: &[&str]) {
        if names.is_empty() {
            return;
        }
        let part = self.selectable;
        let is_meant = |(nodeid, test): &(&String, &Executed)| {
            names.iter().any(|name| nodeid.as_str() == *name || test.name == *name || part(nodeid) == part(name))
        };
        let selected: BTreeSet<String> = all.iter().filter(is_meant).map(|(nodeid, _)| part(nodeid)).collect();
        let is_selected = |nodeid: &&str| selected.contains(&part(nodeid));
        let expected: BTreeSet<&str> =
            nodeids(all).into_iter().filter(is_selected).flat_map(|nodeid| with_family(nodeid, all)).collect();
        let report = run(workspace, names);
        // A listed test may be one that is skipped.
        assert_eq!(nodeids(&executed(&report)), expected, "{names:?}: {report:#}");
        assert_eq!(report["outcome"] == "no_tests", expected.is_empty(), "{names:?}: {report:#}");
        assert!(report["evidence"]["not_run"].is_null(), "{names:?}: {report:#}");
    }

    /// A rerun after a run of these tests, of which the first fails, runs that again, and others only if they are known.
    fn check_rerun(&self, workspace: &TestWorkspace, all: &BTreeMap<String, Executed>, names: &[&str]) {
        self.check_names(workspace, all, names);
        let failed = names[0];
        let again = executed(&workspace.proctor(&["run", "--failed", "--output", "json"]).json());
        assert!(again.contains_key(failed), "{failed}");
        assert!(nodeids(&again).is_subset(&nodeids(all)), "{failed}: {:?}", nodeids(&again));
    }

    /// With a name that no test has, nothing is executed, and with a second name the run does not pass.
    fn check_missing(&self, workspace: &TestWorkspace, all: &BTreeMap<String, Executed>) {
        let missing = "no test (has) [this] name > $1";
        let report = run(workspace, &[missing]);
        let notes = report["evidence"]["notes"].to_string();
        assert!(notes.contains("1 selected test(s) gave no result: no test (has) [this] name > $1"), "{report:#}");
        // Cypress looks for a name without a spec in every spec, and runs whole ones.
        let is_of_cypress = self.fixture.starts_with("cypress/");
        assert!(is_of_cypress || executed(&report).is_empty(), "{report:#}");
        assert_eq!(report["outcome"], if is_of_cypress { "failed" } else { "no_tests" }, "{report:#}");
        let passing = all.iter().find(|(_, test)| test.outcome == "passed").map(|(nodeid, _)| nodeid.as_str()).unwrap();
        let report = run(workspace, &[missing, passing]);
        assert!(executed(&report).contains_key(passing), "{report:#}");
        assert_eq!(report["outcome"], "failed", "{report:#}");
    }
}

macro_rules! frameworks {
    ($($name:ident: $fixture:literal, $file:expr, $selectable:expr;)*) => {$(
        #[test]
        fn $name() {
            Framework { fixture: $fixture, file: $file, selectable: $selectable }.check();
        }
    )*};
}

frameworks! {
    go: "go/unicode", ("nasty_test.go", GO), itself;
    go_modules: "go/twomodules", ("", ""), itself;
    pytest: "pytest/unicode", ("test_nasty.py", PYTEST), itself;
    unittest: "unittest/fail", ("", ""), without_part;
    jest: "jest/unicode", ("nasty.test.js", JAVASCRIPT), itself;
    vitest: "vitest/unicode", ("nasty.test.js", VITEST), itself;
    mocha: "mocha/unicode", ("test/nasty.spec.js", JAVASCRIPT), itself;
    node: "node/unicode", ("test/nasty.test.js", NODE), itself;
    playwright: "playwright/unicode", ("nasty.spec.js", PLAYWRIGHT), itself;
    cypress: "cypress/fail", ("", ""), file_of;
    cargo: "cargo/unicode", ("src/main.rs", RUST), itself;
    nextest: "nextest/unicode", ("src/main.rs", RUST), itself;
    ctest: "ctest/unicode", ("", ""), itself;
    maven: "maven/fail", ("src/test/java/com/example/SetUpTest.java", "package com.example;\n"), method_of;
    gradle: "gradle/modules", ("", ""), method_of;
    maestro: "maestro/fail", (".maestro/nasty.yaml", MAESTRO), itself;
    rspec: "rspec/unicode", ("spec/nasty_spec.rb", RSPEC), itself;
    phpunit: "phpunit/unicode", ("tests/NastyTest.php", PHPUNIT), itself;
}

/// A subtest runs with its test.
fn without_part(nodeid: &str) -> String {
    nodeid.split('/').next().unwrap_or_default().to_owned()
}

/// Cypress runs whole specs.
fn file_of(nodeid: &str) -> String {
    nodeid.split(" > ").next().unwrap_or_default().to_owned()
}

/// A parametrised method runs with all its parameters.
fn method_of(nodeid: &str) -> String {
    nodeid.split(['(', '[']).next().unwrap_or_default().to_owned()
}

const GO: &str = r#"package unicode

import "testing"

func TestAdds(t *testing.T) {
	for _, name := range []string{"a", "a b", "adds (a+b)", "$5 [x] *?", "\"q\" 'r' `s`", "größe|^x$", "ends ", "-x", "\\d"} {
		t.Run(name, func(t *testing.T) {
			if name == "a b" {
				t.Error("fails")
			}
		})
	}
}

func TestAddsTwice(t *testing.T) {}

func Example_adds() {
	// Output:
}
"#;

const PYTEST: &str = r#"import pytest


@pytest.mark.parametrize("s", ["a", "a b", "(a+b)", "a/b", "a::b", "$5 *?", "\"q\" 'r'", "größe", "ends ", "x > y", "[", "-x", "a#2"])
def test_s(s):
    assert s != "a b"


def test_s_twice():
    pass


class TestCart:
    def test_s(self):
        pass
"#;

/// The same tests for each runner: its imports, and what it calls a suite and a test.
macro_rules! cart_suite {
    ($imports:literal, $describe:literal, $it:literal) => {
        concat!($imports, $describe, r#"('cart > totals', () => {
  for (const title of ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "ends in a blank ", "a/b", "-x", "\\d^a|b$", "größe 日本", "two\nlines\tand tabs"]) {
    "#, $it, r#"(title, () => {
      if (title === 'adds twice') throw new Error('fails');
    });
  }
});

"#, $it, r#"('cart', () => {});
"#)
    };
}

const JAVASCRIPT: &str = cart_suite!("\n", "describe", "it");
const VITEST: &str = cart_suite!("import { describe, it } from 'vitest';\n\n", "describe", "it");
const NODE: &str = cart_suite!("const { describe, it } = require('node:test');\n\n", "describe", "it");
const PLAYWRIGHT: &str = cart_suite!("const { test } = require('@playwright/test');\n\n", "test.describe", "test");

const RUST: &str = r#"fn main() {}

#[cfg(test)]
mod größe {
    #[test]
    fn adds() {}

    #[test]
    fn adds_twice() {
        panic!("fails");
    }

    mod adds {
        #[test]
        fn adds() {}
    }
}
"#;

const MAESTRO: &str = "appId: com.example\nname: adds (a+b) > $5 [x] \"q\"\n---\n- launchApp\n";

const RSPEC: &str = r#"RSpec.describe "cart > totals" do
  ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "a/b", "-x", "\\d^a|b$"].each do |title|
    it title do
      raise "fails" if title == "adds twice"
    end
  end
end
"#;

const PHPUNIT: &str = r#"<?php

use PHPUnit\Framework\Attributes\DataProvider;
use PHPUnit\Framework\TestCase;

final class NastyTest extends TestCase
{
    /** @dataProvider words */
    #[DataProvider('words')]
    public function testAdds(string $word): void
    {
        $this->assertNotSame('a b', $word);
    }

    public static function words(): array
    {
        $words = ['a', 'a b', '(a+b)', 'a/b', '$5 [x] *?', "'r'", 'größe', 'ends ', '-x', '\\d^a|b$'];
        return array_combine($words, array_map(function ($word) { return [$word]; }, $words));
    }

    public function testAddsTwice(): void
    {
        $this->assertTrue(true);
    }
}
"#;

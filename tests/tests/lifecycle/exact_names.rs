//! Tests selected by name, for each framework: every name of a listing and of a report runs exactly its test, whatever
//! characters it has.

use proctor_tests::test_workspace::TestWorkspace;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

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

/// Node ids and names of a report's executed tests.
fn executed(report: &Value) -> BTreeMap<String, String> {
    let tests = report["tests"].as_array().unwrap().iter().filter(|test| test["outcome"] != "skipped");
    tests.map(|test| (text(test, "nodeid"), text(test, "name"))).collect()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

/// A test with the tests above and below it: a parent runs its subtests, and a subtest its parent's own code.
fn with_family(nodeid: &str, all: &BTreeMap<String, String>) -> BTreeSet<String> {
    let is_below = |name: &str, other: &str| name.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
    let is_relative = |other: &&String| is_below(nodeid, other) || is_below(other, nodeid);
    all.keys().filter(is_relative).cloned().chain([nodeid.to_owned()]).collect()
}

impl Framework {
    fn check(&self) {
        let workspace = TestWorkspace::with_fixture(self.fixture);
        if !self.file.0.is_empty() {
            workspace.write(self.file.0, self.file.1);
        }
        let all = executed(&workspace.proctor(&["run", "--output", "json"]).json());
        let listed = workspace.proctor(&["list", "--output", "json"]).json();
        let listed = listed["tests"].as_array().unwrap().iter().map(|test| text(test, "name"));
        let names: BTreeSet<String> = listed.chain(all.keys().cloned()).collect();
        assert!(!all.is_empty() && names.len() >= all.len(), "{names:?}");
        for name in &names {
            // Cypress lists specs.
            let is_meant = |nodeid: &str, own: &str| nodeid == name || own == name || file_of(nodeid) == *name;
            let meant = all.iter().filter(|(nodeid, own)| is_meant(nodeid, own));
            let selected: BTreeSet<String> = meant.map(|(nodeid, _)| (self.selectable)(nodeid)).collect();
            let expected: BTreeSet<String> = all
                .keys()
                .filter(|nodeid| selected.contains(&(self.selectable)(nodeid)))
                .flat_map(|nodeid| with_family(nodeid, &all))
                .collect();
            let report = workspace.proctor(&["run", "--output", "json", &format!("--test={name}")]).json();
            let ran: BTreeSet<String> = executed(&report).into_keys().collect();
            // A listed test may be one that is skipped.
            assert_eq!(ran, expected, "{name:?}: {report:#}");
            assert_eq!(report["outcome"] == "no_tests", expected.is_empty(), "{name:?}: {report:#}");
        }
        let failed = all.keys().find(|nodeid| {
            let report = workspace.proctor(&["run", "--output", "json", &format!("--test={nodeid}")]).json();
            report["outcome"] == "failed"
        });
        if let Some(failed) = failed {
            let again = executed(&workspace.proctor(&["run", "--failed", "--output", "json"]).json());
            assert!(again.contains_key(failed), "{failed}: {again:?}");
            let selected =
                executed(&workspace.proctor(&["run", "--output", "json", &format!("--test={failed}")]).json());
            assert!(again.keys().all(|nodeid| selected.contains_key(nodeid)), "{again:?}: {selected:?}");
        }
        self.check_missing(&workspace, &all);
    }

    /// A name that no test has: no_tests if nothing else is selected, and never passed.
    fn check_missing(&self, workspace: &TestWorkspace, all: &BTreeMap<String, String>) {
        let missing = "TestThat (does) [not] exist > $1";
        let report = workspace.proctor(&["run", "--output", "json", "--test", missing]);
        let document = report.json();
        let (ran, notes) = (executed(&document), document["evidence"]["notes"].to_string());
        let note = "1 selected test(s) gave no result: ";
        assert!(ran.is_empty() && notes.contains(note) && report.status == 4, "{document:#}");
        let passing = all.keys().find(|nodeid| workspace.proctor(&["run", "--test", nodeid]).status == 0);
        let Some(passing) = passing else { return };
        let report = workspace.proctor(&["run", "--output", "json", "--test", missing, passing]);
        let document = report.json();
        assert!(executed(&document).contains_key(passing), "{document:#}");
        assert_eq!((report.status, document["outcome"].as_str()), (1, Some("failed")), "{document:#}");
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
    mocha: "mocha/unicode", ("test/nasty.spec.js", MOCHA), itself;
    node: "node/unicode", ("test/nasty.test.js", NODE), itself;
    playwright: "playwright/unicode", ("nasty.spec.js", PLAYWRIGHT), itself;
    cypress: "cypress/fail", ("", ""), file_of;
    cargo: "cargo/unicode", ("src/main.rs", RUST), itself;
    nextest: "nextest/unicode", ("src/main.rs", RUST), itself;
    ctest: "ctest/unicode", ("", ""), itself;
    maven: "maven/fail", ("", ""), method_of;
    gradle: "gradle/fail", ("", ""), method_of;
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

const JAVASCRIPT: &str = r#"
describe('cart > totals', () => {
  for (const title of ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "ends in a blank ", "a/b", "-x", "\\d^a|b$", "größe 日本"]) {
    it(title, () => {
      if (title === 'adds twice') throw new Error('fails');
    });
  }
});

it('cart', () => {});
"#;

const VITEST: &str = r#"import { describe, it } from 'vitest';

describe('cart > totals', () => {
  for (const title of ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "ends in a blank ", "a/b", "-x", "\\d^a|b$", "größe 日本"]) {
    it(title, () => {
      if (title === 'adds twice') throw new Error('fails');
    });
  }
});

it('cart', () => {});
"#;

const MOCHA: &str = r#"
describe('cart > totals', () => {
  for (const title of ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "ends in a blank ", "a/b", "-x", "\\d^a|b$", "größe 日本"]) {
    it(title, () => {
      if (title === 'adds twice') throw new Error('fails');
    });
  }
});

it('cart', () => {});
"#;

const NODE: &str = r#"const { describe, it } = require('node:test');

describe('cart > totals', () => {
  for (const title of ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "ends in a blank ", "a/b", "-x", "\\d^a|b$", "größe 日本"]) {
    it(title, () => {
      if (title === 'adds twice') throw new Error('fails');
    });
  }
});

it('cart', () => {});
"#;

const PLAYWRIGHT: &str = r#"const { test } = require('@playwright/test');

test.describe('cart > totals', () => {
  for (const title of ["adds", "adds (a+b)", "adds twice", "$5 [x] *?", "\"q\" 'r' `s`", "ends in a blank ", "a/b", "-x", "\\d^a|b$", "größe 日本"]) {
    test(title, () => {
      if (title === 'adds twice') throw new Error('fails');
    });
  }
});

test('cart', () => {});
"#;

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

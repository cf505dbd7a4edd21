//! Suites of 500 generated tests, in the form of each framework.

/// Tests of a suite.
const TESTS: u32 = 500;

/// Lines that a failing test prints.
const LINES: u32 = 20;

/// What happens to the tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Case {
    Passed,
    OneFailed,
    NotBuilt,
    ManyFailed,
}

impl Case {
    fn fails(self, number: u32) -> bool {
        match self {
            Case::Passed | Case::NotBuilt => false,
            Case::OneFailed => number == 77,
            Case::ManyFailed => number < 300,
        }
    }

    // A line of source that no compiler or loader accepts.
    fn mistake(self, line: &str) -> &str {
        if self == Case::NotBuilt { line } else { "" }
    }
}

/// A framework whose `many` fixture is the frame of the suite.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Framework {
    Cargo,
    Go,
    Jest,
    Mocha,
    Node,
    Pytest,
    Unittest,
    Vitest,
}

impl Framework {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Framework::Cargo => "cargo",
            Framework::Go => "go",
            Framework::Jest => "jest",
            Framework::Mocha => "mocha",
            Framework::Node => "node",
            Framework::Pytest => "pytest",
            Framework::Unittest => "unittest",
            Framework::Vitest => "vitest",
        }
    }

    /// Files of the suite, with their content.
    pub(crate) fn suite(self, case: Case) -> Vec<(&'static str, String)> {
        match self {
            Framework::Cargo => vec![("build.rs", "fn main() {}\n".to_owned()), ("src/lib.rs", rust(case))],
            Framework::Go => vec![("many_test.go", go(case))],
            Framework::Jest => vec![("many.test.js", javascript(case, "", "test", "expect(sum).toBe(NUMBER)"))],
            Framework::Vitest => {
                let imports = "import { expect, test } from 'vitest';\n";
                vec![("many.test.js", javascript(case, imports, "test", "expect(sum).toBe(NUMBER)"))]
            }
            Framework::Mocha => {
                let imports = "const assert = require('node:assert');\n";
                vec![("test/many.spec.js", javascript(case, imports, "it", "assert.strictEqual(sum, NUMBER)"))]
            }
            Framework::Node => {
                let imports = "const assert = require('node:assert');\nconst { test } = require('node:test');\n";
                vec![("test/many.test.js", javascript(case, imports, "test", "assert.strictEqual(sum, NUMBER)"))]
            }
            Framework::Pytest => vec![("test_many.py", python(case, false))],
            Framework::Unittest => vec![("test_many.py", python(case, true))],
        }
    }
}

fn go(case: Case) -> String {
    let test = |number| {
        let body = match case.fails(number) {
            true => format!("\tnoise(t)\n\tt.Errorf(\"total of case {number}: got %d, want %d\", 1, {number})\n"),
            false => String::new(),
        };
        format!("func TestCase{number}(t *testing.T) {{\n{body}}}\n\n")
    };
    let noise = format!(
        "func noise(t *testing.T) {{\n\tfor line := 0; line < {LINES}; line++ {{\n\t\tt.Log(\"working on line\", line)\n\t}}\n}}\n\n"
    );
    let head = "package many\n\nimport \"testing\"\n\n".to_owned() + case.mistake("var broken int = \"text\"\n\n");
    head + &noise + &(0..TESTS).map(test).collect::<String>()
}

fn rust(case: Case) -> String {
    let test = |number| {
        let body = match case.fails(number) {
            true => format!(" noise(); panic!(\"total of case {number}: got 1, want {number}\"); "),
            false => String::new(),
        };
        format!("#[test]\nfn case_{number}() {{{body}}}\n\n")
    };
    let noise = format!(
        "#[allow(dead_code)]\nfn noise() {{\n    for line in 0..{LINES} {{\n        println!(\"working on line {{line}}\");\n    }}\n}}\n\n"
    );
    case.mistake("pub const BROKEN: u32 = \"text\";\n\n").to_owned()
        + &noise
        + &(0..TESTS).map(test).collect::<String>()
}

fn python(case: Case, is_unittest: bool) -> String {
    let (head, indent, own) = if is_unittest {
        ("import unittest\n\n\nclass TestMany(unittest.TestCase):\n", "    ", "self")
    } else {
        ("", "", "")
    };
    let test = |number| {
        let body = match case.fails(number) {
            true => format!(
                "{indent}    for line in range({LINES}):\n{indent}        print(\"working on line\", line)\n\
                 {indent}    assert 1 == {number} + 5, \"total of case {number}\"\n"
            ),
            false => format!("{indent}    pass\n"),
        };
        format!("{indent}def test_case_{number}({own}):\n{body}\n\n")
    };
    case.mistake("import nowhere\n").to_owned() + head + &(0..TESTS).map(test).collect::<String>()
}

// `check` is an assertion about `sum` and NUMBER.
fn javascript(case: Case, imports: &str, test: &str, check: &str) -> String {
    let one = |number: u32| {
        let body = match case.fails(number) {
            true => {
                let check = check.replace("NUMBER", &format!("{number} + 5"));
                let thrown = format!("error.message = 'total of case {number}: ' + error.message; throw error;");
                format!(
                    "\n  for (let line = 0; line < {LINES}; line += 1) console.log('working on line', line);\n  const sum = 1;\n  \
                     try {{ {check}; }} catch (error) {{ {thrown} }}\n"
                )
            }
            false => String::new(),
        };
        format!("{test}('case {number}', () => {{{body}}});\n")
    };
    imports.to_owned() + case.mistake("const broken = ;\n") + &(0..TESTS).map(one).collect::<String>()
}

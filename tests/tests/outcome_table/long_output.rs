//! What a failing test printed beyond the bound: the end is kept, below a line with the number of bytes left out.

use proctor_tests::test_workspace::TestWorkspace;

/// Lines that each test prints, `line 0` first: some 600 KB.
const LINES: usize = 50_000;

/// Runs the one test of a workspace with these files, which prints the lines and fails, and checks its output.
fn assert_keeps_the_end(files: &[(&str, &str)]) {
    let workspace = TestWorkspace::empty();
    files.iter().for_each(|(file, content)| workspace.write(file, content));
    let output = workspace.proctor(&["run", "--output", "json"]);
    let report = output.json();
    assert_eq!((output.status, report["summary"]["failed"].as_u64()), (1, Some(1)), "{report:#}");
    let printed = report["tests"][0]["output"].as_str().unwrap();
    let (first, end) = printed.split_once('\n').unwrap();
    let left_out = first.strip_prefix('[').and_then(|rest| rest.strip_suffix(" bytes before this are left out]"));
    let left_out: usize = left_out.unwrap_or_else(|| panic!("{first:?}")).parse().unwrap();
    let all: usize = (0..LINES).map(|number| format!("line {number}\n").len()).sum();
    let headings = (left_out + end.len()).checked_sub(all);
    assert!(headings.is_some_and(|bytes| bytes < 100), "{left_out} bytes and {} of {all}", end.len());
    assert!(end.trim_end().ends_with(&format!("line {}", LINES - 1)), "{}", &end[end.len() - 100..]);
    assert!((60_000..=65_536).contains(&printed.len()), "{} bytes are kept", printed.len());
}

#[test]
fn pytest_keeps_the_end() {
    let test = "def test_long():\n    for i in range(50000):\n        print('line', i)\n    assert False\n";
    assert_keeps_the_end(&[("pytest.ini", "[pytest]\n"), ("test_long.py", test)]);
}

#[test]
fn unittest_keeps_the_end() {
    let test = "import unittest\n\n\nclass TestLong(unittest.TestCase):\n    def test_long(self):\n        \
                for i in range(50000):\n            print('line', i)\n        self.fail()\n";
    assert_keeps_the_end(&[("test_long.py", test)]);
}

#[test]
fn node_keeps_the_end() {
    let test = "require('node:test').test('long', () => {\n  for (let i = 0; i < 50000; i++) console.log('line', i);\n  \
                throw new Error('end');\n});\n";
    assert_keeps_the_end(&[("package.json", r#"{"scripts":{"test":"node --test"}}"#), ("long.test.js", test)]);
}

#[test]
fn rspec_keeps_the_end() {
    let spec = "RSpec.describe 'a' do\n  it 'prints' do\n    50000.times { |i| puts \"line #{i}\" }\n    \
                expect(1).to eq 2\n  end\nend\n";
    assert_keeps_the_end(&[(".rspec", ""), ("spec/long_spec.rb", spec)]);
}

#[test]
fn phpunit_keeps_the_end() {
    let settings = "<?xml version=\"1.0\"?>\n<phpunit><testsuites><testsuite name=\"all\">\
                    <directory>tests</directory></testsuite></testsuites></phpunit>\n";
    let test = "<?php\nfinal class LongTest extends PHPUnit\\Framework\\TestCase\n{\n    public function testLong(): void\n    \
                {\n        for ($i = 0; $i < 50000; $i++) echo \"line $i\\n\";\n        $this->assertTrue(false);\n    }\n}\n";
    assert_keeps_the_end(&[("phpunit.xml", settings), ("tests/LongTest.php", test)]);
}

//! The failures of a run as an agent reads them: one entry per failing test, per package or file that did not build or
//! load, and per test that was running when the run was cut off.

use super::budget::{Detail, clip_end, last_lines};
use proctor_proto::printable::{block, line};
use proctor_proto::text;
use proctor_proto::v1::{Collector, CollectorKind, Failure, HungTest, Report, TestCase, TestId, TestOutcome};
use serde_json::{Value, json};

/// Most bytes of the output of one failure.
const OUTPUT_BYTES: usize = 1024;

/// The same of a loader, whose last lines quote the source.
const LOADER_OUTPUT_BYTES: usize = 500;

/// Directories of installed packages in the paths of stack frames.
const INSTALLED: [&str; 3] = ["node_modules/", "site-packages/", "vendor/"];

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum FailureKind {
    /// A test that failed, or that could not be carried out.
    Test,
    /// A package or file that did not build.
    Build,
    /// A package or file that could not be loaded.
    Collection,
    /// A test that was running when the run was cut off.
    Running,
}

impl FailureKind {
    /// The name in structured content; a failing test needs none.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            FailureKind::Test => None,
            FailureKind::Build => Some("build"),
            FailureKind::Collection => Some("collection"),
            FailureKind::Running => Some("running"),
        }
    }

    /// The remark behind a name in the text; a failing test needs none.
    pub(crate) fn remark(self) -> &'static str {
        match self {
            FailureKind::Test => "",
            FailureKind::Build => " (did not build)",
            FailureKind::Collection => " (could not be loaded)",
            FailureKind::Running => " (running)",
        }
    }
}

/// A failure, and the names of those that failed alike.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FailureEntry {
    pub(crate) kind: FailureKind,
    /// The runner's own name of the test, package or file.
    pub(crate) name: String,
    /// Package and name of a test.
    pub(crate) test: Option<TestId>,
    /// Relative to the workspace.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) message: String,
    pub(crate) expected: Option<String>,
    pub(crate) actual: Option<String>,
    /// Innermost frame first.
    pub(crate) stack: Vec<String>,
    /// What the test printed, or the compiler.
    pub(crate) output: String,
    /// Names of other failures with the same message at the same place.
    pub(crate) alike: Vec<String>,
}

/// All failures of a report, in the order in which an agent should read them.
pub(crate) fn entries(report: &Report) -> Vec<FailureEntry> {
    let collectors = report.collectors.iter().map(FailureEntry::from_collector);
    let running = report.evidence.iter().flat_map(|evidence| {
        let hung = |test: &TestId| evidence.hung.iter().find(|hung| hung.test.as_ref() == Some(test));
        evidence.running.iter().map(move |test| FailureEntry::from_running(test, hung(test)))
    });
    running
        .chain(collectors)
        .chain(report.tests.iter().filter(|test| is_own_failure(test)).map(FailureEntry::from_test))
        .collect()
}

impl FailureEntry {
    fn from_test(test: &TestCase) -> FailureEntry {
        FailureEntry {
            name: test.nodeid.clone(),
            test: Some(TestId { package: test.package.clone(), name: test.name.clone() }),
            file: test.file.clone(),
            line: test.line,
            message: test.message.clone().unwrap_or_default(),
            expected: test.expected.clone(),
            actual: test.actual.clone(),
            stack: lines(test.stack.as_deref().unwrap_or_default()),
            // The rest is never shown, and a report may have 40 MiB of it.
            output: last_lines(test.output.as_deref().unwrap_or_default(), OUTPUT_BYTES).to_owned(),
            ..FailureEntry::new(FailureKind::Test)
        }
    }

    fn from_collector(collector: &Collector) -> FailureEntry {
        let kind = match collector.kind() {
            CollectorKind::Collection => FailureKind::Collection,
            CollectorKind::Build | CollectorKind::Unspecified => FailureKind::Build,
        };
        FailureEntry {
            name: collector.nodeid.clone(),
            file: collector.file.clone(),
            line: collector.line,
            message: collector.message.clone(),
            output: collector.output.clone(),
            ..FailureEntry::new(kind)
        }
    }

    /// From a listed failure of the last run.
    pub(crate) fn from_listed(failure: &Failure) -> FailureEntry {
        let kind = match failure.collector() {
            CollectorKind::Unspecified => FailureKind::Test,
            CollectorKind::Build => FailureKind::Build,
            CollectorKind::Collection => FailureKind::Collection,
        };
        FailureEntry {
            name: failure.nodeid.clone(),
            test: failure.test.clone(),
            file: failure.file.clone(),
            line: failure.line,
            message: failure.message.clone(),
            expected: failure.expected.clone(),
            actual: failure.actual.clone(),
            ..FailureEntry::new(kind)
        }
    }

    /// From a test that was running when the run was cut off.
    pub(crate) fn from_running(test: &TestId, hung: Option<&HungTest>) -> FailureEntry {
        FailureEntry {
            name: text::full_name(test),
            test: Some(test.clone()),
            file: hung.and_then(|hung| hung.file.clone()),
            line: hung.and_then(|hung| hung.line),
            stack: hung.map(|hung| lines(&hung.stack)).unwrap_or_default(),
            message: "was running when the run was cut off".to_owned(),
            ..FailureEntry::new(FailureKind::Running)
        }
    }

    fn new(kind: FailureKind) -> FailureEntry {
        FailureEntry {
            kind,
            name: String::new(),
            test: None,
            file: None,
            line: None,
            message: String::new(),
            expected: None,
            actual: None,
            stack: Vec::new(),
            output: String::new(),
            alike: Vec::new(),
        }
    }

    /// `file:line`, or the file alone.
    pub(crate) fn place(&self) -> Option<String> {
        place(self.file.as_deref(), self.line)
    }

    /// The package, which may be empty, and the name in it, as `list_tests` has them.
    pub(crate) fn short_name(&self) -> (&str, &str) {
        let of_test = self.test.as_ref().filter(|test| !test.name.is_empty());
        of_test.map_or(("", self.name.as_str()), |test| (test.package.as_str(), test.name.as_str()))
    }

    /// The entry with no more than `detail`, alike to no other.
    pub(crate) fn clipped(&self, detail: &Detail) -> FailureEntry {
        let clip = |text: &str| clip_end(block(text).trim_end(), detail.message_bytes);
        FailureEntry {
            message: clip(&self.message),
            expected: self.expected.as_deref().map(clip),
            actual: self.actual.as_deref().map(clip),
            stack: self.frames(detail),
            output: block(&self.shown_output(detail)).into_owned(),
            alike: Vec::new(),
            kind: self.kind,
            name: self.name.clone(),
            test: self.test.clone(),
            file: self.file.clone(),
            line: self.line,
        }
    }

    // The output of a test explains its failure only where no message does.
    fn shown_output(&self, detail: &Detail) -> String {
        let bytes = detail.message_bytes.min(OUTPUT_BYTES);
        match self.kind {
            // A compiler names the cause first, a loader last.
            FailureKind::Build => clip_end(self.further_output().trim_end(), bytes),
            FailureKind::Collection => {
                last_lines(self.further_output().trim_end(), bytes.min(LOADER_OUTPUT_BYTES)).to_owned()
            }
            FailureKind::Test if self.message.trim().is_empty() => {
                last_lines(self.output.trim_end(), detail.output_bytes.min(OUTPUT_BYTES)).to_owned()
            }
            FailureKind::Test | FailureKind::Running => String::new(),
        }
    }

    // The output without the lines that the message repeats.
    fn further_output(&self) -> String {
        let first = self.message.lines().next().unwrap_or_default().trim();
        let is_new = |line: &&str| !line.trim().is_empty() && (first.is_empty() || !line.contains(first));
        let mut is_foreign = false;
        let lines = self.output.lines().filter(|line| {
            // A line of a foreign frame is followed by indented ones that quote its source.
            is_foreign = if line.starts_with(' ') { is_foreign } else { starts_foreign_frame(line) };
            let is_script_frame = line.trim_start().starts_with("at ");
            !is_foreign && (!is_script_frame || is_in_project(line))
        });
        lines.filter(is_new).map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    // The stack of a test that hangs, and of a failing one the innermost frame in the project, unless it is the place
    // itself.
    fn frames(&self, detail: &Detail) -> Vec<String> {
        if self.kind == FailureKind::Running {
            return self.stack.iter().take(detail.stack_frames).cloned().collect();
        }
        let frame = self.stack.iter().find(|frame| is_in_project(frame)).filter(|_| detail.stack_frames > 0);
        let place = self.place().unwrap_or_default();
        frame.filter(|frame| place.is_empty() || !frame.contains(&place)).cloned().into_iter().collect()
    }

    /// As structured content.
    pub(crate) fn to_json(&self) -> Value {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let list = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
        json!({
            "name": self.name,
            "kind": self.kind.name(),
            "at": self.place(),
            "message": text(&self.message),
            "expected": self.expected,
            "actual": self.actual,
            "stack": list(&self.stack),
            "output": text(&self.output),
            "alike": list(&self.alike),
        })
    }
}

/// Whether a test failed or could not be carried out.
pub(crate) fn has_failed(test: &TestCase) -> bool {
    matches!(test.outcome(), TestOutcome::Failed | TestOutcome::Error)
}

/// Whether it failed, and not only because a subtest of it did.
pub(crate) fn is_own_failure(test: &TestCase) -> bool {
    has_failed(test) && !test.failed_by_subtest
}

// Whether a frame has a place `file:line` whose file is relative and not one that a package manager installed.
fn is_in_project(frame: &str) -> bool {
    frame.split(|character: char| character.is_whitespace() || "()[]\"'".contains(character)).any(|word| {
        let mut parts = word.split(':');
        let (Some(file), Some(line)) = (parts.next(), parts.next()) else { return false };
        let is_number = !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
        let is_installed = INSTALLED.iter().any(|directory| file.contains(directory));
        is_number && file.contains('.') && !file.starts_with(['/', '<']) && !is_installed
    })
}

// Whether a line such as `/usr/lib/python3/ast.py:50: in parse` begins a frame outside the project.
fn starts_foreign_frame(line: &str) -> bool {
    line.starts_with(['/', '<']) && line.contains(": in ")
}

/// `file:line`, or the file alone.
pub(crate) fn place(file: Option<&str>, number: Option<u32>) -> Option<String> {
    let file = file?;
    Some(number.map_or_else(|| file.to_owned(), |number| format!("{file}:{number}")))
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|text| line(text.trim_end()).into_owned()).filter(|line| !line.trim().is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::budget;
    use proctor_proto::v1::Evidence;

    fn test(name: &str, message: &str) -> TestCase {
        TestCase {
            nodeid: name.into(),
            outcome: TestOutcome::Failed.into(),
            file: Some("a_test.go".into()),
            line: Some(7),
            message: Some(message.into()),
            ..TestCase::default()
        }
    }

    fn clipped(entries: &[FailureEntry], detail: &Detail) -> Vec<FailureEntry> {
        entries.iter().map(|entry| entry.clipped(detail)).collect()
    }

    fn entries_of(tests: Vec<TestCase>) -> Vec<FailureEntry> {
        entries(&Report { tests, ..Report::default() })
    }

    #[test]
    fn a_parent_that_failed_only_by_its_subtest_is_no_entry() {
        let parent = TestCase { failed_by_subtest: true, ..test("a/T", "") };
        let names = |tests: Vec<TestCase>| entries_of(tests).into_iter().map(|entry| entry.name).collect::<Vec<_>>();
        assert_eq!(names(vec![test("a/T/x", "wrong"), parent]), ["a/T/x"]);
        assert_eq!(names(vec![test("a/T", "wrong"), test("a/T/x", "wrong")]), ["a/T", "a/T/x"]);
    }

    #[test]
    fn shows_of_a_compiler_what_its_first_message_does_not_say() {
        let collector = Collector {
            nodeid: "a".into(),
            kind: CollectorKind::Build.into(),
            file: Some("a.go".into()),
            line: Some(6),
            message: "undefined: first".into(),
            output: "# a\na.go:6:9: undefined: first\na.go:11:9: undefined: second\n".into(),
        };
        let all = entries(&Report { collectors: vec![collector], ..Report::default() });
        let shown = clipped(&all, &budget::FULL);
        assert_eq!(shown[0].output, "# a\na.go:11:9: undefined: second");
    }

    #[test]
    fn shows_of_a_loader_the_frames_of_the_project() {
        let output = "/usr/lib/python3/ast.py:50: in parse\n    return compile(source)\n           ^^^^^^\n\
                      test_a.py:3: in <module>\n    helper.load()\nE   ValueError: no\n";
        let collector = Collector {
            nodeid: "test_a.py".into(),
            kind: CollectorKind::Collection.into(),
            message: "ValueError: no".into(),
            output: output.into(),
            ..Collector::default()
        };
        let all = entries(&Report { collectors: vec![collector], ..Report::default() });
        assert_eq!(clipped(&all, &budget::FULL)[0].output, "test_a.py:3: in <module>\n    helper.load()");
        let output =
            "    at load (a.js:3:1)\n    at Module._load (node:internal/modules/cjs/loader:1091:12)\n  code: 'X'\n";
        let collector =
            Collector { output: output.into(), kind: CollectorKind::Collection.into(), ..Collector::default() };
        let all = entries(&Report { collectors: vec![collector], ..Report::default() });
        assert_eq!(clipped(&all, &budget::FULL)[0].output, "    at load (a.js:3:1)\n  code: 'X'");
    }

    #[test]
    fn shows_where_a_running_test_hangs() {
        let id = |name: &str| TestId { package: "a".into(), name: name.into() };
        let hung = HungTest {
            test: Some(id("TestHangs")),
            file: Some("a_test.go".into()),
            line: Some(9),
            stack: "a.wait\n\ta.go:3\na.TestHangs\n\ta_test.go:9\n".into(),
        };
        let running = vec![id("TestHangs"), id("TestOther")];
        let evidence = Evidence { running, hung: vec![hung], ..Evidence::default() };
        let all = entries(&Report { evidence: Some(evidence), ..Report::default() });
        let shown = clipped(&all, &Detail { stack_frames: 3, ..budget::FULL });
        assert_eq!((shown[0].place().as_deref(), shown[0].stack.len()), (Some("a_test.go:9"), 3));
        assert_eq!((shown[1].place().as_deref(), shown[1].stack.len()), (None, 0), "nothing is known of it");
    }

    #[test]
    fn shows_the_innermost_frame_of_the_project() {
        let stack = "at Object.is (/usr/lib/x.js:3:1)\n at f (node_modules/y/z.js:1:1)\n at add (src/calc.js:10:5)\n";
        let mut case = test("a", "wrong");
        case.stack = Some(stack.into());
        assert_eq!(clipped(&entries_of(vec![case.clone()]), &budget::FULL)[0].stack, [" at add (src/calc.js:10:5)"]);
        (case.file, case.line) = (Some("src/calc.js".into()), Some(10));
        assert!(clipped(&entries_of(vec![case]), &budget::FULL)[0].stack.is_empty(), "the place says it");
    }
}

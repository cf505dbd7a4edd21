//! Reads the goroutines that test processes print on SIGQUIT, and finds those of the running tests.

use super::event::{TestEvent, unescape};
use crate::contract::StackOutput;
use crate::parsing::stack_frames::{Frame, Stack, attribute};
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::hung_test::HungTest;
use proctor_core::test_case::TestId;
use std::collections::BTreeMap;

/// The function that carries out each test in a goroutine of its own.
const TEST_RUNNER: &str = "testing.tRunner";

/// Functions in which a test waits for its subtests or for its turn among parallel tests: it does not hang by itself.
const WAITS_IN: [&str; 2] = ["testing.(*T).Run", "testing.(*T).Parallel"];

/// Where the running tests hang. The output of all test processes is in stdout, package by package.
pub(super) fn hung_tests(output: &StackOutput<'_>) -> Vec<HungTest> {
    let paths = WorkspacePaths::new(output.workspace);
    let mut printed: BTreeMap<String, String> = BTreeMap::new();
    for event in output.stdout.lines().filter_map(TestEvent::parse).filter(|event| event.action == "output") {
        printed.entry(event.package.clone().into_owned()).or_default().push_str(&unescape(event.raw_output()));
    }
    let hung = printed.iter().flat_map(|(package, text)| {
        let running: Vec<TestId> = output.running.iter().filter(|test| test.package == *package).cloned().collect();
        attribute(&goroutines(text, &paths), &running, is_goroutine_of)
    });
    hung.collect()
}

/// The goroutines in a text.
fn goroutines(text: &str, paths: &WorkspacePaths) -> Vec<Stack> {
    let mut found: Vec<Stack> = Vec::new();
    let mut function = None;
    let mut is_open = false;
    for line in text.lines() {
        if let Some(title) = title(line) {
            found.push(Stack { title, ..Stack::default() });
            is_open = true;
            continue;
        } else if line.is_empty() || line.starts_with("created by ") {
            is_open = false;
        }
        let Some(stack) = found.last_mut().filter(|_| is_open) else { continue };
        match (line.strip_prefix('\t').and_then(position), function.take()) {
            (Some(_), Some(name)) if is_runtime(name) => {}
            (Some((path, number)), Some(name)) => stack.frames.push(Frame::new(paths, path, number, name)),
            _ => function = Some(function_name(line)),
        }
    }
    found.retain_mut(is_of_test_or_beside);
    found
}

/// Marks the goroutine of a test and cuts it off where the test begins. `false` for one that only waits for other tests.
fn is_of_test_or_beside(stack: &mut Stack) -> bool {
    if stack.frames.iter().any(|frame| WAITS_IN.contains(&frame.function.as_str())) {
        return false;
    }
    let runner = stack.frames.iter().position(|frame| frame.function == TEST_RUNNER);
    stack.is_of_test = runner.is_some();
    stack.frames.truncate(runner.map_or(usize::MAX, |at| at + 1));
    true
}

/// `goroutine 8 [chan send]:` of `goroutine 8 gp=0xc0001061c0 m=nil [chan send]:`.
fn title(line: &str) -> Option<String> {
    let rest = line.strip_prefix("goroutine ").filter(|_| line.ends_with("]:"))?;
    let (number, _) = rest.split_once(' ')?;
    Some(format!("goroutine {number} {}", &rest[rest.find('[')?..]))
}

/// Whether the function is the runtime's: how a goroutine is parked is the same for all.
fn is_runtime(function: &str) -> bool {
    function.starts_with("runtime.") || function.starts_with("internal/runtime/")
}

/// `/path/file.go:12 +0x1f`, which may end in further addresses.
fn position(text: &str) -> Option<(&str, u32)> {
    let (path, line) = text.split(" +0x").next()?.rsplit_once(':')?;
    Some((path, line.parse().ok()?))
}

/// `example.com/p.(*T).F` of `example.com/p.(*T).F(0xc000106680, {0x1, 0x2})`.
fn function_name(line: &str) -> &str {
    if !line.ends_with(')') {
        return line;
    }
    // The arguments hold no parentheses.
    line.rfind('(').map_or(line, |at| &line[..at])
}

/// Whether the goroutine carries out the test: its outermost function is the test's, or a function within it for a subtest.
fn is_goroutine_of(test: &TestId, stack: &Stack) -> bool {
    let Some([.., outermost, _runner]) = stack.frames.get(..) else { return false };
    let root = test.name.split('/').next().unwrap_or_default();
    let name = outermost.function.rsplit('/').next().unwrap_or_default();
    let mut parts = name.split('.').skip(1);
    let is_subtest = test.name.contains('/');
    parts.next() == Some(root) && parts.next().is_some() == is_subtest
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUMP: &str = "SIGQUIT: quit
PC=0x47a2e1 m=0 sigcode=0

goroutine 1 gp=0xc0000021c0 m=nil [chan receive]:
testing.(*T).Run(0xc000106680, {0x53b2a6, 0x9}, 0x545550)
\t/usr/local/go/src/testing/testing.go:1750 +0x3ab
main.main()
\t_testmain.go:51 +0x1a8

goroutine 7 gp=0xc0001061c0 m=nil [sync.WaitGroup.Wait]:
runtime.gopark(0x3000000595428?, 0x30075bcf12420?, 0x20?, 0x24?, 0x7f75bcf09108?)
\t/usr/local/go/src/runtime/proc.go:462 +0xce fp=0xc00005e728 sp=0xc00005e708 pc=0x43a1ce
sync.(*WaitGroup).Wait(0xc0000147f0)
\t/usr/local/go/src/sync/waitgroup.go:118 +0x48
example.com/hang.(*Pool).drain(...)
\t/w/pool.go:12
example.com/hang.TestHangs(0xc000106820)
\t/w/hang_test.go:16 +0x9f
testing.tRunner(0xc000106820, 0x545550)
\t/usr/local/go/src/testing/testing.go:1690 +0xf4 fp=0xc00005e7c0 sp=0xc00005e770 pc=0x4eab2a
testing.(*T).Run.gowrap1()
\t/usr/local/go/src/testing/testing.go:2101 +0x38 fp=0xc00005e7e0 sp=0xc00005e7d8 pc=0x4ebf98
runtime.goexit({})
\t/usr/local/go/src/runtime/asm_amd64.s:1771 +0x1 fp=0xc00005e7e8 sp=0xc00005e7e0 pc=0x48a6c1
created by testing.(*T).Run in goroutine 1
\t/usr/local/go/src/testing/testing.go:1743 +0x390

goroutine 8 [chan send]:
example.com/hang.TestHangs.func1()
\t/w/hang_test.go:12 +0x2b
created by example.com/hang.TestHangs in goroutine 7
\t/w/hang_test.go:11 +0x56

rax    0x0
FAIL\texample.com/hang\t1.00s
";

    fn hung(text: &str, running: &[&str]) -> Vec<HungTest> {
        let package = "example.com/hang".to_owned();
        let running: Vec<TestId> =
            running.iter().map(|name| TestId { package: package.clone(), name: (*name).to_owned() }).collect();
        let event = |line: &str| {
            serde_json::json!({"Action": "output", "Package": package, "Output": format!("{line}\n")}).to_string()
        };
        let stdout: Vec<String> = text.lines().map(event).collect();
        hung_tests(&StackOutput {
            stdout: &stdout.join("\n"),
            running: &running,
            workspace: "/w",
            ..StackOutput::default()
        })
    }

    #[test]
    fn finds_the_goroutine_of_the_test_and_those_it_waits_for() {
        let found = hung(DUMP, &["TestHangs"]);
        assert_eq!((found[0].file.as_deref(), found[0].line), (Some("pool.go"), Some(12)));
        let expected = "waitgroup.go:118 in sync.(*WaitGroup).Wait
pool.go:12 in example.com/hang.(*Pool).drain
hang_test.go:16 in example.com/hang.TestHangs
goroutine 8 [chan send]:
hang_test.go:12 in example.com/hang.TestHangs.func1";
        assert_eq!(found[0].stack, expected);
    }

    #[test]
    fn tells_parallel_tests_apart_by_their_functions() {
        let second = DUMP.replace("TestHangs(", "TestOther(").replace("goroutine 7 gp", "goroutine 9 gp");
        let found = hung(&format!("{DUMP}\n{second}"), &["TestOther", "TestHangs"]);
        assert_eq!(found.iter().map(|hung| hung.test.name.as_str()).collect::<Vec<_>>(), ["TestOther", "TestHangs"]);
        assert!(found[0].stack.contains("hang.TestOther"), "{found:?}");
    }

    #[test]
    fn a_test_that_waits_for_its_turn_does_not_hang() {
        let waits = DUMP.replace("sync.(*WaitGroup).Wait(", "testing.(*T).Parallel(");
        assert_eq!(hung(&waits, &["TestHangs"]), []);
        assert_eq!(hung("FAIL\n", &["TestHangs"]), []);
    }
}

//! What CMake, compilers and linkers refuse: one record for each file that is blamed. Must not know about tests.

use super::command::package;
use super::linker::{self, REFERENCE};
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::COLLECTORS_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, CollectorKind};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Lines that blame a file, and how much of what follows says why.
static BLAMES: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // gcc and clang.
        r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.+)$",
        // CMake; its reason stands in the indented lines below.
        r"^CMake Error at (?P<file>[^:]+):(?P<line>\d+)(?: \((?P<command>\w+)\))?:$",
        // A linker that knows the line, and one that does not.
        r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+):(?P<line>\d+): (?P<text>undefined reference to .+)$",
        r"^(?:\S*ld(?:\.\w+)?: )?\S+:\(\S+\): (?P<text>(?:undefined reference|multiple definition) .+)$",
        r"^\S+?:\S+?:.*: error: (?P<text>undefined reference to .+)$",
        r"^\S*ld(?:\.\w+)?: (?:error: )?(?P<text>(?:cannot find|undefined symbol:) .+)$",
        r"^CMake Error: (?P<text>.+)$",
    ]
    .iter()
    .filter_map(|shape| Regex::new(shape).ok())
    .collect()
});

/// Records of a step that failed: `said` is what it printed, `dir` the project's directory.
pub(super) fn collectors(said: &str, exit: Exit, dir: &str, paths: &WorkspacePaths, events: &mut Vec<RunnerEvent>) {
    let said = strip_ansi(said);
    let lines: Vec<&str> = said.lines().collect();
    let mut told: Vec<Collector> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(blame) = BLAMES.iter().find_map(|shape| shape.captures(line)) else { continue };
        let mut blamed = blamed(&blame, &lines, at, dir, paths);
        let more = output(&lines, at);
        if let Some(known) = told.iter_mut().find(|known| known.nodeid == blamed.nodeid) {
            known.output.push('\n');
            known.output.push_str(&paths.scrub(&more));
        } else if told.len() < COLLECTORS_MAX {
            blamed.output = paths.scrub(&more);
            told.push(blamed);
        }
    }
    if told.is_empty() {
        let last = lines.iter().rev().find(|line| !line.trim().is_empty()).map_or("", |line| line.trim());
        let message = if last.is_empty() { format!("the build ended with {exit:?}") } else { paths.scrub(last) };
        let (nodeid, output) = (package(dir).to_owned(), paths.scrub(&said));
        told.push(Collector { nodeid, kind: CollectorKind::Build, file: None, line: None, message, output });
    }
    events.extend(told.into_iter().map(|collector| RunnerEvent::Collector(Box::new(collector.bounded()))));
}

fn blamed(blame: &Captures<'_>, lines: &[&str], at: usize, dir: &str, paths: &WorkspacePaths) -> Collector {
    let below = &lines[at + 1..];
    let file = match blame.name("file") {
        Some(file) => paths.relative_to(dir, file.as_str()),
        None => linker::source(lines, at).and_then(|source| paths.relative_to(dir, &source)),
    };
    let line = blame.name("line").and_then(|line| line.as_str().parse().ok()).filter(|_| file.is_some());
    let text = match blame.name("text") {
        Some(text) => text.as_str().to_owned(),
        None => reason(blame.name("command").map(|command| command.as_str()), below),
    };
    Collector {
        nodeid: file.clone().unwrap_or_else(|| package(dir).to_owned()),
        kind: CollectorKind::Build,
        file,
        line,
        message: paths.scrub(&text),
        output: String::new(),
    }
}

/// CMake's first paragraph, in one line as it was before it was broken, and what is set in below it, which it prints as it
/// was written: of a test program that cannot say which tests it has, how it ended and what it printed.
fn reason(command: Option<&str>, below: &[&str]) -> String {
    let mut lines = below.iter().skip_while(|line| line.trim().is_empty()).peekable();
    let mut words: Vec<&str> = Vec::new();
    while let Some(line) = lines.next_if(|line| !line.trim().is_empty()) {
        words.push(line.trim());
    }
    let details = lines.filter(|line| !line.trim().is_empty()).take_while(|line| line.starts_with("    "));
    let text: Vec<String> = [words.join(" ")].into_iter().chain(details.map(|line| line.trim().to_owned())).collect();
    match command {
        Some(command) if command != "message" => format!("{command}: {}", text.join("\n")),
        _ => text.join("\n"),
    }
}

/// The line that blames and what belongs to it: up to the next line that begins something else.
fn output(lines: &[&str], at: usize) -> String {
    let rest = &lines[at + 1..];
    let more = rest
        .iter()
        .take_while(|line| line.starts_with([' ', '\t']) || line.is_empty() || line.starts_with(REFERENCE))
        .count();
    lines[at..=at + more].join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(said: &str) -> Vec<(String, Option<u32>, String)> {
        let mut events = Vec::new();
        collectors(said, Exit::Code(2), "pkg", &WorkspacePaths::new("/ws"), &mut events);
        events
            .into_iter()
            .map(|event| match event {
                RunnerEvent::Collector(told) => (told.nodeid, told.line, told.message),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn each_tool_blames_in_its_own_way() {
        for (said, nodeid, line, message) in [
            ("/ws/pkg/a.cpp:1:10: fatal error: x.h: No such file", "pkg/a.cpp", Some(1), "x.h: No such file"),
            ("\x1b[1m/ws/pkg/a.c:3:5:\x1b[0m \x1b[31merror: \x1b[0mexpected ';'", "pkg/a.c", Some(3), "expected ';'"),
            (
                "CMake Error at CMakeLists.txt:3 (find_package):\n  By not providing\n  asked CMake.\n\n  Could not\n",
                "pkg/CMakeLists.txt",
                Some(3),
                "find_package: By not providing asked CMake.",
            ),
            ("CMake Error at m.cmake:7 (message):\n  stop here\n\n", "pkg/m.cmake", Some(7), "stop here"),
            ("CMake Error at CMakeLists.txt:7:\n  Parse error.", "pkg/CMakeLists.txt", Some(7), "Parse error."),
            ("CMake Error: CMAKE_CXX_COMPILER not set", "pkg", None, "CMAKE_CXX_COMPILER not set"),
            (
                "/usr/bin/ld: l.o: in function `main':\nl.cpp:(.text+0x5): undefined reference to `foo()'\ncollect2: error: x",
                "pkg",
                None,
                "undefined reference to `foo()'",
            ),
            (
                "/usr/bin/ld: CMakeFiles/l.dir/l.cpp.o: in function `main':\nl.cpp:(.text+0x5): undefined reference to `foo()'\n\
                 gmake[2]: *** [sub/CMakeFiles/l.dir/build.make:97: sub/l] Error 1",
                "pkg/sub/l.cpp",
                None,
                "undefined reference to `foo()'",
            ),
            (
                "CMakeFiles/l.dir/l.cpp.o:l.cpp:function main: error: undefined reference to 'foo()'",
                "pkg/l.cpp",
                None,
                "undefined reference to 'foo()'",
            ),
            (
                "CMake Error at /usr/share/cmake-3.25/Modules/GoogleTestAddTests.cmake:112 (message):\n  Error running test executable.\n\n    \
                 Path: '/c/cmake/1/s'\n    Result: Subprocess aborted\n    Output:\n      no\n      disk\n      \n\nCall Stack (most recent call first):\n  \
                 /usr/share/cmake-3.25/Modules/GoogleTestAddTests.cmake:225 (gtest_discover_tests_impl)\n\n\n\
                 gmake[2]: *** [CMakeFiles/s.dir/build.make:100: s] Error 1",
                "pkg",
                None,
                "Error running test executable.\nPath: '/c/cmake/1/s'\nResult: Subprocess aborted\nOutput:\nno\ndisk",
            ),
            (
                "/usr/bin/ld: /ws/pkg/l.cpp:3: undefined reference to `f'",
                "pkg/l.cpp",
                Some(3),
                "undefined reference to `f'",
            ),
            ("/usr/bin/ld: cannot find -lz: No such file", "pkg", None, "cannot find -lz: No such file"),
            ("something broke\n\n", "pkg", None, "something broke"),
            ("", "pkg", None, "the build ended with Code(2)"),
        ] {
            assert_eq!(told(said), [(nodeid.to_owned(), line, message.to_owned())], "{said}");
        }
    }

    #[test]
    fn a_file_is_blamed_once_and_a_warning_blames_nobody() {
        let said =
            "/ws/a.c:1:1: error: one\n/ws/a.c:2:1: error: two\n/ws/b.c:1:1: warning: w\n/ws/b.c:9:1: error: three\n";
        let files: Vec<_> = told(said).into_iter().map(|(nodeid, line, _)| (nodeid, line)).collect();
        assert_eq!(files, [("a.c".to_owned(), Some(1)), ("b.c".to_owned(), Some(9))]);
    }
}

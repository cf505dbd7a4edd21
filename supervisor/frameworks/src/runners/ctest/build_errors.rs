//! Reads errors of CMake, compilers and linkers: one collector for each file with errors.

use super::command::package;
use super::linker_source::{REFERENCE, find_source};
use crate::parsing::output_tail::strip_ansi;
use crate::parsing::workspace_paths::WorkspacePaths;
use proctor_core::bounds::COLLECTORS_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, CollectorKind};
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// Lines that report an error of a file.
static ERROR_PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        // gcc and clang.
        r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.+)$",
        // CMake; the reason follows in the indented lines below.
        r"^CMake Error at (?P<file>[^:]+):(?P<line>\d+)(?: \((?P<command>\w+)\))?:$",
        // A linker error with a line number, then linker errors without one.
        r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:]+):(?P<line>\d+): (?P<text>undefined reference to .+)$",
        r"^(?:\S*ld(?:\.\w+)?: )?\S+:\(\S+\): (?P<text>(?:undefined reference|multiple definition) .+)$",
        r"^\S+?:\S+?:.*: error: (?P<text>undefined reference to .+)$",
        r"^\S*ld(?:\.\w+)?: (?:error: )?(?P<text>(?:cannot find|undefined symbol:) .+)$",
        r"^CMake Error: (?P<text>.+)$",
    ]
    .iter()
    .filter_map(|pattern| Regex::new(pattern).ok())
    .collect()
});

/// Emits the collectors of a failed step. `output` is what the step printed, `dir` the project's directory.
pub(super) fn emit_collectors(
    output: &str,
    exit: Exit,
    dir: &str,
    paths: &WorkspacePaths,
    events: &mut Vec<RunnerEvent>,
) {
    let output = strip_ansi(output);
    let lines: Vec<&str> = output.lines().collect();
    let mut collectors: Vec<Collector> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(error) = ERROR_PATTERNS.iter().find_map(|pattern| pattern.captures(line)) else { continue };
        let mut collector = collector(&error, &lines, at, dir, paths);
        let more = error_block(&lines, at);
        if let Some(known) = collectors.iter_mut().find(|known| known.nodeid == collector.nodeid) {
            known.output.push('\n');
            known.output.push_str(&paths.scrub(&more));
        } else if collectors.len() < COLLECTORS_MAX {
            collector.output = paths.scrub(&more);
            collectors.push(collector);
        }
    }
    if collectors.is_empty() {
        let last = lines.iter().rev().find(|line| !line.trim().is_empty()).map_or("", |line| line.trim());
        let message = if last.is_empty() { format!("the build ended with {exit:?}") } else { paths.scrub(last) };
        let (nodeid, output) = (package(dir).to_owned(), paths.scrub(&output));
        collectors.push(Collector { nodeid, kind: CollectorKind::Build, file: None, line: None, message, output });
    }
    events.extend(collectors.into_iter().map(|collector| RunnerEvent::Collector(Box::new(collector.bounded()))));
}

fn collector(error: &Captures<'_>, lines: &[&str], at: usize, dir: &str, paths: &WorkspacePaths) -> Collector {
    let below = &lines[at + 1..];
    let file = match error.name("file") {
        Some(file) => paths.relative_to(dir, file.as_str()),
        None => find_source(lines, at).and_then(|source| paths.relative_to(dir, &source)),
    };
    let line = error.name("line").and_then(|line| line.as_str().parse().ok()).filter(|_| file.is_some());
    let text = match error.name("text") {
        Some(text) => text.as_str().to_owned(),
        None => cmake_reason(error.name("command").map(|command| command.as_str()), below),
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

/// CMake's first paragraph, unwrapped into one line, followed by the lines indented below it, verbatim. For a test program
/// that cannot list its tests, these lines say how it ended and what it printed.
fn cmake_reason(command: Option<&str>, below: &[&str]) -> String {
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

/// The error line and its continuation lines.
fn error_block(lines: &[&str], at: usize) -> String {
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

    fn parse(output: &str) -> Vec<(String, Option<u32>, String)> {
        let mut events = Vec::new();
        emit_collectors(output, Exit::Code(2), "pkg", &WorkspacePaths::new("/ws"), &mut events);
        events
            .into_iter()
            .map(|event| match event {
                RunnerEvent::Collector(collector) => (collector.nodeid, collector.line, collector.message),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn reads_the_error_lines_of_each_tool() {
        for (output, nodeid, line, message) in [
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
            assert_eq!(parse(output), [(nodeid.to_owned(), line, message.to_owned())], "{output}");
        }
    }

    #[test]
    fn reports_a_file_once_and_ignores_warnings() {
        let output =
            "/ws/a.c:1:1: error: one\n/ws/a.c:2:1: error: two\n/ws/b.c:1:1: warning: w\n/ws/b.c:9:1: error: three\n";
        let files: Vec<_> = parse(output).into_iter().map(|(nodeid, line, _)| (nodeid, line)).collect();
        assert_eq!(files, [("a.c".to_owned(), Some(1)), ("b.c".to_owned(), Some(9))]);
    }
}

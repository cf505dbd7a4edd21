//! Finds the source file of a linker error: linkers name object files, and CMake names an object file after its source.

use regex::Regex;
use std::sync::LazyLock;

/// An object file of a CMake target, `sub/CMakeFiles/tool.dir/src/a.cpp.o`: its directory, target and source.
static OBJECT_FILE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?P<sub>[^\s:'`]*?)CMakeFiles/(?P<target>[^/\s]+)\.dir/(?P<source>[^:\s()]+)\.o(?:bj)?:").ok()
});

/// Marks the line in which GNU ld names the object file that its next lines are about.
const GNU_HEADING: &str = ": in function `";

/// Prefix of the lines below an error of LLVM's linker.
pub(super) const REFERENCE: &str = ">>> ";

/// The source that the error in line `at` is about, relative to the project. `None` for an object inside a library, which
/// belongs to no target. A generated source looks like any other: CMake does not mark it.
pub(super) fn find_source(lines: &[&str], at: usize) -> Option<String> {
    let (above, below) = (lines.get(..=at)?, lines.get(at + 1..)?);
    let own = error_prefix(above.last()?)?;
    let named =
        if own.contains("CMakeFiles/") { Some(own) } else { gnu_heading(above).or_else(|| llvm_reference(below)) };
    let object = OBJECT_FILE.as_ref()?.captures(named?)?;
    let (sub, target) = (&object["sub"], &object["target"]);
    // `make` links in the directory of the target, and names that directory in its own error line.
    let sub = if sub.is_empty() { target_directory(below, target).unwrap_or_default() } else { sub };
    // CMake writes `..` in an object's path as `__`.
    Some(format!("{sub}{}", object["source"].replace("__/", "../")))
}

/// The text before a linker's error message; `None` if the line is no linker error.
fn error_prefix(line: &str) -> Option<&str> {
    let words = ["undefined reference to ", "multiple definition of ", "undefined symbol: "];
    words.iter().find_map(|words| line.split_once(words)).map(|(before, _)| before)
}

fn gnu_heading<'a>(above: &[&'a str]) -> Option<&'a str> {
    let is_linker_line = |line: &&&str| line.contains(GNU_HEADING) || error_prefix(line).is_some();
    above.iter().rev().take_while(is_linker_line).find(|line| line.contains(GNU_HEADING)).copied()
}

fn llvm_reference<'a>(below: &[&'a str]) -> Option<&'a str> {
    below.iter().take_while(|line| line.starts_with(REFERENCE)).find(|line| line.contains("CMakeFiles/")).copied()
}

fn target_directory<'a>(below: &[&'a str], target: &str) -> Option<&'a str> {
    let rule = format!("CMakeFiles/{target}.dir/build.make:");
    below.iter().find_map(|line| line.split_once("*** [")?.1.split_once(&rule)).map(|(sub, _)| sub)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKE: &str = "collect2: error: ld returned 1 exit status\n\
                        gmake[2]: *** [lib/CMakeFiles/k.dir/build.make:9: lib/k] Error 1\n\
                        gmake[2]: *** [sub/CMakeFiles/m.dir/build.make:114: sub/m] Error 1";

    fn sources(output: &str) -> Vec<Option<String>> {
        let lines: Vec<&str> = output.lines().collect();
        (0..lines.len()).filter(|at| error_prefix(lines[*at]).is_some()).map(|at| find_source(&lines, at)).collect()
    }

    #[test]
    fn finds_the_source_of_an_object_file() {
        for (output, expected) in [
            (
                "/usr/bin/ld: CMakeFiles/m.dir/a.cpp.o: in function `f()':\na.cpp:(.text+0x5): undefined reference to `x()'",
                "sub/a.cpp",
            ),
            (
                "/usr/bin/ld: CMakeFiles/m.dir/__/src/n.cpp.o:(.data.rel+0x0): undefined reference to `data'",
                "sub/../src/n.cpp",
            ),
            (
                "/usr/bin/ld: CMakeFiles/m.dir/b.c.o: in function `main':\nb.c:(.text+0x0): multiple definition of `main'; \
                 CMakeFiles/m.dir/a.c.o:a.c:(.text+0x16): first defined here",
                "sub/b.c",
            ),
            ("CMakeFiles/m.dir/a.cpp.o:a.cpp:function f(): error: undefined reference to 'x()'", "sub/a.cpp"),
            (
                "ld.lld: error: undefined symbol: x()\n>>> referenced by a.cpp\n>>>               CMakeFiles/m.dir/a.cpp.o:(f())",
                "sub/a.cpp",
            ),
        ] {
            assert_eq!(sources(&format!("{output}\n{MAKE}")), [Some(expected.to_owned())], "{output}");
        }
        let ninja = "/usr/bin/ld: own/CMakeFiles/m.dir/a.cpp.o: in function `f()':\na.cpp:(.text+0x5): undefined reference to `x()'\n\
                     /usr/bin/ld: a.cpp:(.text+0xa): undefined reference to `y()'";
        assert_eq!(sources(ninja), [Some("own/a.cpp".to_owned()), Some("own/a.cpp".to_owned())]);
    }

    #[test]
    fn finds_no_source_for_a_library() {
        let output = "/usr/bin/ld: CMakeFiles/m.dir/a.c.o:(.data.rel+0x0): undefined reference to `x'\n\
                    /usr/bin/ld: libs.a(s.c.o): in function `f':\ns.c:(.text+0x5): undefined reference to `y'";
        assert_eq!(sources(output), [Some("a.c".to_owned()), None]);
        assert_eq!(sources("/usr/bin/ld: libs.so: undefined reference to `y'"), [None]);
    }

    #[test]
    fn the_object_pattern_compiles() {
        assert!(OBJECT_FILE.is_some());
    }
}

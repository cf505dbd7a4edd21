//! Which source a linker means: it names objects, and CMake calls an object after its source. Must not know compilers.

use regex::Regex;
use std::sync::LazyLock;

/// An object of a target of CMake's, `sub/CMakeFiles/tool.dir/src/a.cpp.o`: its directory, its target and its source.
static OBJECT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?P<sub>[^\s:'`]*?)CMakeFiles/(?P<target>[^/\s]+)\.dir/(?P<source>[^:\s()]+)\.o(?:bj)?:").ok()
});

/// How GNU's linker names the object that its next lines are about.
const WITHIN: &str = ": in function `";

/// How LLVM's linker begins the lines below its complaint.
pub(super) const REFERENCE: &str = ">>> ";

/// The source that the complaint in line `at` is about, relative to the project. What is in a library is in an object of no
/// target's; CMake does not say of a generated source that it is one.
pub(super) fn source(lines: &[&str], at: usize) -> Option<String> {
    let (above, below) = (lines.get(..=at)?, lines.get(at + 1..)?);
    let own = complaint(above.last()?)?;
    let named = if own.contains("CMakeFiles/") { Some(own) } else { heading(above).or_else(|| reference(below)) };
    let object = OBJECT.as_ref()?.captures(named?)?;
    let (sub, target) = (&object["sub"], &object["target"]);
    // `make` links in the directory of the target, which it names when it gives up.
    let sub = if sub.is_empty() { directory(below, target).unwrap_or_default() } else { sub };
    // CMake cannot go up within a directory of its own.
    Some(format!("{sub}{}", object["source"].replace("__/", "../")))
}

/// What stands before a linker's words, if they are one's.
fn complaint(line: &str) -> Option<&str> {
    let words = ["undefined reference to ", "multiple definition of ", "undefined symbol: "];
    words.iter().find_map(|words| line.split_once(words)).map(|(before, _)| before)
}

fn heading<'a>(above: &[&'a str]) -> Option<&'a str> {
    let of_linker = |line: &&&str| line.contains(WITHIN) || complaint(line).is_some();
    above.iter().rev().take_while(of_linker).find(|line| line.contains(WITHIN)).copied()
}

fn reference<'a>(below: &[&'a str]) -> Option<&'a str> {
    below.iter().take_while(|line| line.starts_with(REFERENCE)).find(|line| line.contains("CMakeFiles/")).copied()
}

fn directory<'a>(below: &[&'a str], target: &str) -> Option<&'a str> {
    let rule = format!("CMakeFiles/{target}.dir/build.make:");
    below.iter().find_map(|line| line.split_once("*** [")?.1.split_once(&rule)).map(|(sub, _)| sub)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKE: &str = "collect2: error: ld returned 1 exit status\n\
                        gmake[2]: *** [lib/CMakeFiles/k.dir/build.make:9: lib/k] Error 1\n\
                        gmake[2]: *** [sub/CMakeFiles/m.dir/build.make:114: sub/m] Error 1";

    fn sources(said: &str) -> Vec<Option<String>> {
        let lines: Vec<&str> = said.lines().collect();
        (0..lines.len()).filter(|at| complaint(lines[*at]).is_some()).map(|at| source(&lines, at)).collect()
    }

    #[test]
    fn the_object_tells_the_source() {
        for (said, wanted) in [
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
            assert_eq!(sources(&format!("{said}\n{MAKE}")), [Some(wanted.to_owned())], "{said}");
        }
        let ninja = "/usr/bin/ld: own/CMakeFiles/m.dir/a.cpp.o: in function `f()':\na.cpp:(.text+0x5): undefined reference to `x()'\n\
                     /usr/bin/ld: a.cpp:(.text+0xa): undefined reference to `y()'";
        assert_eq!(sources(ninja), [Some("own/a.cpp".to_owned()), Some("own/a.cpp".to_owned())]);
    }

    #[test]
    fn a_library_has_no_source() {
        let said = "/usr/bin/ld: CMakeFiles/m.dir/a.c.o:(.data.rel+0x0): undefined reference to `x'\n\
                    /usr/bin/ld: libs.a(s.c.o): in function `f':\ns.c:(.text+0x5): undefined reference to `y'";
        assert_eq!(sources(said), [Some("a.c".to_owned()), None]);
        assert_eq!(sources("/usr/bin/ld: libs.so: undefined reference to `y'"), [None]);
    }

    #[test]
    fn an_object_is_a_regex() {
        assert!(OBJECT.is_some());
    }
}

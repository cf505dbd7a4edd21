//! What the text of one JavaScript source or of settings says, read as text: which files it names, and whether it may read, list or
//! load others, or start processes. Too much is found rather than too little.

use crate::script_text::is_word;
use std::collections::HashSet;

/// Names of modules by which a source may read, run or load any file, unseen by the runner's own loading.
const READING_MODULES: [&str; 7] = ["fs", "child_process", "worker_threads", "cluster", "vm", "module", "inspector"];

/// Words of sources that may read, run or load any file: by a worker, a path of their own, or a package for it. Those of
/// [`PROCESS_WORDS`] have the same meaning.
const READING_WORDS: [&str; 19] = [
    "createRequire",
    "__dirname",
    "__filename",
    "readFile",
    "readFileSync",
    "readdir",
    "readdirSync",
    "glob",
    "globSync",
    "globby",
    "spawn",
    "Worker",
    "SharedWorker",
    "cwd",
    "memfs",
    "esbuild",
    "rollup",
    "webpack",
    "macro",
];

/// Parts of sources with the same meaning.
const READING_PARTS: [&str; 7] =
    ["import.meta.", "require.resolve", "?raw", "?url", "?worker", "?sharedworker", "?inline"];

/// Parts of sources that load whichever files there are.
const LOOKING_PARTS: [&str; 2] = ["require.context", "import.meta.glob"];

/// Words of sources that list files, by which a source may read one that no text names.
const LISTING_WORDS: [&str; 10] = [
    "readdir",
    "readdirSync",
    "opendir",
    "opendirSync",
    "readdirp",
    "glob",
    "globSync",
    "globby",
    "tinyglobby",
    "fdir",
];

/// Words of a source that writes files, or bundles sources to files.
const BUILD_WORDS: [&str; 11] = [
    "writeFile",
    "writeFileSync",
    "createWriteStream",
    "copyFile",
    "copyFileSync",
    "cpSync",
    "outputFile",
    "esbuild",
    "webpack",
    "rollup",
    "tsup",
];

/// Words of sources that start processes: a module or a package for it, or a function of no other use.
const PROCESS_WORDS: [&str; 11] = [
    "child_process",
    "spawnSync",
    "execSync",
    "execFile",
    "execFileSync",
    "execa",
    "execaSync",
    "execaCommand",
    "zx",
    "shelljs",
    "tinyexec",
];

/// Functions that start processes, and whose names are also other words: they count where they are called.
const PROCESS_CALLS: [&str; 3] = ["spawn", "exec", "fork"];

/// Most text behind the name of a function in which its first argument is searched, in bytes.
const ARGUMENT_BYTES_MAX: usize = 1024;

/// Longest name of a file on Linux, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

fn is_whole_word(text: &str, at: usize, word: &str) -> bool {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).and_then(|at| bytes.get(at));
    !before.is_some_and(|byte| is_word(*byte)) && !bytes.get(at + word.len()).is_some_and(|byte| is_word(*byte))
}

/// Hooks that concern all tests where they are in no suite, by the names that Mocha's interfaces give them.
const HOOKS: [&str; 8] =
    ["before", "beforeEach", "after", "afterEach", "setup", "teardown", "suiteSetup", "suiteTeardown"];

/// Names of Node's own whose objects have what their prototype is given.
const BUILT_IN: [&str; 14] = [
    "Array", "Boolean", "Buffer", "Date", "Error", "Function", "Map", "Number", "Object", "Promise", "RegExp", "Set",
    "String", "Symbol",
];

/// The word of a line that may set something up for all test files of a process: a global variable, what all objects of a kind of Node's
/// own have, or a hook that is within no suite, as far as the line itself shows that.
pub(super) fn set_up_word(line: &str) -> Option<&'static str> {
    let is_hook = |hook: &&str| {
        line.match_indices(hook).any(|(at, _)| {
            let is_called = line[at + hook.len()..].trim_start().starts_with('(');
            is_called && is_whole_word(line, at, hook) && is_outermost(&line[..at])
        })
    };
    let is_extended = |kind: &&str| {
        let dotted = |at: usize| line[at + kind.len()..].starts_with(".prototype") && is_whole_word(line, at, kind);
        line.match_indices(kind).any(|(at, _)| dotted(at))
    };
    let globals = ["global", "globalThis"].into_iter().filter(|word| has_word(line, word));
    HOOKS.into_iter().filter(is_hook).chain(globals).chain(BUILT_IN.into_iter().filter(is_extended)).next()
}

// Whether what follows the beginning of a line may be in no brackets: it is not indented, and closes as many as it opens.
fn is_outermost(beginning: &str) -> bool {
    let count = |brackets: &[char]| beginning.matches(brackets).count();
    !beginning.starts_with([' ', '\t']) && count(&['(', '[', '{']) <= count(&[')', ']', '}'])
}

/// Whether a text has `word` as a whole word.
pub(super) fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| is_whole_word(text, at, word))
}

/// Whether a text has `name` as a part of a path, as in `./name`, 'name.js' or `@/name/x`.
pub(super) fn names_in_path(text: &str, name: &str) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(name).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        let end = at + name.len();
        let after = bytes.get(if bytes.get(end) == Some(&b'/') { end + 1 } else { end });
        before.is_some_and(|byte| b"/'\"`-@:~#".contains(byte)) && after.is_some_and(|byte| b"'\"`.?#".contains(byte))
    })
}

/// Whether a source may read, run or load any file.
pub(super) fn reads_any(text: &str) -> bool {
    let is_module = |name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let bytes = text.as_bytes();
            let before = at.checked_sub(1).and_then(|at| bytes.get(at));
            before.is_some_and(|byte| b"'\"`:".contains(byte))
                && bytes.get(at + name.len()).is_some_and(|byte| b"'\"`/-".contains(byte))
        })
    };
    READING_WORDS.iter().chain(&PROCESS_WORDS).any(|word| has_word(text, word))
        || READING_PARTS.iter().any(|part| text.contains(part))
        || READING_MODULES.iter().any(|name| is_module(name))
}

/// Whether a source compiles texts, which may import any file, or makes addresses, by which Vite adds files: of all runners, Node's own
/// sees the one and does not do the other.
pub(super) fn compiles_or_addresses(text: &str) -> bool {
    has_word(text, "eval") || ["new Function", "new URL("].iter().any(|part| text.contains(part))
}

/// Whether a source loads modules by `require`: Node loads these, and Vite knows nothing of it.
pub(super) fn loads_natively(text: &str) -> bool {
    has_word(text, "require")
}

/// Whether a source loads whichever files there are.
pub(super) fn looks_for_files(text: &str) -> bool {
    LOOKING_PARTS.iter().any(|part| text.contains(part))
}

/// Whether a source lists files.
pub(super) fn lists_files(text: &str) -> bool {
    LISTING_WORDS.iter().any(|word| has_word(text, word))
}

/// Whether a text may have a call that tools move to its beginning, as `vi.mock(…)` and `vi.hoisted<…>(…)`.
pub(super) fn has_hoisted_call(text: &str) -> bool {
    let is_called = |at: usize| text[at..].trim_start().starts_with(['(', '<']);
    ["mock", "hoisted"].iter().any(|word| text.match_indices(word).any(|(at, _)| is_called(at + word.len())))
}

/// The first word of a text by which it may start a process. `/a/.exec(text)` is of a regular expression.
pub(super) fn process_word(text: &str) -> Option<&'static str> {
    let is_of_regex = |at: usize| {
        let before = text[..at].strip_suffix('.').map(|rest| rest.trim_end_matches(|flag| "dgimsuvy".contains(flag)));
        before.is_some_and(|rest| rest.ends_with('/'))
    };
    let is_called = |word: &str| {
        text.match_indices(word).any(|(at, _)| {
            let after = text[at + word.len()..].trim_start();
            let is_call = after.starts_with(['(', '<', '`']) || after.starts_with("?.");
            is_whole_word(text, at, word) && is_call && !is_of_regex(at)
        })
    };
    let word = PROCESS_WORDS.into_iter().find(|word| has_word(text, word));
    word.or_else(|| PROCESS_CALLS.into_iter().find(|word| is_called(word)))
}

/// The first word of a text by which it may write what it builds.
pub(super) fn build_word(text: &str) -> Option<&'static str> {
    BUILD_WORDS.into_iter().find(|word| has_word(text, word))
}

/// Whether `import(…)` or a word with `require` or `import` in it is called with something else than a string.
pub(super) fn computes_names(text: &str) -> bool {
    let bytes = text.as_bytes();
    let calls = ["import", "equire", "requireActual", "importActual", "requireMock", "importMock"];
    calls.iter().any(|word| {
        text.match_indices(word).any(|(at, _)| {
            let after = at + word.len();
            !bytes.get(after).is_some_and(|byte| is_word(*byte)) && is_called_with_expression(&text[after..])
        })
    })
}

// Whether `rest`, behind the name of a function, is a call with something else than a string. Reads the beginning alone, as a text may
// have many names: what does not end within it counts as something else.
fn is_called_with_expression(rest: &str) -> bool {
    let beginning = &rest[..rest.floor_char_boundary(ARGUMENT_BYTES_MAX)];
    let is_cut = beginning.len() < rest.len();
    let mut beginning = beginning.trim_start();
    // Arguments of types, as `importActual<typeof import('./a')>(`.
    if beginning.starts_with('<') {
        let is_end = |at: usize| beginning[at + 1..].trim_start().starts_with('(');
        let Some((end, _)) = beginning.match_indices('>').find(|(at, _)| is_end(*at)) else { return is_cut };
        beginning = beginning[end + 1..].trim_start();
    }
    let Some(inside) = beginning.strip_prefix('(') else { return is_cut && beginning.is_empty() };
    let mut inside = inside.trim_start();
    while let Some(comment) = inside.strip_prefix("/*") {
        let Some((_, behind)) = comment.split_once("*/") else { return true };
        inside = behind.trim_start();
    }
    !is_string_alone(inside)
}

fn is_string_alone(inside: &str) -> bool {
    let Some(quote) = inside.chars().next().filter(|quote| "'\"`".contains(*quote)) else { return false };
    let Some((string, rest)) = inside[1..].split_once(quote) else { return false };
    !string.contains("${") && rest.trim_start().starts_with([')', ','])
}

/// The last parts of the paths on lines with an import, each also without its ends.
pub(super) fn imported_names(text: &str) -> HashSet<&str> {
    let is_import = |line: &&str| ["import", "from", "equire"].iter().any(|word| line.contains(word));
    text.lines().filter(is_import).flat_map(|line| line.split(['"', '\'', '`', '?'])).flat_map(path_names).collect()
}

/// The same of the lines of `package.json` by which Node loads something before the runner: its `exports` have an `import`, too.
pub(super) fn preloaded_names(text: &str) -> HashSet<&str> {
    let preloads =
        |line: &&str| ["--import", "--require", "--loader", "-loader", " -r "].iter().any(|word| line.contains(word));
    let parts =
        text.lines().filter(preloads).flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"'=\\".contains(c)));
    parts.flat_map(path_names).collect()
}

fn path_names(path: &str) -> impl Iterator<Item = &str> {
    let part = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    // A text with many full stops has no name with each of them.
    let ends = part.match_indices('.').take_while(|(at, _)| *at <= FILE_NAME_BYTES_MAX).map(move |(at, _)| &part[..at]);
    std::iter::once(part).chain(ends).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_sources_that_may_read_any_file() {
        for (text, expected) in [
            ("import { readFileSync } from 'node:fs'", true),
            ("const fs = require(\"fs\")", true),
            ("import fs from 'fs-extra'", true),
            ("import cp from 'child_process'", true),
            ("new Worker('./w.js')", true),
            ("const here = path.dirname(import.meta.url)", true),
            ("import text from './a.js?raw'", true),
            ("import { glob } from 'tinyglobby'", true),
            ("vm.eval(code)", true),
            ("const found = /a/.exec(text)", false),
            ("const vm = new ViewModel(); vm.offset = 1", false),
            ("import { a } from './evaluate'", false),
            ("import { fsm } from './fsm'", false),
        ] {
            assert_eq!(reads_any(text) || compiles_or_addresses(text), expected, "{text}");
        }
    }

    #[test]
    fn knows_names_that_are_computed() {
        for (text, expected) in [
            ("require('./a')", false),
            ("await import(\"./a.js\")", false),
            ("import(/* webpackChunkName: \"a\" */ `./a.js`)", false),
            ("jest.requireActual('./a')", false),
            ("await vi.importActual<typeof import('./a')>('./a')", false),
            ("import { a } from './a'", false),
            ("import.meta.env.X", false),
            ("import(name)", true),
            ("import(`./${name}.js`)", true),
            ("require ('./' + name)", true),
            ("jest.requireActual(name)", true),
            ("load(import(\n  name))", true),
            ("await vi.importActual<typeof import('./a')>('./a').then((a) => a.b)", false),
            ("await vi.importActual<typeof import('./a')>(name).then((a) => a.b)", true),
            ("await vi.importActual<\n  typeof import('./a')\n>(name)", true),
            ("import(/* no end", true),
        ] {
            assert_eq!(computes_names(text), expected, "{text}");
        }
        let long = " ".repeat(ARGUMENT_BYTES_MAX);
        for text in
            [format!("import{long}(name)"), format!("import(/*{long}*/ './a')"), format!("import<{long}>(name)")]
        {
            assert!(computes_names(&text), "{text}");
        }
        assert!(!computes_names(&format!("import {{ a }} from './a';{long}")));
    }

    // With time that grows with the square of the text, this test would take minutes.
    #[test]
    fn reads_long_lines_with_imports_in_linear_time() {
        let types = "import<".repeat(200_000) + ">('./a')";
        assert!(computes_names(&types), "the last argument is too far away");
        let calls = format!("{}>('./a') ", "import<".repeat(100)).repeat(3_000);
        assert!(!computes_names(&calls));
        let stops = format!("import '{}'", ".".repeat(500_000));
        assert_eq!(imported_names(&stops).len(), FILE_NAME_BYTES_MAX + 2, "and the word before it");
    }

    #[test]
    fn knows_sources_that_start_processes() {
        for (text, expected) in [
            ("import cp from 'node:child_process'", Some("child_process")),
            ("const { execSync: run } = require('x')", Some("execSync")),
            ("await $({})`tsc`; import { $ } from 'zx'", Some("zx")),
            ("import { exec } from './run'; exec ('tsc')", Some("exec")),
            ("run.exec('tsc')", Some("exec")),
            ("spawn('tsc')", Some("spawn")),
            ("fork?.('./build.js')", Some("fork")),
            ("const found = exec ? 1 : 2", None),
            ("const match = /a/.exec(text) ?? /b/gi.exec(text)", None),
            ("pool: 'forks', // a fork of the other", None),
            ("const here = path.dirname(__dirname); export const executed = respawn('x')", None),
        ] {
            assert_eq!(process_word(text), expected, "{text}");
        }
    }

    #[test]
    fn knows_calls_that_are_moved_to_the_beginning() {
        for (text, expected) in [
            ("vi.mock('./a')", true),
            ("vi.mock<typeof import('./a')>('./a')", true),
            ("jest.unmock('./a')", true),
            ("jest.deepUnmock('./a')", true),
            ("jest\n  .enableAutomock ()", true),
            ("vi.hoisted(() => 1)", true),
            ("vi.hoisted<number>(() => 1)", true),
            ("vi.mocked(a).mockReturnValue(1)", false),
            ("vi.doMock('./a')", false),
        ] {
            assert_eq!(has_hoisted_call(text), expected, "{text}");
        }
    }
}

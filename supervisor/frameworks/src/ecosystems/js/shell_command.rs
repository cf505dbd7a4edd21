//! Commands of a test script that start no runner with an adapter: what each is for, and the line by which a shell runs it.
//! Must not know how their output is read.

use std::collections::BTreeMap;

/// The option of a program that runs the tests with a text in their titles.
pub(crate) type FilterOption = fn(&str) -> String;

/// A command of a test script that starts no runner with an adapter.
#[derive(Debug, Clone)]
pub(crate) struct ShellCommand {
    /// The command as a person writes it.
    pub(crate) told: String,
    /// The line for a shell, with the directories that the script changes to before.
    pub(crate) line: String,
    /// Variables that the scripts above it set.
    pub(crate) env: BTreeMap<String, String>,
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// How its program, which is one of [`FILTERED`], is told which tests to run.
    pub(crate) filter: Option<FilterOption>,
}

impl ShellCommand {
    /// The line with the tests that `filter` picks, where its program takes one.
    pub(crate) fn filtered(&self, filter: &str) -> Option<String> {
        Some(format!("{} {}", self.line, quoted(&(self.filter?)(filter))))
    }
}

/// What a command of a test script is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It runs tests, or nobody knows: then it counts as if it did.
    Tests,
    /// It makes what tests may need.
    Build,
    /// It looks at sources or at coverage, or runs beside the tests; no test needs it.
    Check,
}

/// Programs that compile or bundle.
const BUILDERS: &[&str] = &[
    "babel",
    "bob",
    "esbuild",
    "gulp",
    "microbundle",
    "ncc",
    "parcel",
    "pkgroll",
    "rollup",
    "swc",
    "tsc",
    "tsdown",
    "tsup",
    "unbuild",
    "vite",
    "webpack",
];

/// Programs that look at sources, types, packages or coverage, or clean up after.
const CHECKERS: &[&str] = &[
    "arethetypeswrong",
    "attw",
    "aud",
    "audit",
    "biome",
    "bundlesize",
    "bundlewatch",
    "codecov",
    "commitlint",
    "coveralls",
    "cspell",
    "depcheck",
    "dprint",
    "dtslint",
    "eclint",
    "eslint",
    "evalmd",
    "flow",
    "git",
    "husky",
    "jscs",
    "jshint",
    "knip",
    "licensee",
    "lint",
    "lint-staged",
    "ls-lint",
    "madge",
    "markdownlint",
    "markdownlint-cli2",
    "neostandard",
    "npm-audit",
    "oxlint",
    "prettier",
    "publint",
    "remark",
    "semistandard",
    "size-limit",
    "snazzy",
    "standard",
    "stylelint",
    "ts-standard",
    "tsd",
    "tslint",
    "ultra",
    "vue-tsc",
    "xo",
];

/// Commands that cannot make a test script fail, or are a shell's own.
const HARMLESS: &[&str] = &[
    ":", "[", "[[", "cat", "clear", "cp", "done", "echo", "esac", "exit", "export", "fi", "install", "i", "ci", "kill",
    "ls", "mkdir", "mv", "printf", "rimraf", "rm", "set", "sleep", "tee", "test", "touch", "true", "unset", "wait",
    "}",
];

/// Words of a shell before a command that it may or may not run.
pub(super) const KEYWORDS: &[&str] = &["!", "do", "elif", "else", "if", "then", "until", "while", "{"];

/// Words of a shell that begin what only a shell can run.
const COMPOUND: &[&str] = &["case", "for", "if", "until", "while"];

/// Words of a shell before a command whose status decides what runs next.
const CONDITIONS: &[&str] = &["elif", "if", "until", "while"];

/// Words in the name of a script that makes something, and of one that looks at something.
const BUILD_WORDS: &[&str] = &["build", "bundle", "compile", "generate", "prepare", "transpile"];
const CHECK_WORDS: &[&str] = &[
    "audit",
    "clean",
    "coverage",
    "dts",
    "dtslint",
    "eslint",
    "format",
    "lint",
    "prettier",
    "size",
    "standard",
    "style",
    "tsc",
    "tsd",
    "type",
    "typecheck",
    "types",
    "typescript",
];

/// The option by which a program prints TAP.
const TAPPED: &[(&str, &str)] = &[("tap", "--reporter=tap"), ("ava", "--tap")];

/// The option by which a program runs the tests with a text in their titles.
const FILTERED: &[(&str, FilterOption)] =
    &[("ava", |text| format!("--match=*{text}*")), ("qunit", |text| format!("--filter={text}"))];

/// How the program of this name is told which tests to run.
pub(super) fn filter_option(program: &str) -> Option<FilterOption> {
    FILTERED.iter().find(|(name, _)| *name == program).map(|(_, filter)| *filter)
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a word begins what only a shell can run as a whole.
pub(super) fn is_compound(word: &str) -> bool {
    COMPOUND.contains(&word)
}

/// Whether the command behind this word is a condition.
pub(super) fn is_condition(word: &str) -> bool {
    CONDITIONS.contains(&word)
}

/// Whether a program of this name can neither fail a script nor test anything.
pub(super) fn is_harmless(program: &str) -> bool {
    HARMLESS.contains(&program)
}

/// What a command is for: its program, its words, and the script that it is in.
pub(super) fn purpose(program: &str, words: &[String], script: &str) -> Purpose {
    if BUILDERS.contains(&program) {
        return if words.iter().any(|word| word == "--noEmit") { Purpose::Check } else { Purpose::Build };
    }
    if CHECKERS.contains(&program) {
        return Purpose::Check;
    }
    let is_word = |text: &str, known: &[&str]| {
        text.split(|char: char| !char.is_ascii_alphanumeric()).any(|part| known.contains(&part))
    };
    // A file's own path counts, the name of a program does not.
    let mut own = words.iter().enumerate().filter(|(at, word)| *at > 0 || word.contains(['/', '.']));
    if own.any(|(_, word)| is_word(word, &["spec", "specs", "test", "tests"])) {
        return Purpose::Tests;
    }
    let (known, name) = (|words| is_word(script, words), program);
    if known(BUILD_WORDS) || is_word(name, BUILD_WORDS) {
        Purpose::Build
    } else if known(CHECK_WORDS) || is_word(name, CHECK_WORDS) {
        Purpose::Check
    } else {
        Purpose::Tests
    }
}

/// The line for a shell: what it says itself, without the package manager in front, with these arguments more. `program` is
/// empty where it stands behind a wrapper.
pub(super) fn line(text: &str, program: &str, args: &[String]) -> String {
    let mut line = text;
    while let Some((first, rest)) = line.split_once(char::is_whitespace) {
        let is_asked =
            matches!(first, "bun" | "exec" | "npx" | "pnpm" | "run" | "yarn") && !rest.trim_start().starts_with('-');
        // Without it a command that fails would have passed.
        if first == "!" || !is_asked && !KEYWORDS.contains(&first) {
            break;
        }
        line = rest.trim_start();
    }
    let mut line = line.to_owned();
    for arg in args {
        line.push(' ');
        line.push_str(&quoted(arg));
    }
    let is_it = |name: &str| program == name || program.is_empty() && line.split_whitespace().any(|word| word == name);
    if let Some((_, option)) = TAPPED.iter().find(|(name, _)| is_it(name))
        && !line.contains(" -- ")
    {
        line.push(' ');
        line.push_str(option);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_is_for_shows_in_its_program_its_words_and_its_script() {
        let of = |command: &str, script: &str| {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            purpose(&words[0], &words, script)
        };
        for (command, script) in [
            ("node test/test", "test:main"),
            ("./more.sh", "test"),
            ("tape x", "lint"),
            ("node scripts/lint.js test", "lint"),
        ] {
            let is_told = if command == "tape x" { Purpose::Check } else { Purpose::Tests };
            assert_eq!(of(command, script), is_told, "{command}");
        }
        assert_eq!((of("tsc -p test", "test"), of("node bin/make", "test:build")), (Purpose::Build, Purpose::Build));
        assert_eq!((of("eslint test", "test"), of("node x", "test:types")), (Purpose::Check, Purpose::Check));
    }

    #[test]
    fn a_line_prints_tap_where_its_program_can() {
        assert_eq!(line("tap -j4 test/*.js", "tap", &["a'b".to_owned()]), r"tap -j4 test/*.js 'a'\''b' --reporter=tap");
        assert_eq!(line("yarn run ava x -- -y", "ava", &[]), "ava x -- -y");
        assert_eq!(line("npx -p a tape", "tape", &[]), "npx -p a tape");
        assert_eq!(line("then node x", "node", &[]), "node x");
        assert_eq!(line("then ! npx tape", "tape", &[]), "! npx tape");
    }
}

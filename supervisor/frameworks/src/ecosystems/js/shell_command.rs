//! Commands of a test script that start no runner with an adapter: the purpose of each, and the line with which a shell runs it.

use proctor_core::shell_word::quoted;
use std::collections::BTreeMap;

/// Makes the option with which a program runs the tests with a text in their titles.
pub(crate) type FilterOption = fn(&str) -> String;

/// A command of a test script that starts no runner with an adapter.
#[derive(Debug, Clone)]
pub(crate) struct ShellCommand {
    /// The command for people.
    pub(crate) text: String,
    /// The line for a shell, with the script's earlier changes of directory.
    pub(crate) line: String,
    /// Variables that the scripts around it set.
    pub(crate) env: BTreeMap<String, String>,
    /// What it is for.
    pub(crate) purpose: Purpose,
    /// The filter option of its program, if it is one of [`FILTER_OPTIONS`].
    pub(crate) filter: Option<FilterOption>,
}

impl ShellCommand {
    /// The line with a filter, if its program takes one.
    pub(crate) fn filtered(&self, filter: &str) -> Option<String> {
        Some(format!("{} {}", self.line, quoted(&(self.filter?)(filter))))
    }
}

/// What a command of a test script is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Runs tests, or is unknown: an unknown command counts as tests.
    Tests,
    /// Makes files that tests may need.
    Build,
    /// Checks sources or coverage, or runs beside the tests; no test needs it.
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

/// Programs that check sources, types, packages or coverage, or clean up.
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

/// Commands that cannot make a test script fail, or are built into the shell.
const HARMLESS: &[&str] = &[
    ":", "[", "[[", "cat", "clear", "cp", "done", "echo", "esac", "exit", "export", "fi", "install", "i", "ci", "kill",
    "ls", "mkdir", "mv", "printf", "rimraf", "rm", "set", "sleep", "tee", "test", "touch", "true", "unset", "wait",
    "}",
];

/// Shell words before a command that may or may not run.
pub(super) const KEYWORDS: &[&str] = &["!", "do", "elif", "else", "if", "then", "until", "while", "{"];

/// Shell words that start a compound command, which only a shell can run.
const COMPOUND: &[&str] = &["case", "for", "if", "until", "while"];

/// Shell words before a command whose status decides what runs next.
const CONDITIONS: &[&str] = &["elif", "if", "until", "while"];

/// Words in the name of a script that builds, and of one that checks.
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

/// Options with which programs print TAP.
const TAP_OPTIONS: &[(&str, &str)] = &[("tap", "--reporter=tap"), ("ava", "--tap")];

/// Options with which programs run the tests with a text in their titles.
const FILTER_OPTIONS: &[(&str, FilterOption)] =
    &[("ava", |text| format!("--match=*{text}*")), ("qunit", |text| format!("--filter={text}"))];

/// The filter option of the program with this name.
pub(super) fn filter_option(program: &str) -> Option<FilterOption> {
    FILTER_OPTIONS.iter().find(|(name, _)| *name == program).map(|(_, filter)| *filter)
}

/// Whether a word starts a compound command.
pub(super) fn is_compound(word: &str) -> bool {
    COMPOUND.contains(&word)
}

/// Whether the command behind this word is a condition.
pub(super) fn is_condition(word: &str) -> bool {
    CONDITIONS.contains(&word)
}

/// Whether the program with this name can neither fail a script nor test anything.
pub(super) fn is_harmless(program: &str) -> bool {
    HARMLESS.contains(&program)
}

/// The purpose of a command, by its program, its words, and the script it is in.
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
    // The path of a script counts, the name of a program does not.
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

/// The line for a shell: the command without a package manager in front, with further arguments. `program` is empty behind a
/// wrapper.
pub(super) fn line(text: &str, program: &str, args: &[String]) -> String {
    let mut line = text;
    while let Some((first, rest)) = line.split_once(char::is_whitespace) {
        let is_package_manager =
            matches!(first, "bun" | "exec" | "npx" | "pnpm" | "run" | "yarn") && !rest.trim_start().starts_with('-');
        // Without `!`, a command that fails would pass.
        if first == "!" || !is_package_manager && !KEYWORDS.contains(&first) {
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
    if let Some((_, option)) = TAP_OPTIONS.iter().find(|(name, _)| is_it(name))
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
    fn decides_the_purpose_by_program_words_and_script() {
        let purpose_of = |command: &str, script: &str| {
            let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
            purpose(&words[0], &words, script)
        };
        for (command, script) in [
            ("node test/test", "test:main"),
            ("./more.sh", "test"),
            ("tape x", "lint"),
            ("node scripts/lint.js test", "lint"),
        ] {
            let expected = if command == "tape x" { Purpose::Check } else { Purpose::Tests };
            assert_eq!(purpose_of(command, script), expected, "{command}");
        }
        assert_eq!(
            (purpose_of("tsc -p test", "test"), purpose_of("node bin/make", "test:build")),
            (Purpose::Build, Purpose::Build)
        );
        assert_eq!(
            (purpose_of("eslint test", "test"), purpose_of("node x", "test:types")),
            (Purpose::Check, Purpose::Check)
        );
    }

    #[test]
    fn adds_the_tap_option_of_its_program() {
        assert_eq!(line("tap -j4 test/*.js", "tap", &["a'b".to_owned()]), r"tap -j4 test/*.js 'a'\''b' --reporter=tap");
        assert_eq!(line("yarn run ava x -- -y", "ava", &[]), "ava x -- -y");
        assert_eq!(line("npx -p a tape", "tape", &[]), "npx -p a tape");
        assert_eq!(line("then node x", "node", &[]), "node x");
        assert_eq!(line("then ! npx tape", "tape", &[]), "! npx tape");
    }
}

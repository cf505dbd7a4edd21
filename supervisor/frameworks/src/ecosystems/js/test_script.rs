//! Reads a project's test script: which runners it starts, and how each time. The script itself is never run. Must not know
//! what any runner's options mean.
//!
//! What is read goes through the programs that start others (`npx`, `c8`, `dotenv`) and through other scripts (`npm run
//! unit`, `run-s test:*`), with the environment and the arguments that these are given. What cannot be read is told.

use super::runner::JsRunner;
use super::shell_command::{self, KEYWORDS, Purpose, ShellCommand};
use super::shell_parser::{ScriptCommand, Separator, commands};
use std::collections::BTreeMap;

/// Most scripts that one script may lead through (`npm run test:unit`).
const DEPTH_MAX: usize = 8;

/// Most commands that are read, so that scripts which name each other many times come to an end.
const COMMANDS_MAX: usize = 1_024;

/// Most bytes that are read for each byte of a project's scripts: scripts name each other, few of them several times.
const READINGS_MAX: usize = 8;

/// Bytes that may be read of however little there is.
const BYTES_MIN: usize = 16 * 1_024;

/// Most directories that a script may change to one after the other.
const CHANGES_MAX: usize = 16;

/// Package managers, and the words with which they are asked for a script: either the next word is one, or a program.
const MANAGERS: [&str; 6] = ["bun", "npm", "pnpm", "run", "run-script", "yarn"];

/// What starts the program that follows it, after options of its own.
const STARTERS: [&str; 8] = ["bunx", "cross-env", "cross-env-shell", "dlx", "exec", "npx", "pnpx", "--"];

/// The same where options may have values in words of their own. None is needed to run tests.
const WRAPPERS: [&str; 13] = [
    "c8",
    "chronic",
    "doppler",
    "dotenv",
    "dotenvx",
    "env",
    "env-cmd",
    "infisical",
    "nice",
    "nyc",
    "time",
    "timeout",
    "xvfb-run",
];

/// What has `c8` and `nyc` fail a script whose tests hold.
const GATES: [&str; 3] = ["--100", "--check-coverage", "--check-coverage=true"];

/// The same as a command of its own, after the tests.
const GATE: &str = "check-coverage";

/// What runs tests of Node's runner, with options and a search for files of its own.
pub(super) const BORP: &str = "borp";

/// What runs the scripts that are named, several or by pattern.
const SEVERAL: [&str; 4] = ["npm-run-all", "npm-run-all2", "run-p", "run-s"];

/// Options of `npx` with a value.
const NPX_VALUED: [&str; 2] = ["--package", "-p"];

/// What runs a task in all packages of a workspace.
const MONOREPOS: [&str; 7] = ["lage", "lerna", "nx", "rush", "turbo", "wireit", "workspaces"];

/// Words with which a package manager is sent to other packages.
const ELSEWHERE: [&str; 12] = [
    "--cwd",
    "--filter",
    "--prefix",
    "--recursive",
    "--workspace",
    "--workspaces",
    "-C",
    "-F",
    "-r",
    "-w",
    "-ws",
    "workspace",
];

/// Options of Node that take the next word as their value; others with one are written in one word.
pub(crate) const NODE_VALUE_OPTIONS: &[&str] = &[
    "--build-snapshot-config",
    "--conditions",
    "--cpu-prof-dir",
    "--cpu-prof-interval",
    "--cpu-prof-name",
    "--diagnostic-dir",
    "--disable-proto",
    "--disable-warning",
    "--dns-result-order",
    "--env-file",
    "--env-file-if-exists",
    "--eval",
    "--experimental-config-file",
    "--experimental-loader",
    "--experimental-test-tag-filter",
    "--heap-prof-dir",
    "--heap-prof-interval",
    "--heap-prof-name",
    "--heapsnapshot-signal",
    "--icu-data-dir",
    "--import",
    "--input-type",
    "--inspect-port",
    "--loader",
    "--localstorage-file",
    "--max-http-header-size",
    "--openssl-config",
    "--redirect-warnings",
    "--report-dir",
    "--report-directory",
    "--report-filename",
    "--report-signal",
    "--require",
    "--snapshot-blob",
    "--test-concurrency",
    "--test-coverage-branches",
    "--test-coverage-exclude",
    "--test-coverage-functions",
    "--test-coverage-include",
    "--test-coverage-lines",
    "--test-global-setup",
    "--test-isolation",
    "--test-name-pattern",
    "--test-random-seed",
    "--test-reporter",
    "--test-reporter-destination",
    "--test-rerun-failures",
    "--test-shard",
    "--test-skip-pattern",
    "--test-timeout",
    "--title",
    "--tls-cipher-list",
    "--tls-keylog",
    "--trace-event-categories",
    "--trace-event-file-pattern",
    "--unhandled-rejections",
    "--watch-path",
    "-C",
    "-e",
    "-r",
];

/// What `tsx --test` runs where it is given no files.
const TSX_TESTS: &str = "**/{test,test/**/*,test-*,*[.-_]test}.?(c|m)@(t|j)s";

/// How a script starts a runner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Invocation {
    /// Variables that it sets.
    pub(crate) env: BTreeMap<String, String>,
    /// Options of Node itself, before the runner's file.
    pub(crate) node: Vec<String>,
    /// The runner's arguments.
    pub(crate) args: Vec<String>,
    /// What stands in its way and was not read: `$FLAGS`.
    pub(crate) lost: Vec<String>,
    /// The program that starts the runner, where it is not the runner's own.
    pub(crate) program: Option<&'static str>,
}

impl Invocation {
    /// A sentence about what was not read, if there is anything.
    pub(crate) fn note(&self, runner: &str) -> Option<String> {
        let lost = self.lost.join(", ");
        (!lost.is_empty()).then(|| format!("{runner} was started without what of the test script was not read: {lost}"))
    }
}

impl Invocation {
    /// Bytes of what it holds.
    fn bytes(&self) -> usize {
        let of_env = self.env.iter().map(|(name, value)| name.len() + value.len());
        let of_words = [&self.node, &self.args, &self.lost].into_iter().flatten().map(String::len);
        of_env.chain(of_words).sum()
    }

    /// Leaves out what Node takes on its command line alone, for a runner whose program is not started through it.
    fn lose_files_of_variables(&mut self) {
        let mut words = std::mem::take(&mut self.node).into_iter();
        while let Some(word) = words.next() {
            match word.strip_prefix("--env-file") {
                None => self.node.push(word),
                Some(rest) if rest.contains('=') => self.lost.push(word),
                Some(_) => {
                    self.lost.push([Some(word), words.next()].into_iter().flatten().collect::<Vec<_>>().join(" "))
                }
            }
        }
    }
}

/// The runners that the script `name` starts, each with how it does so, in its order; the same twice is told once.
pub(super) fn find_runners(scripts: &BTreeMap<String, String>, name: &str) -> BTreeMap<JsRunner, Vec<Invocation>> {
    let mut reading = ScriptReader::of(scripts);
    reading.follow(name, &Invocation::default(), &[], 0);
    if reading.is_cut {
        let lost = format!("what comes after {} commands", reading.read);
        reading.found.values_mut().flatten().for_each(|script| script.lost.push(lost.clone()));
    }
    reading.found
}

/// What the script `name` does beside starting runners, with the scripts that npm runs before and after it: its commands one by
/// one, or all of it as one where it starts no runner and only a shell can run it, or where it is too much to read.
pub(super) fn shell_commands(scripts: &BTreeMap<String, String>, name: &str) -> Vec<ShellCommand> {
    let mut reading = ScriptReader::of(scripts);
    for name in [&format!("pre{name}"), name, &format!("post{name}")] {
        reading.follow(name, &Invocation::default(), &[], 0);
    }
    let is_whole = reading.is_cut || reading.is_whole && reading.found.is_empty();
    let has_tests = || reading.is_cut || reading.plain.iter().any(|plain| plain.purpose == Purpose::Tests);
    if let Some(whole) = scripts.get(name).filter(|_| is_whole && has_tests()) {
        let (told, line) = (whole.clone(), whole.clone());
        return vec![ShellCommand { told, line, env: BTreeMap::new(), purpose: Purpose::Tests, filter: None }];
    }
    for condition in reading.conditions {
        reading.plain[condition].purpose = Purpose::Check;
    }
    let mut told: Vec<ShellCommand> = Vec::new();
    for plain in reading.plain {
        let is_same = |other: &ShellCommand| {
            let of = |plain: &ShellCommand| (plain.told.clone(), plain.line.clone(), plain.env.clone(), plain.purpose);
            of(other) == of(&plain)
        };
        if !told.iter().any(is_same) {
            told.push(plain);
        }
    }
    told
}

/// Whether the script `name` leaves testing to the packages of a workspace.
pub(super) fn delegates(scripts: &BTreeMap<String, String>, name: &str) -> bool {
    let commands = scripts.get(name).map(|script| commands(script)).unwrap_or_default();
    commands.iter().any(|ScriptCommand { words, .. }| {
        let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
        let elsewhere = || has(&ELSEWHERE) || words.iter().any(|word| word.starts_with("--workspace="));
        has(&MONOREPOS) || has(&["bun", "npm", "pnpm", "yarn"]) && elsewhere()
    })
}

/// Whether the script `name` is absent or the one that `npm init` writes.
pub(super) fn is_unset(scripts: &BTreeMap<String, String>, name: &str) -> bool {
    scripts.get(name).is_none_or(|script| script.trim().is_empty() || script.contains("no test specified"))
}

/// What the next word of a command is read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordContext {
    /// The shell, or what starts the program that follows.
    Shell,
    /// npm, where a script's arguments come after `--`.
    Npm,
    /// Another package manager.
    Manager,
    /// One of [`WRAPPERS`].
    Wrapper,
}

/// A command, and where it is.
struct CommandContext<'a> {
    /// The script that it is in.
    script: &'a str,
    command: &'a ScriptCommand,
    /// Arguments that it has from outside.
    args: &'a [String],
    depth: usize,
}

struct ScriptReader<'a> {
    scripts: &'a BTreeMap<String, String>,
    found: BTreeMap<JsRunner, Vec<Invocation>>,
    /// Commands that start no runner, as far as they were understood.
    plain: Vec<ShellCommand>,
    /// Those of them whose status decides what runs next.
    conditions: Vec<usize>,
    /// Directories that were changed to so far, as the script says it.
    places: Vec<String>,
    /// Whether a part of it runs beside another, instead of it, or under a condition.
    is_whole: bool,
    /// Commands that were read.
    read: usize,
    /// Bytes that may still be read or kept.
    bytes_left: usize,
    /// Whether there is more than may be read.
    is_cut: bool,
}

impl<'a> ScriptReader<'a> {
    fn of(scripts: &'a BTreeMap<String, String>) -> ScriptReader<'a> {
        let bytes: usize = scripts.iter().map(|(name, script)| name.len() + script.len()).sum();
        ScriptReader {
            scripts,
            found: BTreeMap::new(),
            plain: Vec::new(),
            conditions: Vec::new(),
            places: Vec::new(),
            is_whole: false,
            read: 0,
            bytes_left: bytes.saturating_mul(READINGS_MAX).max(BYTES_MIN),
            is_cut: false,
        }
    }

    /// Takes so many bytes of what may be read or kept; whether there were as many.
    fn may_take(&mut self, bytes: usize) -> bool {
        self.is_cut |= self.read == COMMANDS_MAX || bytes > self.bytes_left;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        !self.is_cut
    }

    /// Reads the script `name`, whose last command gets these arguments, as npm puts them there.
    fn follow(&mut self, name: &str, above: &Invocation, args: &[String], depth: usize) {
        let Some(script) = self.scripts.get(name).filter(|_| depth < DEPTH_MAX) else { return };
        if !self.may_take(script.len()) {
            return;
        }
        let mut commands = commands(script);
        let last = commands.len().saturating_sub(1);
        if let Some(last) = commands.last_mut() {
            last.words.extend_from_slice(args);
        }
        // Each script begins where its package is.
        let places = std::mem::take(&mut self.places);
        let mut changes: Vec<ScriptCommand> = Vec::new();
        for (at, command) in commands.into_iter().enumerate() {
            // What a subshell changes to ends with it.
            changes.retain(|change| command.within.starts_with(&change.within));
            if matches!(command.words[0].as_str(), "cd" | "pushd") {
                self.is_cut |= changes.len() == CHANGES_MAX;
                if self.is_cut {
                    break;
                }
                changes.push(command);
                continue;
            }
            let kept = changes.iter().map(|change| change.text.len()).sum::<usize>() + above.bytes();
            if !self.may_take(kept) {
                break;
            }
            self.read += 1;
            self.places = changes.iter().map(|change| change.text.clone()).collect();
            self.is_whole |= matches!(command.then, Separator::Beside | Separator::Else)
                || shell_command::is_compound(&command.words[0]);
            let mut so_far = above.clone();
            so_far.lost.extend(changes.iter().map(|change| change.words.join(" ")));
            so_far.lost.extend(command.lost.iter().cloned());
            let args = if at == last { args } else { &[] };
            self.command(&CommandContext { script: name, command: &command, args, depth }, so_far);
        }
        self.places = places;
    }

    fn command(&mut self, place: &CommandContext<'_>, mut so_far: Invocation) {
        let CommandContext { script: within, depth, .. } = *place;
        let above = so_far.env.clone();
        let (mut by, mut words) = (WordContext::Shell, place.command.words.as_slice());
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            let base = program(word, by);
            if let Some((name, value)) = assignment(word) {
                so_far.env.insert(name.to_owned(), value.to_owned());
            } else if by == WordContext::Shell && KEYWORDS.contains(&word.as_str()) {
                // What follows is a command like any other.
            } else if matches!(by, WordContext::Npm | WordContext::Manager)
                && self.scripts.contains_key(word)
                && word != within
            {
                return self.follow(word, &so_far, &handed_on(rest, by), depth + 1);
            } else if matches!(base, "node" | "tsx") {
                let (options, after) = rest.split_at(options_of_node(rest));
                so_far.node.extend((base == "tsx").then(|| "--import=tsx".to_owned()));
                if let Some(at) = options.iter().position(|word| word == "--test") {
                    so_far.args = std::mem::take(&mut so_far.node);
                    so_far.args.extend([&options[..at], &options[at + 1..], after].concat());
                    so_far.args.extend((base == "tsx" && after.is_empty()).then(|| TSX_TESTS.to_owned()));
                    return self.add(JsRunner::Node, so_far);
                }
                so_far.node.extend_from_slice(options);
                (by, words) = (WordContext::Shell, after);
            } else if base == BORP {
                so_far.program = Some(BORP);
                so_far.args = rest.to_vec();
                return self.add(JsRunner::Node, so_far);
            } else if let Some(runner) = JsRunner::from_program(base, rest) {
                so_far.args = rest.to_vec();
                return self.add(runner, so_far);
            } else if SEVERAL.contains(&base) {
                return self.several(within, rest, &so_far, depth);
            } else if MANAGERS.contains(&base) {
                by = match by {
                    // `dotenvx run -f x -- jest`
                    WordContext::Wrapper if base.starts_with("run") => WordContext::Wrapper,
                    WordContext::Npm => WordContext::Npm,
                    _ if base == "npm" => WordContext::Npm,
                    _ => WordContext::Manager,
                };
            } else if STARTERS.contains(&base) {
                by = WordContext::Shell;
            } else if WRAPPERS.contains(&base) {
                by = WordContext::Wrapper;
                match rest.first().map(String::as_str) {
                    Some(GATE) => return self.beside(place, above, Purpose::Check, base),
                    Some("merge" | "report") => return,
                    _ => {}
                }
            } else if by == WordContext::Wrapper && GATES.contains(&word.as_str()) {
                so_far.lost.push(word.clone());
            } else if NPX_VALUED.contains(&base) && by == WordContext::Shell {
                words = rest.get(1..).unwrap_or_default();
            } else if !word.starts_with('-') && by != WordContext::Wrapper {
                let words = &place.command.words[place.command.words.len() - rest.len() - 1..];
                let purpose = if JsRunner::is_program(base) {
                    Purpose::Check
                } else {
                    shell_command::purpose(base, words, within)
                };
                return self.beside(place, above, purpose, base);
            }
        }
        // Any word behind a wrapper may be its own; what follows `node -e` is no file.
        if by == WordContext::Wrapper || !so_far.node.is_empty() {
            self.beside(place, above, Purpose::Tests, "");
        }
    }

    /// A command that starts no runner. What reads another's output tests nothing.
    fn beside(&mut self, place: &CommandContext<'_>, env: BTreeMap<String, String>, purpose: Purpose, program: &str) {
        let CommandContext { command, args, .. } = *place;
        if shell_command::is_harmless(program) {
            return;
        }
        let purpose = if command.is_piped || command.then == Separator::Beside { Purpose::Check } else { purpose };
        if shell_command::is_condition(&command.words[0]) {
            self.conditions.push(self.plain.len());
        }
        let own = shell_command::line(&command.text, program, args);
        let line = self.places.iter().map(String::as_str).chain([own.as_str()]).collect::<Vec<_>>().join(" && ");
        let filter = shell_command::filter_option(program).filter(|_| !command.is_piped && !line.contains(" -- "));
        self.plain.push(ShellCommand { told: command.words.join(" "), line, env, purpose, filter });
    }

    /// The scripts that `run-s` and its like are given.
    fn several(&mut self, within: &str, words: &[String], so_far: &Invocation, depth: usize) {
        let scripts = self.scripts;
        for word in words.iter().filter(|word| !word.starts_with('-')) {
            let mut parts = word.split_whitespace();
            let pattern = parts.next().unwrap_or_default();
            let args: Vec<String> = parts.skip_while(|part| *part == "--").map(str::to_owned).collect();
            let segments: Vec<&str> = pattern.split(':').collect();
            // Behind a `**` each part of a name may be tried at each of the pattern.
            let tries = if segments.contains(&"**") { segments.len() } else { 1 };
            let names = if tries > 1 { scripts.keys().map(String::len).sum() } else { scripts.len() };
            if !self.may_take(tries.saturating_mul(names)) {
                return;
            }
            for name in scripts.keys().filter(|name| *name != within) {
                if matches(&segments, &name.split(':').collect::<Vec<_>>()) {
                    self.follow(name, so_far, &args, depth + 1);
                }
            }
        }
    }

    fn add(&mut self, runner: JsRunner, mut script: Invocation) {
        if !matches!(runner, JsRunner::Jest | JsRunner::Node | JsRunner::Vitest) {
            script.lose_files_of_variables();
        }
        let scripts = self.found.entry(runner).or_default();
        if !scripts.contains(&script) {
            scripts.push(script);
        }
    }
}

/// The name of the program that a word asks for: `jest` of `./node_modules/.bin/jest` and `jest@30`. A wrapper's value may
/// be a path that ends like one.
fn program(word: &str, by: WordContext) -> &str {
    if by == WordContext::Wrapper && word.contains('/') && !word.contains("node_modules/") {
        return word;
    }
    let base = word.rsplit('/').next().unwrap_or(word);
    base.split_once('@').map_or(base, |(name, _)| name)
}

/// Which of the words after a script's name are its arguments: all, but npm takes options before `--` for its own.
fn handed_on(words: &[String], by: WordContext) -> Vec<String> {
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let before = words[..at].iter().filter(|word| by != WordContext::Npm || !word.starts_with('-'));
    before.chain(words.iter().skip(at + 1)).cloned().collect()
}

/// How many words after `node` are its options, before its file.
fn options_of_node(words: &[String]) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-') && *word != "--") {
        at += if NODE_VALUE_OPTIONS.contains(&word.as_str()) { 2 } else { 1 };
    }
    at.min(words.len())
}

/// Whether a name fits a pattern, each in its parts between colons: `*` within one, `**` for any number of them.
fn matches(pattern: &[&str], name: &[&str]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last `**`, and the first part that it does not take. What was before need not be tried again.
    let mut any: Option<(usize, usize)> = None;
    while let Some(own) = name.get(from) {
        match (pattern.get(at), any) {
            (Some(&"**"), _) => {
                any = Some((at, from));
                at += 1;
            }
            (Some(part), _) if is_like(part, own) => (at, from) = (at + 1, from + 1),
            (_, Some((before, taken))) => {
                any = Some((before, taken + 1));
                (at, from) = (before + 1, taken + 1);
            }
            _ => return false,
        }
    }
    pattern[at..].iter().all(|part| *part == "**")
}

/// Whether a part of a name fits a part of a pattern.
fn is_like(part: &str, own: &str) -> bool {
    match part.split_once('*') {
        Some((begin, end)) => own.len() >= begin.len() + end.len() && own.starts_with(begin) && own.ends_with(end),
        None => part == own,
    }
}

/// `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let well_formed = !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    (well_formed && !name.starts_with(|first: char| first.is_ascii_digit())).then_some((name, value))
}

#[cfg(test)]
mod tests;

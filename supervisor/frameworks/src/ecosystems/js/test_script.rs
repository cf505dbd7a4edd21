//! Reads a project's test script: which runners it starts, and how each time. The script itself is never run.
//!
//! The reader follows programs that start others (`npx`, `c8`, `dotenv`) and other scripts (`npm run unit`, `run-s test:*`), with the
//! environment and the arguments that these are given. What cannot be read is recorded as unread and noted.

use super::runner::JsRunner;
use super::shell_command::{self, KEYWORDS, Purpose, ShellCommand};
use super::shell_parser::{ScriptCommand, Separator, commands};
use std::collections::BTreeMap;

/// Deepest chain of scripts that start one another (`npm run test:unit`).
const DEPTH_MAX: usize = 8;

/// Most commands that are read, so that scripts which start each other many times come to an end.
const COMMANDS_MAX: usize = 1_024;

/// Most bytes that are read for each byte of a project's scripts: scripts start each other, but few of them several times.
const READINGS_MAX: usize = 8;

/// Bytes that may be read however short the scripts are.
const BYTES_MIN: usize = 16 * 1_024;

/// Most changes of directory in one script.
const CHANGES_MAX: usize = 16;

/// Package managers and their words before a script: the next word is a script or a program.
const MANAGERS: [&str; 6] = ["bun", "npm", "pnpm", "run", "run-script", "yarn"];

/// Programs that start the program behind them, after options of their own.
const STARTERS: [&str; 8] = ["bunx", "cross-env", "cross-env-shell", "dlx", "exec", "npx", "pnpx", "--"];

/// The same, for programs whose options may have values in separate words. No test needs them.
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

/// Options of `c8` and `nyc` that fail a script although its tests pass.
const GATES: [&str; 3] = ["--100", "--check-coverage", "--check-coverage=true"];

/// The same as a subcommand, after the tests.
const GATE: &str = "check-coverage";

/// A program that runs tests of Node's runner, with options and a file search of its own.
pub(super) const BORP: &str = "borp";

/// Programs that run the named scripts, several or by pattern.
const SEVERAL: [&str; 4] = ["npm-run-all", "npm-run-all2", "run-p", "run-s"];

/// Options of `npx` with a value.
const NPX_VALUED: [&str; 2] = ["--package", "-p"];

/// Programs that run a task in all packages of a workspace.
const MONOREPOS: [&str; 7] = ["lage", "lerna", "nx", "rush", "turbo", "wireit", "workspaces"];

/// Words that send a package manager to other packages.
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

/// Options of Node that take the next word as their value; others with a value are written in one word.
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

/// The pattern that `tsx --test` runs without files.
const TSX_TESTS: &str = "**/{test,test/**/*,test-*,*[.-_]test}.?(c|m)@(t|j)s";

/// How a script starts a runner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Invocation {
    /// Variables that the script sets.
    pub(crate) env: BTreeMap<String, String>,
    /// Options for Node itself, before the runner's file.
    pub(crate) node: Vec<String>,
    /// The runner's arguments.
    pub(crate) args: Vec<String>,
    /// Parts of the script that could not be read: `$FLAGS`.
    pub(crate) unread: Vec<String>,
    /// The program that starts the runner, if it is not the runner's own.
    pub(crate) program: Option<&'static str>,
}

impl Invocation {
    /// A sentence about the unread parts, if there are any.
    pub(crate) fn note(&self, runner: &str) -> Option<String> {
        let unread = self.unread.join(", ");
        (!unread.is_empty())
            .then(|| format!("{runner} was started without parts of the test script that could not be read: {unread}"))
    }
}

impl Invocation {
    /// Bytes of its words and variables.
    fn bytes(&self) -> usize {
        let of_env = self.env.iter().map(|(name, value)| name.len() + value.len());
        let of_words = [&self.node, &self.args, &self.unread].into_iter().flatten().map(String::len);
        of_env.chain(of_words).sum()
    }

    /// Drops options that Node accepts only on its command line, for a runner that is started through its own program.
    fn drop_env_file_options(&mut self) {
        let mut words = std::mem::take(&mut self.node).into_iter();
        while let Some(word) = words.next() {
            match word.strip_prefix("--env-file") {
                None => self.node.push(word),
                Some(rest) if rest.contains('=') => self.unread.push(word),
                Some(_) => {
                    self.unread.push([Some(word), words.next()].into_iter().flatten().collect::<Vec<_>>().join(" "))
                }
            }
        }
    }
}

/// Every invocation of every runner in the script `name`, in the script's order, without duplicates.
pub(super) fn find_runners(scripts: &BTreeMap<String, String>, name: &str) -> BTreeMap<JsRunner, Vec<Invocation>> {
    let mut reader = ScriptReader::new(scripts);
    reader.follow(name, &Invocation::default(), &[], 0);
    if reader.is_cut {
        let unread = format!("what comes after {} commands", reader.read);
        reader.found.values_mut().flatten().for_each(|script| script.unread.push(unread.clone()));
    }
    reader.found
}

/// The commands of the script `name` that start no runner, with those of the scripts that npm runs before and after it. The whole
/// script is one command if it starts no runner and only a shell can run it, or if it is too long to read.
pub(super) fn shell_commands(scripts: &BTreeMap<String, String>, name: &str) -> Vec<ShellCommand> {
    let mut reader = ScriptReader::new(scripts);
    for name in [&format!("pre{name}"), name, &format!("post{name}")] {
        reader.follow(name, &Invocation::default(), &[], 0);
    }
    let is_whole = reader.is_cut || reader.is_whole && reader.found.is_empty();
    let has_tests = || reader.is_cut || reader.shell_commands.iter().any(|command| command.purpose == Purpose::Tests);
    if let Some(whole) = scripts.get(name).filter(|_| is_whole && has_tests()) {
        let (text, line) = (whole.clone(), whole.clone());
        return vec![ShellCommand { text, line, env: BTreeMap::new(), purpose: Purpose::Tests, filter: None }];
    }
    for condition in reader.conditions {
        reader.shell_commands[condition].purpose = Purpose::Check;
    }
    let mut unique: Vec<ShellCommand> = Vec::new();
    for command in reader.shell_commands {
        let is_same = |other: &ShellCommand| {
            let key = |command: &ShellCommand| {
                (command.text.clone(), command.line.clone(), command.env.clone(), command.purpose)
            };
            key(other) == key(&command)
        };
        if !unique.iter().any(is_same) {
            unique.push(command);
        }
    }
    unique
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

/// The program that interprets the next word of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordContext {
    /// The shell, or a program that starts the one behind it.
    Shell,
    /// npm, where a script's arguments follow `--`.
    Npm,
    /// Another package manager.
    Manager,
    /// One of [`WRAPPERS`].
    Wrapper,
}

/// A command and its surroundings.
struct CommandContext<'a> {
    /// The script it is in.
    script: &'a str,
    command: &'a ScriptCommand,
    /// Arguments from outside of the script.
    args: &'a [String],
    depth: usize,
}

struct ScriptReader<'a> {
    scripts: &'a BTreeMap<String, String>,
    found: BTreeMap<JsRunner, Vec<Invocation>>,
    /// Commands that start no runner, as far as they were understood.
    shell_commands: Vec<ShellCommand>,
    /// Indices of those whose status decides what runs next.
    conditions: Vec<usize>,
    /// Changes of directory so far, as the script writes them.
    directory_changes: Vec<String>,
    /// Whether a part of the script runs in the background, as an alternative, or in a compound command.
    is_whole: bool,
    /// Commands read so far.
    read: usize,
    /// Bytes that may still be read or kept.
    bytes_left: usize,
    /// Whether the script is longer than may be read.
    is_cut: bool,
}

impl<'a> ScriptReader<'a> {
    fn new(scripts: &'a BTreeMap<String, String>) -> ScriptReader<'a> {
        let bytes: usize = scripts.iter().map(|(name, script)| name.len() + script.len()).sum();
        ScriptReader {
            scripts,
            found: BTreeMap::new(),
            shell_commands: Vec::new(),
            conditions: Vec::new(),
            directory_changes: Vec::new(),
            is_whole: false,
            read: 0,
            bytes_left: bytes.saturating_mul(READINGS_MAX).max(BYTES_MIN),
            is_cut: false,
        }
    }

    /// Takes bytes from the budget; `false` if it is exhausted.
    fn take_budget(&mut self, bytes: usize) -> bool {
        self.is_cut |= self.read == COMMANDS_MAX || bytes > self.bytes_left;
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        !self.is_cut
    }

    /// Reads the script `name`. Its last command gets `args`, which is where npm puts them.
    fn follow(&mut self, name: &str, above: &Invocation, args: &[String], depth: usize) {
        let Some(script) = self.scripts.get(name).filter(|_| depth < DEPTH_MAX) else { return };
        if !self.take_budget(script.len()) {
            return;
        }
        let mut commands = commands(script);
        let last = commands.len().saturating_sub(1);
        if let Some(last) = commands.last_mut() {
            last.words.extend_from_slice(args);
        }
        // Each script starts in the directory of its package.
        let outer_changes = std::mem::take(&mut self.directory_changes);
        let mut changes: Vec<ScriptCommand> = Vec::new();
        for (at, command) in commands.into_iter().enumerate() {
            // A change of directory ends with its subshell.
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
            if !self.take_budget(kept) {
                break;
            }
            self.read += 1;
            self.directory_changes = changes.iter().map(|change| change.text.clone()).collect();
            self.is_whole |= matches!(command.separator, Separator::Background | Separator::Else)
                || shell_command::is_compound(&command.words[0]);
            let mut invocation = above.clone();
            invocation.unread.extend(changes.iter().map(|change| change.words.join(" ")));
            invocation.unread.extend(command.unread.iter().cloned());
            let args = if at == last { args } else { &[] };
            self.command(&CommandContext { script: name, command: &command, args, depth }, invocation);
        }
        self.directory_changes = outer_changes;
    }

    fn command(&mut self, place: &CommandContext<'_>, mut invocation: Invocation) {
        let CommandContext { script: within, depth, .. } = *place;
        let above = invocation.env.clone();
        let (mut by, mut words) = (WordContext::Shell, place.command.words.as_slice());
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            let base = program(word, by);
            if let Some((name, value)) = assignment(word) {
                invocation.env.insert(name.to_owned(), value.to_owned());
            } else if by == WordContext::Shell && KEYWORDS.contains(&word.as_str()) {
                // The command behind it is read like any other.
            } else if matches!(by, WordContext::Npm | WordContext::Manager)
                && self.scripts.contains_key(word)
                && word != within
            {
                return self.follow(word, &invocation, &forwarded_arguments(rest, by), depth + 1);
            } else if matches!(base, "node" | "tsx") {
                let (options, after) = rest.split_at(count_node_options(rest));
                invocation.node.extend((base == "tsx").then(|| "--import=tsx".to_owned()));
                if let Some(at) = options.iter().position(|word| word == "--test") {
                    invocation.args = std::mem::take(&mut invocation.node);
                    invocation.args.extend([&options[..at], &options[at + 1..], after].concat());
                    invocation.args.extend((base == "tsx" && after.is_empty()).then(|| TSX_TESTS.to_owned()));
                    return self.add_invocation(JsRunner::Node, invocation);
                }
                invocation.node.extend_from_slice(options);
                (by, words) = (WordContext::Shell, after);
            } else if base == BORP {
                invocation.program = Some(BORP);
                invocation.args = rest.to_vec();
                return self.add_invocation(JsRunner::Node, invocation);
            } else if let Some(runner) = JsRunner::from_program(base, rest) {
                invocation.args = rest.to_vec();
                return self.add_invocation(runner, invocation);
            } else if SEVERAL.contains(&base) {
                return self.follow_several(within, rest, &invocation, depth);
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
                    Some(GATE) => return self.add_shell_command(place, above, Purpose::Check, base),
                    Some("merge" | "report") => return,
                    _ => {}
                }
            } else if by == WordContext::Wrapper && GATES.contains(&word.as_str()) {
                invocation.unread.push(word.clone());
            } else if NPX_VALUED.contains(&base) && by == WordContext::Shell {
                words = rest.get(1..).unwrap_or_default();
            } else if !word.starts_with('-') && by != WordContext::Wrapper {
                let words = &place.command.words[place.command.words.len() - rest.len() - 1..];
                let purpose = if JsRunner::is_program(base) {
                    Purpose::Check
                } else {
                    shell_command::purpose(base, words, within)
                };
                return self.add_shell_command(place, above, purpose, base);
            }
        }
        // Behind a wrapper any word may be the wrapper's own, and the words behind `node -e` are no file.
        if by == WordContext::Wrapper || !invocation.node.is_empty() {
            self.add_shell_command(place, above, Purpose::Tests, "");
        }
    }

    /// Records a command that starts no runner. A command that reads another's output tests nothing.
    fn add_shell_command(
        &mut self,
        place: &CommandContext<'_>,
        env: BTreeMap<String, String>,
        purpose: Purpose,
        program: &str,
    ) {
        let CommandContext { command, args, .. } = *place;
        if shell_command::is_harmless(program) {
            return;
        }
        let purpose =
            if command.is_piped || command.separator == Separator::Background { Purpose::Check } else { purpose };
        if shell_command::is_condition(&command.words[0]) {
            self.conditions.push(self.shell_commands.len());
        }
        let own = shell_command::line(&command.text, program, args);
        let line =
            self.directory_changes.iter().map(String::as_str).chain([own.as_str()]).collect::<Vec<_>>().join(" && ");
        let filter = shell_command::filter_option(program).filter(|_| !command.is_piped && !line.contains(" -- "));
        self.shell_commands.push(ShellCommand { text: command.words.join(" "), line, env, purpose, filter });
    }

    /// Follows the scripts that `run-s` and similar programs name.
    fn follow_several(&mut self, within: &str, words: &[String], invocation: &Invocation, depth: usize) {
        let scripts = self.scripts;
        for word in words.iter().filter(|word| !word.starts_with('-')) {
            let mut parts = word.split_whitespace();
            let pattern = parts.next().unwrap_or_default();
            let args: Vec<String> = parts.skip_while(|part| *part == "--").map(str::to_owned).collect();
            let segments: Vec<&str> = pattern.split(':').collect();
            // A `**` may try each part of a name at each part of the pattern.
            let tries = if segments.contains(&"**") { segments.len() } else { 1 };
            let names = if tries > 1 { scripts.keys().map(String::len).sum() } else { scripts.len() };
            if !self.take_budget(tries.saturating_mul(names)) {
                return;
            }
            for name in scripts.keys().filter(|name| *name != within) {
                if matches(&segments, &name.split(':').collect::<Vec<_>>()) {
                    self.follow(name, invocation, &args, depth + 1);
                }
            }
        }
    }

    fn add_invocation(&mut self, runner: JsRunner, mut script: Invocation) {
        if !matches!(runner, JsRunner::Jest | JsRunner::Node | JsRunner::Vitest) {
            script.drop_env_file_options();
        }
        let scripts = self.found.entry(runner).or_default();
        if !scripts.contains(&script) {
            scripts.push(script);
        }
    }
}

/// The program that a word names: `jest` of `./node_modules/.bin/jest` and `jest@30`. A wrapper's value may be a path with the same
/// ending.
fn program(word: &str, by: WordContext) -> &str {
    if by == WordContext::Wrapper && word.contains('/') && !word.contains("node_modules/") {
        return word;
    }
    let base = word.rsplit('/').next().unwrap_or(word);
    base.split_once('@').map_or(base, |(name, _)| name)
}

/// The arguments among the words after a script's name: all, except that npm takes options before `--` for itself.
fn forwarded_arguments(words: &[String], by: WordContext) -> Vec<String> {
    let at = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let before = words[..at].iter().filter(|word| by != WordContext::Npm || !word.starts_with('-'));
    before.chain(words.iter().skip(at + 1)).cloned().collect()
}

/// Number of words after `node` that are its options, before its file.
fn count_node_options(words: &[String]) -> usize {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-') && *word != "--") {
        at += if NODE_VALUE_OPTIONS.contains(&word.as_str()) { 2 } else { 1 };
    }
    at.min(words.len())
}

/// Whether a name matches a pattern, both split at colons: `*` within a part, `**` for any number of parts.
fn matches(pattern: &[&str], name: &[&str]) -> bool {
    let (mut at, mut from) = (0, 0);
    // The last `**`, and the first part that it does not take. Earlier ones need not be tried again.
    let mut any: Option<(usize, usize)> = None;
    while let Some(own) = name.get(from) {
        match (pattern.get(at), any) {
            (Some(&"**"), _) => {
                any = Some((at, from));
                at += 1;
            }
            (Some(part), _) if part_matches(part, own) => (at, from) = (at + 1, from + 1),
            (_, Some((before, taken))) => {
                any = Some((before, taken + 1));
                (at, from) = (before + 1, taken + 1);
            }
            _ => return false,
        }
    }
    pattern[at..].iter().all(|part| *part == "**")
}

/// Whether a part of a name matches a part of a pattern.
fn part_matches(part: &str, own: &str) -> bool {
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

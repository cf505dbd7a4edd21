//! Reads a project's test script: which runner it starts, with which environment and arguments. The script itself is never
//! run. Must not know what any runner's options mean.

use super::detect::Runner;
use std::collections::BTreeMap;

/// Most scripts that one script may lead through (`npm run test:unit`).
const DEPTH_MAX: usize = 8;

/// Programs that start the program which follows them, and are not needed to run tests.
const STARTERS: [&str; 17] = [
    "npx",
    "pnpm",
    "yarn",
    "bunx",
    "npm",
    "exec",
    "run",
    "dlx",
    "cross-env",
    "cross-env-shell",
    "dotenv",
    "c8",
    "nyc",
    "time",
    "env",
    "--",
    "-T",
];

/// Words that hand the script on to the packages of a workspace.
const DELEGATES: [&str; 10] =
    ["--workspaces", "-ws", "-r", "--recursive", "lerna", "turbo", "nx", "workspaces", "rush", "wireit"];

/// How a script starts a runner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Script {
    /// Variables that it sets.
    pub(crate) env: BTreeMap<String, String>,
    /// Options of Node itself, before the runner's file.
    pub(crate) node: Vec<String>,
    /// The runner's arguments.
    pub(crate) args: Vec<String>,
}

/// An option of a runner that a test script may hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Its spellings, the one to use first: `--config`, `-c`.
    pub(crate) names: &'static [&'static str],
    /// Whether a value follows.
    pub(crate) has_value: bool,
}

/// A script's arguments, sorted out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Options {
    /// Options that are handed on, each in one word.
    pub(crate) kept: Vec<String>,
    /// What is no option: files, directories, patterns.
    pub(crate) positional: Vec<String>,
    /// Options that are not handed on, as they stand in the script.
    pub(crate) left_out: Vec<String>,
}

impl Options {
    /// A sentence about what is not handed on, if there is anything.
    pub(crate) fn note(&self, runner: &str) -> Option<String> {
        let left_out = self.left_out.join(" ");
        (!left_out.is_empty())
            .then(|| format!("the test script gives {runner} options that were not passed on: {left_out}"))
    }
}

impl Script {
    /// Sorts the arguments: those in `flags` are kept, other options are left out.
    ///
    /// An option that is not in `flags` and is followed by something else than an option leaves a positional argument
    /// behind unless it is in `valued`.
    pub(crate) fn options(&self, flags: &[Flag], valued: &[&str]) -> Options {
        let mut options = Options::default();
        let mut words = self.args.iter().peekable();
        while let Some(word) = words.next() {
            let (name, value) = word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
            if !word.starts_with('-') {
                options.positional.push(word.clone());
                continue;
            }
            let flag = flags.iter().find(|flag| flag.names.contains(&name));
            let takes_value = flag.map_or_else(|| valued.contains(&name), |flag| flag.has_value);
            let value = match value {
                Some(value) => Some(value.to_owned()),
                None if takes_value => words.next_if(|next| !next.starts_with('-')).cloned(),
                None => None,
            };
            match (flag, value) {
                (Some(flag), Some(value)) => options.kept.push(format!("{}={value}", flag.names[0])),
                (Some(flag), None) if !flag.has_value => options.kept.push(flag.names[0].to_owned()),
                (_, value) => options.left_out.extend([word.clone()].into_iter().chain(value)),
            }
        }
        options
    }
}

/// The runners that the script `name` starts, each with how it first does so.
pub(super) fn runners_of(scripts: &BTreeMap<String, String>, name: &str) -> BTreeMap<Runner, Script> {
    let mut found = BTreeMap::new();
    follow(scripts, name, 0, &mut found);
    found
}

/// Whether the script `name` leaves testing to the packages of a workspace.
pub(super) fn delegates(scripts: &BTreeMap<String, String>, name: &str) -> bool {
    let commands = scripts.get(name).map(|script| commands(script)).unwrap_or_default();
    commands.iter().flatten().any(|word| DELEGATES.contains(&word.as_str()) || word.starts_with("--workspace="))
}

/// Whether the script `name` is absent or the one that `npm init` writes.
pub(super) fn is_unset(scripts: &BTreeMap<String, String>, name: &str) -> bool {
    scripts.get(name).is_none_or(|script| script.trim().is_empty() || script.contains("no test specified"))
}

fn follow(scripts: &BTreeMap<String, String>, name: &str, depth: usize, found: &mut BTreeMap<Runner, Script>) {
    let Some(script) = scripts.get(name).filter(|_| depth < DEPTH_MAX) else { return };
    for words in commands(script) {
        let mut words = words.as_slice();
        let mut so_far = Script::default();
        while let Some((word, rest)) = words.split_first() {
            let base = word.rsplit('/').next().unwrap_or(word);
            if let Some((name, value)) = assignment(word) {
                so_far.env.insert(name.to_owned(), value.to_owned());
            } else if base == "node" {
                let options = rest.iter().take_while(|word| word.starts_with('-')).count();
                if rest.iter().any(|word| word == "--test") {
                    so_far.args = rest.iter().filter(|word| *word != "--test").cloned().collect();
                    found.entry(Runner::Node).or_insert(so_far);
                    break;
                }
                so_far.node.extend_from_slice(&rest[..options]);
                words = &rest[options..];
                continue;
            } else if let Some(runner) = Runner::of_program(base, rest) {
                so_far.args = rest.to_vec();
                found.entry(runner).or_insert(so_far);
                break;
            } else if scripts.contains_key(word) && word != name && depth < DEPTH_MAX {
                follow(scripts, word, depth + 1, found);
                break;
            } else if !STARTERS.contains(&base) && !word.starts_with('-') {
                break;
            }
            words = rest;
        }
    }
}

/// `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let well_formed = !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    (well_formed && !name.starts_with(|first: char| first.is_ascii_digit())).then_some((name, value))
}

/// The commands of a shell script, each as its words. What only a shell can say ends the command: a word with a variable or
/// a substitution in it is left out with all that follows.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut begun, mut quote) = (String::new(), false, None);
    let mut chars = script.chars().peekable();
    let end_word = |word: &mut String, begun: &mut bool, commands: &mut Vec<Vec<String>>| {
        if std::mem::take(begun)
            && let Some(last) = commands.last_mut()
        {
            last.push(std::mem::take(word));
        }
    };
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), _) if char == open => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(char), true),
            (None | Some('"'), '\\') => {
                word.extend(chars.next());
                begun = true;
            }
            (None | Some('"'), '$' | '`') => {
                (word, begun) = (String::new(), false);
                while chars.next_if(|next| !matches!(next, '&' | '|' | ';')).is_some() {}
                quote = None;
            }
            (None, '&' | '|' | ';' | '(' | ')' | '\n') => {
                end_word(&mut word, &mut begun, &mut commands);
                commands.push(Vec::new());
            }
            (None, _) if char.is_whitespace() => end_word(&mut word, &mut begun, &mut commands),
            _ => {
                word.push(char);
                begun = true;
            }
        }
    }
    end_word(&mut word, &mut begun, &mut commands);
    commands.retain(|words| !words.is_empty());
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scripts(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(name, script)| ((*name).to_owned(), (*script).to_owned())).collect()
    }

    fn found(script: &str) -> Vec<(Runner, String)> {
        let all = scripts(&[("test", script), ("test:unit", "vitest run -c \"a b.ts\""), ("loop", "npm run loop")]);
        let of = |script: Script| {
            let env: Vec<String> = script.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{}|{}|{}", env.join(" "), script.node.join(" "), script.args.join(" "))
        };
        runners_of(&all, "test").into_iter().map(|(runner, script)| (runner, of(script))).collect()
    }

    #[test]
    fn a_runner_is_found_behind_whatever_starts_it() {
        for (script, runner, rest) in [
            ("jest", Runner::Jest, "||"),
            ("tsc && NODE_ENV=test TZ=UTC npx jest -c x.js --ci", Runner::Jest, "NODE_ENV=test TZ=UTC||-c x.js --ci"),
            ("cross-env A=b nyc mocha 'test/**/*.js'", Runner::Mocha, "A=b||test/**/*.js"),
            (
                "node --experimental-vm-modules node_modules/jest/bin/jest.js src",
                Runner::Jest,
                "|--experimental-vm-modules|src",
            ),
            ("npm run lint; npm run test:unit", Runner::Vitest, "||run -c a b.ts"),
            ("node --import tsx --test test/*.ts", Runner::Node, "||--import tsx test/*.ts"),
            ("pnpm exec vitest run $FLAGS --x | cat", Runner::Vitest, "||run"),
        ] {
            assert_eq!(found(script), [(runner, rest.to_owned())], "{script}");
        }
        assert_eq!(found("jest && mocha").len(), 2);
        for none in ["echo jest", "tape test", "npm run loop", "", "node index.js jest"] {
            assert!(found(none).is_empty(), "{none}: {:?}", found(none));
        }
    }

    #[test]
    fn scripts_that_say_nothing_and_that_hand_on_are_told_apart() {
        let of = |script: &str| scripts(&[("test", script)]);
        assert!(is_unset(&of("echo \"Error: no test specified\" && exit 1"), "test") && is_unset(&of(""), "x"));
        assert!(!is_unset(&of("tape"), "test"));
        for handed_on in ["npm test --workspaces", "pnpm -r test", "turbo run test", "yarn workspaces foreach run test"]
        {
            assert!(delegates(&of(handed_on), "test"), "{handed_on}");
        }
        assert!(!delegates(&of("jest"), "test"));
    }

    #[test]
    fn options_are_sorted_out() {
        let flags = [
            Flag { names: &["--config", "-c"], has_value: true },
            Flag { names: &["--runInBand", "-i"], has_value: false },
        ];
        let args = ["-c", "x.js", "--coverage", "src", "-i", "--config=y.js", "--reporter", "dot", "--config"];
        let script = Script { args: args.map(str::to_owned).into(), ..Script::default() };
        let options = script.options(&flags, &["--reporter"]);
        assert_eq!(options.kept, ["--config=x.js", "--runInBand", "--config=y.js"]);
        assert_eq!(options.positional, ["src"]);
        assert_eq!(options.left_out, ["--coverage", "--reporter", "dot", "--config"]);
        let note = "the test script gives jest options that were not passed on: --coverage --reporter dot --config";
        assert_eq!(options.note("jest").unwrap(), note);
    }
}

//! What of a test script's arguments is handed on to a runner, and what is not. Must not know what any option means.
//!
//! A word that is taken for a pattern and is the value of an option would run other tests than the project's. So where a
//! runner's options are all known, what follows one that is not is nothing that is run.

use super::test_script::Invocation;

/// What belongs to an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    /// Nothing.
    Nothing,
    /// The next word, or what stands behind its `=`.
    Value,
    /// All words up to the next option, or what stands behind its `=`.
    Words,
    /// All words up to the next option, also after what stands behind its `=`.
    AllWords,
    /// The same, and each is what the runner's positional words are.
    Patterns,
}

/// An option of a runner that a test script may hand on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Its spellings, the one to use first: `--config`, `-c`. Capitals and `-` within a name count for nothing.
    pub(crate) names: &'static [&'static str],
    /// What follows it. Several words are handed on one by one.
    pub(crate) arity: Arity,
}

/// Which options of a script its runner is given.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ForwardPolicy {
    /// Those of `flags` and no others, each with its value in one word that begins with the first of its names.
    Only {
        /// What is handed on.
        flags: &'static [Flag],
        /// Options that take the next word as their value and are left out.
        valued: &'static [&'static str],
        /// Options that take nothing and are left out. Any other takes all words up to the next option.
        bare: &'static [&'static str],
        /// The first positional word is no pattern if it is one of these.
        subcommands: &'static [&'static str],
    },
    /// All but these, for a runner that shares its command line with Node: nobody knows all of Node's options.
    AllExcept {
        /// What is left out.
        left_out: &'static [&'static str],
        /// Options that take the next word as their value.
        valued: &'static [&'static str],
        /// Options that take nothing, where not all others do: any other is handed on with the word that follows it, and
        /// the runner says what that is.
        bare: Option<&'static [&'static str]>,
    },
}

/// A script's arguments, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ForwardedOptions {
    /// Options that are handed on, each in one word, or in two with its value.
    kept: Vec<Vec<String>>,
    /// What is no option: files, directories, patterns.
    pub(crate) positional: Vec<String>,
    /// Options that are not handed on.
    left_out: Vec<Vec<String>>,
}

impl ForwardedOptions {
    /// Sorts the arguments of `script`.
    pub(crate) fn from_invocation(script: &Invocation, handed: ForwardPolicy) -> ForwardedOptions {
        let mut options = ForwardedOptions::default();
        let mut words = script.args.as_slice();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            if word == "--" {
                options.positional.extend_from_slice(std::mem::take(&mut words));
            } else if word.starts_with('-') && word != "-" {
                let taken = match handed {
                    ForwardPolicy::Only { .. } => options.one_of_these(handed, word, rest),
                    ForwardPolicy::AllExcept { .. } => options.one_of_all(handed, word, rest),
                };
                words = &rest[taken..];
            } else {
                options.positional.push(word.clone());
            }
        }
        if let ForwardPolicy::Only { subcommands, .. } = handed
            && options.positional.first().is_some_and(|word| subcommands.contains(&word.as_str()))
        {
            options.positional.remove(0);
        }
        options
    }

    /// Takes in one option where only some are handed on. How many of the words after it are its own.
    fn one_of_these(&mut self, handed: ForwardPolicy, word: &str, rest: &[String]) -> usize {
        let ForwardPolicy::Only { flags, valued, bare, .. } = handed else { return 0 };
        let flag_of = |name: &str| flags.iter().find(|flag| flag.names.iter().any(|other| is_same(name, other)));
        let is_among = |name: &str, names: &[&str]| names.iter().any(|other| is_same(name, other));
        let (mut name, mut value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
        // `-j4`
        if let Some((short, attached)) = word.split_at_checked(2)
            && !short.starts_with("--")
            && !attached.is_empty()
            && value.is_none()
            && (is_among(short, valued) || flag_of(short).is_some_and(|flag| flag.arity == Arity::Value))
        {
            (name, value) = (short, Some(attached));
        }
        let flag = flag_of(name);
        let takes = match flag {
            Some(flag) => flag.arity,
            None if is_among(name, bare) || name.starts_with("--no-") => Arity::Nothing,
            None if is_among(name, valued) => Arity::Value,
            None => Arity::AllWords,
        };
        let up_to_next = rest.iter().take_while(|next| !next.starts_with('-')).count();
        let taken = match (takes, value) {
            (Arity::AllWords | Arity::Patterns, _) | (Arity::Words, None) => up_to_next,
            (Arity::Value, None) => up_to_next.min(1),
            (Arity::Nothing, None) => usize::from(rest.first().is_some_and(|next| is_no_pattern(next))),
            (_, Some(_)) => 0,
        };
        let values: Vec<&str> = value.into_iter().chain(rest[..taken].iter().map(String::as_str)).collect();
        match flag {
            Some(flag) if flag.arity == Arity::Patterns => {
                self.positional.extend(values.iter().map(|&value| value.to_owned()));
            }
            Some(flag) if !values.is_empty() => {
                self.kept.extend(values.iter().map(|value| vec![format!("{}={value}", flag.names[0])]));
            }
            Some(flag) if flag.arity == Arity::Nothing => self.kept.push(vec![flag.names[0].to_owned()]),
            _ => self.left_out.push([&[word.to_owned()], &rest[..taken]].concat()),
        }
        taken
    }

    /// The same where all others are. Node takes whatever follows for a value.
    fn one_of_all(&mut self, handed: ForwardPolicy, word: &str, rest: &[String]) -> usize {
        let ForwardPolicy::AllExcept { left_out, valued, bare } = handed else { return 0 };
        let is_bare = |bare: &[&str]| bare.contains(&word) || word.starts_with("--no-");
        let taken = if word.contains('=') {
            0
        } else if valued.contains(&word) {
            rest.len().min(1)
        } else {
            usize::from(
                bare.is_some_and(|bare| !is_bare(bare)) && rest.first().is_some_and(|next| !next.starts_with('-')),
            )
        };
        let words = match rest[..taken].first() {
            Some(value) if word.starts_with("--") && valued.contains(&word) => vec![format!("{word}={value}")],
            Some(value) => vec![word.to_owned(), value.clone()],
            None => vec![word.to_owned()],
        };
        let list = if left_out.contains(&name_of(word)) { &mut self.left_out } else { &mut self.kept };
        list.push(words);
        taken
    }

    /// A sentence about what is not handed on, if there is anything.
    pub(crate) fn note(&self, runner: &str) -> Option<String> {
        let left_out = self.left_out.concat().join(" ");
        (!left_out.is_empty())
            .then(|| format!("the test script gives {runner} options that were not passed on: {left_out}"))
    }

    /// The same without the options of these names.
    pub(crate) fn without(mut self, names: &[&str]) -> ForwardedOptions {
        self.kept.retain(|option| !names.contains(&name_of(&option[0])));
        self
    }

    /// Whether one of these is handed on.
    pub(crate) fn contain(&self, names: &[&str]) -> bool {
        self.kept.iter().any(|option| names.contains(&name_of(&option[0])))
    }

    /// Whether the same options are handed on.
    pub(crate) fn are_same_as(&self, other: &ForwardedOptions) -> bool {
        self.kept == other.kept
    }

    /// The words of what is handed on.
    pub(crate) fn into_args(self) -> impl Iterator<Item = String> {
        self.kept.into_iter().flatten()
    }

    /// The value of the option `name`, if it is handed on with one.
    pub(crate) fn value_of(&self, name: &str) -> Option<&str> {
        self.kept.iter().find_map(|option| option[0].strip_prefix(name)?.strip_prefix('='))
    }
}

fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or_default()
}

/// Whether a word is a switch's value rather than a pattern of anybody's: `--ci false`, `--bail 1`.
fn is_no_pattern(word: &str) -> bool {
    word == "true" || word == "false" || word.chars().all(|char| char.is_ascii_digit())
}

/// Whether two spellings are one: `--max-workers` and `--maxWorkers`.
fn is_same(one: &str, other: &str) -> bool {
    let plain = |name: &str| name.strip_prefix("--").map(|name| name.replace('-', "").to_lowercase());
    one == other || plain(one).is_some_and(|one| plain(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(args: &str) -> Invocation {
        Invocation { args: args.split(' ').map(str::to_owned).collect(), ..Invocation::default() }
    }

    fn words(options: ForwardedOptions) -> Vec<String> {
        options.into_args().collect()
    }

    const ONLY: ForwardPolicy = ForwardPolicy::Only {
        flags: &[
            Flag { names: &["--config", "-c"], arity: Arity::Value },
            Flag { names: &["--runInBand", "-i"], arity: Arity::Nothing },
            Flag { names: &["--roots"], arity: Arity::AllWords },
            Flag { names: &["--project"], arity: Arity::Words },
            Flag { names: &["--testPathPatterns"], arity: Arity::Patterns },
        ],
        valued: &["--reporter", "-j"],
        bare: &["--coverage"],
        subcommands: &["run"],
    };

    #[test]
    fn these_and_no_others_are_handed_on() {
        let args = "-c x.js --coverage src -i --config=y.js --reporter dot --a=b --config";
        let options = ForwardedOptions::from_invocation(&script(args), ONLY);
        assert_eq!(options.positional, ["src"]);
        let note =
            "the test script gives jest options that were not passed on: --coverage --reporter dot --a=b --config";
        assert_eq!(options.note("jest").unwrap(), note);
        assert_eq!(words(options), ["--config=x.js", "--runInBand", "--config=y.js"]);
    }

    #[test]
    fn what_belongs_to_an_option_is_no_pattern() {
        for (args, positional, kept, left_out) in [
            ("--roots a b --run-in-band c", "c", "--roots=a --roots=b --runInBand", ""),
            ("--roots=a b", "", "--roots=a --roots=b", ""),
            ("--project a b", "", "--project=a --project=b", ""),
            ("--project=a b", "b", "--project=a", ""),
            ("--unheard of it -i a", "a", "--runInBand", "--unheard of it"),
            ("--unheard=of it", "", "", "--unheard=of it"),
            ("--no-unheard of", "of", "", "--no-unheard"),
            ("-j4 a", "a", "", "-j4"),
            ("-cx.js a", "a", "--config=x.js", ""),
            ("run --testPathPattern a", "", "", "--testPathPattern a"),
            ("run --test-path-patterns a b", "a b", "", ""),
            ("-i false --coverage true a", "a", "--runInBand=false", "--coverage true"),
            ("--coverage 1 a", "a", "", "--coverage 1"),
            ("-i -- -a", "-a", "--runInBand", ""),
        ] {
            let options = ForwardedOptions::from_invocation(&script(args), ONLY);
            assert_eq!(options.positional.join(" "), positional, "{args}");
            assert_eq!(options.left_out.concat().join(" "), left_out, "{args}");
            assert_eq!(words(options).join(" "), kept, "{args}");
        }
    }

    #[test]
    fn all_but_what_is_left_out_is_handed_on() {
        let args = "--import tsx -r x --watch a.js --reporter dot --bail --unheard of -- -b.js";
        let handed = |bare| ForwardPolicy::AllExcept {
            left_out: &["--watch", "--reporter"],
            valued: &["--import", "-r", "--reporter"],
            bare,
        };
        let options = ForwardedOptions::from_invocation(&script(args), handed(None));
        assert_eq!(words(options.clone()), ["--import=tsx", "-r", "x", "--bail", "--unheard"]);
        assert_eq!((options.value_of("--import"), options.value_of("--bail")), (Some("tsx"), None));
        assert!(options.contain(&["--bail"]) && !options.contain(&["--watch"]));
        assert_eq!(options.positional, ["a.js", "of", "-b.js"]);
        let note = "the test script gives mocha options that were not passed on: --watch --reporter=dot";
        assert_eq!(options.note("mocha").unwrap(), note);
        assert_eq!(words(options.without(&["--import", "-r"])), ["--bail", "--unheard"]);
        let options = ForwardedOptions::from_invocation(&script(args), handed(Some(&["--watch", "--bail"])));
        assert_eq!(words(options.clone()), ["--import=tsx", "-r", "x", "--bail", "--unheard", "of"]);
        assert_eq!(options.positional, ["a.js", "-b.js"]);
    }
}

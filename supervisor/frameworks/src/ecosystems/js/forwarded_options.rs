//! Which arguments of a test script are forwarded to its runner.
//!
//! The value of an option, taken for a pattern, would run other tests than the project's. So where all options of a runner are
//! known, the words behind an unknown option are not used as patterns.

use super::test_script::Invocation;

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arity {
    /// Nothing.
    Nothing,
    /// The next word, or what follows its `=`.
    Value,
    /// All words up to the next option, or what follows its `=`.
    Words,
    /// All words up to the next option, even after what follows its `=`.
    AllWords,
    /// Like `AllWords`; each word is a pattern, as the positional words are.
    Patterns,
}

/// An option of a runner that a test script may give.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// Its spellings, the forwarded one first: `--config`, `-c`. Case and `-` within a name are ignored.
    pub(crate) names: &'static [&'static str],
    /// What it takes. Several words are forwarded one by one.
    pub(crate) arity: Arity,
}

/// Which options of a script its runner gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ForwardPolicy {
    /// Only those of `flags`, each in one word with its value, spelt as the first of its names.
    Only {
        /// The forwarded options.
        flags: &'static [Flag],
        /// Dropped options that take the next word as their value.
        valued: &'static [&'static str],
        /// Dropped options that take nothing. An option in no list takes all words up to the next option, and is dropped.
        bare: &'static [&'static str],
        /// First positional words that are no pattern.
        subcommands: &'static [&'static str],
    },
    /// All except these, for a runner that shares its command line with Node, whose options are too many to list.
    AllExcept {
        /// The dropped options.
        left_out: &'static [&'static str],
        /// Options that take the next word as their value.
        valued: &'static [&'static str],
        /// Options that take nothing, if not all others do: then any other is forwarded with the next word, and the runner
        /// decides what that is.
        bare: Option<&'static [&'static str]>,
    },
}

/// A script's arguments, sorted into forwarded options, positional words and dropped options.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ForwardedOptions {
    /// Forwarded options, each as one word, or as two with its value.
    forwarded: Vec<Vec<String>>,
    /// Words that are no option: files, directories, patterns.
    pub(crate) positional: Vec<String>,
    /// Dropped options.
    left_out: Vec<Vec<String>>,
}

impl ForwardedOptions {
    /// Sorts the arguments of an invocation.
    pub(crate) fn from_invocation(script: &Invocation, policy: ForwardPolicy) -> ForwardedOptions {
        let mut options = ForwardedOptions::default();
        let mut words = script.args.as_slice();
        while let Some((word, rest)) = words.split_first() {
            words = rest;
            if word == "--" {
                options.positional.extend_from_slice(std::mem::take(&mut words));
            } else if word.starts_with('-') && word != "-" {
                let taken = match policy {
                    ForwardPolicy::Only { .. } => options.sort_known(policy, word, rest),
                    ForwardPolicy::AllExcept { .. } => options.sort_any(policy, word, rest),
                };
                words = &rest[taken..];
            } else {
                options.positional.push(word.clone());
            }
        }
        if let ForwardPolicy::Only { subcommands, .. } = policy
            && options.positional.first().is_some_and(|word| subcommands.contains(&word.as_str()))
        {
            options.positional.remove(0);
        }
        options
    }

    /// Sorts one option under [`ForwardPolicy::Only`]; returns how many of the following words belong to it.
    fn sort_known(&mut self, policy: ForwardPolicy, word: &str, rest: &[String]) -> usize {
        let ForwardPolicy::Only { flags, valued, bare, .. } = policy else { return 0 };
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
            (Arity::Nothing, None) => usize::from(rest.first().is_some_and(|next| is_switch_value(next))),
            (_, Some(_)) => 0,
        };
        let values: Vec<&str> = value.into_iter().chain(rest[..taken].iter().map(String::as_str)).collect();
        match flag {
            Some(flag) if flag.arity == Arity::Patterns => {
                self.positional.extend(values.iter().map(|&value| value.to_owned()));
            }
            Some(flag) if !values.is_empty() => {
                self.forwarded.extend(values.iter().map(|value| vec![format!("{}={value}", flag.names[0])]));
            }
            Some(flag) if flag.arity == Arity::Nothing => self.forwarded.push(vec![flag.names[0].to_owned()]),
            _ => self.left_out.push([&[word.to_owned()], &rest[..taken]].concat()),
        }
        taken
    }

    /// Sorts one option under [`ForwardPolicy::AllExcept`]. Node takes any following word as a value.
    fn sort_any(&mut self, policy: ForwardPolicy, word: &str, rest: &[String]) -> usize {
        let ForwardPolicy::AllExcept { left_out, valued, bare } = policy else { return 0 };
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
        let list = if left_out.contains(&name_of(word)) { &mut self.left_out } else { &mut self.forwarded };
        list.push(words);
        taken
    }

    /// A sentence about the dropped options, if there are any.
    pub(crate) fn note(&self, runner: &str) -> Option<String> {
        let left_out = self.left_out.concat().join(" ");
        (!left_out.is_empty())
            .then(|| format!("the test script gives {runner} options that were not passed on: {left_out}"))
    }

    /// The options without those of these names.
    pub(crate) fn without(mut self, names: &[&str]) -> ForwardedOptions {
        self.forwarded.retain(|option| !names.contains(&name_of(&option[0])));
        self
    }

    /// Whether one of these is forwarded.
    pub(crate) fn contain(&self, names: &[&str]) -> bool {
        self.forwarded.iter().any(|option| names.contains(&name_of(&option[0])))
    }

    /// Whether both forward the same options.
    pub(crate) fn are_same_as(&self, other: &ForwardedOptions) -> bool {
        self.forwarded == other.forwarded
    }

    /// The words of the forwarded options.
    pub(crate) fn into_args(self) -> impl Iterator<Item = String> {
        self.forwarded.into_iter().flatten()
    }

    /// The value of the forwarded option `name`, if it has one.
    pub(crate) fn value_of(&self, name: &str) -> Option<&str> {
        self.forwarded.iter().find_map(|option| option[0].strip_prefix(name)?.strip_prefix('='))
    }
}

fn name_of(word: &str) -> &str {
    word.split('=').next().unwrap_or_default()
}

/// Whether a word is the value of a switch rather than a pattern: `--ci false`, `--bail 1`.
fn is_switch_value(word: &str) -> bool {
    word == "true" || word == "false" || word.chars().all(|char| char.is_ascii_digit())
}

/// Whether two names are spellings of the same option: `--max-workers` and `--maxWorkers`.
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
    fn forwards_only_the_listed_options() {
        let args = "-c x.js --coverage src -i --config=y.js --reporter dot --a=b --config";
        let options = ForwardedOptions::from_invocation(&script(args), ONLY);
        assert_eq!(options.positional, ["src"]);
        let note =
            "the test script gives jest options that were not passed on: --coverage --reporter dot --a=b --config";
        assert_eq!(options.note("jest").unwrap(), note);
        assert_eq!(words(options), ["--config=x.js", "--runInBand", "--config=y.js"]);
    }

    #[test]
    fn words_of_an_option_are_no_patterns() {
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
    fn forwards_all_except_the_dropped_options() {
        let args = "--import tsx -r x --watch a.js --reporter dot --bail --unheard of -- -b.js";
        let policy = |bare| ForwardPolicy::AllExcept {
            left_out: &["--watch", "--reporter"],
            valued: &["--import", "-r", "--reporter"],
            bare,
        };
        let options = ForwardedOptions::from_invocation(&script(args), policy(None));
        assert_eq!(words(options.clone()), ["--import=tsx", "-r", "x", "--bail", "--unheard"]);
        assert_eq!((options.value_of("--import"), options.value_of("--bail")), (Some("tsx"), None));
        assert!(options.contain(&["--bail"]) && !options.contain(&["--watch"]));
        assert_eq!(options.positional, ["a.js", "of", "-b.js"]);
        let note = "the test script gives mocha options that were not passed on: --watch --reporter=dot";
        assert_eq!(options.note("mocha").unwrap(), note);
        assert_eq!(words(options.without(&["--import", "-r"])), ["--bail", "--unheard"]);
        let options = ForwardedOptions::from_invocation(&script(args), policy(Some(&["--watch", "--bail"])));
        assert_eq!(words(options.clone()), ["--import=tsx", "-r", "x", "--bail", "--unheard", "of"]);
        assert_eq!(options.positional, ["a.js", "-b.js"]);
    }
}

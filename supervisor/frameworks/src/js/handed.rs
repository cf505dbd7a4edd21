//! What of a test script is handed on to a runner that shares its command line with Node: everything but what a table
//! leaves out, since nobody knows all of Node's options. Must not know what any option means.

use super::script::Script;
use crate::framework::InjectedFile;
use proctor_core::request::{RerunTarget, Selection};

/// The arguments of a test script, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Handed {
    /// Options, each in one word, or in two with its value.
    options: Vec<Vec<String>>,
    /// Files, directories and patterns.
    pub(crate) files: Vec<String>,
    /// Options that are not handed on.
    left_out: Vec<Vec<String>>,
}

impl Handed {
    /// Sorts the arguments of `script`: the next word is the value of an option in `valued`, and what is in `left_out` stays
    /// behind with its value.
    pub(crate) fn of(script: &Script, valued: &[&str], left_out: &[&str]) -> Handed {
        let mut handed = Handed::default();
        let mut words = script.args.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                handed.files.extend(words.by_ref().cloned());
            } else if !word.starts_with('-') {
                handed.files.push(word.clone());
            } else {
                let name = word.split('=').next().unwrap_or_default();
                let value = if valued.contains(&word.as_str()) { words.next() } else { None };
                let stays = left_out.contains(&name);
                let place = if stays { &mut handed.left_out } else { &mut handed.options };
                place.push(match value {
                    Some(value) if word.starts_with("--") => vec![format!("{word}={value}")],
                    value => [word].into_iter().chain(value).cloned().collect(),
                });
            }
        }
        handed
    }

    /// A sentence about what is not handed on, if there is anything.
    pub(crate) fn note(&self, runner: &str) -> Option<String> {
        let left_out = self.left_out.concat().join(" ");
        (!left_out.is_empty())
            .then(|| format!("the test script gives {runner} options that were not passed on: {left_out}"))
    }

    /// The options without those of these names.
    pub(crate) fn without(mut self, names: &[&str]) -> Handed {
        self.options.retain(|option| !names.contains(&option[0].split('=').next().unwrap_or_default()));
        self
    }

    /// The options' words.
    pub(crate) fn into_options(self) -> impl Iterator<Item = String> {
        self.options.into_iter().flatten()
    }

    /// The value of the option `name`, if it is handed on.
    pub(crate) fn value_of(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option[0].strip_prefix(name)?.strip_prefix('='))
    }
}

/// The selection with other tests in the place of each: a runner can be told some of what it reports only roughly.
pub(crate) fn retold(selection: &Selection, of: impl Fn(&RerunTarget) -> Vec<RerunTarget>) -> Selection {
    match selection {
        Selection::Exactly(targets) => Selection::Exactly(targets.iter().flat_map(of).collect()),
        other => other.clone(),
    }
}

/// Of files that a caller names, those that are called or placed as tests are; all of them if none is. A directory stands
/// for all of its sources, and such runners would execute whatever they are given.
pub(crate) fn tests_among(files: &[String]) -> Vec<String> {
    let is_test = |file: &&String| {
        let lower = file.to_lowercase();
        let (dirs, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let is_word = |word: &str| ["test", "tests", "spec", "specs"].contains(&word);
        dirs.split('/').any(|dir| is_word(dir.trim_matches('_')))
            || name.split(|char: char| !char.is_ascii_alphanumeric()).any(is_word)
    };
    let tests: Vec<String> = files.iter().filter(is_test).cloned().collect();
    if tests.is_empty() { files.to_vec() } else { tests }
}

/// Files of ours for reporters that are handed errors, beside those of one runner.
pub(crate) fn injected(files: &[(&str, &[u8])]) -> Vec<InjectedFile> {
    let shared: [(&str, &[u8]); 3] = [
        (super::PROGRAM, include_bytes!("program.cjs")),
        ("js/report.cjs", include_bytes!("report.cjs")),
        ("js/thrown.cjs", include_bytes!("thrown.cjs")),
    ];
    shared.iter().chain(files).map(|(path, bytes)| super::file(path, bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_but_what_is_left_out_is_handed_on() {
        let args = ["--import", "tsx", "-r", "x", "--watch", "a.js", "--reporter", "dot", "--bail", "--", "-b.js"];
        let script = Script { args: args.map(str::to_owned).into(), ..Script::default() };
        let handed = Handed::of(&script, &["--import", "-r", "--reporter"], &["--watch", "--reporter"]);
        assert_eq!(handed.clone().into_options().collect::<Vec<_>>(), ["--import=tsx", "-r", "x", "--bail"]);
        assert_eq!((handed.value_of("--import"), handed.value_of("--bail")), (Some("tsx"), None));
        assert_eq!(handed.files, ["a.js", "-b.js"]);
        let note = "the test script gives mocha options that were not passed on: --watch --reporter=dot";
        assert_eq!(handed.note("mocha").unwrap(), note);
        assert_eq!(handed.without(&["--import", "-r"]).into_options().collect::<Vec<_>>(), ["--bail"]);
    }

    #[test]
    fn a_directory_stands_for_its_tests() {
        let files = ["src/a.js", "src/a.test.js", "test/b.mjs", "src/latest.js", "src/__tests__/c.js", "d_spec.ts"];
        let tests = tests_among(&files.map(str::to_owned));
        assert_eq!(tests, ["src/a.test.js", "test/b.mjs", "src/__tests__/c.js", "d_spec.ts"]);
        assert_eq!(tests_among(&["src/a.js".to_owned()]), ["src/a.js"]);
    }
}

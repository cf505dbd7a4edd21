//! How often a runner is started for a selection, and each time with what of the test script: a script may start it several
//! times, and each is a command of its own. Must not know how any runner spells its options.

use super::detect::{is_left_to_test_script, passed_over, scripts, skipped_command_notes};
use super::runner::JsRunner;
use super::test_script::BORP;
use super::{ForwardPolicy, ForwardedOptions, Invocation, TestGroup, borp};
use crate::contract::FileTree;

/// One start of a runner.
#[derive(Debug, Clone)]
pub(crate) struct RunnerStart<'a> {
    /// What of the selection it runs.
    pub(crate) group: TestGroup<'a>,
    /// How the script does it.
    pub(crate) script: Invocation,
    /// The script's arguments. Where the selection names files, they have no positional words.
    pub(crate) options: ForwardedOptions,
}

/// The starts of `runner`, which is called `name` in notes, for these groups: as the test script does, or the first script of
/// these `names`; once without any arguments where none does.
pub(crate) fn runner_starts<'a>(
    tree: &FileTree,
    groups: Vec<TestGroup<'a>>,
    (runner, name): (JsRunner, &str),
    handed: ForwardPolicy,
    names: &[&str],
    notes: &mut Vec<String>,
) -> Vec<RunnerStart<'a>> {
    let mut note = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    if groups.iter().any(|group| group.files.is_empty()) {
        passed_over(tree, runner).into_iter().for_each(&mut note);
    }
    let mut all = Vec::new();
    for group in groups {
        let mut scripts = scripts(tree, &group.project.dir, runner, names);
        if scripts.is_empty() {
            if is_left_to_test_script(tree, &group.project.dir) {
                note(format!("the test script could not be read: {name} was started without its arguments"));
            }
            scripts.push(Invocation::default());
        }
        if group.files.is_empty() {
            skipped_command_notes(tree, &group.project.dir).into_iter().for_each(&mut note);
        }
        let mut starts = Vec::new();
        for script in scripts {
            let handed = if script.program == Some(BORP) { borp::FORWARDED } else { handed };
            let options = ForwardedOptions::from_invocation(&script, handed);
            options.note(name).into_iter().chain(script.note(name)).for_each(&mut note);
            starts.push(RunnerStart { group: group.clone(), script, options });
        }
        all.extend(if group.files.is_empty() { once(starts) } else { with_files(starts) });
    }
    all
}

/// Each start once: those that differ in nothing that is handed on are one.
fn once(starts: Vec<RunnerStart<'_>>) -> Vec<RunnerStart<'_>> {
    let mut all: Vec<RunnerStart<'_>> = Vec::new();
    for start in starts {
        let is_same =
            |other: &RunnerStart<'_>| other.is_like(&start) && other.options.positional == start.options.positional;
        if !all.iter().any(is_same) {
            all.push(start);
        }
    }
    all
}

/// Gives each start the files that its patterns speak of. A file that none speaks of goes to those without patterns, whose
/// settings may, else to all.
fn with_files(mut starts: Vec<RunnerStart<'_>>) -> Vec<RunnerStart<'_>> {
    let files = starts.first().map(|start| start.group.files.clone()).unwrap_or_default();
    let patterns: Vec<Vec<String>> =
        starts.iter_mut().map(|start| std::mem::take(&mut start.options.positional)).collect();
    starts.iter_mut().for_each(|start| start.group.files.clear());
    for file in files {
        let speaks = |patterns: &Vec<String>| patterns.iter().any(|pattern| covers(pattern, &file));
        let any = patterns.iter().any(speaks);
        let bare = patterns.iter().any(Vec::is_empty);
        for (start, patterns) in starts.iter_mut().zip(&patterns) {
            let takes = if any { speaks(patterns) } else { !bare || patterns.is_empty() };
            if takes {
                start.group.files.push(file.clone());
            }
        }
    }
    let mut all: Vec<RunnerStart<'_>> = Vec::new();
    for start in starts.into_iter().filter(|start| !start.group.files.is_empty()) {
        match all.iter_mut().find(|other| other.is_like(&start)) {
            Some(other) => {
                other.group.files.extend(start.group.files);
                other.group.files.sort();
                other.group.files.dedup();
            }
            None => all.push(start),
        }
    }
    all
}

impl RunnerStart<'_> {
    fn is_like(&self, other: &RunnerStart<'_>) -> bool {
        let of = |script: &Invocation| (script.env.clone(), script.node.clone(), script.program);
        let same = |one: &Invocation, other: &Invocation| of(one) == of(other);
        same(&self.script, &other.script) && self.options.are_same_as(&other.options)
    }
}

/// Whether a pattern may speak of a file: it is a directory above it, a part of its path, or a glob from such a directory.
fn covers(pattern: &str, file: &str) -> bool {
    let pattern = pattern.trim_start_matches("./");
    match pattern.find(['*', '?', '[', '{', '(', '!', '\\', '^', '|']) {
        None => file.contains(pattern.trim_end_matches('/')),
        Some(at) => file.starts_with(pattern[..at].rsplit_once('/').map_or("", |(dir, _)| dir)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Project;
    use crate::ecosystems::js::NameFilter;

    const FORWARDED: ForwardPolicy =
        ForwardPolicy::AllExcept { left_out: &["--coverage"], valued: &["-r"], bare: None };

    fn started(script: &str, files: &[&str]) -> (Vec<String>, Vec<String>) {
        let mut tree = FileTree::default();
        tree.add_with_content("package.json", format!("{{\"scripts\":{{\"test\":{script:?}}}}}"));
        let project = Project { dir: String::new(), name: String::new() };
        let files = files.iter().map(|&file| file.to_owned()).collect();
        let group = TestGroup { project: &project, files, names: NameFilter::All, exactly: true };
        let mut notes = Vec::new();
        let starts = runner_starts(&tree, vec![group], (JsRunner::Mocha, "mocha"), FORWARDED, &[], &mut notes);
        let of = |start: RunnerStart<'_>| {
            let words = [start.options.positional.clone(), start.options.into_args().collect(), start.group.files];
            words.concat().join(" ")
        };
        (starts.into_iter().map(of).collect(), notes)
    }

    #[test]
    fn a_runner_is_started_as_often_as_the_script_does() {
        let of = |script: &str, files: &[&str]| started(script, files).0;
        assert_eq!(of("mocha test/unit && mocha -r x test/it", &[]), ["test/unit", "test/it -r x"]);
        assert_eq!(of("mocha test && mocha --coverage test", &[]), ["test"]);
        let two = "mocha test/unit && mocha -r x 'test/it/**/*.js'";
        assert_eq!(of(two, &["test/unit/a.js", "test/it/b.js"]), ["test/unit/a.js", "-r x test/it/b.js"]);
        assert_eq!(of(two, &["src/c.js"]), ["src/c.js", "-r x src/c.js"]);
        assert_eq!(of("mocha && mocha -r x test/it", &["src/c.js"]), ["src/c.js"]);
        assert_eq!(
            of("mocha test/a && mocha test/b", &["test/a/x.js", "test/b/y.js", "z.js"]),
            ["test/a/x.js test/b/y.js z.js"]
        );
    }

    #[test]
    fn what_of_the_script_was_not_read_is_told() {
        let note = "the test script could not be read: mocha was started without its arguments";
        for script in ["make check", "ts-mocha test", "node run.js && ./more.sh"] {
            assert_eq!(started(script, &[]), (vec![String::new()], vec![note.to_owned()]), "{script}");
        }
        for script in ["", "npm test --workspaces", "mocha"] {
            assert_eq!(started(script, &[]).1, [""; 0], "{script}");
        }
        let script = "echo a && npx tsc --noEmit && jest && mocha test && node check.js --all && tsc";
        let mut tree = FileTree::default();
        let scripts = format!("{{\"scripts\":{{\"test\":{script:?},\"pretest\":\"lint .\"}}}}");
        tree.add_with_content("package.json", scripts);
        let told = [
            "checks of the test script were not run: `lint .`, `npx tsc --noEmit`",
            "builds of the test script were not run: `tsc` (run them first where tests need what they make)",
        ];
        assert_eq!(skipped_command_notes(&tree, ""), told);
        let lost = "mocha was started without what of the test script was not read: $X";
        assert_eq!(started("mocha $X test", &[]), (vec!["test".to_owned()], vec![lost.to_owned()]));
    }
}

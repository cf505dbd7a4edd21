//! The rules for JavaScript and TypeScript: by the files that each test file was seen to load, or to depend on, in the runs that measured it.
//!
//! Names in texts only decide where nothing could be seen: of new and removed files, of files that a source reads by itself, and of what
//! the runner imports for itself.

use super::changed_lines::{add_tests_of_functions, add_tests_that_executed};
use super::file_kind::{Ecosystem, FileKind, directory, file_name, is_script};
use super::javascript_files::{JavaScriptFiles, first_stem};
use super::javascript_text::{has_hoisted_call, set_up_word};
use super::picks::Picks;
use super::selection_input::SelectionInput;
use super::snapshot::{ChangedFile, HowChanged};
use super::text::LineMap;
use super::{FullReason, LastResult, Reason};
use crate::bounds::SELECTION_NAMED_FILES_MAX;
use crate::coverage::{LoadedFiles, contains_line};
use std::collections::BTreeSet;

/// Applies the rules to the changed files.
pub(super) fn apply(input: &SelectionInput<'_>, picks: &mut Picks) -> Result<(), FullReason> {
    let loaded = input.index.loaded();
    let files = JavaScriptFiles::new(input.sources, &input.baseline.framework, loaded.runner_files());
    let changed_paths = input.changes.iter().map(|change| change.path.as_str()).collect();
    let rules = JavaScriptRules { input, loaded, files, changed_paths };
    rules.sort_out_gone(picks);
    let is_documentation = |change: &&ChangedFile| kind(&change.path) == FileKind::Documentation;
    let (documentation, changes): (Vec<&ChangedFile>, Vec<&ChangedFile>) =
        input.changes.iter().partition(is_documentation);
    rules.check_documentation(&documentation)?;
    let Some(first) = changes.first() else { return Ok(()) };
    if !rules.loaded.knows_runner() || !input.baseline.tests().keys().any(|test_file| rules.loaded.knows(test_file)) {
        return Err(FullReason::NoLoads);
    }
    if let Some(word) = rules.files.unseen_loading() {
        return Err(FullReason::Convention { word });
    }
    rules.check_runner(&changes)?;
    rules.check_count_of_new(&changes)?;
    if rules.shares_modules() {
        changes.iter().try_for_each(|change| rules.check_set_up(change))?;
    }
    for change in &changes {
        match (kind(&change.path), rules.how(change)) {
            (FileKind::Snapshot, _) => rules.snapshot(picks, change)?,
            (_, HowChanged::Added) => rules.added(picks, change)?,
            (_, HowChanged::Removed) => rules.removed(picks, change)?,
            (_, HowChanged::Edited | HowChanged::WrittenDuringRun) => rules.edited(picks, change)?,
        }
    }
    rules.add_reaching_all(picks, &changes, &first.path);
    Ok(())
}

fn kind(path: &str) -> FileKind {
    FileKind::of(Ecosystem::JavaScript, path)
}

struct JavaScriptRules<'a> {
    input: &'a SelectionInput<'a>,
    loaded: &'a LoadedFiles,
    files: JavaScriptFiles<'a>,
    changed_paths: BTreeSet<&'a str>,
}

impl JavaScriptRules<'_> {
    fn sort_out_gone(&self, picks: &mut Picks) {
        let removed = self.input.changes.iter().filter(|change| change.new.is_none());
        let left: BTreeSet<&str> = removed.map(|change| change.path.as_str()).collect();
        let is_there = |file: &str| self.input.now.file(file).is_some();
        picks.sort_out_gone(self.input.baseline, is_there, |file| left.contains(file));
    }

    // A file that an older state does not have is known if the last run had it.
    fn how(&self, change: &ChangedFile) -> HowChanged {
        let is_known = || self.input.baseline.seen.snapshot.file(&change.path).is_some();
        if change.how == HowChanged::Added && is_known() { HowChanged::Edited } else { change.how }
    }

    fn is_test(&self, path: &str) -> bool {
        self.input.baseline.tests().contains_key(path)
    }

    // The test files that are there and loaded one of `files`. Some have no test that ran.
    fn test_files_loading<'f>(&self, files: impl IntoIterator<Item = &'f str>) -> Vec<&str> {
        let mut loading = self.loaded.test_files_loading(files);
        loading.retain(|test_file| self.is_test(test_file) || self.input.now.file(test_file).is_some());
        loading
    }

    // Errors for documentation that a source may read although it does not name it.
    fn check_documentation(&self, documentation: &[&ChangedFile]) -> Result<(), FullReason> {
        let paths: Vec<&str> = documentation.iter().map(|change| change.path.as_str()).collect();
        let read = self.files.read_by_computed_name(&paths);
        match documentation.iter().find(|change| read == Some(change.path.as_str())) {
            Some(change) => Err(FullReason::Data { file: change.path.clone(), how: change.how.word() }),
            None => Ok(()),
        }
    }

    // Each of these files is searched in all texts.
    fn check_count_of_new(&self, changes: &[&ChangedFile]) -> Result<(), FullReason> {
        let is_new = |change: &&&ChangedFile| matches!(self.how(change), HowChanged::Added | HowChanged::Removed);
        match changes.iter().filter(is_new).count() {
            count if count > SELECTION_NAMED_FILES_MAX => {
                Err(FullReason::TooManyNames { what: "new or removed files" })
            }
            _ => Ok(()),
        }
    }

    // Errors for what the runner loads for itself, for what it may build, and for what is checked without being loaded.
    fn check_runner(&self, changes: &[&ChangedFile]) -> Result<(), FullReason> {
        let runner_files = self.loaded.runner_files().chain(self.files.runner_settings());
        let of_runner = self.files.imported_from(runner_files);
        let checker = self.files.type_checker();
        for change in changes {
            let (file, how) = (change.path.clone(), change.how.word());
            if self.loaded.is_of_runner(&file) || of_runner.contains(file.as_str()) {
                return Err(FullReason::Settings { file, what: "which the runner loads for itself", how });
            }
            // JavaScript has types, too, where a `tsconfig.json` or what it extends has `allowJs`.
            if let Some(checker) = checker.filter(|_| is_script(&file)) {
                return Err(FullReason::TypeChecked { file, how, checker });
            }
        }
        if let Some((file, word)) = self.files.may_build(of_runner.iter().copied()) {
            return Err(FullReason::RunnerBuild { file: file.to_owned(), sign: format!("names {word}") });
        }
        if let Some(file) = of_runner.iter().find(|file| self.is_unread(file)) {
            let sign = "is too large to be read as text".to_owned();
            return Err(FullReason::RunnerBuild { file: (*file).to_owned(), sign });
        }
        Ok(())
    }

    // Whether the file at `path` is a source that is too large to be read as text.
    fn is_unread(&self, path: &str) -> bool {
        is_script(path) && !self.input.sources.contains_key(path) && self.input.now.file(path).is_some()
    }

    // Whether all test files share their modules: the first to need something kept has executed it for the others.
    fn shares_modules(&self) -> bool {
        self.input.baseline.framework == "mocha"
    }

    // Errors for what a source may set up for all test files from now on. It is seen as files are loaded, but only in the next run.
    fn check_set_up(&self, change: &ChangedFile) -> Result<(), FullReason> {
        let Some(text) = self.input.sources.get(&change.path).filter(|_| is_script(&change.path)) else {
            return Ok(());
        };
        let new = change.old.as_ref().zip(change.new.as_ref()).and_then(|(old, new)| LineMap::new_lines(old, new));
        let is_new = |line: u32| new.as_ref().is_none_or(|new| contains_line(new, line));
        let mut lines = (1..).zip(text.lines()).filter(|(number, _)| is_new(*number));
        match lines.find_map(|(_, line)| set_up_word(line)) {
            Some(word) => Err(FullReason::SetsUpOthers { file: change.path.clone(), how: change.how.word(), word }),
            None => Ok(()),
        }
    }

    // Where each test file has its modules for itself, a line which none of its tests executed changes nothing in them.
    fn edited(&self, picks: &mut Picks, change: &ChangedFile) -> Result<(), FullReason> {
        let path = change.path.as_str();
        if self.is_test(path) {
            picks.whole(path, Reason::OwnFile(path.to_owned()));
        }
        let loading = self.test_files_loading([path]);
        if loading.is_empty() && !self.is_test(path) {
            return if self.is_as_in_last_run(change) { Ok(()) } else { Err(not_loaded(change)) };
        }
        if self.shares_modules() {
            add_tests_that_executed(self.input, picks, change);
            loading.iter().for_each(|test_file| picks.whole(test_file, Reason::Loaded(path.to_owned())));
            return Ok(());
        }
        let may_be_hoisted = self.input.sources.get(path).is_none_or(|text| has_hoisted_call(text));
        if may_be_hoisted || !add_tests_of_functions(self.input, picks, change) {
            loading.iter().for_each(|test_file| picks.whole(test_file, Reason::Loaded(path.to_owned())));
        }
        Ok(())
    }

    // Whether the file had this text when the last run of all tests saw it, which loaded it nowhere.
    fn is_as_in_last_run(&self, change: &ChangedFile) -> bool {
        let last = self.input.baseline.seen.snapshot.file(&change.path).filter(|last| last.is_settled);
        change.how != HowChanged::WrittenDuringRun
            && last.zip(change.new.as_ref()).is_some_and(|(last, new)| last.text.content == new.content)
    }

    fn added(&self, picks: &mut Picks, change: &ChangedFile) -> Result<(), FullReason> {
        let (path, how) = (change.path.as_str(), change.how.word());
        if let Some(word) = self.files.unnamed_loading() {
            return Err(FullReason::Convention { word });
        }
        if let Some(other) = self.in_place_of(path) {
            return Err(FullReason::InPlaceOf { file: path.to_owned(), how, other });
        }
        if self.files.is_test_name(path) {
            picks.whole(path, Reason::OwnFile(path.to_owned()));
        } else if let Some(why) = self.files.unusual_test(path, self.input.baseline.tests().keys().map(String::as_str))
        {
            return Err(FullReason::MaybeTest { file: path.to_owned(), how, why });
        }
        self.add_naming(picks, change)
    }

    fn removed(&self, picks: &mut Picks, change: &ChangedFile) -> Result<(), FullReason> {
        let path = change.path.as_str();
        let loading = self.test_files_loading([path]);
        if loading.is_empty() && !self.is_test(path) && !self.files.is_test_name(path) {
            return Err(not_loaded(change));
        }
        // It is named without being loaded where it is replaced in the tests.
        loading.iter().for_each(|test_file| picks.whole(test_file, Reason::Loaded(path.to_owned())));
        self.add_naming(picks, change)
    }

    // What names a file that is there now, or is gone, may find another one now.
    fn add_naming(&self, picks: &mut Picks, change: &ChangedFile) -> Result<(), FullReason> {
        let path = change.path.as_str();
        let naming: Vec<&str> = self.files.naming(path).collect();
        if let Some(settings) = naming.iter().find(|file| self.files.is_settings(file)) {
            let other = format!("what {settings} names");
            return Err(FullReason::InPlaceOf { file: path.to_owned(), how: change.how.word(), other });
        }
        let known = naming.iter().copied().filter(|file| self.is_test(file));
        let loading = self.test_files_loading(naming.iter().copied());
        known.chain(loading).for_each(|test_file| picks.whole(test_file, Reason::Loaded(path.to_owned())));
        Ok(())
    }

    // What a new file may be loaded in place of.
    fn in_place_of(&self, path: &str) -> Option<String> {
        if path.split('/').any(|part| part == "__mocks__") {
            return Some("a module that tests replace".to_owned());
        }
        let (dir, stem) = (directory(path), first_stem(path));
        let own_dir = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let before = &self.input.baseline.seen.snapshot;
        if stem == "index" && before.paths().any(|other| other.starts_with(&own_dir)) {
            return Some("its directory".to_owned());
        }
        let as_directory = format!("{own_dir}{stem}/");
        let is_test = self.files.is_test_name(path);
        let is_alike = |other: &&str| {
            let is_beside = directory(other) == dir && first_stem(other) == stem && *other != path;
            let is_module = is_script(other) && kind(other) == FileKind::Source || other.ends_with(".json");
            is_beside && is_module || other.starts_with(&as_directory)
        };
        before.paths().find(|other| !is_test && is_alike(other)).map(str::to_owned)
    }

    fn snapshot(&self, picks: &mut Picks, change: &ChangedFile) -> Result<(), FullReason> {
        let path = change.path.as_str();
        let dir = directory(path);
        let test = file_name(path).strip_suffix(".snap").filter(|_| file_name(dir) == "__snapshots__").map(|name| {
            let above = directory(dir);
            if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") }
        });
        let is_own = |test: &String| self.is_test(test) || self.changed_paths.contains(test.as_str());
        let Some(test) = test.filter(is_own) else {
            return Err(FullReason::Data { file: path.to_owned(), how: change.how.word() });
        };
        if self.input.now.file(&test).is_some() {
            picks.whole(&test, Reason::OwnFile(path.to_owned()));
        }
        Ok(())
    }

    // Test files of which it is not known what they load, and those that may reach any file by themselves.
    fn add_reaching_all(&self, picks: &mut Picks, changes: &[&ChangedFile], first: &str) {
        let is_new = |change: &&&ChangedFile| matches!(self.how(change), HowChanged::Added | HowChanged::Removed);
        let new = changes.iter().find(is_new);
        let mut reaching: Vec<&str> = self.files.reading().collect();
        reaching.extend(new.into_iter().flat_map(|_| self.files.looking()));
        reaching.extend(self.loaded.names().filter(|file| self.is_unread(file)));
        let starting = self.input.index.tests_with_processes();
        reaching.extend(starting.iter().map(|test| test.package.as_str()));
        let direct: BTreeSet<&str> = reaching.iter().copied().filter(|file| self.is_test(file)).collect();
        let through = self.test_files_loading(reaching.iter().copied());
        for test_file in direct.into_iter().chain(through) {
            picks.whole(test_file, Reason::ReachesAll(first.to_owned()));
        }
        for (test_file, tests) in self.input.baseline.tests() {
            let has_run = tests.values().any(|result| *result != LastResult::Skipped);
            if has_run && !self.loaded.knows(test_file) && !picks.gone.contains(test_file) {
                picks.whole(test_file, Reason::Unmapped);
            }
        }
    }
}

fn not_loaded(change: &ChangedFile) -> FullReason {
    FullReason::NotLoaded { file: change.path.clone(), how: change.how.word() }
}

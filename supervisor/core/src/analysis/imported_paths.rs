//! Paths in the root of a workspace that tell whether a module that was not found is the project's own.

use super::analyzed_failure::{AnalyzedFailure, failures};
use super::classify::{message_lines, output_lines};
use super::pattern_kind::PatternKind;
use super::patterns::{Language, Pattern};
use super::template::match_line;
use crate::report::Report;
use std::collections::BTreeSet;

/// Most modules that are looked for: each costs the caller a look into the workspace, and a run rarely lacks more than some.
const MODULES_MAX: usize = 32;

/// Longest name of a module that is looked for, in bytes: that of a file.
const NAME_BYTES_MAX: usize = 200;

/// Paths in the workspace's root of modules that the failures of `report` did not find, at most [`MODULES_MAX`] modules. Those that
/// exist belong into [`super::WorkspaceFacts::root_files`].
#[must_use]
pub fn imported_paths(report: &Report) -> BTreeSet<String> {
    let language = Language::of_framework(&report.framework);
    if !matches!(language, Language::JavaScript | Language::Python) {
        return BTreeSet::new();
    }
    let dependencies = language.patterns().filter(|pattern| pattern.kind == PatternKind::MissingDependency);
    let rows: Vec<&Pattern> = dependencies.filter(|pattern| pattern.message.contains("{module}")).collect();
    let failed = failures(report);
    let mut names = BTreeSet::new();
    for name in failed.iter().flat_map(|failed| missing_names(failed, language, &rows)) {
        if names.len() == MODULES_MAX {
            break;
        }
        names.insert(name);
    }
    names.into_iter().flat_map(|name| paths(language, name)).collect()
}

/// Paths of a module in the root, of which one has to be there if the module is the project's own.
pub(super) fn paths(language: Language, module: &str) -> Vec<String> {
    let name = first_segment(language, module);
    match language {
        Language::JavaScript => vec![name.to_owned()],
        Language::Python => vec![format!("{name}.py"), format!("{name}/__init__.py")],
        _ => Vec::new(),
    }
}

fn first_segment(language: Language, module: &str) -> &str {
    let separator = if language == Language::Python { '.' } else { '/' };
    module.split(separator).next().unwrap_or_default()
}

// Names of modules that one failure lacks, by the patterns of `rows`. Where a name is none of a file in the root, it is left out.
fn missing_names<'a>(failed: &AnalyzedFailure<'a>, language: Language, rows: &[&Pattern]) -> Vec<&'a str> {
    let lines = message_lines(failed).chain(output_lines(failed));
    let modules = lines.flat_map(|line| {
        let captures = rows.iter().find_map(|pattern| match_line(pattern.message, line)).unwrap_or_default();
        captures.into_iter().find(|(name, _)| *name == "module").map(|(_, module)| module)
    });
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_name = |name: &&str| {
        !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.starts_with(['.', '-']) && name.chars().all(is_part)
    };
    modules.map(|module| first_segment(language, module)).filter(is_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::report::tests::report;
    use crate::test_case::{TestCase, TestId, TestOutcome};

    #[test]
    fn names_the_paths_of_modules_that_were_not_found() {
        for (framework, message, expected) in [
            ("jest", "Cannot find module 'src/utils/price' from 'a.test.js'", vec!["src"]),
            ("vitest", "Failed to resolve import \"shop\" from \"a.test.js\"", vec!["shop"]),
            ("jest", "Cannot find module '../../etc/passwd'", vec![]),
            ("jest", "Cannot find module 'a b/c'", vec![]),
            ("pytest", "ModuleNotFoundError: No module named 'shop'", vec!["shop.py", "shop/__init__.py"]),
            ("pytest", "AssertionError", vec![]),
            ("go", "Cannot find module 'src/x'", vec![]),
        ] {
            let id = TestId { package: "p".to_owned(), name: "a".to_owned() };
            let message = Some(message.to_owned());
            let test = TestCase { message, ..TestCase::new(id, "p/a".to_owned(), TestOutcome::Failed) };
            let mut run = report(Outcome::Failed, vec![test]);
            run.framework = framework.to_owned();
            assert_eq!(imported_paths(&run), expected.into_iter().map(str::to_owned).collect(), "{framework}");
        }
    }
}

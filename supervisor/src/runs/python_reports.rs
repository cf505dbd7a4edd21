//! The files in which a run of Python's tests reports what it found: coverage.py's data and reports, and those that options of pytest
//! name. Each run of such a project writes them anew, and no test reads them: they select none.

use proctor_core::selection::Snapshot;
use std::collections::BTreeMap;

/// What coverage.py measured. Each process has a file of its own until they are combined, with a suffix behind a dot.
const DATA: &str = ".coverage";

/// Reports of coverage.py by their default names.
const REPORTS: [&str; 3] = ["coverage.xml", "coverage.json", "coverage.lcov"];

/// Directory with a report of many files.
const REPORT_DIR: &str = "htmlcov";

/// Files with settings, one of which is in the directory where coverage.py and pytest write.
const SETTINGS: [&str; 6] = ["pyproject.toml", "setup.cfg", "setup.py", "tox.ini", "pytest.ini", ".coveragerc"];

/// Ends of options of pytest and pytest-cov before the path of a report, as in `--cov-report=xml:PATH`.
const OPTIONS: [&str; 5] = ["--junitxml=", "--junit-xml=", "xml:", "json:", "lcov:"];

/// The same before the path of a directory.
const DIR_OPTIONS: [&str; 2] = ["html:", "annotate:"];

/// Whether a run writes the file at `path` as a report, beside settings, and no source of Python names it.
pub(super) fn is_python_report(path: &str, now: &Snapshot, sources: &BTreeMap<String, String>) -> bool {
    if path.ends_with(".py") {
        return false;
    }
    let parts: Vec<&str> = path.split('/').collect();
    (0..parts.len()).any(|depth| {
        let (dirs, relative) = parts.split_at(depth);
        let settings: Vec<String> = SETTINGS.iter().map(|name| [dirs, &[*name]].concat().join("/")).collect();
        settings.iter().any(|file| now.file(file).is_some())
            && (is_default(relative)
                || settings.iter().any(|file| sources.get(file).is_some_and(|text| names(text, relative))))
            && !is_named(relative, sources)
    })
}

/// Whether coverage.py writes a file without being told its name.
fn is_default(relative: &[&str]) -> bool {
    match relative {
        [name] => is_data(name) || REPORTS.contains(name),
        [dir, ..] => *dir == REPORT_DIR,
        [] => false,
    }
}

fn is_data(name: &str) -> bool {
    name == DATA || name.strip_prefix(DATA).is_some_and(|suffix| suffix.starts_with('.'))
}

/// Whether settings name a file, or a directory above it, as one to write.
fn names(settings: &str, relative: &[&str]) -> bool {
    let is_option = |option: &str, path: &str| {
        settings.match_indices(&format!("{option}{path}")).any(|(at, found)| {
            let behind = settings[at + found.len()..].chars().next();
            behind.is_none_or(|character| character.is_whitespace() || "'\"".contains(character))
        })
    };
    OPTIONS.iter().any(|option| is_option(option, &relative.join("/")))
        || (1..relative.len())
            .any(|depth| DIR_OPTIONS.iter().any(|option| is_option(option, &relative[..depth].join("/"))))
}

/// Whether a source of Python names a report, the directory that it is in, or all files that are called like it.
fn is_named(relative: &[&str], sources: &BTreeMap<String, String>) -> bool {
    let mut python = sources.iter().filter(|(source, _)| source.ends_with(".py")).map(|(_, text)| text);
    match relative {
        // Not an attribute or a module of this name.
        [name] if is_data(name) => {
            let named = ["'", "\"", "/"].map(|before| format!("{before}{DATA}"));
            python.any(|text| named.iter().any(|name| text.contains(name)))
        }
        [dirs @ .., name] => {
            let name = dirs.first().unwrap_or(name);
            let pattern = name.rsplit_once('.').map(|(_, extension)| format!("*.{extension}"));
            python.any(|text| text.contains(name) || pattern.as_ref().is_some_and(|pattern| text.contains(pattern)))
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::selection::{ContentHash, FileText, SnapshotFile};

    const OPTIONS: &str =
        "[pytest]\naddopts = --cov-report=xml:out/cov.xml --cov-report html:out/html --junitxml=junit.xml\n";

    #[test]
    fn knows_what_a_run_writes_beside_settings_unless_a_source_names_it() {
        let mut now = Snapshot::default();
        for path in ["pyproject.toml", "sub/tox.ini"] {
            now.add(path, SnapshotFile { metadata: 0, text: FileText::whole(ContentHash([0; 16])), is_settled: true });
        }
        let plain = "import shop.coverage\nshop.coverage.index = 1\n";
        for (path, source, is_known) in [
            (".coverage", plain, true),
            (".coverage.host.pid1.Xx", plain, true),
            (".coveragerc", plain, false),
            ("coverage.xml", plain, true),
            ("sub/coverage.json", plain, true),
            ("tests/coverage.xml", plain, false),
            ("htmlcov/index.html", plain, true),
            ("htmlcov/shop.py", plain, false),
            ("htmlcov", plain, false),
            ("docs/htmlcov/index.html", plain, false),
            ("index.html", plain, false),
            ("sub/junit.xml", plain, true),
            ("sub/out/cov.xml", plain, true),
            ("sub/out/html/a/index.html", plain, true),
            ("sub/out/data.xml", plain, false),
            ("sub/unit.xml", plain, false),
            ("junit.xml", plain, false),
            (".coverage", "open('.coverage')", false),
            (".coverage.host", "root + \"/.coverage\"", false),
            ("coverage.xml", "glob('*.xml')", false),
            ("htmlcov/index.html", "os.listdir('htmlcov')", false),
            ("sub/out/cov.xml", "open(data / 'out')", false),
        ] {
            let sources = [("shop.py", source), ("pyproject.toml", path), ("sub/tox.ini", OPTIONS)];
            let sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
            assert_eq!(is_python_report(path, &now, &sources), is_known, "{path} {source}");
        }
    }
}

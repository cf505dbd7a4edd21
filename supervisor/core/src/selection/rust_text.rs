//! What the text of one Rust source says: whether its tests may read or run others, and what it takes in. Too much is found rather than
//! too little.

/// What a source has whose tests may read any file.
const LISTS_FILES: [&str; 19] = [
    "CARGO_MANIFEST_DIR",
    "read_dir",
    "walkdir",
    "WalkDir",
    "WalkBuilder",
    "ignore::Walk",
    "globwalk",
    "glob(",
    "glob!(",
    "glob::",
    "jwalk",
    "include_dir",
    "RustEmbed",
    "datatest",
    "test_each_file",
    "ui_test",
    "compiletest",
    "trybuild",
    "automod",
];

/// What a source has that builds the names of other sources.
const NAMES_SOURCES: [&str; 3] = ["}.rs\"", "\".rs\"", "\"rs\""];

/// What a source has whose tests may run other programs or load libraries.
const RUNS_PROGRAMS: [&str; 8] =
    ["Command::new", "process::Command", "cargo_bin", "escargot", "duct::", "libloading", "dlopen", "fork()"];

/// What a source has that knows the number of a line.
const KNOWS_LINES: [&str; 6] = ["line!()", "Location::", "location()", "set_hook", "Backtrace", "backtrace"];

/// What takes a file into a source.
const INCLUDES: [&str; 5] = ["#[path", "include!(", "include_str!(", "include_bytes!(", "include_dir!("];

/// Most bytes of what is included that are searched.
const INCLUDED_BYTES_MAX: usize = 400;

fn has_one(text: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| text.contains(part))
}

/// Whether the tests of a source may read any other source or data.
pub(super) fn reads_files(text: &str) -> bool {
    has_one(text, &LISTS_FILES) || has_one(text, &NAMES_SOURCES)
}

/// Whether the tests of a source may run other programs or load libraries.
pub(super) fn runs_programs(text: &str) -> bool {
    has_one(text, &RUNS_PROGRAMS)
}

/// Whether a source may know the number of a line.
pub(super) fn knows_lines(text: &str) -> bool {
    has_one(text, &KNOWS_LINES)
}

/// Whether a source takes in what directories contain, or files by names that it builds.
pub(super) fn lists_files(text: &str, name: &str) -> bool {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    let names_ending = |ending: &str| {
        [format!(".{ending}\""), format!("\"{ending}\""), format!("\\.{ending}")].iter().any(|part| text.contains(part))
    };
    has_one(text, &LISTS_FILES) || ending.is_some_and(names_ending)
}

/// Whether a text takes a source from outside of its directory.
pub(super) fn includes_from_outside(text: &str) -> bool {
    let included = INCLUDES.iter().flat_map(|word| text.match_indices(word)).map(|(at, _)| {
        let rest = text.get(at..).unwrap_or_default().as_bytes();
        String::from_utf8_lossy(&rest[..rest.len().min(INCLUDED_BYTES_MAX)]).into_owned()
    });
    included
        .filter_map(|included| Some(included.split_once(".rs\"")?.0.to_owned()))
        .any(|path| path.contains("..") || path.contains("CARGO_"))
}

/// Names of the modules that a text declares.
pub(super) fn modules(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_inclusive("mod ").skip(1);
    words.filter_map(|rest| rest.trim_start().split(|end: char| !end.is_alphanumeric() && end != '_').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_sources_that_list_files_or_compute_their_names() {
        for (text, expected) in [
            ("for file in read_dir(\"docs\") {}", true),
            ("format!(\"docs/{name}.md\")", true),
            ("path.extension() == Some(\"md\")", true),
            ("harness!(test, \"docs\", r\"^.*\\.md$\")", true),
            ("include_str!(\"a.txt\")", false),
            ("path.extension() == Some(\"rs\")", false),
        ] {
            assert_eq!(lists_files(text, "a.md"), expected, "{text}");
        }
    }

    #[test]
    fn finds_the_modules_that_a_source_declares() {
        let found: Vec<&str> = modules("pub(crate) mod a;\nmod  b_2 {\n}\n#[path = \"x.rs\"]\nmod c;\n").collect();
        assert_eq!(found, ["a", "b_2", "c"]);
    }
}

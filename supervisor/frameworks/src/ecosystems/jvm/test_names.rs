//! Class and method of a test, from its file and its name.

use super::source_index::EXTENSIONS;
use crate::contract::FileTree;
use proctor_core::request::RerunTarget;
use proctor_core::test_case::TestId;
use std::collections::{BTreeMap, BTreeSet};

/// Class and method of `com.example.FooTest#adds`; no method for a whole class.
pub(crate) fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('#').map_or((name, None), |(class, method)| (class, Some(method)))
}

/// The class named after a file below `src/test/LANGUAGE`.
pub(crate) fn class_from_path(file: &str) -> Option<String> {
    let (stem, extension) = file.rsplit_once('.')?;
    let anchored = format!("/{stem}");
    let (_, below) = anchored.split_once("/src/test/")?;
    let (_, class) = below.split_once('/')?;
    EXTENSIONS.contains(&extension).then(|| class.replace('/', "."))
}

/// The targets, with each name of a class that has a file of its own below `src/test` replaced by a test in that file; and the names
/// of the other classes, which may be in any file, without the special characters of patterns.
pub(crate) fn locate_names(tree: &FileTree, targets: &[RerunTarget]) -> (Vec<RerunTarget>, BTreeSet<String>) {
    let (mut located, mut names): (Vec<RerunTarget>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    for target in targets {
        match target {
            RerunTarget::Name(name) => drop(names.insert(name)),
            RerunTarget::Package(_) | RerunTarget::Test(_) => located.push(target.clone()),
        }
    }
    if names.is_empty() {
        return (located, BTreeSet::new());
    }
    let mut files: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (class, file) in tree.files().filter_map(|file| Some((class_from_path(file)?, file))) {
        files.entry(class).or_default().push(file);
    }
    names.retain(|name| {
        let class = split(name).0;
        let own = files.get(class.split('$').next().unwrap_or(class));
        let test = |file: &&str| TestId { package: (*file).to_owned(), name: (*name).to_owned() };
        located.extend(own.into_iter().flatten().map(test).map(RerunTarget::Test));
        own.is_none()
    });
    (located, names.into_iter().map(without_patterns).collect())
}

/// The name with `_` for every character that no name of a class has: `*` and `,` would make it a pattern, or two.
fn without_patterns(name: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || "_$.".contains(character);
    let class_end = split(name).0.len();
    let literal = |(at, character)| if at >= class_end || is_part(character) { character } else { '_' };
    name.char_indices().map(literal).collect()
}

/// The method of `each(String)[2]`, `same[1: b]`, `adds{int}`; `None` for a display name, which selects nothing.
pub(crate) fn method_identifier(name: &str) -> Option<&str> {
    let end = name.find(['(', '[', '{']).unwrap_or(name.len());
    let method = &name[..end];
    let is_part = |character: char| character.is_alphanumeric() || "_$".contains(character);
    // `CaseNamer` puts a blank before the number of a repeated name.
    let method = method.strip_suffix(' ').unwrap_or(method);
    (!method.is_empty() && method.chars().all(is_part)).then_some(method)
}

/// What JUnit and Gradle name after the class when it fails outside of its tests.
const CLASS_FAILURES: [&str; 2] = ["initializationError", "executionError"];

/// `com.example.FooTest#initializationError`; a second one ends in ` (2)`.
pub(crate) fn is_class_failure(name: &str) -> bool {
    let method = name.rsplit('#').next().unwrap_or(name);
    CLASS_FAILURES.contains(&method.split_once(" (").map_or(method, |(method, _)| method))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_method_of_a_name() {
        for (name, method) in [
            ("adds", Some("adds")),
            ("each(String)[2]", Some("each")),
            ("same[1: b]", Some("same")),
            ("each[b](2)", Some("each")),
            ("adds (2)", Some("adds")),
            ("grüßt", Some("grüßt")),
            ("a display name", None),
            ("a,b", None),
            ("", None),
        ] {
            assert_eq!(method_identifier(name), method, "{name}");
        }
    }

    #[test]
    fn reads_the_class_of_a_file() {
        assert_eq!(class_from_path("a/src/test/java/com/x/FooTest.java").unwrap(), "com.x.FooTest");
        assert_eq!(class_from_path("src/test/kotlin/T.kt").unwrap(), "T");
        assert_eq!(class_from_path("src/main/java/com/x/Foo.java"), None);
        assert_eq!(class_from_path("src/test/resources/x.json"), None);
    }

    #[test]
    fn locates_a_name_by_its_class_and_makes_no_pattern_of_any_other() {
        let mut tree = FileTree::default();
        ["a/src/test/java/com/x/FooTest.java", "b/src/test/java/com/x/FooTest.java"]
            .iter()
            .for_each(|file| tree.add(*file));
        let located = |name: &str| {
            let (located, names) = locate_names(&tree, &[RerunTarget::Name(name.to_owned())]);
            let packages = located.iter().filter_map(RerunTarget::package).map(|file| file[..1].to_owned());
            packages.chain(names).collect::<Vec<_>>()
        };
        assert_eq!(located("com.x.FooTest#adds"), ["a", "b"]);
        assert_eq!(located("com.x.FooTest$Inner#adds"), ["a", "b"]);
        assert_eq!(located("com.x.BarTest#adds(int, int)[1]"), ["com.x.BarTest#adds(int, int)[1]"]);
        assert_eq!(located("*,com.x.Foo*#adds"), ["__com.x.Foo_#adds"]);
        assert_eq!(located("!größe?"), ["_größe_"]);
    }
}

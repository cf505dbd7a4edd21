//! Class and method of a test, from its file and its name.

use super::source_index::EXTENSIONS;

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
}

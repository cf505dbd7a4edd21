//! What a test's file and its name say about the class and the method to select. Must not know how a runner is told.

use super::source_index::EXTENSIONS;

/// Class and method of `com.example.FooTest#adds`; no method for a class as a whole.
pub(crate) fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('#').map_or((name, None), |(class, method)| (class, Some(method)))
}

/// The class that a file below `src/test/LANGUAGE` is named after.
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
    // What kept two of one name apart is ours.
    let method = method.strip_suffix(' ').unwrap_or(method);
    (!method.is_empty() && method.chars().all(is_part)).then_some(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_name_the_method_is_selected() {
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
    fn a_class_is_named_by_its_file() {
        assert_eq!(class_from_path("a/src/test/java/com/x/FooTest.java").unwrap(), "com.x.FooTest");
        assert_eq!(class_from_path("src/test/kotlin/T.kt").unwrap(), "T");
        assert_eq!(class_from_path("src/main/java/com/x/Foo.java"), None);
        assert_eq!(class_from_path("src/test/resources/x.json"), None);
    }
}

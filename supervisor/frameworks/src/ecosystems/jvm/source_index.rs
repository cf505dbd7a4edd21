//! Finds the source file of a class and of a stack frame.

use crate::contract::FileTree;
use crate::contract::InjectedFile;
use crate::parsing::workspace_paths::{is_within, leaves_workspace};
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Extensions of the languages whose tests run on a JVM.
pub(crate) const EXTENSIONS: &[&str] = &["java", "kt", "groovy", "scala"];

/// Most source files that are indexed.
const SOURCES_MAX: usize = 65_536;

/// `at [loader/module/]package.Class.method(File.java:12)`.
static FRAME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?m)^\s*at (?:[^\s()]*/)?([\w.$]+)\.[^\s.()]+\(([^\s():/]+):(\d+)\)").ok());

/// The source files of a workspace.
#[derive(Debug, Default)]
pub(crate) struct SourceIndex {
    /// Paths by file name.
    by_name: BTreeMap<String, Vec<String>>,
}

impl SourceIndex {
    /// The index of a tree as an injected file of the plan, since a parser gets the plan and not the tree.
    pub(crate) fn to_file(tree: &FileTree, path: &str) -> InjectedFile {
        let own = tree.files().filter(|file| is_source(file)).take(SOURCES_MAX);
        InjectedFile {
            path: path.to_owned(),
            bytes: own.collect::<Vec<_>>().join("\n").into_bytes(),
            executable: false,
        }
    }

    /// Reads the index from the plan's files.
    pub(crate) fn from_file(files: &[InjectedFile], path: &str) -> SourceIndex {
        let file = files.iter().find(|file| file.path == path);
        let text = file.map(|file| String::from_utf8_lossy(&file.bytes)).unwrap_or_default();
        SourceIndex::from_paths(text.lines())
    }

    /// The index of paths relative to the workspace. A path that leaves it is left out.
    pub(crate) fn from_paths<'a>(paths: impl Iterator<Item = &'a str>) -> SourceIndex {
        let mut sources = SourceIndex::default();
        for source in paths.filter(|path| !leaves_workspace(path)).take(SOURCES_MAX) {
            let name = source.rsplit('/').next().unwrap_or(source);
            sources.by_name.entry(name.to_owned()).or_default().push(source.to_owned());
        }
        sources
    }

    /// The file of `class` (`com.example.FooTest$Inner`), preferably within the directory `module`.
    pub(crate) fn class_file(&self, module: &str, class: &str) -> Option<&str> {
        let (package, name) = split(class);
        EXTENSIONS.iter().find_map(|extension| self.find(module, package, &format!("{name}.{extension}")))
    }

    /// The file called `name` of a class in a stack frame.
    pub(crate) fn frame_file(&self, class: &str, name: &str) -> Option<&str> {
        self.find("", split(class).0, name)
    }

    /// File and line of the innermost stack frame within the workspace.
    pub(crate) fn stack_location(&self, module: &str, stack: &str) -> Option<(&str, u32)> {
        FRAME.as_ref()?.captures_iter(stack).find_map(|frame| {
            let (package, _) = split(frame.get(1)?.as_str());
            let file = self.find(module, package, frame.get(2)?.as_str())?;
            Some((file, frame.get(3)?.as_str().parse().ok().filter(|line| *line > 0)?))
        })
    }

    /// In Java a file's directory ends in its package; Kotlin lets a project leave out the common beginning.
    fn find(&self, module: &str, package: &str, name: &str) -> Option<&str> {
        let package = package.replace('.', "/");
        let fits = |file: &&String| {
            let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
            dir == package
                || dir.strip_suffix(package.as_str()).is_some_and(|head| package.is_empty() || head.ends_with('/'))
        };
        let files = self.by_name.get(name)?.iter().filter(fits);
        files.max_by_key(|file| (is_within(file, module), file.contains("/test/"))).map(String::as_str)
    }
}

fn is_source(file: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension))
}

/// Package and outermost name of a class.
fn split(class: &str) -> (&str, &str) {
    let (package, name) = class.rsplit_once('.').unwrap_or(("", class));
    (package, name.split('$').next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> SourceIndex {
        let mut tree = FileTree::default();
        [
            "a/src/main/java/com/x/Foo.java",
            "a/src/test/java/com/x/FooTest.java",
            "b/src/test/java/com/x/FooTest.java",
            "b/src/test/kotlin/com/x/BarTest.kt",
            "Top.java",
            "pom.xml",
        ]
        .iter()
        .for_each(|file| tree.add(*file));
        SourceIndex::from_file(&[SourceIndex::to_file(&tree, "sources")], "sources")
    }

    #[test]
    fn finds_a_class_in_its_own_module() {
        let sources = sources();
        assert_eq!(sources.class_file("b", "com.x.FooTest").unwrap(), "b/src/test/java/com/x/FooTest.java");
        assert_eq!(sources.class_file("a", "com.x.FooTest$In$Deep").unwrap(), "a/src/test/java/com/x/FooTest.java");
        assert_eq!(sources.class_file("a", "com.x.BarTest").unwrap(), "b/src/test/kotlin/com/x/BarTest.kt");
        assert_eq!(sources.class_file("", "Top").unwrap(), "Top.java");
        assert_eq!(sources.class_file("a", "m.x.FooTest"), None);
        assert_eq!(sources.class_file("a", "com.x.Gone"), None);
    }

    #[test]
    fn finds_the_innermost_frame_within_the_workspace() {
        let stack = "org.opentest4j.AssertionFailedError: at com.x.Foo.no(Foo.java:1)\n\
                     \tat org.junit.jupiter.api.Assertions.fail(Assertions.java:38)\n\
                     \tat java.base/java.util.ArrayList.forEach(ArrayList.java:1511)\n\
                     \tat app//com.x.Foo$Part.lambda$run$0(Foo.java:14)\n\
                     \tat com.x.FooTest.runs(FooTest.java:7)\n";
        assert_eq!(sources().stack_location("a", stack), Some(("a/src/main/java/com/x/Foo.java", 14)));
        assert_eq!(sources().stack_location("a", "\tat com.y.Foo.run(Foo.java:3)"), None);
        assert_eq!(sources().stack_location("a", "\tat com.x.Foo.run(Native Method)"), None);
    }
}

//! Which tests of a Go package may run or read any source of the workspace, by the declarations of its test files: those with a mark, as
//! `exec` of `os/exec`, and those that name a declaration which may.

use super::declarations::{Declaration, declarations};
use super::packages::{FINDS_FILES, REACHES_ALL, REACHES_ALL_WORDS, quoted};
use super::tokens::GoTokenKind;
use std::collections::{BTreeSet, HashSet};

/// The tests of a package that may reach all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReachingTests {
    All,
    /// Top-level tests by name.
    Some(BTreeSet<String>),
}

impl Default for ReachingTests {
    fn default() -> ReachingTests {
        ReachingTests::Some(BTreeSet::new())
    }
}

/// The tests of a package with these test files.
pub(super) fn reaching_tests<'t>(files: impl Iterator<Item = &'t str>) -> ReachingTests {
    let mut declarations: Vec<TestDeclaration<'_>> = Vec::new();
    for text in files {
        let Some((found, marks)) = declarations_and_marks(text) else { return ReachingTests::All };
        declarations.extend(found.into_iter().map(|mut declaration| {
            declaration.reaches = declaration.is_marked(&marks);
            declaration
        }));
    }
    let variables: HashSet<&str> =
        declarations.iter().filter(|one| one.keyword == "var").flat_map(|one| one.names.iter().copied()).collect();
    loop {
        // What a test that reaches all leaves in a variable, another one may use.
        let reaching = declarations.iter().filter(|one| one.reaches);
        let names = reaching.flat_map(|one| one.names.iter().chain(one.words.intersection(&variables))).copied();
        let names: HashSet<&str> = names.filter(|name| *name != "_").collect();
        let mut has_more = false;
        for one in declarations.iter_mut().filter(|one| !one.reaches && !one.words.is_disjoint(&names)) {
            (one.reaches, has_more) = (true, true);
        }
        if !has_more {
            break;
        }
    }
    let mut reaching = declarations.iter().filter(|one| one.reaches);
    // Executed for all tests: before them, or around.
    let is_of_all = |one: &TestDeclaration<'_>| one.keyword == "var" || matches!(one.names[..], ["init" | "TestMain"]);
    if reaching.clone().any(is_of_all) {
        return ReachingTests::All;
    }
    let is_test = |name: &&str| ["Test", "Example", "Fuzz"].iter().any(|start| name.starts_with(start));
    let tests = reaching.by_ref().filter(|one| one.keyword == "func").flat_map(|one| one.names.iter().copied());
    ReachingTests::Some(tests.filter(is_test).map(str::to_owned).collect())
}

/// A declaration of a test file.
struct TestDeclaration<'t> {
    keyword: &'t str,
    /// What it declares; of a method also the words of its receiver.
    names: Vec<&'t str>,
    words: HashSet<&'t str>,
    text: &'t str,
    reaches: bool,
}

impl<'t> TestDeclaration<'t> {
    fn new(declaration: &Declaration<'t>) -> TestDeclaration<'t> {
        let (keyword, names) = (declaration.keyword(), declaration.names());
        let words = declaration.tokens.iter().filter(|token| token.kind == GoTokenKind::Word).map(|token| token.text);
        // A variable reaches what its value does.
        let words = words.filter(|word| keyword != "var" || !names.contains(word)).collect();
        TestDeclaration { keyword, names, words, text: declaration.text, reaches: false }
    }

    fn is_marked(&self, imported: &HashSet<&str>) -> bool {
        let has_word = REACHES_ALL_WORDS.iter().chain(&FINDS_FILES).any(|word| self.text.contains(word));
        has_word || !self.words.is_disjoint(imported) || quoted(self.text).any(|piece| piece.ends_with(".go"))
    }
}

/// The declarations of a file, and the names by which it knows imported packages that reach all. `None` if that cannot be told.
fn declarations_and_marks(text: &str) -> Option<(Vec<TestDeclaration<'_>>, HashSet<&str>)> {
    let (mut found, mut marks) = (Vec::new(), HashSet::new());
    for declaration in declarations(text)? {
        match declaration.keyword() {
            "package" => {}
            "import" => add_marks(&declaration, &mut marks)?,
            _ => found.push(TestDeclaration::new(&declaration)),
        }
    }
    Some((found, marks))
}

/// Adds the names of imported packages that reach all; `None` for one whose names are in the file itself.
fn add_marks<'t>(declaration: &Declaration<'t>, marks: &mut HashSet<&'t str>) -> Option<()> {
    for import in declaration.imports().into_iter().filter(|import| REACHES_ALL.contains(&import.path)) {
        match import.alias {
            None => _ = marks.insert(import.path.rsplit('/').next().unwrap_or(import.path)),
            Some("_") => {}
            Some(".") => return None,
            Some(alias) => _ = marks.insert(alias),
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[&str]) -> String {
        match reaching_tests(files.iter().copied()) {
            ReachingTests::All => "all".to_owned(),
            ReachingTests::Some(tests) => tests.into_iter().collect::<Vec<_>>().join(" "),
        }
    }

    #[test]
    fn tests_reach_all_by_what_they_name() {
        const TWO: &str = "func TestA(t *testing.T) { run() }\nfunc TestB(t *testing.T) {\n\tt.Log()\n}\n";
        for (text, expected) in [
            ("func TestA() { filepath.Glob(a) }\nfunc TestB() {}", "TestA"),
            ("import \"os/exec\"\nfunc TestA() { exec.Command(a) }\nfunc TestB() {}", "TestA"),
            (
                "import (\n\tx \"os/exec\"\n\t`go/build`\n)\nfunc TestA() { x.Command(a) }\nfunc TestB() { build.Import() }\nfunc TestC() { exec() }",
                "TestA TestB",
            ),
            ("import . \"os/exec\"\nfunc TestA() { Command(a) }", "all"),
            ("func TestA() { read(\"a.go\") }\nfunc TestB() { read(\"a.txt\") }", "TestA"),
            ("func run() { os.StartProcess() }", "TestA"),
            ("func run() { walk() }\nfunc walk() {\n\tfilepath.Walk(a)\n}", "TestA"),
            ("type w struct{}\nfunc (w *w) walk() { os.ReadDir(a) }\nfunc run() { w{} }", "TestA"),
            ("const run = \"a.go\"", "TestA"),
            ("const (\n\tb, run = 1, \"a.go\"\n\tLog = 2\n)", "TestA TestB"),
            ("type run struct {\n\tfile string `a.go`\n}", "TestA"),
            ("var t = run()\nfunc run() { os.ReadDir(a) }", "all"),
            ("func init() { os.ReadDir(a) }", "all"),
            ("func TestMain(m *testing.M) { run() }\nfunc run() { os.ReadDir(a) }", "all"),
            ("var kept string\nfunc run() { kept = os.ReadDir(a) }\nfunc TestC() { kept }", "TestA TestC"),
            ("var a = func() { os.ReadDir(a) }", "all"),
            ("var _ = a\nfunc run() { _ = os.ReadDir(a) }\nfunc TestC() { _ = a }", "TestA"),
            ("#", "all"),
            (
                "func ExampleA() { os.ReadDir(a) }\nfunc FuzzA() { os.ReadDir(a) }\nfunc help() { os.ReadDir(a) }",
                "ExampleA FuzzA",
            ),
            ("// os.ReadDir(a)\nfunc TestC() {}", ""),
        ] {
            assert_eq!(found(&[&format!("package a\n\n{text}\n"), TWO]), expected, "{text}");
        }
    }
}

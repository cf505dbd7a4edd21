//! Tests selected by name: which package a name belongs to, and the command lines that run exactly these tests.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::request::{BrowserOptions, RerunTarget, RunKind, Selection};
use proctor_core::test_name::TestName;
use proctor_frameworks::{FileTree, PlanRequest, detection};
use support::want::want;

struct Row {
    framework: &'static str,
    files: &'static [(&'static str, &'static str)],
    name: &'static str,
    /// The package and the name, or the name alone where the package is not known.
    target: &'static str,
    /// A part of the command line, or of an injected file.
    command: &'static str,
}

const GO: &[(&str, &str)] = &[("go.mod", "module m.com/x\n"), ("p/p_test.go", ""), ("p_test.go", "")];
const PYTHON: &[(&str, &str)] = &[("pytest.ini", "[pytest]\n"), ("sub/test_x.py", "")];
const UNITTEST: &[(&str, &str)] = &[("sub/test_x.py", "import unittest\n")];
const JEST: &[(&str, &str)] =
    &[("package.json", r#"{"scripts":{"test":"jest"}}"#), ("src/x.js", ""), ("test/cart.test.js", "")];
const MOCHA: &[(&str, &str)] = &[("package.json", r#"{"scripts":{"test":"mocha"}}"#), ("test/cart.js", "")];
const NODE: &[(&str, &str)] = &[("package.json", r#"{"scripts":{"test":"node --test"}}"#), ("test/cart.js", "")];
const VITEST: &[(&str, &str)] = &[("package.json", r#"{"scripts":{"test":"vitest run"}}"#), ("test/cart.js", "")];
const PLAYWRIGHT: &[(&str, &str)] = &[
    ("package.json", r#"{"scripts":{"test":"playwright test"}}"#),
    ("playwright.config.ts", ""),
    ("test/cart.spec.js", ""),
];
const CYPRESS: &[(&str, &str)] = &[
    ("package.json", r#"{"scripts":{"test":"cypress run"}}"#),
    ("cypress.config.js", "module.exports = {}\n"),
    ("cypress/e2e/a.cy.js", ""),
];
const CARGO: &[(&str, &str)] = &[("Cargo.toml", "[package]\nname = \"shop\"\n"), ("src/lib.rs", "")];
const CTEST: &[(&str, &str)] = &[("sub/CMakeLists.txt", "project(p)\nenable_testing()\n")];
const MAVEN: &[(&str, &str)] = &[
    ("pom.xml", "<project><modules><module>core</module></modules></project>"),
    ("core/pom.xml", "<project/>"),
    ("core/src/test/java/com/x/CartTest.java", ""),
];
const GRADLE: &[(&str, &str)] = &[
    ("settings.gradle", "include 'core'\n"),
    ("build.gradle", ""),
    ("core/build.gradle", ""),
    ("core/src/test/java/com/x/CartTest.java", ""),
];
const MAESTRO: &[(&str, &str)] = &[
    (".maestro/a.yaml", "appId: x\nname: Fill the (cart)\n---\n- launchApp\n"),
    (".maestro/b.yaml", "appId: x\n---\n"),
];
const RSPEC: &[(&str, &str)] = &[(".rspec", ""), ("spec/cart_spec.rb", "")];
const PHPUNIT: &[(&str, &str)] = &[("phpunit.xml", "<phpunit/>\n"), ("tests/unit/CartTest.php", "")];
const SCRIPT: &[(&str, &str)] = &[("package.json", r#"{"scripts":{"test":"tape a.js && tape b.js"}}"#)];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { framework: "go", files: GO, name: "m.com/x/p/TestA/a (b) [c]/TestB", target: "m.com/x/p TestA/a_(b)_[c]/TestB", command: r"-run=^TestA$/^a_\(b\)_\[c\]$/^TestB$ ./p" },
    Row { framework: "go", files: GO, name: "m.com/x/TestA", target: "m.com/x TestA", command: "-run=^TestA$ ." },
    Row { framework: "go", files: GO, name: "TestA/x", target: "TestA/x", command: "-run=^TestA$/^x$ ./..." },
    Row { framework: "go", files: GO, name: "elsewhere/p/TestA", target: "elsewhere/p/TestA", command: "-run=^elsewhere$/^p$/^TestA$ ./..." },
    Row { framework: "go", files: GO, name: "m.com/x/p", target: "m.com/x/p *", command: "-timeout=0 ./p" },
    Row { framework: "pytest", files: PYTHON, name: "sub/test_x.py::T::test_s[a::b c]", target: "sub/test_x.py T::test_s[a::b c]", command: r#"{"sub/test_x.py":["T::test_s[a::b c]"]}"# },
    Row { framework: "pytest", files: PYTHON, name: "sub/test_x.py/test_a", target: "sub/test_x.py test_a", command: r#"{"sub/test_x.py":["test_a"]}"# },
    Row { framework: "pytest", files: PYTHON, name: "test_s[a b]", target: "test_s[a b]", command: r#"{"*":["test_s[a b]"]}"# },
    Row { framework: "pytest", files: PYTHON, name: "sub/test_x.py", target: "sub/test_x.py *", command: "./sub/test_x.py" },
    Row { framework: "pytest", files: PYTHON, name: "sub/gone.py::test_a", target: "sub/gone.py::test_a", command: r#"{"*":["sub/gone.py::test_a"]}"# },
    Row { framework: "unittest", files: UNITTEST, name: "sub.test_x.Money.test_all", target: "sub.test_x.Money.test_all", command: r#"{"*":["sub.test_x.Money.test_all"]}"# },
    Row { framework: "jest", files: JEST, name: "test/cart.test.js > cart > adds (a+b)", target: "test/cart.test.js cart > adds (a+b)", command: r"./test/cart.test.js --runTestsByPath" },
    Row { framework: "jest", files: JEST, name: "cart > adds (a+b)", target: "cart > adds (a+b)", command: r"--testNamePattern=^(?:cart (?:> )?adds \(a\+b\))$" },
    Row { framework: "jest", files: JEST, name: "src/x.js adds", target: "src/x.js adds", command: r"--testNamePattern=^(?:src\/x\.js adds)$" },
    Row { framework: "mocha", files: MOCHA, name: "ends in a blank ", target: "ends in a blank ", command: "--grep=^(?:ends in a blank )$" },
    Row { framework: "node", files: NODE, name: " cart > ends in a blank ", target: " cart > ends in a blank ", command: "--test-name-pattern=^(?:cart (?:> )?ends in a blank)$" },
    Row { framework: "node", files: NODE, name: "parent/child", target: "parent/child", command: r"--test-name-pattern=^(?:parent|parent\/child)$" },
    Row { framework: "vitest", files: VITEST, name: "test/cart.js > a|b", target: "test/cart.js a|b", command: r#""files":["test/cart.js"],"related":false,"expression":"^(?:a\\|b)$""# },
    Row { framework: "playwright", files: PLAYWRIGHT, name: "test/cart.spec.js > [web] > a > b", target: "test/cart.spec.js [web] > a > b", command: r"--grep=/^(?: ?web [^\n]*\.[cm]?[jt]sx? a(?: @\S+)* (?:> )?b(?: @\S+)*)$/" },
    Row { framework: "cypress", files: CYPRESS, name: "cypress/e2e/a.cy.js > cart > adds", target: "cypress/e2e/a.cy.js cart > adds", command: "--spec=cypress/e2e/a.cy.js" },
    Row { framework: "cargo", files: CARGO, name: "shop::bin/shop$tests::adds", target: "shop::bin/shop tests::adds", command: "--package=shop --bin=shop -- --exact tests::adds" },
    Row { framework: "cargo", files: CARGO, name: "tests::adds", target: "tests::adds", command: "-- --exact tests::adds" },
    Row { framework: "cargo", files: CARGO, name: "src/lib.rs - add (line 3)", target: "src/lib.rs - add (line 3)", command: "--doc -- add" },
    Row { framework: "nextest", files: CARGO, name: "shop$tests::adds", target: "shop tests::adds", command: "--package=shop --lib -- --exact tests::adds" },
    Row { framework: "maven", files: MAVEN, name: "com.x.CartTest#adds(int)[1]", target: "com.x.CartTest#adds(int)[1]", command: "-Dtest=com.x.CartTest#adds+adds[*]" },
    Row { framework: "maven", files: MAVEN, name: "core/src/test/java/com/x/CartTest.java/com.x.CartTest#adds", target: "core/src/test/java/com/x/CartTest.java com.x.CartTest#adds", command: "-Dtest=com.x.CartTest#adds+adds[*]" },
    Row { framework: "maven", files: MAVEN, name: "com.x.Other#adds", target: "com.x.Other#adds", command: "-Dtest=com.x.Other#adds+adds[*]" },
    Row { framework: "gradle", files: GRADLE, name: "com.x.CartTest#adds", target: "com.x.CartTest#adds", command: r#"{"dir":"core","patterns":["com.x.CartTest.adds","com.x.CartTest.adds[*"]}"# },
    Row { framework: "gradle", files: GRADLE, name: "com.x.Other#adds", target: "com.x.Other#adds", command: "com.x.Other.adds" },
    Row { framework: "maestro", files: MAESTRO, name: ".maestro/a.yaml > Fill the (cart)", target: ".maestro/a.yaml Fill the (cart)", command: " .maestro/a.yaml" },
    Row { framework: "maestro", files: MAESTRO, name: "Fill the (cart)", target: "Fill the (cart)", command: " .maestro/a.yaml" },
    Row { framework: "maestro", files: MAESTRO, name: "Fill the", target: "Fill the", command: "flows.txt" },
    Row { framework: "rspec", files: RSPEC, name: "spec/cart_spec.rb > Cart > adds", target: "spec/cart_spec.rb Cart > adds", command: "spec/cart_spec.rb\tCart > adds\n" },
    Row { framework: "rspec", files: RSPEC, name: "Cart > adds", target: "Cart > adds", command: "\n\tCart > adds\n" },
    Row { framework: "phpunit", files: PHPUNIT, name: "tests/unit/CartTest.php::CartTest::testAdds", target: "tests/unit/CartTest.php CartTest::testAdds", command: "tests/unit/CartTest.php\tCartTest::testAdds\n" },
    Row { framework: "phpunit", files: PHPUNIT, name: r#"Shop\CartTest::testAdds with data set "a b""#, target: r#"Shop\CartTest::testAdds with data set "a b""#, command: "tests/unit/CartTest.php\tShop\\CartTest::testAdds with data set \"a b\"\n" },
    Row { framework: "script", files: SCRIPT, name: "adds", target: "adds", command: "tape b.js" },
];

fn choose(files: &[(&str, &str)], framework: Option<&str>, names: &[&str]) -> (FileTree, String, Selection) {
    let mut tree = FileTree::default();
    files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let named = Selection::Named(TestName::parse_all(&names).unwrap());
    let chosen = match detection::choose(&tree, framework, &named) {
        Ok(chosen) => chosen,
        Err(error) => return (tree, error.to_string(), named),
    };
    let selection = chosen.resolve(&tree, &named);
    let plan = chosen.plan(RunKind::Tests, &tree, &want(&selection), BrowserOptions::default());
    let rendered = match plan {
        Ok((plan, _)) => {
            let steps = plan.steps.iter().map(|step| format!("{} {:?}\n", step.args.join(" "), step.env.values()));
            // Not the reporters.
            let data = plan.files.iter().filter(|file| file.bytes.len() < 1_000);
            let injected = data.map(|file| format!("\n{}", String::from_utf8_lossy(&file.bytes)));
            steps.chain(injected).chain(plan.notes.iter().cloned()).collect()
        }
        Err(error) => error.to_string(),
    };
    (tree, rendered.replace(r#"\""#, "\"").replace(r"\\", r"\"), selection)
}

fn rendered(selection: &Selection) -> String {
    let targets = match selection {
        Selection::Exactly(targets) => targets.as_slice(),
        _ => &[],
    };
    let targets: Vec<String> = targets
        .iter()
        .map(|target| match target {
            RerunTarget::Package(package) => format!("{package} *"),
            RerunTarget::Test(test) => format!("{} {}", test.package, test.name),
            RerunTarget::Name(name) => name.clone(),
        })
        .collect();
    targets.join("; ")
}

#[test]
fn a_name_becomes_the_test_of_its_package_or_of_any() {
    for Row { framework, files, name, target, command } in ROWS {
        let (_, plan, selection) = choose(files, Some(framework), &[name]);
        assert_eq!(rendered(&selection), *target, "{framework}: {name}");
        assert!(plan.contains(command), "{framework}: {name}: {command:?} is not in\n{plan}");
    }
}

/// The package of a name decides among frameworks, as a file does; a name alone does not.
#[test]
fn names_with_packages_choose_their_frameworks() {
    let both = [GO, &PYTHON[1..], &[("pytest.ini", "[pytest]\n")]].concat();
    let (_, _, selection) = choose(&both, None, &["sub/test_x.py::test_a"]);
    assert_eq!(rendered(&selection), "sub/test_x.py test_a");
    let (_, _, selection) = choose(&both, None, &["sub/test_x.py::test_a", "m.com/x/p/TestA"]);
    assert_eq!(rendered(&selection), "m.com/x/p TestA; sub/test_x.py test_a");
    let (_, error, _) = choose(&both, None, &["sub/test_x.py::test_a", "TestA"]);
    assert_eq!(error, "polyglot workspace: 2 project types detected (go, pytest) — pass `framework` to pick one");
    let (_, plan, selection) = choose(&both, Some("all"), &["TestA"]);
    assert_eq!(rendered(&selection), "TestA");
    assert!(plan.contains("-run=^TestA$ ./...") && plan.contains(r#"{"*":["TestA"]}"#), "{plan}");
}

/// A name alone runs where a run of all tests would; one with its package also in a project below the root.
#[test]
fn a_name_alone_stays_in_the_project_of_the_root() {
    let files = [MOCHA, &[("examples/a/package.json", MOCHA[0].1), ("examples/a/test.js", "")]].concat();
    let (_, plan, _) = choose(&files, None, &["adds"]);
    assert_eq!(plan.matches("--grep=").count(), 1, "{plan}");
    assert!(plan.contains("the project of the root was run, and not those below it: examples/a (mocha)"), "{plan}");
    let (_, plan, selection) = choose(&files, None, &["examples/a/test.js > adds"]);
    assert_eq!(rendered(&selection), "examples/a/test.js adds");
    assert!(plan.contains("--grep=^(?:adds)$ ./test.js"), "{plan}");
}

#[test]
fn ctest_takes_the_directory_of_a_project_for_a_package() {
    let (_, _, selection) = choose(CTEST, Some("ctest"), &["sub::a (b)", "gone::a", "x#2"]);
    assert_eq!(rendered(&selection), "gone::a; sub a (b); x#2");
}

/// Everything that an adapter plans for names is within the bounds of a command line.
#[test]
fn a_long_list_of_names_is_split() {
    let names: Vec<String> = (0..1_000).map(|number| format!("Test{number}/{}", "x".repeat(100))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (framework, files) in [("go", GO), ("jest", JEST), ("cargo", CARGO), ("maven", MAVEN), ("rspec", RSPEC)] {
        let mut tree = FileTree::default();
        files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
        let owned: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let named = Selection::Named(TestName::parse_all(&owned).unwrap());
        let chosen = detection::choose(&tree, Some(framework), &named).unwrap();
        let selection = chosen.resolve(&tree, &named);
        let request = PlanRequest { ..want(&selection) };
        let (plan, _) = chosen.plan(RunKind::Tests, &tree, &request, BrowserOptions::default()).unwrap();
        let longest = plan.steps.iter().flat_map(|step| &step.args).map(String::len).max().unwrap();
        assert!(longest < 128 * 1024, "{framework}: {longest}");
    }
}

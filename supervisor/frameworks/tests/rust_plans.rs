//! Command lines of cargo and nextest for every kind of selection, and the injected runner script.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod support {
    pub(crate) mod want;
}

use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use proctor_frameworks::detection::choose;
use proctor_frameworks::runners::rust::{Cargo, Nextest};
use proctor_frameworks::{FileTree, Framework, Plan, PlanError, PlanRequest};

fn tree() -> FileTree {
    let mut tree = FileTree::default();
    for (path, content) in [
        ("Cargo.toml", "[workspace]\nmembers = ['a', 'b']\n"),
        ("a/Cargo.toml", "[package]\nname = 'a'\n[[test]]\nname = 'it-plain'\nharness = false\n"),
        ("b/Cargo.toml", "[package]\nname = 'b-b'\n"),
        (".cargo/config.toml", "[target.'cfg(unix)']\nrunner = \"tools/it's\"\n"),
    ] {
        tree.add_with_content(path, content);
    }
    for path in ["a/src/lib.rs", "a/src/bin/tool.rs", "a/tests/it.rs", "a/tests/common/mod.rs", "a/tests/big/main.rs"] {
        tree.add(path);
    }
    tree.add("b/src/lib.rs");
    tree
}

fn want(selection: &Selection, parallel: Option<u32>) -> PlanRequest<'_> {
    let plain = support::want::want(selection);
    PlanRequest { is_measured: false, parallel, workspace: "/ws", scratch: "/tmp/proctor", ..plain }
}

fn plan(framework: &dyn Framework, selection: &Selection) -> Result<Plan, PlanError> {
    framework.plan(&framework.detect(&tree()), &tree(), &want(selection, None))
}

/// The command lines without the target directory, whose name contains a hash.
fn lines(plan: &Plan) -> Vec<String> {
    let is_common = |arg: &&String| !arg.starts_with("--target-dir=/cache/cargo-target-");
    let line = |args: &[String]| args.iter().filter(is_common).cloned().collect::<Vec<_>>().join(" ");
    plan.steps.iter().map(|step| line(&step.args)).collect()
}

const CARGO: &str = "test --no-fail-fast --message-format=json --color=never";
const NEXTEST: &str =
    "nextest run --no-fail-fast --cargo-message-format=json --message-format=libtest-json-plus --color=never";

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|file| (*file).to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

fn test(package: &str, name: &str) -> RerunTarget {
    RerunTarget::Test(TestId { package: package.to_owned(), name: name.to_owned() })
}

#[test]
fn each_selection_has_its_commands() {
    let rows: Vec<(Selection, &[&str])> = vec![
        (Selection::All, &["--workspace --"]),
        (matching("parse it", &[]), &["--workspace -- parse it"]),
        (matching("", &["a/tests/it.rs", "a/src/bin/tool.rs"]), &["--package=a --bin=tool --test=it --"]),
        (matching("x", &["a/tests/big/part.rs"]), &["--package=a --test=big -- x"]),
        (matching("", &["a/tests/common/mod.rs", "b/src/lib.rs"]), &["--package=a --", "--package=b-b --"]),
        (matching("", &["a/tests/it.rs", "Cargo.lock"]), &["--workspace --"]),
        (
            Selection::Exactly(vec![test("a", "t::x"), test("a", "t::y"), test("a::it", "z"), test("b-b", "q")]),
            &[
                "--package=a --lib -- --exact t::x t::y",
                "--package=a --test=it -- --exact z",
                "--package=b-b --lib -- --exact q",
            ],
        ),
        (Selection::Exactly(vec![RerunTarget::Package("a".into()), test("a::it", "z")]), &["--package=a --"]),
        (Selection::Exactly(vec![RerunTarget::Package("a::it".into())]), &["--package=a --test=it --"]),
        // A program without a harness has no test names, and a name that could be an option is not passed.
        (Selection::Exactly(vec![test("a::it-plain", "it-plain")]), &["--package=a --test=it-plain --"]),
        (Selection::Exactly(vec![test("a::it", "--logfile=/x")]), &["--package=a --test=it --"]),
        (Selection::Exactly(vec![test("elsewhere", "x")]), &["--workspace --"]),
    ];
    for (selection, expected) in rows {
        for (framework, common) in [(&Cargo as &dyn Framework, CARGO), (&Nextest, NEXTEST)] {
            let expected: Vec<String> = expected.iter().map(|rest| format!("{common} {rest}")).collect();
            assert_eq!(lines(&plan(framework, &selection).unwrap()), expected, "{selection:?}");
        }
    }
    for (name, filter) in [("src/lib.rs - T<A,B>::f (line 3)", "T<A,B>::f"), ("src/lib.rs - (line 1)", "src/lib.rs")] {
        let doctest = Selection::Exactly(vec![test("a::doc/lib", name)]);
        assert_eq!(lines(&plan(&Cargo, &doctest).unwrap()), [format!("{CARGO} --package=a --doc -- {filter}")]);
    }
}

#[test]
fn a_source_belongs_to_the_binary_that_the_manifest_names() {
    let manifest = "[package]\nname = 'a'\nautobenches = false\n\
                    [[test]]\nname = 'it-1'\npath = 'tests/x.rs'\n[[test]]\nname = 'big'\npath = 'tests/suite/main.rs'\n\
                    [[bin]]\nname = 'tool'\npath = 'src/main.rs'\n[[bin]]\nname = 'other'\npath = 'src/other.rs'\n\
                    [[bench]]\nname = 'quick'\n";
    let mut tree = FileTree::default();
    tree.add_with_content("a/Cargo.toml", manifest);
    tree.add("a/tests/suite/main.rs");
    for (file, binary) in [
        ("a/tests/x.rs", " --test=it-1"),
        ("a/tests/y.rs", " --test=y"),
        ("a/tests/suite/part.rs", " --test=big"),
        ("a/src/other.rs", " --bin=other"),
        ("a/src/main.rs", ""),
        ("a/benches/quick.rs", " --bench=quick"),
        // A module of another target: automatic discovery is off.
        ("a/benches/part.rs", ""),
    ] {
        let selection = matching("", &[file]);
        let plan = Cargo.plan(&Cargo.detect(&tree), &tree, &want(&selection, None)).unwrap();
        assert_eq!(lines(&plan), [format!("{CARGO} --package=a{binary} --")], "{file}");
    }
}

#[test]
fn refuses_a_file_outside_of_all_projects() {
    for file in ["/etc/passwd", "../x.rs"] {
        assert!(matches!(plan(&Cargo, &matching("", &[file])), Err(PlanError::FileOutsideProject { .. })), "{file}");
    }
}

#[test]
fn lists_tests_by_the_runners_own_options() {
    let all = want(&Selection::All, None);
    let projects = Cargo.detect(&tree());
    let cargo = Cargo.plan_listing(&projects, &tree(), &all).unwrap();
    assert_eq!(lines(&cargo), [format!("{CARGO} --workspace -- --list")]);
    let nextest = Nextest.plan_listing(&projects, &tree(), &all).unwrap();
    let expected = "nextest list --cargo-message-format=json --message-format=json --color=never --workspace --";
    assert_eq!(lines(&nextest), [expected]);
}

#[test]
fn passes_parallel_in_each_runners_way() {
    let projects = Cargo.detect(&tree());
    let two = want(&Selection::All, Some(2));
    assert_eq!(Cargo.plan(&projects, &tree(), &two).unwrap().steps[0].env["RUST_TEST_THREADS"], "2");
    let nextest = Nextest.plan(&projects, &tree(), &two).unwrap();
    assert!(nextest.steps[0].args.contains(&"--test-threads=2".to_owned()));
}

#[test]
fn the_runner_script_contains_the_projects_runner() {
    let plan = plan(&Cargo, &Selection::All).unwrap();
    assert_eq!(plan.steps[0].env["CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER"], "/tmp/proctor/cargo-runner-0");
    let [runner] = plan.files.as_slice() else { panic!("{:?}", plan.files) };
    assert_eq!((runner.path.as_str(), runner.executable), ("cargo-runner-0", true));
    insta::assert_snapshot!("cargo-runner", String::from_utf8(runner.bytes.clone()).unwrap());
}

#[test]
fn measures_lines_with_a_program_before_rustc_and_a_recorder() {
    for (framework, name) in [(&Cargo as &dyn Framework, "cargo"), (&Nextest, "nextest")] {
        let request = PlanRequest { is_measured: true, ..want(&Selection::All, None) };
        let plan = framework.plan(&framework.detect(&tree()), &tree(), &request).unwrap();
        let [.., wrapper, recorder] = plan.files.as_slice() else { panic!("{:?}", plan.files) };
        assert!(wrapper.path.starts_with("rustc-") && wrapper.executable, "{}", wrapper.path);
        let script = String::from_utf8(wrapper.bytes.clone()).unwrap();
        assert!(script.contains(&format!("link-arg=/tmp/proctor/{}'\n", recorder.path)), "{script}");
        assert!(recorder.bytes.starts_with(b"\x7fELF"));
        let step = &plan.steps[0];
        let option = format!("--config=build.rustc-workspace-wrapper=\"/tmp/proctor/{}\"", wrapper.path);
        let place = |option: &str| step.args.iter().position(|arg| arg == option);
        assert_eq!(place(&option), place("--color=never").map(|at| at + 1), "{:?}", step.args);
        let directory = format!("artifacts/{name}-lines");
        assert_eq!(step.env["PROCTOR_COVERAGE"], format!("/tmp/proctor/{directory}"));
        assert_eq!(step.env["LLVM_PROFILE_FILE"], "/dev/null");
        assert!(plan.artifacts && plan.dirs.contains(&directory));
        let runner = plan.files.iter().find(|file| file.path == "cargo-runner-0");
        let is_one_at_a_time =
            runner.map(|runner| String::from_utf8_lossy(&runner.bytes).contains("threads=--test-threads=1"));
        assert_eq!(is_one_at_a_time, (name == "cargo").then_some(true));
    }
}

#[test]
fn a_program_of_the_projects_own_before_rustc_stays() {
    let mut tree = FileTree::default();
    tree.add_with_content("a/Cargo.toml", "[package]\nname = 'a'\n");
    tree.add_with_content(".cargo/config.toml", "[build]\nrustc-workspace-wrapper = 'tools/rustc'\n");
    for framework in [&Cargo as &dyn Framework, &Nextest] {
        let request = PlanRequest { is_measured: true, ..want(&Selection::All, None) };
        let plan = framework.plan(&framework.detect(&tree), &tree, &request).unwrap();
        let note = "coverage is not measured: a sets a `rustc-workspace-wrapper` of its own";
        assert!(plan.notes.iter().any(|known| known == note), "{:?}", plan.notes);
        assert!(!plan.artifacts && plan.files.iter().all(|file| file.path == "cargo-runner-0"), "{:?}", plan.files);
        assert!(!plan.steps[0].args.iter().any(|arg| arg.starts_with("--config")), "{:?}", plan.steps);
    }
}

#[test]
fn nextest_takes_projects_with_its_settings_or_on_request() {
    let name = |tree: &FileTree, asked| choose(tree, asked, &Selection::All).unwrap().name();
    let mut tree = tree();
    assert_eq!([name(&tree, None), name(&tree, Some("nextest"))], ["cargo", "nextest"]);
    tree.add_with_content(".config/nextest.toml", "");
    assert_eq!([name(&tree, None), name(&tree, Some("cargo"))], ["nextest", "cargo"]);
}

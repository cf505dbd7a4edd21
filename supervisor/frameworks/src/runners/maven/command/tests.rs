//! Exact command lines for every kind of selection.

use super::*;
use crate::contract::Framework;
use crate::runners::maven::Maven;
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;

fn tree() -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content("pom.xml", "<modules><module>core</module><module>web</module></modules>");
    tree.add_with_content("core/pom.xml", "");
    tree.add_with_content("web/pom.xml", "");
    for file in
        ["core/src/main/java/x/A.java", "core/src/test/java/x/ATest.java", "web/src/test/java/x/BTest.java", "mvnw"]
    {
        tree.add(file);
    }
    tree
}

fn want(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest { workspace: "/ws", scratch: "/tmp/proctor", cache: "/cache", ..PlanRequest::plain(selection) }
}

/// The arguments of each command beyond the common ones.
fn lines(tree: &FileTree, selection: &Selection) -> Vec<String> {
    let plan = Maven.plan(&Maven.detect(tree), tree, &want(selection)).unwrap();
    let line = |step: &Step| {
        assert_eq!(step.args[..COMMON.len()], COMMON);
        assert_eq!(step.args[COMMON.len()], "--offline");
        step.args[COMMON.len() + 1..].join(" ")
    };
    plan.steps.iter().map(line).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let filter = (!filter.is_empty()).then(|| Filter::parse(filter).unwrap().unwrap());
    Selection::Matching { filter, files: files.iter().map(|file| (*file).to_owned()).collect() }
}

fn test(package: &str, name: &str) -> RerunTarget {
    RerunTarget::Test(TestId { package: package.into(), name: name.into() })
}

const LENIENT: &str = "-Dsurefire.failIfNoSpecifiedTests=false -DfailIfNoTests=false";

#[test]
fn runs_everything_or_what_a_filter_selects() {
    let tree = tree();
    assert_eq!(lines(&tree, &Selection::All), ["test"]);
    assert_eq!(lines(&tree, &matching("ATest#adds*", &[])), [format!("-Dtest=ATest#adds* {LENIENT} test")]);
}

#[test]
fn files_select_classes_of_their_modules() {
    let tree = tree();
    let args_of = |filter: &str, files: &[&str]| lines(&tree, &matching(filter, files));
    let core = "--projects=core --also-make";
    assert_eq!(args_of("", &["core/src/test/java/x/ATest.java"]), [format!("{core} -Dtest=x.ATest {LENIENT} test")]);
    assert_eq!(args_of("#adds", &["core/src/test/java"]), [format!("{core} -Dtest=x.ATest#adds {LENIENT} test")]);
    assert_eq!(args_of("", &["core/src/main/java/x/A.java"]), [format!("{core} test")]);
    assert_eq!(args_of("", &["core"]), [format!("{core} test")]);
    assert_eq!(args_of("#adds", &["core"]), [format!("{core} -Dtest=*#adds {LENIENT} test")]);
    assert_eq!(args_of("", &["pom.xml"]), ["test"]);
    let both = args_of("", &["core/src/test/java/x/ATest.java", "web/src/test/java/x/BTest.java"]);
    assert_eq!(both, [format!("--projects=core,web --also-make -Dtest=x.ATest,x.BTest {LENIENT} test")]);
}

#[test]
fn a_rerun_names_methods_with_all_their_parameters() {
    let tree = tree();
    let (a, b) = ("core/src/test/java/x/ATest.java", "web/src/test/java/x/BTest.java");
    let targets = vec![
        test(a, "x.ATest#adds"),
        test(a, "x.ATest#each(String)[2]"),
        test(a, "x.ATest$In#deep"),
        test(b, "x.BTest"),
    ];
    let expected =
        "--projects=core,web --also-make -Dtest=x.ATest#adds+adds[*]+each+each[*],x.ATest$In#deep+deep[*],x.BTest";
    assert_eq!(lines(&tree, &Selection::Exactly(targets)), [format!("{expected} {LENIENT} test")]);
    let broken = vec![RerunTarget::Package("core/src/main/java/x/A.java".into())];
    assert_eq!(lines(&tree, &Selection::Exactly(broken)), ["--projects=core --also-make test"]);
    let project = vec![RerunTarget::Package("pom.xml".into())];
    assert_eq!(lines(&tree, &Selection::Exactly(project)), ["test"]);
}

#[test]
fn integration_tests_go_to_failsafe() {
    let mut tree = FileTree::default();
    tree.add_with_content("pom.xml", "<artifactId>maven-failsafe-plugin</artifactId>");
    tree.add("src/test/java/x/StoreIT.java");
    assert_eq!(lines(&tree, &Selection::All), ["verify"]);
    let late = "-Dit.failIfNoSpecifiedTests=false verify";
    let args_of = |filter: &str| lines(&tree, &matching(filter, &[]));
    assert_eq!(args_of("StoreIT#keeps"), [format!("-Dtest={NO_TEST_CLASS} {LENIENT} -Dit.test=StoreIT#keeps {late}")]);
    assert_eq!(args_of("*StoreIT"), [format!("-Dtest={NO_TEST_CLASS} {LENIENT} -Dit.test=*StoreIT {late}")]);
    for filter in ["*Store*", "#keeps", "Store?T", "%regex[.*Store.*]"] {
        let both = format!("-Dtest={filter},{NOT_INTEGRATION} {LENIENT} -Dit.test={filter},{NOT_UNIT} {late}");
        assert_eq!(args_of(filter), [both]);
    }
    assert_eq!(args_of("ATest,StoreIT"), [format!("-Dtest=ATest {LENIENT} -Dit.test=StoreIT {late}")]);
    assert_eq!(args_of("ATest"), [format!("-Dtest=ATest {LENIENT} -Dit.test={NO_TEST_CLASS} {late}")]);
}

#[test]
fn uses_the_wrapper_only_with_a_network() {
    let tree = tree();
    let projects = Maven.detect(&tree);
    let plan = |request: &PlanRequest<'_>| Maven.plan(&projects, &tree, request).unwrap().steps[0].clone();
    assert_eq!(plan(&want(&Selection::All)).programs, ["mvn"]);
    let step = plan(&PlanRequest { network: Network::Host, ..want(&Selection::All) });
    assert_eq!(step.programs, ["./mvnw", "mvn"]);
    assert!(!step.args.contains(&"--offline".to_owned()));
    assert_eq!(step.env["PROCTOR_REPORT"], "/tmp/proctor/report");
}

#[test]
fn a_listing_is_the_same_command_with_another_extension() {
    let tree = tree();
    let projects = Maven.detect(&tree);
    let selection = matching("ATest#adds*", &[]);
    let run = Maven.plan(&projects, &tree, &want(&selection)).unwrap();
    let listing = Maven.plan_listing(&projects, &tree, &want(&selection)).unwrap();
    assert_eq!(listing.steps, run.steps);
    let env = &run.steps[0].env;
    let extension = |plan: &Plan| -> Vec<String> {
        let place = env["PROCTOR_EXTENSION"].strip_prefix("/tmp/proctor/").unwrap();
        plan.files.iter().filter_map(|file| Some(file.path.strip_prefix(place)?.to_owned())).collect()
    };
    assert_eq!(extension(&run), ["/Report.java", "/components.xml"]);
    assert_eq!(extension(&listing), ["/Report.java", "/components.xml", "/Listing.java"]);
    assert_eq!((&*env["HOME"], &*env["PROCTOR_HOME"]), ("/tmp/proctor/maven/home", "/tmp/proctor/home"));
    assert!(run.files.iter().any(|file| file.path == "maven/home/.mavenrc"));
}

#[test]
fn refuses_unsupported_filters_and_unknown_files() {
    let tree = tree();
    let projects = Maven.detect(&tree);
    for (filter, file) in [("ATest", "core/src/test/java/x/ATest.java"), ("", "../x.java"), ("", "core/src/Gone.java")]
    {
        assert!(Maven.plan(&projects, &tree, &want(&matching(filter, &[file]))).is_err(), "{filter} {file}");
    }
}

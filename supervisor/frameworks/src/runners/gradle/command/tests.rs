//! Exact command lines, and the selection files for the init script.

use super::*;
use crate::contract::Framework;
use crate::runners::gradle::Gradle;
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;

const WEB: &str = "web/src/test/kotlin/x/BTest.kt";
const CORE: &str = "core/src/test/java/x/ATest.java";

fn tree() -> FileTree {
    let mut tree = FileTree::default();
    tree.add_with_content("settings.gradle", "include 'core', 'web'");
    tree.add_with_content("core/build.gradle", "");
    // `web` is configured by the root's script.
    tree.add_with_content("build.gradle", "");
    [CORE, WEB, "core/src/main/java/x/A.java", "README.md"].iter().for_each(|file| tree.add(*file));
    tree
}

fn request(selection: &Selection) -> PlanRequest<'_> {
    PlanRequest { workspace: "/ws", scratch: "/tmp/proctor", cache: "/cache", ..PlanRequest::plain(selection) }
}

/// The arguments behind the task, and the content of the selection file.
fn planned(selection: &Selection) -> (Vec<String>, String) {
    let tree = tree();
    let plan = Gradle.plan(&Gradle.detect(&tree), &tree, &request(selection)).unwrap();
    let [step] = plan.steps.as_slice() else { panic!("{plan:?}") };
    let task = step.args.iter().position(|word| word == "test").unwrap();
    let file = plan.files.iter().find(|file| step.env["PROCTOR_SELECTION"] == format!("/tmp/proctor/{}", file.path));
    (step.args[task + 1..].to_vec(), String::from_utf8(file.unwrap().bytes.clone()).unwrap())
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let filter = (!filter.is_empty()).then(|| Filter::parse(filter).unwrap().unwrap());
    Selection::Matching { filter, files: files.iter().map(|file| (*file).to_owned()).collect() }
}

fn chosen(selection: &Selection) -> String {
    let (words, chosen) = planned(selection);
    assert_eq!(words, [""; 0]);
    chosen
}

#[test]
fn the_init_script_differs_in_each_run() {
    let tree = tree();
    let script = |nonce| {
        let request = PlanRequest { nonce, ..request(&Selection::All) };
        let plan = Gradle.plan(&Gradle.detect(&tree), &tree, &request).unwrap();
        plan.files.iter().find(|file| file.path == INIT_SCRIPT).unwrap().bytes.clone()
    };
    assert_ne!(script("1"), script("2"), "Gradle keeps what it compiles by a hash of the text");
}

#[test]
fn runs_offline_and_without_a_daemon() {
    let tree = tree();
    let selection = Selection::All;
    let plan = Gradle.plan(&Gradle.detect(&tree), &tree, &request(&selection)).unwrap();
    let step = &plan.steps[0];
    assert_eq!(step.programs, ["gradle"]);
    assert_eq!(step.args[..COMMON.len()], COMMON);
    let rest = ["--init-script=/tmp/proctor/gradle/init.gradle", "--offline", "test"];
    assert_eq!(step.args[COMMON.len()..], rest);
    assert_eq!(step.env["PROCTOR_REPORT"], "/tmp/proctor/report");
    assert_eq!((step.env.get("PROCTOR_PARALLEL"), step.env.get("PROCTOR_LISTING")), (None, None));
    assert!(plan.report);
}

#[test]
fn uses_the_wrapper_with_a_network_and_its_earlier_download_without() {
    let mut tree = tree();
    tree.add("gradlew");
    let selection = Selection::All;
    let step = |network| {
        let request = PlanRequest { network, parallel: Some(3), ..request(&selection) };
        Gradle.plan(&Gradle.detect(&tree), &tree, &request).unwrap().steps.remove(0)
    };
    let online = step(Network::Host);
    assert_eq!(online.programs, ["./gradlew", "gradle"]);
    assert!(!online.args.contains(&"--offline".to_owned()) && online.args.contains(&"--max-workers=3".to_owned()));
    assert_eq!(online.env["PROCTOR_PARALLEL"], "3");
    let offline = step(Network::None);
    assert_eq!((offline.programs, offline.args[0].as_str()), (vec!["sh".to_owned()], "/tmp/proctor/gradle/run.sh"));
}

#[test]
fn a_filter_goes_to_gradles_tests_option() {
    assert_eq!(planned(&matching("ATest.adds*", &[])), (vec!["--tests=ATest.adds*".to_owned()], "[]".to_owned()));
    let (words, selection) = planned(&matching("*.adds", &[CORE]));
    assert_eq!(words, ["--tests=*.adds"]);
    assert_eq!(selection, r#"[{"dir":"core","patterns":["x.ATest","x.ATest$*"]}]"#);
}

#[test]
fn files_select_classes_of_their_projects() {
    let selection_of = |files: &[&str]| chosen(&matching("", files));
    assert_eq!(selection_of(&[WEB]), r#"[{"dir":"web","patterns":["x.BTest","x.BTest$*"]}]"#);
    assert_eq!(selection_of(&["core/src/test/java"]), r#"[{"dir":"core","patterns":["x.ATest","x.ATest$*"]}]"#);
    let all_of_core = r#"[{"dir":"core","patterns":[]}]"#;
    for path in ["core", "core/src", "core/src/main", "core/src/main/java/x/A.java", "core/build.gradle"] {
        assert_eq!(selection_of(&[path]), all_of_core, "{path}");
    }
    assert_eq!(selection_of(&[CORE, "core"]), all_of_core);
    assert_eq!(selection_of(&["core", CORE]), all_of_core);
    assert_eq!(selection_of(&["README.md"]), r#"[{"dir":"","patterns":[]}]"#);
    let tree = tree();
    for file in ["../x.java", "/x.java", "core/Gone.java"] {
        let selection = matching("", &[file]);
        assert!(Gradle.plan(&Gradle.detect(&tree), &tree, &request(&selection)).is_err(), "{file}");
    }
}

#[test]
fn a_rerun_names_methods_with_all_their_parameters() {
    let test = |package: &str, name: &str| RerunTarget::Test(TestId { package: package.into(), name: name.into() });
    let targets = vec![
        test(CORE, "x.ATest#adds"),
        test(CORE, "x.ATest#each(String)[2]"),
        test(WEB, "x.BTest"),
        test("web/build.gradle", "x.Gone#a display name"),
    ];
    let core = r#"{"dir":"core","patterns":["x.ATest.adds","x.ATest.adds[*","x.ATest.each","x.ATest.each[*"]}"#;
    let root = r#"{"dir":"","patterns":["x.Gone","x.Gone$*"]}"#;
    let web = r#"{"dir":"web","patterns":["x.BTest","x.BTest$*"]}"#;
    assert_eq!(chosen(&Selection::Exactly(targets)), format!("[{root},{core},{web}]"));
    let broken = vec![RerunTarget::Package("core/src/test/java/x/ATest.java".into())];
    assert_eq!(chosen(&Selection::Exactly(broken)), r#"[{"dir":"core","patterns":[]}]"#);
}

#[test]
fn a_listing_sets_its_variable() {
    let tree = tree();
    let selection = Selection::All;
    let plan = Gradle.plan_listing(&Gradle.detect(&tree), &tree, &request(&selection)).unwrap();
    assert_eq!(plan.steps[0].env["PROCTOR_LISTING"], "1");
}

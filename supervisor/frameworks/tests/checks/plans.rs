//! Which checkers a workspace selects, and their commands.

use crate::sample;
use crate::want::want;
use proctor_core::check::{CheckKind, CheckReport, CheckRequest, CheckerStatus};
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_frameworks::checks::{CHECKERS, choose, is_marker_path, reserves_variable};
use proctor_frameworks::{FileTree, Parser, Step};
use std::collections::BTreeSet;

fn tree(files: &[(&str, &str)]) -> FileTree {
    let mut tree = FileTree::default();
    files.iter().for_each(|(path, content)| tree.add_with_content(*path, *content));
    tree
}

fn request(files: &[&str]) -> CheckRequest {
    CheckRequest { files: files.iter().map(|file| (*file).to_owned()).collect(), ..CheckRequest::default() }
}

fn line(step: &Step) -> String {
    let program = step.programs.last().unwrap();
    let dir = if step.dir.is_empty() { "." } else { &step.dir };
    format!("{dir}: {program} {}", step.args.join(" "))
}

/// The commands, then the notes.
fn planned(tree: &FileTree, request: &CheckRequest) -> Vec<String> {
    let choice = match choose(tree, request) {
        Ok(choice) => choice,
        Err(error) => return vec![error.to_string()],
    };
    let (plan, parser) = choice.plan(tree, &want(&Selection::All), &|_| true);
    plan.steps.iter().map(line).chain(parser.report().notes).collect()
}

/// The report after these commands of the plan, each with what it printed and how it ended.
fn after(tree: &FileTree, request: &CheckRequest, commands: &[(&[u8], Exit)]) -> CheckReport {
    let (plan, mut parser) = choose(tree, request).unwrap().plan(tree, &want(&Selection::All), &|_| true);
    assert_eq!(plan.steps.len(), commands.len());
    for (step, (stdout, exit)) in commands.iter().enumerate() {
        parser.step_started(step);
        parser.stdout(stdout, &mut Vec::new());
        parser.step_ended(*exit, false, &mut Vec::new());
    }
    parser.report()
}

/// Directory and name of the checkers' commands.
fn chosen(tree: &FileTree, request: &CheckRequest) -> Vec<String> {
    let choice = choose(tree, request).unwrap();
    let of = |one: &proctor_frameworks::checks::ChosenChecker| {
        let name = one.checker.manifest().name;
        let shown = |(project, files): &(proctor_frameworks::checks::CheckProject, Vec<String>)| {
            format!("{name} {}[{}]", project.dir, files.join(" "))
        };
        one.projects.iter().map(shown).collect::<Vec<_>>()
    };
    choice.chosen.iter().flat_map(of).collect()
}

#[test]
fn every_checker_is_selected_by_its_sample_and_plans_a_command() {
    let mut all = Vec::new();
    for checker in CHECKERS {
        let manifest = checker.manifest();
        assert_eq!(checker.detect(&sample(*checker)).len(), 1, "{}", manifest.name);
        let named = CheckRequest { checkers: vec![manifest.name.to_owned()], ..CheckRequest::default() };
        let (plan, _) =
            choose(&sample(*checker), &named).unwrap().plan(&sample(*checker), &want(&Selection::All), &|_| true);
        for step in &plan.steps {
            let env: Vec<String> = step.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            all.push(format!("{}\n  {}\n  {}", step.programs.join(" | "), step.args.join(" "), env.join(" ")));
        }
    }
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn names_are_unique_and_texts_are_whole() {
    let names: BTreeSet<&str> = CHECKERS.iter().map(|checker| checker.manifest().name).collect();
    assert_eq!(names.len(), CHECKERS.len());
    for checker in CHECKERS {
        let manifest = checker.manifest();
        assert!(!manifest.selected_by.is_empty() && manifest.remedy.starts_with("install "), "{}", manifest.name);
        assert!(!manifest.extensions.is_empty() && !manifest.toolchains.is_empty(), "{}", manifest.name);
    }
}

#[test]
fn the_readme_has_a_row_for_every_checker() {
    let readme = include_str!("../../README.md");
    for checker in CHECKERS {
        let manifest = checker.manifest();
        let row = format!("| `{}` | {} | {} |", manifest.name, manifest.kind.name(), manifest.selected_by);
        assert!(readme.contains(&row), "{row}");
    }
}

#[test]
fn the_settings_of_a_workspace_select_its_checkers() {
    let python = tree(&[("pyproject.toml", "[tool.ruff]\n[tool.mypy]\n"), ("a.py", "")]);
    assert_eq!(chosen(&python, &request(&[])), ["ruff []", "mypy []"]);
    let lint = CheckRequest { kinds: vec![CheckKind::Lint], ..CheckRequest::default() };
    assert_eq!(chosen(&python, &lint), ["ruff []"]);
    let both = tree(&[("biome.json", ""), ("eslint.config.mjs", ""), ("tsconfig.json", ""), ("a.ts", "")]);
    assert_eq!(chosen(&both, &request(&[])), ["eslint []", "biome []", "tsc []"]);
    let rust = tree(&[("Cargo.toml", "[package]\nname = 'a'"), ("src/lib.rs", "")]);
    assert_eq!(chosen(&rust, &request(&[])), ["clippy []", "cargo-check []"]);
    let setup = tree(&[("setup.cfg", "[mypy]\n"), ("pyrightconfig.json", ""), ("a.py", "")]);
    assert_eq!(chosen(&setup, &request(&[])), ["mypy []", "pyright []"]);
}

#[test]
fn golangci_lint_takes_the_place_of_go_vet_where_it_is_set_up() {
    let mut files = vec![("go.mod", "module a"), ("a.go", ""), ("tools/go.mod", "module t"), ("tools/t.go", "")];
    assert_eq!(
        chosen(&tree(&files), &request(&[])),
        ["go-vet []", "go-vet tools[]", "go-types []", "go-types tools[]"]
    );
    files.push(("tools/.golangci.toml", ""));
    let lint = CheckRequest { kinds: vec![CheckKind::Lint], ..CheckRequest::default() };
    assert_eq!(chosen(&tree(&files), &lint), ["golangci-lint tools[]", "go-vet []"]);
}

/// The report before anything ran, if only programs with these names exist.
fn before(tree: &FileTree, request: &CheckRequest, installed: &[&str]) -> (Vec<String>, CheckReport) {
    let choice = choose(tree, request).unwrap();
    let is_installed = |step: &Step| step.programs.iter().any(|program| installed.contains(&program.as_str()));
    let (plan, parser) = choice.plan(tree, &want(&Selection::All), &is_installed);
    (plan.steps.iter().map(|step| step.args[0].clone()).collect(), parser.report())
}

#[test]
fn go_vet_runs_where_golangci_lint_is_not_installed_and_the_report_says_so() {
    let tree = tree(&[("go.mod", "module a"), ("a.go", ""), (".golangci.yml", "")]);
    let lint = CheckRequest { kinds: vec![CheckKind::Lint], ..CheckRequest::default() };
    let (steps, report) = before(&tree, &lint, &["go"]);
    assert_eq!(steps, ["vet"]);
    let statuses: Vec<(&str, &str)> = report.checkers.iter().map(|one| (&*one.checker, one.status.name())).collect();
    assert_eq!(statuses, [("golangci-lint", "missing"), ("go-vet", "failed")]);
    let (steps, report) = before(&tree, &lint, &[]);
    assert!(steps.is_empty() && !report.is_clean());
    assert!(report.checkers.iter().all(|one| matches!(one.status, CheckerStatus::Missing { .. })));
}

#[test]
fn files_are_checked_by_the_innermost_project_with_them() {
    let tree = tree(&[
        ("pyproject.toml", "[tool.ruff]\n"),
        ("a.py", ""),
        ("services/x/ruff.toml", ""),
        ("services/x/b.py", ""),
        ("docs/readme.md", ""),
    ]);
    let ruff = |files: &[&str]| planned(&tree, &request(files));
    let all = "--output-format=json --no-fix --no-force-exclude --";
    assert_eq!(ruff(&["services/x/b.py"]), [format!("services/x: ruff check {all} ./b.py")]);
    assert_eq!(
        ruff(&["./a.py", "services/x"]),
        [format!(".: ruff check {all} ./a.py"), format!("services/x: ruff check {all} .")]
    );
    let note = "not checked, because no chosen checker checks such files: docs/readme.md";
    assert_eq!(ruff(&["a.py", "docs/readme.md"]), [format!(".: ruff check {all} ./a.py"), note.to_owned()]);
    assert_eq!(ruff(&["docs"]), ["none of these files is checked by ruff"]);
    assert_eq!(ruff(&["../a.py"]), ["../a.py is outside of the workspace"]);
    assert_eq!(ruff(&["."]), ruff(&[]));
    assert_eq!(ruff(&[]), [format!(".: ruff check {all} ."), format!("services/x: ruff check {all} .")]);
}

#[test]
fn a_project_below_another_is_checked_by_itself_whatever_the_outer_one_leaves_out() {
    let tree = tree(&[
        ("mypy.ini", "[mypy]\nfiles = src\n"),
        ("src/a.py", ""),
        ("services/a/mypy.ini", "[mypy]\n"),
        ("services/a/b.py", ""),
        ("services/a/x/mypy.ini", "[mypy]\n"),
        ("services/a/x/c.py", ""),
        ("settings/mypy.ini", "[mypy]\n"),
    ]);
    let all = ["mypy []", "mypy services/a[]", "mypy services/a/x[]"];
    assert_eq!(chosen(&tree, &request(&[])), all);
    assert_eq!(chosen(&tree, &request(&["services"])), ["mypy [services]", all[1], all[2]]);
    assert_eq!(chosen(&tree, &request(&["services/a"])), all[1..]);
    assert_eq!(chosen(&tree, &request(&["services/a/b.py"])), ["mypy services/a[b.py]"]);
}

#[test]
fn a_named_file_that_no_checker_checks_makes_no_pass_unless_it_is_a_document() {
    let tree =
        tree(&[("ruff.toml", ""), ("a.py", ""), ("b.rs", ""), ("README.md", ""), ("c/mypy.ini", ""), ("c/d.sh", "")]);
    let report = |files: &[&str]| after(&tree, &request(files), &[(b"[]", Exit::Code(0))]);
    assert!(report(&["a.py", "README.md"]).is_clean());
    let partial = report(&["a.py", "b.rs", "c", "gone.md"]);
    assert!(!partial.is_clean());
    let reason = "no chosen checker checks such files, or they do not exist: b.rs, c, gone.md".to_owned();
    assert_eq!(partial.checkers[0].status, CheckerStatus::Partial { reason });
    assert_eq!((&*partial.checkers[1].checker, &partial.checkers[1].status), ("ruff", &CheckerStatus::Complete));
    let choice = choose(&tree, &request(&[])).unwrap();
    assert!(choice.checks(&tree, "a.py") && !choice.checks(&tree, "b.rs") && !choice.checks(&tree, "README.md"));
}

#[test]
fn a_named_file_that_biome_ignores_is_not_without_findings() {
    let tree = tree(&[("biome.json", "{}"), ("a.js", ""), ("b.js", "")]);
    let status = |read: u64| {
        let stdout =
            format!(r#"{{"summary":{{"changed":0,"unchanged":{read},"diagnosticsNotPrinted":0}},"diagnostics":[]}}"#);
        let report = after(&tree, &request(&["a.js", "b.js"]), &[(stdout.as_bytes(), Exit::Code(0))]);
        report.checkers[0].status.clone()
    };
    assert_eq!(status(2), CheckerStatus::Complete);
    let reason = "its settings leave out some of what was named, since it read 1 file of 2: a.js, b.js".to_owned();
    assert_eq!(status(1), CheckerStatus::Partial { reason });
}

#[test]
fn a_named_file_that_pyright_excludes_is_not_without_findings() {
    let tree = tree(&[("pyrightconfig.json", "{}"), ("a.py", ""), ("b.py", "")]);
    let status = |read: u64| {
        let stdout = format!(r#"{{"generalDiagnostics":[],"summary":{{"filesAnalyzed":{read}}}}}"#);
        let report = after(&tree, &request(&["a.py", "b.py"]), &[(stdout.as_bytes(), Exit::Code(0))]);
        report.checkers[0].status.name()
    };
    assert_eq!([status(2), status(1), status(0)], ["complete", "partial", "failed"]);
}

/// The status of the Go compiler after this output, asked for `m/p/a.go` and `m/p/b_windows.go`.
fn go_types(packages: &str) -> CheckerStatus {
    let tree = tree(&[("m/go.mod", "module m"), ("m/p/a.go", ""), ("m/p/b_windows.go", "")]);
    let request = CheckRequest { kinds: vec![CheckKind::Typecheck], ..request(&["m/p/a.go", "m/p/b_windows.go"]) };
    after(&tree, &request, &[(packages.as_bytes(), Exit::Code(0))]).checkers[0].status.clone()
}

#[test]
fn a_named_file_under_a_build_constraint_is_not_without_findings() {
    let reason = "build constraints, in the file or in its name, leave out p/b_windows.go".to_owned();
    let package = r#"{"ImportPath": "m/p", "Dir": "/workspace/m/p", "GoFiles": ["a.go"]}"#;
    assert_eq!(go_types(package), CheckerStatus::Partial { reason });
    let test = r#"{"ImportPath": "m/p [m/p.test]", "Dir": "/workspace/m/p", "TestGoFiles": ["b_windows.go"]}"#;
    assert_eq!(go_types(&format!("{package}\n{test}")), CheckerStatus::Complete);
}

#[test]
fn the_go_compiler_checks_no_types_behind_errors_of_syntax_and_of_imports() {
    let files = r#""ImportPath": "m/p", "Dir": "/workspace/m/p", "GoFiles": ["a.go", "b_windows.go"]"#;
    let status =
        |pos: &str, text: &str| go_types(&format!(r#"{{{files}, "Error": {{"Pos": "{pos}", "Err": "{text}"}}}}"#));
    assert_eq!(status("", r"# m/p\np/a.go:3:1: undefined: x"), CheckerStatus::Complete);
    for text in ["syntax error: unexpected {", "newline in string"] {
        let reason = "types were not checked in 1 package, because of errors of syntax".to_owned();
        assert_eq!(status("", &format!(r"# m/p\np/a.go:3:1: {text}")), CheckerStatus::Partial { reason });
    }
    let reason = "types were not checked in 1 package, because an import fails".to_owned();
    assert_eq!(
        status("p/a.go:2:8", "use of internal package x/internal not allowed"),
        CheckerStatus::Partial { reason }
    );
}

#[test]
fn golangci_lint_has_no_finding_below_a_warning_since_it_fails_because_of_each() {
    let tree = tree(&[("go.mod", "module a"), ("a.go", ""), (".golangci.yml", "")]);
    let lint = CheckRequest { kinds: vec![CheckKind::Lint], ..CheckRequest::default() };
    let issue =
        r#"{"FromLinter":"errcheck","Text":"x","Severity":"info","Pos":{"Filename":"a.go","Line":1,"Column":1}}"#;
    let stdout = format!(r#"{{"Issues":[{issue}],"Report":{{}}}}"#);
    let report = after(&tree, &lint, &[(stdout.as_bytes(), Exit::Code(1))]);
    assert_eq!((report.severities.warnings, report.severities.infos), (1, 0));
}

#[test]
fn go_checks_the_packages_of_files() {
    let tree =
        tree(&[("go.mod", "module a"), ("a.go", ""), ("x/x.go", ""), ("m/go.mod", "module m"), ("m/y/y.go", "")]);
    let vet = CheckRequest { kinds: vec![CheckKind::Lint], ..request(&["a.go", "x", "m/y/y.go"]) };
    assert_eq!(planned(&tree, &vet), [".: go vet -json . ./x/...", "m: go vet -json ./y"]);
}

#[test]
fn a_workspace_without_checkers_names_those_that_can_be_asked_for() {
    let none = tree(&[("a.py", "")]);
    let lint = CheckRequest { kinds: vec![CheckKind::Lint], ..CheckRequest::default() };
    let text = planned(&none, &lint);
    assert_eq!(
        text,
        [
            "no checker is set up in the workspace (golangci-lint, go-vet, ruff, eslint, biome, clippy): name one to use \
             its defaults"
        ]
    );
    let named = |name: &str, kinds| CheckRequest { checkers: vec![name.to_owned()], kinds, ..CheckRequest::default() };
    assert_eq!(planned(&none, &named("ruff", vec![])).len(), 1, "its defaults");
    assert!(planned(&none, &named("nope", vec![]))[0].starts_with("unknown checker `nope`: known are golangci-lint, "));
    assert_eq!(planned(&none, &named("mypy", vec![CheckKind::Lint])), ["mypy is no lint checker"]);
    let text = planned(&none, &named("tsc", vec![]));
    assert_eq!(text, ["no project for tsc in the workspace: it is selected by tsconfig.json"]);
}

#[test]
fn the_settings_of_others_code_select_nothing() {
    let files =
        ["node_modules/x/tsconfig.json", "vendor/y/ruff.toml", ".github/ruff.toml", "a/testdata/b/tsconfig.json"];
    let tree = tree(&files.map(|file| (file, "")));
    assert!(planned(&tree, &request(&[]))[0].starts_with("no checker is set up"));
}

#[test]
fn a_check_with_too_many_commands_says_what_was_not_checked() {
    let files: Vec<String> =
        (0..70).flat_map(|number| [format!("p{number:02}/tsconfig.json"), format!("p{number:02}/a.ts")]).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "")).collect();
    let tree = tree(&files);
    let choice = choose(&tree, &request(&[])).unwrap();
    let (plan, parser) = choice.plan(&tree, &want(&Selection::All), &|_| true);
    assert_eq!((plan.steps.len(), plan.stack_requests.len()), (64, 64));
    let left = parser.report().checkers.iter().filter(|one| one.status.text().contains("at most 64 commands")).count();
    assert_eq!(left, 6);
}

#[test]
fn settings_are_read_and_the_variables_of_tools_are_reserved() {
    for path in ["mypy.ini", "a/tsconfig.json", "pyproject.toml"] {
        assert!(is_marker_path(path), "{path}");
    }
    assert!(!is_marker_path("a/b.py"));
    for name in ["RUFF_CONFIG", "MYPYPATH", "GOFLAGS", "ESLINT_USE_FLAT_CONFIG", "BIOME_CONFIG_PATH", "NODE_OPTIONS"] {
        assert!(reserves_variable(name), "{name}");
    }
    assert!(!reserves_variable("HOME_OF_SHOP"));
}

#[test]
fn an_error_of_a_package_hides_others_and_its_elsewhere_makes_no_pass() {
    let recording = crate::recordings_of("cargo-check").into_iter().find(|one| one.name == "findings").unwrap();
    let root = [("Cargo.toml", "[package]\nname = 'shop'\n"), ("src/lib.rs", ""), ("tests/a.rs", "")];
    let request = CheckRequest { kinds: vec![CheckKind::Typecheck], ..request(&["tests/a.rs"]) };
    let report = after(&tree(&root), &request, &[(&recording.stdout, recording.exit)]);
    assert_eq!((report.total(), report.checkers[0].status.name()), (0, "partial"));
    assert!(report.elsewhere > 0 && !report.is_clean());
}

#[test]
fn a_monorepo_is_checked_project_by_project() {
    let tree = tree(&[
        ("go.mod", "module m"),
        ("server/server.go", ""),
        ("tools/go.mod", "module t"),
        ("tools/print.go", ""),
        ("web/tsconfig.json", "{}"),
        ("web/src/greet.ts", ""),
        ("web/packages/ui/tsconfig.json", "{}"),
        ("web/packages/ui/src/label.ts", ""),
        ("services/a/pyproject.toml", "[tool.ruff]\n[tool.mypy]\n"),
        ("services/a/main.py", ""),
        ("services/b/pyproject.toml", "[tool.ruff]\n"),
        ("services/b/main.py", ""),
    ]);
    let all = [
        "go-vet []",
        "go-vet tools[]",
        "go-types []",
        "go-types tools[]",
        "ruff services/a[]",
        "ruff services/b[]",
        "mypy services/a[]",
        "tsc web[]",
        "tsc web/packages/ui[]",
    ];
    assert_eq!(chosen(&tree, &request(&[])), all);
    assert_eq!(chosen(&tree, &request(&["services"])), ["ruff services/a[]", "ruff services/b[]", "mypy services/a[]"]);
    assert_eq!(chosen(&tree, &request(&["web/packages/ui/src/label.ts"])), ["tsc web/packages/ui[src/label.ts]"]);
    assert_eq!(chosen(&tree, &request(&["web"])), ["tsc web[]", "tsc web/packages/ui[]"]);
}

#[test]
fn a_file_that_tsconfig_leaves_out_is_not_without_findings() {
    let recording = crate::recordings_of("tsc").into_iter().find(|one| one.name == "clean").unwrap();
    let status = |file: &str| {
        let tree = tree(&[("tsconfig.json", "{}"), ("a.ts", ""), ("src/totals.ts", "")]);
        after(&tree, &request(&[file]), &[(&recording.stdout, recording.exit)]).checkers[0].status.clone()
    };
    assert_eq!(status("src/totals.ts"), CheckerStatus::Complete);
    let reason = "tsconfig.json leaves out a.ts".to_owned();
    assert_eq!(status("a.ts"), CheckerStatus::Partial { reason });
}

#[test]
fn a_file_has_to_be_in_one_of_the_configurations_that_tsconfig_refers_to() {
    let config = r#"{"files": [], "references": [{"path": "./tsconfig.app.json"}, {"path": "./tsconfig.node.json"}]}"#;
    let tree = tree(&[
        ("web/tsconfig.json", config),
        ("web/tsconfig.app.json", "{}"),
        ("web/tsconfig.node.json", "{}"),
        ("web/src/a.ts", ""),
        ("web/vite.ts", ""),
        ("web/e2e/b.ts", ""),
    ]);
    let statuses = |files: &[&str]| {
        let read: [(&[u8], Exit); 2] =
            [(b"/workspace/web/src/a.ts\n", Exit::Code(0)), (b"/workspace/web/vite.ts\n", Exit::Code(0))];
        let report = after(&tree, &request(files), &read);
        report.checkers.iter().map(|one| one.status.clone()).collect::<Vec<_>>()
    };
    let complete = [CheckerStatus::Complete, CheckerStatus::Complete];
    assert_eq!(statuses(&["web/src/a.ts", "web/vite.ts"]), complete);
    assert_eq!(statuses(&["web/src"]), complete);
    assert_eq!(statuses(&["web"]), complete);
    let reason = "tsconfig.json leaves out e2e/b.ts".to_owned();
    let partial = [CheckerStatus::Complete, CheckerStatus::Partial { reason }];
    assert_eq!(statuses(&["web/src/a.ts", "web/e2e/b.ts"]), partial);
}

#[test]
fn a_toolchain_without_clippy_is_a_missing_checker() {
    let tree = tree(&[("Cargo.toml", "[package]\nname = 'a'\n")]);
    for text in [
        "error: no such command: `clippy`\n\nhelp: view all installed commands with `cargo --list`\n",
        "error: 'cargo-clippy' is not installed for the toolchain '1.95.0-x86_64-unknown-linux-gnu'.\n",
    ] {
        let lint = CheckRequest { kinds: vec![CheckKind::Lint], ..CheckRequest::default() };
        let (_, mut parser) = choose(&tree, &lint).unwrap().plan(&tree, &want(&Selection::All), &|_| true);
        parser.step_started(0);
        parser.stderr(text.as_bytes(), &mut Vec::new());
        parser.step_ended(Exit::Code(101), false, &mut Vec::new());
        assert!(matches!(parser.report().checkers[0].status, CheckerStatus::Missing { .. }), "{text}");
    }
}

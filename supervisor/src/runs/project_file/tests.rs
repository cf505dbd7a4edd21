//! Reading, applying and writing project files.

use super::*;
use proctor_core::repetition::Repetition;
use proctor_core::request::{RerunTarget, Selection};
use proctor_frameworks::detection;

fn file(path: &str, content: &str) -> Result<ProjectFile, String> {
    let mut tree = FileTree::default();
    tree.add_with_content(path, content);
    ProjectFile::from_tree(&tree).map_err(|error| error.to_string())
}

fn read(content: &str) -> ProjectFile {
    file(PATHS[0], content).unwrap()
}

/// The example in the README.
fn example() -> &'static str {
    let readme = include_str!("../../../README.md");
    readme.split_once("```yaml\n").unwrap().1.split_once("```").unwrap().0
}

#[test]
fn parses_the_example_of_the_readme() {
    let file = read(example());
    let (request, notes) = file.complete(&RunRequest::default(), false);
    assert_eq!(request.command, ["/bin/sh", "-c", "make check"]);
    assert_eq!((file.wall_ms(None, 1), request.env["CGO_ENABLED"].as_str()), (Some(120_000), "0"));
    assert_eq!(file.report(&RunRequest::default()), Some("build/junit.xml"));
    assert_eq!(
        (file.narrow(Limits::CEILING).memory_bytes_max, file.narrow(Limits::CEILING).cpu_millis_max),
        (1_000_000_000, 1_500)
    );
    assert_eq!((request.network, notes), (None, Vec::new()));
}

#[test]
fn a_request_overrides_the_file_and_the_policy_bounds_both() {
    let file = read(
        "framework: go\nparallel: 4\ntimeout: 10s\nenvironment: {A: file, B: file}\nsandbox: {allow_network: true, max_memory: 64GiB}",
    );
    let requested = RunRequest {
        framework: Some("jest".into()),
        parallel: Some(2),
        env: [("A".to_owned(), "request".to_owned())].into(),
        ..RunRequest::default()
    };
    let (request, notes) = file.complete(&requested, true);
    assert_eq!((request.framework.as_deref(), request.parallel), (Some("jest"), Some(2)));
    assert_eq!((request.env["A"].as_str(), request.env["B"].as_str()), ("request", "file"));
    assert_eq!((request.network, notes.len(), request.selection), (Some(Network::Host), 0, Selection::All));
    let (request, notes) = file.complete(&RunRequest::default(), false);
    assert_eq!((request.framework.as_deref(), request.parallel, request.network), (Some("go"), Some(4), None));
    assert!(notes[0].contains("not allowed for this tenant"), "{notes:?}");
    assert_eq!(file.narrow(Limits::DEFAULT), Limits::DEFAULT, "more than the ceiling is no more");
    let own = RunRequest { command: vec!["true".into()], ..RunRequest::default() };
    assert_eq!(read("command: [a, b c]\nreport: r.xml").complete(&own, false).0.command, ["true"]);
    assert_eq!(read("command: [a, b c]\nreport: r.xml").report(&own), None);
    let (request, notes) = read("command: make check\nframework: go").complete(&RunRequest::default(), false);
    assert_eq!((request.command.len(), request.framework.as_deref(), notes.len()), (0, Some("go"), 1));
}

#[test]
fn the_second_path_nests_everything_below_testing() {
    let nested = file(PATHS[1], "testing:\n  framework: go\n  timeout: 300s\n").unwrap();
    assert_eq!(nested, read("framework: go\ntimeout: 300s"));
    for empty in ["", "\n", "# nothing\n", "{}"] {
        assert_eq!(file(PATHS[0], empty).unwrap(), ProjectFile::default(), "{empty:?}");
    }
    let mut both = FileTree::default();
    both.add_with_content(PATHS[0], "framework: go");
    both.add_with_content(PATHS[1], "nonsense");
    assert_eq!(ProjectFile::from_tree(&both).unwrap(), read("framework: go"));
}

#[test]
fn errors_name_file_line_and_key() {
    for (content, line, words) in [
        ("framework: go\ntimeuot: 3s\n", "2", &["timeuot"][..]),
        ("framework: go\ntimeout: soon\n", "2", &["soon", "300s"]),
        ("parallel: 0\n", "1", &["1 to 256"]),
        ("sandbox:\n  max_cpu: none\n", "2", &["none"]),
        ("environment:\n  OK: x\n  LD_PRELOAD: /x.so\n", "3", &["LD_PRELOAD"]),
        ("report: ../../etc/passwd\n", "1", &["below the workspace"]),
        ("patterns:\n - 'Test*'\n - /etc/*\n", "3, patterns", &["/etc/*"]),
        ("exclude:\n # two:\n\n - a.py::b\n", "4, exclude", &["a.py::b"]),
        ("exclude: [a,\n  'b: c',\n  '']\n", "3, exclude", &["empty"]),
        ("quarantine:\n  - TestA\n  # flaky\n  - ''\n", "4, quarantine", &[]),
        ("command: {}\n", "1", &["a list of words"]),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "1", &[]),
        ("framework: [\n", "", &[]),
    ] {
        let message = file(PATHS[0], content).unwrap_err();
        assert!(message.starts_with(".proctor.yaml: "), "{message}");
        assert!(
            words.iter().all(|word| message.contains(word))
                && message
                    .contains(&format!("line {line}{}", if line.is_empty() || line.contains(',') { "" } else { "," })),
            "{message}"
        );
        assert!(!message.contains('\n'), "one line: {message:?}");
    }
}

#[test]
fn errors_of_the_yaml_library_are_rephrased() {
    let long = format!("framework: go\nenvironment:\n  A: {}\n", "x".repeat(40_000));
    for (content, message) in [
        ("\nsandbox: {max_memory: 10}\n", "line 2, sandbox: memory must be at least 4 MiB, got 10 B"),
        ("\ncommand: []\n", "line 2, command: is empty"),
        ("command: ' '", "line 1, command: is empty"),
        ("command: [a, \"\\0\"]", "line 1, command: contains a NUL byte"),
        ("command:\n", "line 1, command: expected a line for the shell, or a list of words"),
        ("environment: {A: \"\\0\"}", "line 1, environment: contains a NUL byte"),
        (&long, "line 2, environment: at most 32768 bytes together, got 40001"),
        ("framework:\n", "line 1, framework: has no value"),
        ("timeout: ~\n", "line 1, timeout: expected a number with a unit"),
        ("parallel: many\n", "line 1, parallel: expected a whole number"),
        ("sandbox:\n  allow_network: perhaps\n", "line 2, allow_network: expected true or false"),
        ("environment:\nframework: go\n", "line 1, environment: expected keys with values"),
        ("framework: [go]\n", "line 1, framework: expected a text"),
        ("environment:\n  A: x\n  A: y\n", "line 3, A: A appears a second time"),
        ("framework: go\n---\nframework: go\n", "line 3, framework: a second document begins here: the file is one"),
        ("command: &a [x, *a]\n", "line 1, command: refers to itself"),
    ] {
        assert_eq!(file(PATHS[0], content).unwrap_err(), format!(".proctor.yaml: {message}"), "{content}");
    }
    let message = file(PATHS[1], "testing:\n  framework: nope\n").unwrap_err();
    let wanted = ".agenticorp/testing.yaml: line 2, framework: unknown framework `nope`: known are go, pytest";
    assert!(message.starts_with(wanted), "{message}");
    assert!(file(PATHS[0], "framework: all\n").is_ok());
}

#[test]
fn notes_misnamed_files_and_settings_that_do_not_apply() {
    let noted = |path: &str| file(path, "framework: go").unwrap().complete(&RunRequest::default(), false);
    let (request, notes) = noted(".proctor.yml");
    assert_eq!(request, RunRequest::default());
    assert_eq!(notes, [".proctor.yml is not read: the project file is called .proctor.yaml"]);
    assert_eq!(noted(".agenticorp/testing.yml").1.len(), 1);
    assert_eq!(noted("other.yml").1.len(), 0);
    let (_, notes) = read("framework: go\nreport: r.xml").complete(&RunRequest::default(), false);
    assert_eq!(notes, ["the project file's report is not read: it applies only to the project file's own command"]);
    let mut tree = FileTree::default();
    tree.add(PATHS[0]);
    let message = ProjectFile::from_tree(&tree).unwrap_err().to_string();
    assert!(message.starts_with(".proctor.yaml: cannot be read: it must be a regular text file"), "{message}");
}

#[test]
fn suggests_the_key_that_was_meant() {
    for (content, message) in [
        ("timeuot: 3s\n", "line 1, timeuot: unknown field `timeuot`: did you mean `timeout`?"),
        ("sandbox:\n  max_mem: 1GB\n", "line 2, max_mem: unknown field `max_mem`: did you mean `max_memory`?"),
        ("sandbox:\n  gpus: 1\n", "line 2, gpus: unknown field `gpus`: known are allow_network, max_memory, max_cpu"),
        ("excludes: []\n", "line 1, excludes: unknown field `excludes`: did you mean `exclude`?"),
    ] {
        assert_eq!(file(PATHS[0], content).unwrap_err(), format!(".proctor.yaml: {message}"), "{content}");
    }
    let nested = file(PATHS[1], "tests: {}\n").unwrap_err();
    assert_eq!(nested, ".agenticorp/testing.yaml: line 1, tests: unknown field `tests`: did you mean `testing`?");
}

#[test]
fn a_timeout_of_the_framework_precedes_the_general_one() {
    let mut tree = FileTree::default();
    tree.add_with_content("go.mod", "module example.com/a\n");
    tree.add_with_content("pyproject.toml", "[tool.pytest.ini_options]\n");
    let chosen = |name| detection::choose(&tree, Some(name), &Selection::All).unwrap();
    let of = |content: &str, name| read(content).wall_ms(Some(&chosen(name)), 300_000);
    let both = "timeout: 60s\ntimeouts: {go: 10s, custom: 5s}\n";
    assert_eq!((of(both, "go"), of(both, "pytest"), of(both, "all")), (Some(10_000), Some(60_000), Some(60_000)));
    assert_eq!(read(both).wall_ms(None, 1), Some(5_000));
    assert_eq!((of("timeouts: {go: 10s}", "pytest"), of("timeouts: {go: 10s}", "all")), (None, Some(300_000)));
    let message = file(PATHS[0], "timeouts:\n  rust: 3s\n").unwrap_err();
    assert!(message.starts_with(".proctor.yaml: line 2, rust: unknown framework `rust`"), "{message}");
}

#[test]
fn patterns_and_exclude_apply_to_runs_of_everything() {
    let file = read("patterns: ['Test*']\nexclude: [TestIntegration*, 'slow/**']\n");
    let (scope, note) = file.scope(&Selection::All);
    assert_eq!(
        (scope.patterns.names(), scope.exclude.files()),
        (&["Test*".to_owned()][..], &["slow/**".to_owned()][..])
    );
    assert!(note.unwrap().contains("`TestIntegration*`"));
    let matching = Selection::Matching { filter: None, files: vec!["a.go".into()] };
    let (scope, note) = file.scope(&matching);
    assert!(scope.is_everything() && note.unwrap().contains("the request selects tests itself"));
    assert_eq!(file.scope(&Selection::LastFailed { limit: None }), (TestScope::default(), None));
    assert_eq!((file.unused_scope().is_some(), read("").unused_scope()), (true, None));
    assert_eq!(read("").scope(&matching), (TestScope::default(), None));
}

#[test]
fn retries_and_quarantine_are_validated() {
    let settings = read("retries: 2\nquarantine:\n  - TestFlaky\n  - 'test_a.py::test_b[x y]'\n");
    assert_eq!(settings.quarantine().count(), 2);
    let retries = |request: &RunRequest| settings.complete(request, false).0.repetition.retry_failed;
    assert_eq!(retries(&RunRequest::default()), 2);
    let repeated = Repetition { repeat: 20, ..Repetition::ONCE };
    let rerun = Selection::Exactly(vec![RerunTarget::Package("a".to_owned())]);
    for own in [
        RunRequest { repetition: repeated, ..RunRequest::default() },
        RunRequest { fresh: true, ..RunRequest::default() },
        RunRequest { command: vec!["make".to_owned()], ..RunRequest::default() },
        RunRequest { selection: rerun, ..RunRequest::default() },
    ] {
        assert_eq!(retries(&own), 0, "{own:?}");
    }
    for (content, message) in [
        ("retries: 11\n", "line 1, retries: must be 0 to 10"),
        ("retries: -1\n", "line 1, retries: expected a whole number"),
        ("quarantine: TestA\n", "line 1, quarantine: expected a list"),
        ("quarantine: ['']\n", "line 1, quarantine: "),
    ] {
        let error = file(PATHS[0], content).unwrap_err();
        assert!(error.starts_with(&format!(".proctor.yaml: {message}")), "{content}: {error}");
    }
}

/// The committed schema is the one that the program prints. `PROCTOR_UPDATE_SCHEMA=1` writes it.
#[test]
fn the_committed_schema_is_current() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(SCHEMA_FILE);
    if std::env::var_os("PROCTOR_UPDATE_SCHEMA").is_some() {
        std::fs::write(&path, schema()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), schema(), "run this test with PROCTOR_UPDATE_SCHEMA=1");
}

/// The keys of the schema, those of tables after their table.
fn schema_keys() -> Vec<String> {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let keys = |value: &serde_json::Value| value["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let mut all = keys(&schema);
    all.extend(keys(&schema["definitions"]["SandboxTable"]));
    all
}

#[test]
fn the_schema_describes_every_key() {
    let error = file(PATHS[0], "no_such_key_at_all: 1\n").unwrap_err();
    let known: Vec<&str> = error.split_once("known are ").unwrap().1.split(", ").collect();
    let keys = schema_keys();
    assert!(known.iter().all(|key| keys.contains(&(*key).to_owned())), "{known:?} {keys:?}");
    assert_eq!(keys.len(), known.len() + 3, "three of the sandbox");
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["additionalProperties"], false);
    for key in known {
        assert!(schema["properties"][key]["description"].is_string(), "{key}");
    }
}

#[test]
fn a_first_file_changes_nothing_and_every_comment_in_it_is_valid() {
    for framework in proctor_frameworks::FRAMEWORKS {
        let text = template(&[framework.name()]);
        assert_eq!(read(&text), ProjectFile::default(), "{text}");
        let uncommented: Vec<&str> = text.lines().map(|line| uncomment(line).unwrap_or(line)).collect();
        let file = read(&uncommented.join("\n"));
        let (scope, _) = file.scope(&Selection::All);
        let support = framework.manifest().options.scope;
        let refuses =
            support == proctor_frameworks::ScopeSupport { names: proctor_frameworks::NameScope::Refused, files: false };
        assert_eq!(text.contains("refuses the run"), refuses, "{text}");
        assert!(refuses || scope.unsupported(support).is_none(), "{text}");
    }
    let text = template(&["go", "pytest"]);
    for key in schema_keys() {
        assert!(
            text.lines().any(|line| uncomment(line).is_some_and(|line| line.trim().starts_with(&format!("{key}:")))),
            "{key}"
        );
    }
    assert!(text.contains("# framework: all\n") && template(&[]).contains("No framework is detected"));
}

/// The setting in a comment of a first file; `None` for a sentence.
fn uncomment(line: &str) -> Option<&str> {
    let setting = line.strip_prefix("# ")?;
    let key = setting.trim_start().split(':').next().unwrap_or_default();
    let is_key = setting.contains(':') && !key.contains([' ', '.']) && !key.is_empty();
    (is_key || setting.trim_start().starts_with("- ")).then_some(setting)
}

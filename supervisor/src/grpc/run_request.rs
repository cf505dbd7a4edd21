//! Translates requests on the wire into requests of the domain, and reports each mistake with its field.

use super::{results_service, status};
use crate::grpc::{convert, convert_check};
use crate::host::environment::check_env;
use crate::runs::AskedLines;
use crate::runs::context::ScanPermits;
use crate::workspace::Workspace;
use proctor_core::bounds::{
    CHECKERS_MAX, COMMAND_BYTES_MAX, COMMAND_WORDS_MAX, FRAMEWORK_BYTES_MAX, NAME_BYTES_MAX, PARALLEL_MAX, REPEAT_MAX,
    REQUEST_FILES_BYTES_MAX, REQUEST_FILES_MAX, RETRY_FAILED_MAX,
};
use proctor_core::check::CheckRequest;
use proctor_core::coverage::LineSpan;
use proctor_core::filter::Filter;
use proctor_core::isolation::Network;
use proctor_core::limits::LimitRequest;
use proctor_core::repetition::Repetition;
use proctor_core::request::{Browser, BrowserOptions, EarlierState, RequestedCheck, RunRequest, Selection};
use proctor_core::test_name::TestName;
use proctor_core::test_order::TestOrder;
use proctor_proto::v1;
use tonic::Status;

/// The run request of `RunTests`.
pub(super) async fn run_tests(
    message: v1::RunTestsRequest,
    workspace: &Workspace,
    permits: &ScanPermits,
) -> Result<RunRequest, Status> {
    if message.files.is_empty() {
        return parse_run_tests(&message, workspace);
    }
    let workspace = workspace.clone();
    scan(permits, move || parse_run_tests(&message, &workspace)).await
}

/// The file of `TestsCovering`, relative to the workspace.
pub(super) async fn covered_file(
    message: &v1::TestsCoveringRequest,
    workspace: &Workspace,
    permits: &ScanPermits,
) -> Result<String, Status> {
    if message.file.trim().is_empty() {
        return Err(status::invalid("file", "file is required"));
    }
    asked_lines(message)?;
    let (file, workspace) = (message.file.clone(), workspace.clone());
    scan(permits, move || workspace.relative(&file).map_err(|error| status::workspace(&error, "file"))).await
}

/// The lines that `TestsCovering` asks for.
pub(super) fn asked_lines(message: &v1::TestsCoveringRequest) -> Result<AskedLines, Status> {
    let has_function = !message.function.is_empty();
    match (message.line, message.last_line) {
        (Some(0), _) => Err(status::invalid("line", "line must be at least 1")),
        (None, Some(_)) => Err(status::invalid("last_line", "last_line needs line, the first one")),
        (Some(first), Some(last)) if last < first => {
            Err(status::invalid("last_line", "last_line must not be before line"))
        }
        (Some(_), _) if has_function => Err(status::invalid("function", "either function or line, not both")),
        (Some(first), last) => Ok(AskedLines::Span(LineSpan { first, last: last.unwrap_or(first) })),
        (None, None) if message.function.len() > NAME_BYTES_MAX => {
            Err(status::invalid("function", "the name is too long"))
        }
        (None, None) if has_function => Ok(AskedLines::Function(message.function.clone())),
        (None, None) => Ok(AskedLines::Any),
    }
}

// Scans a workspace on a blocking thread: it may be on a slow disk.
async fn scan<T: Send + 'static>(
    permits: &ScanPermits,
    scan: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let result = permits.scan(scan).await;
    result.unwrap_or_else(|_| Err(status::internal("the files could not be read")))
}

fn parse_run_tests(message: &v1::RunTestsRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
    if message.parallel > PARALLEL_MAX {
        return Err(status::invalid("parallel", format!("parallel must be at most {PARALLEL_MAX}")));
    }
    let env = message.env.clone().into_iter().collect();
    check_env(&env).map_err(|why| status::invalid("env", why))?;
    check_enum::<v1::Network>("network", message.network)?;
    check_enum::<v1::CoverageMode>("coverage", message.coverage)?;
    check_enum::<v1::IfBusy>("if_busy", message.if_busy)?;
    check_enum::<v1::Priority>("priority", message.priority)?;
    let request = RunRequest {
        framework: framework(&message.framework)?,
        selection: tests_or_matching(message, workspace)?,
        command: message.command.clone(),
        limits: limits(message.limits.as_ref())?,
        network: convert::network_request(message.network()),
        coverage: convert::coverage_mode(message.coverage()),
        env,
        parallel: (message.parallel > 0).then_some(message.parallel),
        browsing: BrowserOptions { headed: message.headed, browser: browser(&message.browser)? },
        order: TestOrder::Project,
        fresh: message.fresh,
        repetition: repetition(message)?,
        check: None,
        stop_at_first_failure: false,
        replaced_file: None,
    };
    check_command(&request)?;
    Ok(request)
}

/// The run request of `RunFailingTests`.
pub(super) fn run_failing_tests(message: &v1::RunFailingTestsRequest) -> Result<RunRequest, Status> {
    check_enum::<v1::IfBusy>("if_busy", message.if_busy)?;
    check_enum::<v1::Priority>("priority", message.priority)?;
    Ok(RunRequest {
        selection: Selection::LastFailed { limit: (message.limit > 0).then_some(message.limit) },
        limits: limits(message.limits.as_ref())?,
        ..RunRequest::default()
    })
}

/// The run request of `AffectedTests` and `RunAffectedTests`.
pub(super) fn affected_tests(since: &str, wanted: Option<&v1::Limits>) -> Result<RunRequest, Status> {
    let since = results_service::earlier_state(since)?.unwrap_or(EarlierState::LastRun);
    Ok(RunRequest { selection: Selection::Affected { since }, limits: limits(wanted)?, ..RunRequest::default() })
}

/// The run request of `RunChecks`.
pub(super) async fn run_checks(
    message: v1::RunChecksRequest,
    workspace: &Workspace,
    permits: &ScanPermits,
) -> Result<RunRequest, Status> {
    if message.files.is_empty() {
        return parse_run_checks(&message, workspace);
    }
    let workspace = workspace.clone();
    scan(permits, move || parse_run_checks(&message, &workspace)).await
}

fn parse_run_checks(message: &v1::RunChecksRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
    let mut kinds = Vec::new();
    for kind in &message.kinds {
        check_enum::<v1::CheckKind>("kinds", *kind)?;
    }
    for kind in message.kinds() {
        kinds.push(convert_check::check_kind_request(kind).ok_or_else(|| {
            status::invalid("kinds", "kinds: CHECK_KIND_UNSPECIFIED is no kind: leave kinds empty for all")
        })?);
    }
    if message.checkers.len() > CHECKERS_MAX || message.checkers.iter().any(|name| name.len() > FRAMEWORK_BYTES_MAX) {
        let text = format!("checkers: at most {CHECKERS_MAX} names of at most {FRAMEWORK_BYTES_MAX} bytes");
        return Err(status::invalid("checkers", text));
    }
    let mut checkers = message.checkers.clone();
    // The same checks in another order are the same request.
    checkers.sort_unstable();
    checkers.dedup();
    kinds.sort_unstable();
    kinds.dedup();
    let request = CheckRequest { kinds, checkers, files: checked_files(&message.files, workspace)? };
    let since = results_service::earlier_state(&message.since)?;
    Ok(RunRequest {
        limits: limits(message.limits.as_ref())?,
        network: Some(Network::None),
        check: Some(Box::new(RequestedCheck { request, since })),
        ..RunRequest::default()
    })
}

/// The run request of `ListTests`.
pub(super) fn list_tests(message: &v1::ListTestsRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
    check_enum::<v1::Priority>("priority", message.priority)?;
    Ok(RunRequest {
        framework: framework(&message.framework)?,
        selection: selection(&message.filter, &[], workspace)?,
        ..RunRequest::default()
    })
}

/// Rejects a number that is no value of the enum; prost would read it as unspecified.
pub(super) fn check_enum<E: TryFrom<i32>>(field: &str, value: i32) -> Result<(), Status> {
    E::try_from(value).map(|_| ()).map_err(|_| status::invalid(field, format!("{field} has no value {value}")))
}

fn browser(name: &str) -> Result<Option<Browser>, Status> {
    let found = Browser::from_name(name);
    if found.is_none() && !name.is_empty() {
        let known = Browser::ALL.map(Browser::name).join(", ");
        return Err(status::invalid("browser", format!("browser: unknown browser `{name}`: known are {known}")));
    }
    Ok(found)
}

fn repetition(message: &v1::RunTestsRequest) -> Result<Repetition, Status> {
    let &v1::RunTestsRequest { repeat, until_different, retry_failed, fresh, .. } = message;
    for (field, value, max) in [("repeat", repeat, REPEAT_MAX), ("retry_failed", retry_failed, RETRY_FAILED_MAX)] {
        if value > max {
            return Err(status::invalid(field, format!("{field} must be at most {max}")));
        }
    }
    if until_different && repeat < 2 {
        return Err(status::invalid("until_different", "until_different needs a repeat of at least 2"));
    }
    let repetition = Repetition { repeat: repeat.max(1), until_different, retry_failed };
    if fresh && !repetition.is_once() {
        return Err(status::invalid(
            "fresh",
            "fresh excludes repeat and retry_failed: empty caches serve one execution",
        ));
    }
    Ok(repetition)
}

// Unknown names are found with the workspace; a name too long for any framework is rejected before it is stored.
fn framework(name: &str) -> Result<Option<String>, Status> {
    if name.len() > FRAMEWORK_BYTES_MAX {
        return Err(status::invalid("framework", format!("framework: at most {FRAMEWORK_BYTES_MAX} bytes")));
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

fn tests_or_matching(message: &v1::RunTestsRequest, workspace: &Workspace) -> Result<Selection, Status> {
    if message.tests.is_empty() {
        return selection(&message.filter, &message.files, workspace);
    }
    let others = [
        ("filter", !message.filter.is_empty()),
        ("files", !message.files.is_empty()),
        ("command", !message.command.is_empty()),
    ];
    if let Some((field, _)) = others.iter().find(|(_, set)| *set) {
        return Err(status::invalid("tests", format!("tests excludes {field}: pass one of them")));
    }
    let names = TestName::parse_all(&message.tests).map_err(|error| status::invalid("tests", error.to_string()))?;
    Ok(Selection::Named(names))
}

fn selection(filter: &str, files: &[String], workspace: &Workspace) -> Result<Selection, Status> {
    let filter = Filter::parse(filter).map_err(|error| status::invalid("filter", error.to_string()))?;
    let files = checked_files(files, workspace)?;
    Ok(if filter.is_none() && files.is_empty() { Selection::All } else { Selection::Matching { filter, files } })
}

fn checked_files(files: &[String], workspace: &Workspace) -> Result<Vec<String>, Status> {
    if files.len() > REQUEST_FILES_MAX {
        return Err(status::invalid("files", format!("files: at most {REQUEST_FILES_MAX}, got {}", files.len())));
    }
    normalized_files(files, workspace)
}

// Sorts and deduplicates the files, so that the same files in another order are the same request; no adapter depends on
// their order.
fn normalized_files(files: &[String], workspace: &Workspace) -> Result<Vec<String>, Status> {
    let existing = |file: &String| workspace.existing(file).map_err(|error| status::workspace(&error, "files"));
    let mut files = files.iter().map(existing).collect::<Result<Vec<_>, _>>()?;
    files.sort_unstable();
    files.dedup();
    if files.iter().map(String::len).sum::<usize>() > REQUEST_FILES_BYTES_MAX {
        return Err(status::invalid("files", format!("files: at most {REQUEST_FILES_BYTES_MAX} bytes together")));
    }
    Ok(files)
}

fn limits(message: Option<&v1::Limits>) -> Result<LimitRequest, Status> {
    let limits = message.map(convert::limit_request).unwrap_or_default();
    limits.check().map_err(|error| status::invalid("limits", error.to_string()))?;
    Ok(limits)
}

fn check_command(request: &RunRequest) -> Result<(), Status> {
    if request.command.is_empty() {
        return Ok(());
    }
    if request.command.len() > COMMAND_WORDS_MAX {
        return Err(status::invalid("command", format!("command: at most {COMMAND_WORDS_MAX} words")));
    }
    if request.command.iter().map(String::len).sum::<usize>() > COMMAND_BYTES_MAX {
        return Err(status::invalid("command", format!("command: at most {COMMAND_BYTES_MAX} bytes together")));
    }
    if request.command.iter().any(|word| word.contains('\0')) || request.command[0].is_empty() {
        return Err(status::invalid("command", "command: needs a program, and words without NUL bytes"));
    }
    let others = [
        ("framework", request.framework.is_some()),
        ("filter and files", request.selection != Selection::All),
        ("parallel", request.parallel.is_some()),
        ("headed and browser", request.browsing != BrowserOptions::default()),
    ];
    match others.iter().find(|(_, set)| *set) {
        Some((field, _)) => Err(status::invalid("command", format!("command excludes {field}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::pin::pin;
    use tonic_types::StatusExt;

    #[test]
    fn reads_files_on_a_blocking_thread() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let (free, receiver) = std::sync::mpsc::sync_channel::<()>(1);
            let thread = tokio::task::spawn_blocking(move || receiver.recv());
            read_files_on_a_blocking_thread(move || free.send(()).unwrap()).await;
            thread.await.unwrap().unwrap();
        });
    }

    async fn read_files_on_a_blocking_thread(free: impl FnOnce()) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.go"), "").unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let message = v1::RunTestsRequest { files: vec!["x.go".to_owned(); REQUEST_FILES_MAX], ..Default::default() };
        let permits = ScanPermits::for_tenant();
        let mut parsing = pin!(run_tests(message, &workspace, &permits));
        assert!(parsing.as_mut().now_or_never().is_none(), "the runtime's thread does not read files");
        let message = v1::TestsCoveringRequest { file: "./x.go".to_owned(), ..Default::default() };
        let mut covering = pin!(covered_file(&message, &workspace, &permits));
        assert!(covering.as_mut().now_or_never().is_none(), "nor for a coverage query");
        free();
        assert!(parsing.await.is_ok());
        assert_eq!(covering.await.unwrap(), "x.go");
    }

    /// The text of a status is sent in headers, of which clients accept no more than 8 KiB.
    #[tokio::test]
    async fn a_long_text_from_a_caller_makes_no_status_that_breaks_the_call() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let long = "é".repeat(50_000);
        let plain = v1::RunTestsRequest::default();
        for message in [
            v1::RunTestsRequest { framework: long.clone(), ..plain.clone() },
            v1::RunTestsRequest { browser: long.clone(), ..plain.clone() },
            v1::RunTestsRequest { files: vec![long.clone()], ..plain.clone() },
            v1::RunTestsRequest { filter: long.clone(), ..plain.clone() },
            v1::RunTestsRequest { tests: vec![long.clone()], ..plain.clone() },
            v1::RunTestsRequest { env: [(long.clone(), long.clone())].into(), ..plain.clone() },
            v1::RunTestsRequest { command: vec![long.clone(), long.clone()], ..plain },
        ] {
            let refused = run_tests(message, &workspace, &ScanPermits::for_tenant()).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
            let escaped = refused.message().len() * 3 + refused.details().len() * 4 / 3;
            assert!(escaped < 8_000, "{escaped}");
        }
    }

    #[tokio::test]
    async fn selects_tests_by_name_and_excludes_every_other_selection() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.go"), "").unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let parse = async |message: v1::RunTestsRequest| {
            run_tests(message, &workspace, &ScanPermits::for_tenant()).await.map(|request| request.selection)
        };
        let tests = ["b [x y] ", "a", "b [x y] "].map(str::to_owned).to_vec();
        let plain = v1::RunTestsRequest { tests: tests.clone(), ..Default::default() };
        let expected = Selection::Named(TestName::parse_all(&tests).unwrap());
        assert_eq!(parse(plain.clone()).await.unwrap(), expected);
        for (message, text) in [
            (
                v1::RunTestsRequest { filter: "a".to_owned(), ..plain.clone() },
                "tests excludes filter: pass one of them",
            ),
            (
                v1::RunTestsRequest { files: vec!["x.go".into()], ..plain.clone() },
                "tests excludes files: pass one of them",
            ),
            (
                v1::RunTestsRequest { command: vec!["x".into()], ..plain.clone() },
                "tests excludes command: pass one of them",
            ),
            (
                v1::RunTestsRequest { tests: vec![String::new()], ..plain },
                "tests: a name is empty: leave it out, or leave out tests to run all",
            ),
        ] {
            let refused = parse(message).await.unwrap_err();
            assert_eq!(refused.message(), text);
            assert_eq!(refused.get_details_bad_request().unwrap().field_violations[0].field, "tests");
        }
    }

    #[tokio::test]
    async fn deduplicates_files_and_bounds_the_bytes_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        let deep = vec!["d".repeat(250); 14].join("/");
        std::fs::create_dir_all(dir.path().join(&deep)).unwrap();
        let mut names: Vec<String> = (10..50).map(|number| format!("{deep}/{number}.go")).collect();
        names.iter().for_each(|name| std::fs::write(dir.path().join(name), "").unwrap());
        let workspace = Workspace::open(dir.path()).unwrap();
        let parse = async |files: Vec<String>| {
            let message = v1::RunTestsRequest { files, ..Default::default() };
            run_tests(message, &workspace, &ScanPermits::for_tenant()).await.map(|request| request.selection)
        };
        let refused = parse(names.clone()).await.unwrap_err();
        assert_eq!(refused.message(), "files: at most 131072 bytes together");
        assert_eq!(refused.get_details_bad_request().unwrap().field_violations[0].field, "files");
        names.truncate(REQUEST_FILES_BYTES_MAX / names[0].len());
        let repeated = names.iter().rev().flat_map(|name| [format!("./{name}"), name.clone()]).collect();
        let files = names.clone();
        assert_eq!(parse(repeated).await.unwrap(), Selection::Matching { filter: None, files });
    }
}

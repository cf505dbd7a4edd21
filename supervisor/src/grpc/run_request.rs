//! From a request on the wire to one of the domain, with every mistake answered by the field it is in. Must not start
//! anything.

use super::status;
use crate::grpc::convert;
use crate::host::environment::check_env;
use crate::runs::context::ScanPermits;
use crate::workspace::Workspace;
use proctor_core::bound::PARALLEL_MAX;
use proctor_core::filter::Filter;
use proctor_core::limits::LimitRequest;
use proctor_core::request::{Browser, Browsing, RunRequest, Selection};
use proctor_proto::v1;
use tonic::Status;

/// Most files that a request may name.
const FILES_MAX: usize = 1_000;

/// Bytes of these, all names together. A session keeps its last request, and as many as runs may wait.
const FILES_BYTES_MAX: usize = 128 * 1024;

/// Bytes of a framework's name.
const FRAMEWORK_BYTES_MAX: usize = 64;

/// Most words of a custom command.
const COMMAND_MAX: usize = 256;

/// Bytes of a custom command, all words together. The kernel takes no longer word, and as many commands as runs may wait.
const COMMAND_BYTES_MAX: usize = 128 * 1024;

/// How many of something an answer has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// When the request does not say.
    pub(super) default: u32,
    /// At most.
    pub(super) max: u32,
}

/// As many as are asked for, within bounds.
pub(super) fn clamp(asked: u32, Bounds { default, max }: Bounds) -> usize {
    usize::try_from(if asked == 0 { default } else { asked.min(max) }).unwrap_or(usize::MAX)
}

/// What `RunTests` asks for.
pub(super) async fn run_tests(
    asked: v1::RunTestsRequest,
    workspace: &Workspace,
    looks: &ScanPermits,
) -> Result<RunRequest, Status> {
    if asked.files.is_empty() {
        return wanted(&asked, workspace);
    }
    let workspace = workspace.clone();
    beside(looks, move || wanted(&asked, &workspace)).await
}

/// The file that `TestsCovering` asks about.
pub(super) async fn covered(
    asked: &v1::TestsCoveringRequest,
    workspace: &Workspace,
    looks: &ScanPermits,
) -> Result<String, Status> {
    if asked.file.trim().is_empty() {
        return Err(status::invalid("file", "file is required"));
    }
    if asked.line == Some(0) {
        return Err(status::invalid("line", "line must be at least 1"));
    }
    let (file, workspace) = (asked.file.clone(), workspace.clone());
    beside(looks, move || workspace.relative(&file).map_err(|error| status::workspace(&error, "file"))).await
}

// ScanPermits at a workspace, which may be on a disk that takes its time, are no work for a thread of the runtime.
async fn beside<T: Send + 'static>(
    looks: &ScanPermits,
    look: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let looked = looks.scan(look).await;
    looked.unwrap_or_else(|_| Err(status::internal("the files could not be looked at")))
}

fn wanted(asked: &v1::RunTestsRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
    if asked.repeat > 1 {
        return Err(status::invalid("repeat", "repeat must be 0 or 1 in this version"));
    }
    if asked.parallel > PARALLEL_MAX {
        return Err(status::invalid("parallel", format!("parallel must be at most {PARALLEL_MAX}")));
    }
    let env = asked.env.clone().into_iter().collect();
    check_env(&env).map_err(|why| status::invalid("env", why))?;
    check_enum::<v1::Network>("network", asked.network)?;
    check_enum::<v1::CoverageMode>("coverage", asked.coverage)?;
    check_enum::<v1::IfBusy>("if_busy", asked.if_busy)?;
    check_enum::<v1::Priority>("priority", asked.priority)?;
    let request = RunRequest {
        framework: framework(&asked.framework)?,
        selection: selection(&asked.filter, &asked.files, workspace)?,
        command: asked.command.clone(),
        limits: limits(asked.limits.as_ref())?,
        network: convert::network_request(asked.network()),
        coverage: convert::coverage_mode(asked.coverage()),
        env,
        parallel: (asked.parallel > 0).then_some(asked.parallel),
        browsing: Browsing { headed: asked.headed, browser: browser(&asked.browser)? },
        fresh: asked.fresh,
    };
    check_command(&request)?;
    Ok(request)
}

/// What `RunFailingTests` asks for.
pub(super) fn run_failing_tests(asked: &v1::RunFailingTestsRequest) -> Result<RunRequest, Status> {
    check_enum::<v1::IfBusy>("if_busy", asked.if_busy)?;
    check_enum::<v1::Priority>("priority", asked.priority)?;
    Ok(RunRequest {
        selection: Selection::LastFailed { limit: (asked.limit > 0).then_some(asked.limit) },
        limits: limits(asked.limits.as_ref())?,
        ..RunRequest::default()
    })
}

/// What `ListTests` asks for.
pub(super) fn list_tests(asked: &v1::ListTestsRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
    check_enum::<v1::Priority>("priority", asked.priority)?;
    Ok(RunRequest {
        framework: framework(&asked.framework)?,
        selection: selection(&asked.filter, &[], workspace)?,
        ..RunRequest::default()
    })
}

/// Refuses a number that is no value of the enum, which prost would read as unspecified.
pub(super) fn check_enum<E: TryFrom<i32>>(field: &str, value: i32) -> Result<(), Status> {
    E::try_from(value).map(|_| ()).map_err(|_| status::invalid(field, format!("{field} has no value {value}")))
}

fn browser(name: &str) -> Result<Option<Browser>, Status> {
    let found = Browser::named(name);
    if found.is_none() && !name.is_empty() {
        let known = Browser::ALL.map(Browser::name).join(", ");
        return Err(status::invalid("browser", format!("browser: unknown browser `{name}`: known are {known}")));
    }
    Ok(found)
}

// Which names there are is found out with the workspace; what none of them can be is refused before it is carried about.
fn framework(name: &str) -> Result<Option<String>, Status> {
    if name.len() > FRAMEWORK_BYTES_MAX {
        return Err(status::invalid("framework", format!("framework: at most {FRAMEWORK_BYTES_MAX} bytes")));
    }
    Ok((!name.is_empty()).then(|| name.to_owned()))
}

fn selection(filter: &str, files: &[String], workspace: &Workspace) -> Result<Selection, Status> {
    let filter = Filter::parse(filter).map_err(|error| status::invalid("filter", error.to_string()))?;
    if files.len() > FILES_MAX {
        return Err(status::invalid("files", format!("files: at most {FILES_MAX}, got {}", files.len())));
    }
    let files = each_once(files, workspace)?;
    Ok(if filter.is_none() && files.is_empty() { Selection::All } else { Selection::Matching { filter, files } })
}

// No adapter makes anything of their order, so the same files in another one, or some of them twice, are the same request.
fn each_once(files: &[String], workspace: &Workspace) -> Result<Vec<String>, Status> {
    let existing = |file: &String| workspace.existing(file).map_err(|error| status::workspace(&error, "files"));
    let mut files = files.iter().map(existing).collect::<Result<Vec<_>, _>>()?;
    files.sort_unstable();
    files.dedup();
    if files.iter().map(String::len).sum::<usize>() > FILES_BYTES_MAX {
        return Err(status::invalid("files", format!("files: at most {FILES_BYTES_MAX} bytes together")));
    }
    Ok(files)
}

fn limits(asked: Option<&v1::Limits>) -> Result<LimitRequest, Status> {
    let limits = asked.map(convert::limit_request).unwrap_or_default();
    limits.check().map_err(|error| status::invalid("limits", error.to_string()))?;
    Ok(limits)
}

fn check_command(request: &RunRequest) -> Result<(), Status> {
    if request.command.is_empty() {
        return Ok(());
    }
    if request.command.len() > COMMAND_MAX {
        return Err(status::invalid("command", format!("command: at most {COMMAND_MAX} words")));
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
        ("headed and browser", request.browsing != Browsing::default()),
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
    fn who_does_not_say_how_many_gets_the_default_and_nobody_more_than_the_most() {
        let bounds = Bounds { default: 3, max: 10 };
        assert_eq!([0, 1, 3, 10, 11, u32::MAX].map(|asked| clamp(asked, bounds)), [3, 1, 3, 10, 10, 10]);
    }

    /// The one thread for what blocks is taken: who would wait for a look waits for it.
    #[test]
    fn files_are_looked_at_beside_the_runtime() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let (free, taken) = std::sync::mpsc::sync_channel::<()>(1);
            let thread = tokio::task::spawn_blocking(move || taken.recv());
            look_beside_the_runtime(move || free.send(()).unwrap()).await;
            thread.await.unwrap().unwrap();
        });
    }

    async fn look_beside_the_runtime(free: impl FnOnce()) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.go"), "").unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let asked = v1::RunTestsRequest { files: vec!["x.go".to_owned(); FILES_MAX], ..Default::default() };
        let looks = ScanPermits::for_tenant();
        let mut looking = pin!(run_tests(asked, &workspace, &looks));
        assert!(looking.as_mut().now_or_never().is_none(), "the thread that asks does not look");
        let asked = v1::TestsCoveringRequest { file: "./x.go".to_owned(), ..Default::default() };
        let mut covering = pin!(covered(&asked, &workspace, &looks));
        assert!(covering.as_mut().now_or_never().is_none(), "nor that of whoever asks what covers it");
        free();
        assert!(looking.await.is_ok());
        assert_eq!(covering.await.unwrap(), "x.go");
    }

    /// What a status says goes out in headers, of which clients take no more than 8 KiB.
    #[tokio::test]
    async fn no_text_that_a_caller_chose_makes_a_status_that_breaks_the_call() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let long = "é".repeat(50_000);
        let plain = v1::RunTestsRequest::default();
        for asked in [
            v1::RunTestsRequest { framework: long.clone(), ..plain.clone() },
            v1::RunTestsRequest { browser: long.clone(), ..plain.clone() },
            v1::RunTestsRequest { files: vec![long.clone()], ..plain.clone() },
            v1::RunTestsRequest { filter: long.clone(), ..plain.clone() },
            v1::RunTestsRequest { env: [(long.clone(), long.clone())].into(), ..plain.clone() },
            v1::RunTestsRequest { command: vec![long.clone(), long.clone()], ..plain },
        ] {
            let refused = run_tests(asked, &workspace, &ScanPermits::for_tenant()).await.unwrap_err();
            assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused:?}");
            let escaped = refused.message().len() * 3 + refused.details().len() * 4 / 3;
            assert!(escaped < 8_000, "{escaped}");
        }
    }

    #[tokio::test]
    async fn a_file_counts_once_however_often_it_is_named_and_all_are_kept_within_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let deep = vec!["d".repeat(250); 14].join("/");
        std::fs::create_dir_all(dir.path().join(&deep)).unwrap();
        let mut names: Vec<String> = (10..50).map(|number| format!("{deep}/{number}.go")).collect();
        names.iter().for_each(|name| std::fs::write(dir.path().join(name), "").unwrap());
        let workspace = Workspace::open(dir.path()).unwrap();
        let looked = async |files: Vec<String>| {
            let asked = v1::RunTestsRequest { files, ..Default::default() };
            run_tests(asked, &workspace, &ScanPermits::for_tenant()).await.map(|wanted| wanted.selection)
        };
        let refused = looked(names.clone()).await.unwrap_err();
        assert_eq!(refused.message(), "files: at most 131072 bytes together");
        assert_eq!(refused.get_details_bad_request().unwrap().field_violations[0].field, "files");
        names.truncate(FILES_BYTES_MAX / names[0].len());
        let again = names.iter().rev().flat_map(|name| [format!("./{name}"), name.clone()]).collect();
        let files = names.clone();
        assert_eq!(looked(again).await.unwrap(), Selection::Matching { filter: None, files });
    }
}

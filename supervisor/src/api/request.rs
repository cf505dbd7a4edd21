//! From a request on the wire to one of the domain, with every mistake answered by the field it is in. Must not start
//! anything.

use super::status;
use crate::convert;
use crate::prepare::check_env;
use crate::workspace::Workspace;
use proctor_core::bound::PARALLEL_MAX;
use proctor_core::filter::Filter;
use proctor_core::limits::LimitRequest;
use proctor_core::request::{Browser, Browsing, RunRequest, Selection};
use proctor_proto::v1;
use tonic::Status;

/// Most files that a request may name.
const FILES_MAX: usize = 1_000;

/// Most words of a custom command.
const COMMAND_MAX: usize = 256;

/// What `RunTests` asks for.
pub(super) fn run_tests(asked: &v1::RunTestsRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
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
    let request = RunRequest {
        framework: framework(&asked.framework),
        selection: selection(&asked.filter, &asked.files, workspace)?,
        command: asked.command.clone(),
        limits: limits(asked.limits.as_ref())?,
        network: convert::network_request(asked.network()),
        coverage: convert::coverage_mode(asked.coverage()),
        env,
        parallel: (asked.parallel > 0).then_some(asked.parallel),
        browsing: Browsing { headed: asked.headed, browser: browser(&asked.browser)? },
    };
    check_command(&request)?;
    Ok(request)
}

/// What `RunFailingTests` asks for.
pub(super) fn run_failing_tests(asked: &v1::RunFailingTestsRequest) -> Result<RunRequest, Status> {
    check_enum::<v1::IfBusy>("if_busy", asked.if_busy)?;
    Ok(RunRequest {
        selection: Selection::LastFailed { limit: (asked.limit > 0).then_some(asked.limit) },
        limits: limits(asked.limits.as_ref())?,
        ..RunRequest::default()
    })
}

/// What `ListTests` asks for.
pub(super) fn list_tests(asked: &v1::ListTestsRequest, workspace: &Workspace) -> Result<RunRequest, Status> {
    Ok(RunRequest {
        framework: framework(&asked.framework),
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

fn framework(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}

fn selection(filter: &str, files: &[String], workspace: &Workspace) -> Result<Selection, Status> {
    let filter = Filter::parse(filter).map_err(|error| status::invalid("filter", error.to_string()))?;
    if files.len() > FILES_MAX {
        return Err(status::invalid("files", format!("files: at most {FILES_MAX}, got {}", files.len())));
    }
    let files = files
        .iter()
        .map(|file| workspace.existing(file).map_err(|error| status::workspace(&error, "files")))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(if filter.is_none() && files.is_empty() { Selection::All } else { Selection::Matching { filter, files } })
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

//! What one viewer sees: the part of an observation that is its own, as much of it as a page shows, as JSON. Pure.
//!
//! Names come from tenants and from their tests, so they are hostile: each is made printable and is clipped here, and the
//! page's script puts them into the document as text alone.

use super::observer::{EndedRun, Observation, RunObservation, SessionObservation, TenantObservation};
use super::viewer::Scope;
use proctor_core::bounds::{PAGE_ROWS_MAX, clip};
use proctor_core::id::TenantId;
use proctor_core::outcome::Outcome;
use proctor_proto::printable::line;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Longest name, in bytes: some lines of a table's cell.
const NAME_BYTES_MAX: usize = 400;

/// Longest search, in characters.
const SEARCH_CHARS_MAX: usize = 100;

/// Which sessions a viewer asks for.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ViewQuery {
    /// Text in the workspace, the tenant, an id or the outcome; any case.
    #[serde(default)]
    search: String,
    /// Page of the sessions, from 0.
    #[serde(default)]
    page: usize,
}

/// Everything that a viewer sees.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct View {
    viewer: String,
    is_operator: bool,
    version: &'static str,
    started_ms: u64,
    drains_within_ms: Option<u64>,
    /// Why the host runs nothing; for operators.
    trouble: Option<String>,
    resources: Vec<Resource>,
    outcomes: Vec<OutcomeCount>,
    running: Listing<RunRow>,
    queue: Listing<RunRow>,
    recent: Listing<LastRunRow>,
    /// For operators.
    tenants: Option<Listing<TenantRow>>,
    sessions: SessionPage,
}

/// The first rows of a list, and how many it has.
#[derive(Debug, PartialEq, Serialize)]
struct Listing<T> {
    rows: Vec<T>,
    total: usize,
}

#[derive(Debug, PartialEq, Serialize)]
struct SessionPage {
    rows: Vec<SessionRow>,
    total: u64,
    /// Whether the rows and the search have all busy sessions and only a part of the others.
    is_cut: bool,
    matching: usize,
    page: usize,
    pages: usize,
}

/// What is in use of a resource.
#[derive(Debug, PartialEq, Serialize)]
struct Resource {
    name: &'static str,
    unit: Unit,
    used: u64,
    max: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Count,
    Bytes,
    /// Thousandths of a processor.
    CpuMillis,
}

#[derive(Debug, PartialEq, Serialize)]
struct OutcomeCount {
    outcome: &'static str,
    runs: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct RunRow {
    run: String,
    tenant: String,
    workspace: String,
    accepted_ms: u64,
    finished: u64,
    tests: Option<u64>,
    failed: u64,
    memory_bytes: Option<u64>,
    memory_bytes_max: Option<u64>,
    wall_ms_max: Option<u64>,
    test: Option<String>,
}

#[derive(Debug, PartialEq, Serialize)]
struct LastRunRow {
    run: String,
    tenant: String,
    workspace: String,
    outcome: &'static str,
    framework: String,
    tests: Option<u64>,
    failed: Option<u64>,
    ended_ms: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize)]
struct TenantRow {
    tenant: String,
    resources: Vec<Resource>,
}

#[derive(Debug, PartialEq, Serialize)]
struct SessionRow {
    session: String,
    tenant: String,
    workspace: String,
    is_running: bool,
    waiting: usize,
    used_ms: u64,
    last: Option<LastRunRow>,
}

impl View {
    /// What `scope` sees of `observation`.
    pub(super) fn new(observation: &Observation, scope: &Scope, query: &ViewQuery) -> View {
        let is_own = |tenant: &TenantId| match scope {
            Scope::Operator => true,
            Scope::Tenant(own) => tenant == own,
        };
        let tenants: Vec<_> = observation.tenants.iter().filter(|tenant| is_own(&tenant.tenant)).collect();
        let sessions: Vec<_> = observation.sessions.iter().filter(|session| is_own(&session.tenant)).collect();
        let mut runs: Vec<_> = observation.runs.iter().filter(|run| is_own(&run.tenant)).collect();
        runs.sort_by(|one, other| (one.accepted_at, one.run.as_str()).cmp(&(other.accepted_at, other.run.as_str())));
        let (queue, running): (Vec<&RunObservation>, Vec<&RunObservation>) = runs.iter().partition(|run| run.is_queued);
        let cut: BTreeMap<_, _> = observation.cut.iter().filter(|(tenant, _)| is_own(tenant)).collect();
        let uses = Uses::of_each(&sessions, &cut, &runs);
        let sessions_total = uses.values().map(|uses| uses.sessions).sum();
        let is_operator = *scope == Scope::Operator;
        let resources = match scope {
            Scope::Operator => host_resources(observation, sessions_total),
            Scope::Tenant(own) => tenants.first().map(|tenant| resources(tenant, uses.get(own))).unwrap_or_default(),
        };
        View {
            viewer: match scope {
                Scope::Operator => "operator".to_owned(),
                Scope::Tenant(own) => shown(own.as_str()),
            },
            is_operator,
            version: env!("CARGO_PKG_VERSION"),
            started_ms: observation.started_at.0,
            drains_within_ms: observation.drains_within_ms,
            trouble: observation.trouble.as_deref().filter(|_| is_operator).map(shown),
            resources,
            outcomes: outcomes(&tenants),
            running: Listing::new(running.into_iter(), run_row),
            queue: Listing::new(queue.into_iter(), run_row),
            recent: recent(&sessions),
            tenants: is_operator.then(|| tenant_listing(tenants, &uses)),
            sessions: SessionPage::new(sessions, sessions_total, !cut.is_empty(), query),
        }
    }
}

impl<T> Listing<T> {
    fn new<I>(items: impl ExactSizeIterator<Item = I>, row: impl FnMut(I) -> T) -> Listing<T> {
        let total = items.len();
        Listing { rows: items.take(PAGE_ROWS_MAX).map(row).collect(), total }
    }
}

/// What the sessions and runs of a tenant use.
#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    sessions: u64,
    running: u64,
    queued: u64,
    memory_bytes: u64,
    cpu_millis: u64,
}

impl Uses {
    fn of_each<'a>(
        sessions: &[&'a SessionObservation],
        cut: &BTreeMap<&'a TenantId, &u64>,
        runs: &[&'a RunObservation],
    ) -> BTreeMap<&'a TenantId, Uses> {
        let mut uses: BTreeMap<&TenantId, Uses> = BTreeMap::new();
        for session in sessions {
            uses.entry(&session.tenant).or_default().sessions += 1;
        }
        for (tenant, total) in cut {
            uses.entry(tenant).or_default().sessions = **total;
        }
        for run in runs {
            let sum = uses.entry(&run.tenant).or_default();
            match run.is_queued {
                true => sum.queued += 1,
                false => sum.running += 1,
            }
            sum.memory_bytes += run.memory_bytes.unwrap_or(0);
            sum.cpu_millis += run.limits.map_or(0, |limits| limits.cpu_millis_max.into());
        }
        uses
    }
}

fn host_resources(observation: &Observation, sessions: u64) -> Vec<Resource> {
    let usage = observation.scheduler;
    let in_use = observation.runs.iter().filter_map(|run| run.memory_bytes).sum();
    let budget = usage.budget;
    vec![
        Resource { name: "Memory in use by runs", unit: Unit::Bytes, used: in_use, max: Some(budget.memory_bytes) },
        Resource {
            name: "Memory reserved for runs",
            unit: Unit::Bytes,
            used: usage.in_use.memory_bytes,
            max: Some(budget.memory_bytes),
        },
        Resource {
            name: "Processors reserved for runs",
            unit: Unit::CpuMillis,
            used: usage.in_use.cpu_millis,
            max: Some(budget.cpu_millis),
        },
        Resource { name: "Sessions", unit: Unit::Count, used: sessions, max: None },
    ]
}

fn resources(tenant: &TenantObservation, uses: Option<&Uses>) -> Vec<Resource> {
    let Uses { sessions, running, queued, memory_bytes, cpu_millis } = uses.copied().unwrap_or_default();
    let usage = &tenant.usage;
    let resource = |name, unit, used, max| Resource { name, unit, used, max };
    vec![
        resource("Sessions", Unit::Count, sessions, Some(usage.sessions_max)),
        resource("Running", Unit::Count, running, usage.runs_running_max),
        resource("Queued", Unit::Count, queued, usage.runs_queued_max),
        resource("Memory in use by runs", Unit::Bytes, memory_bytes, usage.memory_bytes_max),
        resource("Processors of runs", Unit::CpuMillis, cpu_millis, usage.cpu_millis_max),
        resource("Kept results", Unit::Bytes, usage.retained_bytes, usage.retained_bytes_max),
        resource("Event streams", Unit::Count, usage.streams, Some(usage.streams_max)),
    ]
}

// Tenants with runs before those with sessions only, in order of their names.
fn tenant_listing(mut tenants: Vec<&TenantObservation>, uses: &BTreeMap<&TenantId, Uses>) -> Listing<TenantRow> {
    let used = |tenant: &TenantObservation| uses.get(&tenant.tenant).copied().unwrap_or_default();
    tenants.sort_by_key(|tenant| {
        let Uses { sessions, running, queued, .. } = used(tenant);
        Reverse((running + queued, sessions))
    });
    Listing::new(tenants.into_iter(), |tenant| TenantRow {
        tenant: shown(tenant.tenant.as_str()),
        resources: resources(tenant, uses.get(&tenant.tenant)),
    })
}

// Ended runs by outcome, in the order of the taxonomy.
fn outcomes(tenants: &[&TenantObservation]) -> Vec<OutcomeCount> {
    let all = || tenants.iter().flat_map(|tenant| &tenant.outcomes);
    let counts = Outcome::ALL.iter().map(|outcome| OutcomeCount {
        outcome: outcome.name(),
        runs: all().filter(|(other, _)| other == outcome).map(|(_, runs)| runs).sum(),
    });
    counts.filter(|count| count.runs > 0).collect()
}

fn recent(sessions: &[&SessionObservation]) -> Listing<LastRunRow> {
    let mut ended: Vec<(&SessionObservation, &EndedRun)> =
        sessions.iter().filter_map(|session| Some((*session, session.last.as_ref()?))).collect();
    ended.sort_by_key(|(_, last)| Reverse(last.result.as_ref().map(|result| result.ended_at)));
    Listing::new(ended.into_iter(), |(session, last)| last_run_row(session, last))
}

fn run_row(run: &RunObservation) -> RunRow {
    RunRow {
        run: run.run.to_string(),
        tenant: shown(run.tenant.as_str()),
        workspace: shown(&run.workspace),
        accepted_ms: run.accepted_at.0,
        finished: run.tests_finished,
        tests: run.tests_total,
        failed: run.tests_failed,
        memory_bytes: run.memory_bytes,
        memory_bytes_max: run.limits.map(|limits| limits.memory_bytes_max),
        wall_ms_max: run.limits.map(|limits| limits.wall_ms_max),
        test: run.test.as_deref().map(shown),
    }
}

fn last_run_row(session: &SessionObservation, last: &EndedRun) -> LastRunRow {
    let result = last.result.as_ref();
    LastRunRow {
        run: last.run.to_string(),
        tenant: shown(session.tenant.as_str()),
        workspace: shown(&session.workspace),
        outcome: last.outcome.name(),
        framework: result.map_or_else(String::new, |result| shown(&result.framework)),
        tests: result.and_then(|result| result.tests),
        failed: result.and_then(|result| result.failed),
        ended_ms: result.map(|result| result.ended_at.0),
    }
}

impl SessionPage {
    fn new(mut sessions: Vec<&SessionObservation>, total: u64, is_cut: bool, query: &ViewQuery) -> SessionPage {
        let words: String = query.search.trim().to_lowercase().chars().take(SEARCH_CHARS_MAX).collect();
        if !words.is_empty() {
            sessions.retain(|session| matches(session, &words));
        }
        // Busy sessions first, then the one used last.
        sessions.sort_by_key(|session| {
            (Reverse(session.is_running), Reverse(session.waiting), Reverse(session.used_at), session.session.as_str())
        });
        let matching = sessions.len();
        let pages = matching.div_ceil(PAGE_ROWS_MAX).max(1);
        let page = query.page.min(pages - 1);
        let rows = sessions.into_iter().skip(page * PAGE_ROWS_MAX).take(PAGE_ROWS_MAX).map(session_row).collect();
        SessionPage { rows, total, is_cut, matching, page, pages }
    }
}

fn matches(session: &SessionObservation, words: &str) -> bool {
    let outcome = session.last.as_ref().map_or("", |last| last.outcome.name());
    let [workspace, tenant] = [&session.workspace, session.tenant.as_str()].map(str::to_lowercase);
    [&workspace, &tenant, session.session.as_str(), outcome, &outcome.replace('_', " ")]
        .iter()
        .any(|text| text.contains(words))
}

fn session_row(session: &SessionObservation) -> SessionRow {
    SessionRow {
        session: session.session.to_string(),
        tenant: shown(session.tenant.as_str()),
        workspace: shown(&session.workspace),
        is_running: session.is_running,
        waiting: session.waiting,
        used_ms: session.used_at.0,
        last: session.last.as_ref().map(|last| last_run_row(session, last)),
    }
}

fn shown(name: &str) -> String {
    clip(line(name).into_owned(), NAME_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::LastResult;
    use proctor_core::id::{RunId, SessionId};
    use proctor_core::limits::Limits;
    use proctor_core::timestamp::Timestamp;
    use proctor_proto::v1;
    use serde_json::{Value, json};

    fn tenant(name: &str) -> TenantObservation {
        TenantObservation {
            tenant: TenantId::new(name),
            usage: v1::TenantUsage {
                sessions_max: 10,
                runs_running_max: Some(4),
                runs_queued_max: None,
                memory_bytes: 0,
                memory_bytes_max: Some(1 << 30),
                cpu_millis_max: None,
                retained_bytes: 5,
                retained_bytes_max: Some(100),
                streams: 1,
                streams_max: 8,
            },
            outcomes: vec![(Outcome::Passed, 2)],
        }
    }

    fn session(tenant: &str, id: &str, workspace: &str, used_at: u64) -> SessionObservation {
        let result = LastResult {
            framework: "pytest".to_owned(),
            tests: Some(9),
            failed: Some(1),
            ended_at: Timestamp(used_at),
        };
        let (run, outcome) = (RunId::new(format!("{id}-1")), Outcome::TimedOut);
        SessionObservation {
            tenant: TenantId::new(tenant),
            session: SessionId::new(id),
            workspace: workspace.to_owned(),
            is_running: false,
            waiting: 0,
            used_at: Timestamp(used_at),
            last: Some(EndedRun { run, outcome, result: Some(result) }),
        }
    }

    fn run(tenant: &str, id: &str, is_queued: bool, test: &str) -> RunObservation {
        RunObservation {
            tenant: TenantId::new(tenant),
            run: RunId::new(id),
            workspace: "shop".to_owned(),
            accepted_at: Timestamp(7),
            is_queued,
            tests_finished: 3,
            tests_total: Some(9),
            tests_failed: 1,
            memory_bytes: Some(1 << 20),
            limits: (!is_queued).then_some(Limits::DEFAULT),
            test: Some(test.to_owned()),
        }
    }

    fn observation() -> Observation {
        Observation {
            trouble: Some("the disk is full".to_owned()),
            tenants: vec![tenant("alpha"), tenant("beta")],
            sessions: vec![session("alpha", "a1", "shop", 1), session("beta", "b1", "bank", 2)],
            runs: vec![run("alpha", "a1-2", false, "test_a"), run("beta", "b1-2", true, "test_b")],
            ..Observation::default()
        }
    }

    fn seen(observation: &Observation, scope: &Scope, query: &ViewQuery) -> Value {
        serde_json::to_value(View::new(observation, scope, query)).unwrap()
    }

    fn alpha() -> Scope {
        Scope::Tenant(TenantId::new("alpha"))
    }

    #[test]
    fn a_tenant_sees_only_its_own() {
        let view = seen(&observation(), &alpha(), &ViewQuery::default());
        let text = view.to_string();
        for foreign in ["beta", "bank", "b1", "test_b", "disk"] {
            assert!(!text.contains(foreign), "{foreign} in {text}");
        }
        assert_eq!(
            (&view["viewer"], &view["is_operator"], &view["tenants"]),
            (&json!("alpha"), &json!(false), &json!(null))
        );
        assert_eq!((&view["running"]["total"], &view["queue"]["total"]), (&json!(1), &json!(0)));
        assert_eq!((&view["sessions"]["total"], &view["recent"]["total"]), (&json!(1), &json!(1)));
        assert_eq!(view["outcomes"], json!([{ "outcome": "passed", "runs": 2 }]));
        let memory = &view["resources"][3];
        assert_eq!((&memory["used"], &memory["max"]), (&json!(1 << 20), &json!(1 << 30)));
        let unknown = seen(&observation(), &Scope::Tenant(TenantId::new("gamma")), &ViewQuery::default());
        assert_eq!((&unknown["resources"], &unknown["sessions"]["total"]), (&json!([]), &json!(0)));
    }

    #[test]
    fn an_operator_sees_all_tenants() {
        let view = seen(&observation(), &Scope::Operator, &ViewQuery::default());
        assert_eq!((&view["running"]["total"], &view["queue"]["total"]), (&json!(1), &json!(1)));
        assert_eq!((&view["tenants"]["total"], &view["sessions"]["total"]), (&json!(2), &json!(2)));
        assert_eq!(view["outcomes"], json!([{ "outcome": "passed", "runs": 4 }]));
        assert_eq!(view["recent"]["rows"][0]["workspace"], "bank", "the run that ended last comes first");
        assert_eq!(view["trouble"], "the disk is full");
        assert_eq!(view["running"]["rows"][0]["memory_bytes_max"], Limits::DEFAULT.memory_bytes_max);
    }

    #[test]
    fn totals_count_sessions_that_were_not_asked() {
        let mut observation = observation();
        observation.cut.insert(TenantId::new("alpha"), 70_000);
        let sessions = |scope| {
            let view = seen(&observation, &scope, &ViewQuery::default());
            let used = view["resources"].as_array().unwrap().iter().find(|resource| resource["name"] == "Sessions");
            assert_eq!(used.unwrap()["used"], view["sessions"]["total"]);
            (view["sessions"]["total"].clone(), view["sessions"]["is_cut"].clone())
        };
        assert_eq!(sessions(alpha()), (json!(70_000), json!(true)));
        assert_eq!(sessions(Scope::Tenant(TenantId::new("beta"))), (json!(1), json!(false)));
        assert_eq!(sessions(Scope::Operator), (json!(70_001), json!(true)));
    }

    #[test]
    fn lists_and_pages_are_bounded_and_say_how_many_there_are() {
        let mut observation = observation();
        observation.sessions =
            (0..1_000).map(|number| session("alpha", &format!("{number:04}"), "shop", number)).collect();
        observation.runs = (0..200).map(|number| run("alpha", &format!("{number}-1"), false, "t")).collect();
        observation.sessions[500].is_running = true;
        let page = |search: &str, page| {
            let query = ViewQuery { search: search.to_owned(), page };
            let mut view = seen(&observation, &alpha(), &query);
            assert!(view.to_string().len() < 100_000);
            view["sessions"].take()
        };
        let first = page("", 0);
        assert_eq!((&first["total"], &first["matching"], &first["pages"]), (&json!(1_000), &json!(1_000), &json!(20)));
        assert_eq!(first["rows"].as_array().unwrap().len(), PAGE_ROWS_MAX);
        assert_eq!((&first["rows"][0]["session"], &first["rows"][1]["session"]), (&json!("0500"), &json!("0999")));
        let last = page("", usize::MAX);
        assert_eq!((&last["page"], &last["rows"][49]["session"]), (&json!(19), &json!("0000")));
        let found = page(" 0123 ", 3);
        assert_eq!(
            (&found["matching"], &found["page"], &found["rows"][0]["session"]),
            (&json!(1), &json!(0), &json!("0123"))
        );
        assert_eq!(page("TIMED OUT", 0)["matching"], 1_000);
        assert_eq!(page("bank", 0)["matching"], 0);
        let view = seen(&observation, &alpha(), &ViewQuery::default());
        assert_eq!((view["running"]["rows"].as_array().unwrap().len(), &view["running"]["total"]), (50, &json!(200)));
    }

    #[test]
    fn hostile_names_are_printable_and_short() {
        let mut observation = observation();
        observation.runs[0].test = Some(format!("<script>\r\n\u{202e}\u{1b}[31m{}", "x".repeat(10_000)));
        let view = seen(&observation, &alpha(), &ViewQuery::default());
        let test = view["running"]["rows"][0]["test"].as_str().unwrap();
        assert!(test.starts_with("<script>\\r\\n\\u{202e}\\u{1b}[31mx") && test.len() <= NAME_BYTES_MAX, "{test}");
    }
}

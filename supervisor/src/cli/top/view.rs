//! Draws the state of `proctor top`: a line of totals, the tenants, the runs, and a line for keys and messages. All names are
//! untrusted and are made printable first.

use super::state::TopState;
use crate::cli::admin::{self, used_of};
use crate::cli::history::counted;
use proctor_core::human_units::format_bytes;
use proctor_proto::printable::line;
use proctor_proto::text::full_name;
use proctor_proto::v1::{HostRun, TenantStatus};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Table};

/// Most lines for tenants, so that runs have the larger part of the screen.
const TENANT_LINES_MAX: usize = 8;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut TopState) {
    let tenants = busiest(&state.tenants);
    let tenant_lines = u16::try_from(tenants.len() + 2).unwrap_or(u16::MAX);
    let areas = [Constraint::Length(2), Constraint::Length(tenant_lines), Constraint::Min(3), Constraint::Length(1)];
    let [totals_area, tenants_area, runs_area, keys_area] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(totals(state), totals_area);
    frame.render_widget(tenant_table(&tenants), tenants_area);
    let keys = keys(state);
    let TopState { runs, table, .. } = state;
    frame.render_stateful_widget(run_table(runs), runs_area, table);
    frame.render_widget(keys, keys_area);
}

// Tenants with runs before those with sessions only, in order of their names.
fn busiest(tenants: &[TenantStatus]) -> Vec<&TenantStatus> {
    let mut busiest: Vec<&TenantStatus> = tenants.iter().collect();
    busiest.sort_by_key(|tenant| std::cmp::Reverse((tenant.runs_running + tenant.runs_queued, tenant.sessions)));
    busiest.truncate(TENANT_LINES_MAX);
    busiest
}

fn totals(state: &TopState) -> Line<'static> {
    let sum = |count: fn(&TenantStatus) -> u64| state.tenants.iter().map(count).sum::<u64>();
    let memory = sum(|tenant| tenant.usage.as_ref().map_or(0, |usage| usage.memory_bytes));
    Line::from(vec![
        "proctor".bold(),
        Span::raw(format!(
            "  {}, {}, {} running, {} queued, {} in use by runs",
            counted(state.tenants.len() as u64, "tenant"),
            counted(sum(|tenant| tenant.sessions), "session"),
            sum(|tenant| tenant.runs_running),
            sum(|tenant| tenant.runs_queued),
            format_bytes(memory)
        )),
    ])
}

fn header(names: &[&'static str]) -> Row<'static> {
    Row::new(names.iter().map(|name| Cell::from(*name)).collect::<Vec<_>>())
        .style(Style::new().add_modifier(Modifier::DIM))
}

fn tenant_table(tenants: &[&TenantStatus]) -> Table<'static> {
    let rows = tenants.iter().map(|tenant| {
        let usage = tenant.usage.unwrap_or_default();
        Row::new([
            line(&tenant.tenant_id).into_owned(),
            used_of(tenant.sessions, Some(usage.sessions_max).filter(|max| *max > 0), |count| count.to_string()),
            used_of(tenant.runs_running, usage.runs_running_max, |count| count.to_string()),
            used_of(tenant.runs_queued, usage.runs_queued_max, |count| count.to_string()),
            used_of(usage.memory_bytes, usage.memory_bytes_max, format_bytes),
            used_of(usage.retained_bytes, usage.retained_bytes_max, format_bytes),
        ])
    });
    let widths = [20, 12, 12, 12, 22, 22].map(Constraint::Length);
    Table::new(rows.collect::<Vec<_>>(), widths)
        .header(header(&["tenant", "sessions", "running", "queued", "memory", "retained"]))
}

fn run_table(runs: &[HostRun]) -> Table<'static> {
    let rows = runs.iter().map(|run| {
        let progress = run.progress.clone().unwrap_or_default();
        let failing = match progress.tests_failed {
            0 => Cell::from(""),
            failed => Cell::from(failed.to_string()).red(),
        };
        Row::new([
            Cell::from(line(&run.tenant_id).into_owned()),
            Cell::from(short_id(&run.run_id)),
            Cell::from(admin::state(run)),
            Cell::from(age(run.age_ms)),
            Cell::from(used_of(progress.tests_finished, progress.tests_total, |count| count.to_string())),
            failing,
            Cell::from(progress.memory_bytes.map(format_bytes).unwrap_or_default()),
            Cell::from(progress.running.as_ref().map(|test| line(&full_name(test)).into_owned()).unwrap_or_default()),
        ])
    });
    let mut widths = [20, 14, 8, 9, 14, 8, 11, 0].map(Constraint::Length);
    widths[7] = Constraint::Min(10);
    let names = ["tenant", "run", "state", "age", "tests", "failing", "memory", "running test"];
    Table::new(rows.collect::<Vec<_>>(), widths)
        .header(header(&names))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

// The first digits of the session's id, and the run's number in it.
fn short_id(run: &str) -> String {
    let run = line(run);
    match run.rsplit_once('-') {
        Some((session, number)) => format!("{}-{number}", session.chars().take(8).collect::<String>()),
        None => run.into_owned(),
    }
}

fn age(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
    }
}

fn keys(state: &TopState) -> Line<'static> {
    if let Some(error) = &state.error {
        let first = error.lines().next().unwrap_or_default();
        return Line::from(format!("no answer, trying again: {}", line(first))).red();
    }
    if let Some(run) = &state.confirms {
        return Line::from(format!("stop run {}? y stops it, any other key does not", line(run))).yellow();
    }
    if let Some(message) = &state.message {
        return Line::from(line(message.lines().next().unwrap_or_default()).into_owned());
    }
    Line::from("↑↓ select   s stop the run   q leave").dim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_proto::v1::{Progress, RunState, TenantUsage, TestId};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen(state: &mut TopState, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    fn state() -> TopState {
        let usage = TenantUsage {
            sessions_max: 64,
            runs_running_max: Some(8),
            memory_bytes: 300 << 20,
            memory_bytes_max: Some(16 << 30),
            retained_bytes: 5 << 20,
            ..TenantUsage::default()
        };
        let tenants = vec![
            TenantStatus { tenant_id: "alpha".to_owned(), sessions: 1, ..TenantStatus::default() },
            TenantStatus {
                tenant_id: "beta".to_owned(),
                sessions: 3,
                runs_running: 1,
                runs_queued: 1,
                usage: Some(usage),
            },
        ];
        let progress = Progress {
            tests_finished: 120,
            tests_failed: 2,
            tests_total: Some(500),
            memory_bytes: Some(300 << 20),
            running: Some(TestId { package: "shop".to_owned(), name: "Test\u{1b}[2JPay".to_owned() }),
            ..Progress::default()
        };
        let run = |id: &str, state: RunState, age_ms: u64| HostRun {
            run_id: id.to_owned(),
            tenant_id: "beta".to_owned(),
            state: state.into(),
            age_ms,
            ..HostRun::default()
        };
        let running = HostRun {
            progress: Some(progress),
            ..run("0123456789abcdef0123456789abcdef-7", RunState::Running, 75_000)
        };
        TopState::new(tenants, vec![run("0123456789abcdef0123456789abcdef-8", RunState::Queued, 4_000), running])
    }

    #[test]
    fn shows_tenants_and_runs() {
        insta::assert_snapshot!(screen(&mut state(), 120, 14));
    }

    #[test]
    fn shows_what_fits_a_small_terminal() {
        insta::assert_snapshot!(screen(&mut state(), 40, 8));
    }

    #[test]
    fn shows_the_question_and_the_error() {
        let mut state = state();
        state.confirms = Some("r-1".to_owned());
        assert!(screen(&mut state, 80, 14).contains("stop run r-1? y stops it"));
        state.fail("no supervisor answers\nmore".to_owned());
        assert!(screen(&mut state, 80, 14).contains("no answer, trying again: no supervisor answers"));
    }
}

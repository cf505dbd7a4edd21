//! What `proctor top` shows, and what its keys do. It knows neither the terminal nor the connection.

use crate::cli::admin;
use proctor_proto::v1::{HostRun, TenantStatus};
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use ratatui::widgets::TableState;

/// What follows from a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    None,
    Leave,
    /// Cancel this run.
    Stop(String),
}

/// The state of the view.
pub(super) struct TopState {
    pub(super) tenants: Vec<TenantStatus>,
    /// Running runs before queued ones, each the oldest first.
    pub(super) runs: Vec<HostRun>,
    /// The selected line among the runs, and the first visible one.
    pub(super) table: TableState,
    /// The run whose stop waits for its confirmation.
    pub(super) confirms: Option<String>,
    /// Result of the last stop.
    pub(super) message: Option<String>,
    /// Why the supervisor does not answer; the lists are its last answer.
    pub(super) error: Option<String>,
}

impl TopState {
    pub(super) fn new(tenants: Vec<TenantStatus>, runs: Vec<HostRun>) -> TopState {
        let mut state = TopState {
            tenants: Vec::new(),
            runs: Vec::new(),
            table: TableState::new(),
            confirms: None,
            message: None,
            error: None,
        };
        state.update(tenants, runs);
        state
    }

    /// Replaces the lists. The selected run stays selected, wherever it is now.
    pub(super) fn update(&mut self, tenants: Vec<TenantStatus>, mut runs: Vec<HostRun>) {
        let selected = self.selected().map(|run| run.run_id.clone());
        let line = self.table.selected().unwrap_or(0);
        runs.sort_by(|one, other| {
            let order = |run: &HostRun| (admin::state(run) == "queued", std::cmp::Reverse(run.age_ms));
            order(one).cmp(&order(other)).then_with(|| one.run_id.cmp(&other.run_id))
        });
        let found = selected.and_then(|selected| runs.iter().position(|run| run.run_id == selected));
        let last = runs.len().checked_sub(1);
        (self.tenants, self.runs, self.error) = (tenants, runs, None);
        self.table.select(last.map(|last| found.unwrap_or(line).min(last)));
        self.confirms = self.confirms.take().filter(|run| self.runs.iter().any(|known| known.run_id == *run));
    }

    pub(super) fn fail(&mut self, error: String) {
        self.error = Some(error);
    }

    pub(super) fn selected(&self) -> Option<&HostRun> {
        self.runs.get(self.table.selected()?)
    }

    /// Handles a key.
    pub(super) fn press(&mut self, key: KeyCode, modifiers: KeyModifiers) -> Reaction {
        self.message = None;
        if let Some(run) = self.confirms.take() {
            return if key == KeyCode::Char('y') { Reaction::Stop(run) } else { Reaction::None };
        }
        match key {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return Reaction::Leave,
            KeyCode::Char('q') | KeyCode::Esc => return Reaction::Leave,
            KeyCode::Up | KeyCode::Char('k') => self.move_by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.move_by(1),
            KeyCode::PageUp => self.move_by(-10),
            KeyCode::PageDown => self.move_by(10),
            KeyCode::Char('s') => self.confirms = self.selected().map(|run| run.run_id.clone()),
            _ => {}
        }
        Reaction::None
    }

    fn move_by(&mut self, lines: isize) {
        let Some(last) = self.runs.len().checked_sub(1) else { return };
        let line = self.table.selected().unwrap_or(0);
        self.table.select(Some(line.saturating_add_signed(lines).min(last)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_proto::v1::RunState;

    fn run(id: &str, state: RunState, age_ms: u64) -> HostRun {
        HostRun { run_id: id.to_owned(), state: state.into(), age_ms, ..HostRun::default() }
    }

    fn ids(state: &TopState) -> Vec<&str> {
        state.runs.iter().map(|run| run.run_id.as_str()).collect()
    }

    #[test]
    fn running_runs_come_first_and_the_selected_run_stays_selected() {
        let mut state = TopState::new(
            Vec::new(),
            vec![run("a", RunState::Queued, 90), run("b", RunState::Running, 10), run("c", RunState::Running, 20)],
        );
        assert_eq!(ids(&state), ["c", "b", "a"]);
        assert_eq!(state.press(KeyCode::Down, KeyModifiers::NONE), Reaction::None);
        assert_eq!(state.selected().map(|run| run.run_id.as_str()), Some("b"));
        state.update(Vec::new(), vec![run("b", RunState::Running, 30), run("a", RunState::Running, 99)]);
        assert_eq!((ids(&state), state.table.selected()), (vec!["a", "b"], Some(1)));
        state.update(Vec::new(), vec![run("a", RunState::Running, 99)]);
        assert_eq!(state.table.selected(), Some(0), "another line is selected when the run has ended");
        state.update(Vec::new(), Vec::new());
        assert_eq!(state.table.selected(), None);
        assert_eq!(state.press(KeyCode::Down, KeyModifiers::NONE), Reaction::None);
    }

    #[test]
    fn stops_a_run_only_after_confirmation() {
        let mut state = TopState::new(Vec::new(), vec![run("a", RunState::Running, 1)]);
        assert_eq!(state.press(KeyCode::Char('s'), KeyModifiers::NONE), Reaction::None);
        assert_eq!(state.press(KeyCode::Char('n'), KeyModifiers::NONE), Reaction::None);
        assert_eq!(state.press(KeyCode::Char('y'), KeyModifiers::NONE), Reaction::None);
        state.press(KeyCode::Char('s'), KeyModifiers::NONE);
        assert_eq!(state.press(KeyCode::Char('y'), KeyModifiers::NONE), Reaction::Stop("a".to_owned()));
        state.press(KeyCode::Char('s'), KeyModifiers::NONE);
        state.update(Vec::new(), vec![run("b", RunState::Running, 1)]);
        assert_eq!(state.confirms, None, "the run has ended, and the key must not stop another one");
    }

    #[test]
    fn keeps_the_last_answer_while_the_supervisor_does_not_answer() {
        let mut state = TopState::new(Vec::new(), vec![run("a", RunState::Running, 1)]);
        state.fail("gone".to_owned());
        assert_eq!((ids(&state), state.error.as_deref()), (vec!["a"], Some("gone")));
        state.update(Vec::new(), Vec::new());
        assert_eq!(state.error, None);
    }
}

//! `proctor top`: a live view of a running supervisor at a terminal. It asks the supervisor at each interval; `state` decides
//! what keys do, `view` draws.

mod state;
mod view;

use super::admin::Host;
use super::arguments::{SupervisorSocket, TopArgs};
use super::{CommandError, in_process};
use proctor_proto::v1::{HostRun, TenantStatus};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{Reaction, TopState};
use std::io::{self, IsTerminal};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

/// Keys that wait while the supervisor answers. A person types no faster; further ones wait in the terminal.
const KEYS_MAX: usize = 16;

/// Shows the view until the user leaves it.
pub(super) fn top(arguments: &TopArgs) -> Result<u8, CommandError> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(CommandError::usage(
            "top: standard input and output are no terminal. `proctor admin runs` prints the same list once.",
        ));
    }
    in_process::runtime()?.block_on(async {
        // Before the screen is taken, so that a wrong socket is an ordinary error.
        let mut host = Host::connect(&arguments.socket).await?;
        let first = read(&mut host).await?;
        let mut terminal = ratatui::try_init().map_err(|error| terminal_failure(&error))?;
        let shown = show(&mut terminal, arguments, host, first).await;
        ratatui::restore();
        shown.map(|()| 0)
    })
}

fn terminal_failure(error: &io::Error) -> CommandError {
    CommandError::host(format!("the terminal cannot be used: {error}"))
}

async fn read(host: &mut Host) -> Result<(Vec<TenantStatus>, Vec<HostRun>), CommandError> {
    Ok((host.tenants().await?, host.runs().await?))
}

async fn show(
    terminal: &mut DefaultTerminal,
    TopArgs { socket, interval: every }: &TopArgs,
    host: Host,
    (tenants, runs): (Vec<TenantStatus>, Vec<HostRun>),
) -> Result<(), CommandError> {
    let mut state = TopState::new(tenants, runs);
    let mut host = Some(host);
    let mut keys = keys();
    let mut ticks = interval(every.0);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        terminal.draw(|frame| view::draw(frame, &mut state)).map_err(|error| terminal_failure(&error))?;
        tokio::select! {
            _ = ticks.tick() => update(&mut host, socket, &mut state).await,
            key = keys.recv() => match key.map(|event| react(&mut state, &event)) {
                None | Some(Reaction::Leave) => return Ok(()),
                Some(Reaction::None) => {}
                Some(Reaction::Stop(run)) => {
                    stop(host.as_mut(), &run, &mut state).await;
                    update(&mut host, socket, &mut state).await;
                }
            },
        }
    }
}

fn react(state: &mut TopState, event: &Event) -> Reaction {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => state.press(key.code, key.modifiers),
        _ => Reaction::None,
    }
}

/// Events of the terminal. Their thread ends with the process: a read of the terminal cannot be interrupted.
fn keys() -> mpsc::Receiver<Event> {
    let (sender, keys) = mpsc::channel(KEYS_MAX);
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    keys
}

/// Reads the supervisor's state. If it does not answer, the last state stays, with the error; the next interval connects
/// again.
async fn update(host: &mut Option<Host>, socket: &SupervisorSocket, state: &mut TopState) {
    let answer = async {
        if host.is_none() {
            *host = Some(Host::connect(socket).await?);
        }
        match host {
            Some(host) => read(host).await,
            None => Err(CommandError::host("not connected")),
        }
    };
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(Ok((tenants, runs))) => state.update(tenants, runs),
        Ok(Err(error)) => {
            state.fail(error.text);
            *host = None;
        }
        Err(_) => {
            state.fail(format!("the supervisor has not answered for {} seconds", ANSWER_MAX.as_secs()));
            *host = None;
        }
    }
}

/// A supervisor answers an operator at once; one that takes this long is overloaded or stopped.
const ANSWER_MAX: Duration = Duration::from_secs(10);

async fn stop(host: Option<&mut Host>, run: &str, state: &mut TopState) {
    let Some(host) = host else { return };
    match tokio::time::timeout(ANSWER_MAX, host.stop(run)).await {
        Ok(Ok(())) => state.message = Some(format!("stopped {run}")),
        Ok(Err(error)) => state.message = Some(format!("{run} was not stopped: {}", error.text)),
        Err(_) => state.message = Some(format!("{run}: the supervisor has not answered")),
    }
}

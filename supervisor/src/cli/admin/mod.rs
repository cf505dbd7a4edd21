//! `proctor admin`: queries, stops and drains at a running supervisor over its unix socket.

mod host_state;
mod tables;
mod token;

pub(super) use host_state::Host;
pub(super) use tables::{state, used_of};

use super::arguments::{AdminArgs, AdminCommand, AdminListArgs, DrainArgs, Output, StopArgs};
use super::{CommandError, in_process, print};
use serde_json::Value;
use tables::{Table, UsageRow};

/// Runs the subcommand and prints its result.
pub(super) fn admin(arguments: &AdminArgs) -> Result<u8, CommandError> {
    in_process::runtime()?.block_on(execute(&arguments.command))
}

async fn execute(command: &AdminCommand) -> Result<u8, CommandError> {
    match command {
        AdminCommand::Token => token::token(),
        AdminCommand::Tenants(list) => print_list(list, Host::connect(&list.socket).await?.tenants().await?),
        AdminCommand::Usage(list) => {
            let tenants = Host::connect(&list.socket).await?.tenants().await?;
            print_list(list, tenants.into_iter().map(UsageRow).collect())
        }
        AdminCommand::Sessions(list) => print_list(list, Host::connect(&list.socket).await?.sessions().await?),
        AdminCommand::Runs(list) => print_list(list, Host::connect(&list.socket).await?.runs().await?),
        AdminCommand::Stop(StopArgs { socket, run }) => {
            Host::connect(socket).await?.stop(run).await?;
            print::text(&format!("stopped {run}"))?;
            Ok(0)
        }
        AdminCommand::Drain(DrainArgs { socket, deadline_ms }) => {
            let drained = Host::connect(socket).await?.drain(*deadline_ms).await?;
            let (finished, cancelled) = (drained.runs_finished, drained.runs_cancelled);
            print::text(&format!("drained: {finished} runs finished, {cancelled} cancelled"))?;
            Ok(0)
        }
    }
}

fn print_list<T: Table>(arguments: &AdminListArgs, entries: Vec<T>) -> Result<u8, CommandError> {
    match arguments.output {
        Output::Json => print::document(&entries.iter().map(T::json).collect::<Vec<Value>>())?,
        Output::Human => {
            let lines: Vec<String> = std::iter::once(T::header()).chain(entries.iter().map(T::row)).collect();
            print::text(&lines.join("\n"))?;
        }
    }
    Ok(0)
}

//! The options that name report formats, all made from the one table of them.

use clap::builder::PossibleValue;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};
use proctor_proto::report_format::ReportFormat;
use std::path::PathBuf;

/// Number of formats.
const FORMATS: usize = ReportFormat::ALL.len();

/// A format as the value of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FormatName(pub(super) ReportFormat);

impl ValueEnum for FormatName {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [FormatName; FORMATS] = {
            let mut all = [FormatName(ReportFormat::Json); FORMATS];
            let mut at = 0;
            while at < FORMATS {
                all[at] = FormatName(ReportFormat::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name()).help(self.0.description()))
    }
}

/// What `proctor run` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunOutput {
    /// Text for a person.
    Human,
    /// One JSON object a line, as things happen.
    Events,
    /// The report, when the run has ended.
    Report(ReportFormat),
}

impl RunOutput {
    /// The names of all values: `human, events, json, …`.
    pub(super) fn names() -> String {
        let names = RunOutput::value_variants().iter().map(|output| output.name());
        names.collect::<Vec<_>>().join(", ")
    }

    fn name(self) -> &'static str {
        match self {
            RunOutput::Human => "human",
            RunOutput::Events => "events",
            RunOutput::Report(format) => format.name(),
        }
    }
}

impl ValueEnum for RunOutput {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [RunOutput; 2 + FORMATS] = {
            let mut all = [RunOutput::Human; 2 + FORMATS];
            all[1] = RunOutput::Events;
            let mut at = 0;
            while at < FORMATS {
                all[2 + at] = RunOutput::Report(ReportFormat::ALL[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            RunOutput::Human => "text for a person",
            RunOutput::Events => "one JSON object a line, as things happen",
            RunOutput::Report(format) => format.description(),
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

/// Files to which reports are written beside what is printed: `--junit FILE` and so on, one option for each format.
#[derive(Debug, Clone, Default)]
pub(super) struct ReportFiles(pub(super) Vec<(ReportFormat, PathBuf)>);

impl Args for ReportFiles {
    fn augment_args(command: Command) -> Command {
        command.args(ReportFormat::ALL.map(|format| {
            Arg::new(format.name())
                .long(format.name())
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help_heading("Reports, beside what is printed")
                .help(format!("Also write {}", format.description()))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        ReportFiles::augment_args(command)
    }
}

impl FromArgMatches for ReportFiles {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let file = |format: ReportFormat| Some((format, matches.get_one::<PathBuf>(format.name())?.clone()));
        Ok(ReportFiles(ReportFormat::ALL.into_iter().filter_map(file).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = ReportFiles::from_arg_matches(matches)?;
        Ok(())
    }
}

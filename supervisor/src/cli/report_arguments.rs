//! The options that name report formats, all made from the one table of them.

use clap::builder::PossibleValue;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum, value_parser};
use proctor_proto::report_format::ReportFormat;
use std::path::PathBuf;

/// Number of formats.
const FORMATS: usize = ReportFormat::ALL.len();

/// Number of formats of a check.
const FORMATS_OF_CHECKS: usize = ReportFormat::OF_CHECKS.len();

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

/// What `proctor check` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckOutput {
    /// Text for a person.
    Human,
    /// The report, when the check has ended.
    Report(ReportFormat),
}

impl ValueEnum for CheckOutput {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [CheckOutput; 1 + FORMATS_OF_CHECKS] = {
            let mut all = [CheckOutput::Human; 1 + FORMATS_OF_CHECKS];
            let mut at = 0;
            while at < FORMATS_OF_CHECKS {
                all[1 + at] = CheckOutput::Report(ReportFormat::OF_CHECKS[at]);
                at += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            CheckOutput::Human => ("human", "text for a person, by file"),
            CheckOutput::Report(format) => (format.name(), format.description()),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

/// Files to which reports are written beside what is printed: `--junit FILE` and so on, one option for each format; of a check,
/// for each of [`ReportFormat::OF_CHECKS`].
#[derive(Debug, Clone, Default)]
pub(super) struct ReportFiles<const OF_CHECK: bool>(pub(super) Vec<(ReportFormat, PathBuf)>);

/// Those of a run of tests.
pub(super) type RunReportFiles = ReportFiles<false>;

/// Those of a check.
pub(super) type CheckReportFiles = ReportFiles<true>;

impl<const OF_CHECK: bool> ReportFiles<OF_CHECK> {
    const FORMATS: &[ReportFormat] = if OF_CHECK { ReportFormat::OF_CHECKS } else { &ReportFormat::ALL };
}

impl<const OF_CHECK: bool> Args for ReportFiles<OF_CHECK> {
    fn augment_args(command: Command) -> Command {
        command.args(Self::FORMATS.iter().map(|format| {
            Arg::new(format.name())
                .long(format.name())
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help_heading("Reports, beside what is printed")
                .help(format!("Also write {}", format.description()))
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const OF_CHECK: bool> FromArgMatches for ReportFiles<OF_CHECK> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let file = |format: &ReportFormat| Some((*format, matches.get_one::<PathBuf>(format.name())?.clone()));
        Ok(ReportFiles(Self::FORMATS.iter().filter_map(file).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

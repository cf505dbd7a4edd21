//! The forms in which a report can be had: the one table from which the options of the command line, the formats of
//! `GetReport` and those of the shim are made.

use crate::v1;

/// A form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReportFormat {
    /// The whole report as JSON.
    Json,
    /// JUnit XML.
    Junit,
    /// Common Test Report Format.
    Ctrf,
    /// Test Anything Protocol, version 14.
    Tap,
    /// Workflow commands of GitHub Actions.
    Github,
    /// One self-contained page.
    Html,
    /// A plan of what to improve, as Markdown.
    Optimization,
}

impl ReportFormat {
    /// All formats, in the order of lists for people.
    pub const ALL: [ReportFormat; 7] = [
        ReportFormat::Json,
        ReportFormat::Junit,
        ReportFormat::Ctrf,
        ReportFormat::Tap,
        ReportFormat::Github,
        ReportFormat::Html,
        ReportFormat::Optimization,
    ];

    /// The formats for a check by linters and type checkers: all but the last, the plan, which is about tests.
    pub const OF_CHECKS: &[ReportFormat] = {
        let [formats @ .., _] = &ReportFormat::ALL;
        formats
    };

    /// The name by which people and agents ask for it; also the last part of its resource URI.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ReportFormat::Json => "json",
            ReportFormat::Junit => "junit",
            ReportFormat::Ctrf => "ctrf",
            ReportFormat::Tap => "tap",
            ReportFormat::Github => "github",
            ReportFormat::Html => "html",
            ReportFormat::Optimization => "optimization",
        }
    }

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<ReportFormat> {
        ReportFormat::ALL.into_iter().find(|format| format.name() == name)
    }

    /// What it is for, in a few words.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            ReportFormat::Json => {
                "the whole report, in the shape of pytest-json-report with proctor's own fields beside"
            }
            ReportFormat::Junit => "JUnit XML, for CI servers",
            ReportFormat::Ctrf => "CTRF JSON (Common Test Report Format)",
            ReportFormat::Tap => "TAP version 14 (Test Anything Protocol)",
            ReportFormat::Github => "annotations for GitHub Actions",
            ReportFormat::Html => "one self-contained page to look at",
            ReportFormat::Optimization => "a plan of what to improve, as Markdown",
        }
    }

    /// Media type of the document.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            ReportFormat::Json | ReportFormat::Ctrf => "application/json",
            ReportFormat::Junit => "application/xml",
            ReportFormat::Tap | ReportFormat::Github => "text/plain",
            ReportFormat::Html => "text/html",
            ReportFormat::Optimization => "text/markdown",
        }
    }

    /// The format of a request; unspecified is JSON.
    #[must_use]
    pub const fn from_wire(format: v1::ReportFormat) -> ReportFormat {
        match format {
            v1::ReportFormat::Unspecified | v1::ReportFormat::Json => ReportFormat::Json,
            v1::ReportFormat::Junit => ReportFormat::Junit,
            v1::ReportFormat::Ctrf => ReportFormat::Ctrf,
            v1::ReportFormat::Tap => ReportFormat::Tap,
            v1::ReportFormat::Github => ReportFormat::Github,
            v1::ReportFormat::Html => ReportFormat::Html,
            v1::ReportFormat::Optimization => ReportFormat::Optimization,
        }
    }

    /// The format in a request.
    #[must_use]
    pub const fn to_wire(self) -> v1::ReportFormat {
        match self {
            ReportFormat::Json => v1::ReportFormat::Json,
            ReportFormat::Junit => v1::ReportFormat::Junit,
            ReportFormat::Ctrf => v1::ReportFormat::Ctrf,
            ReportFormat::Tap => v1::ReportFormat::Tap,
            ReportFormat::Github => v1::ReportFormat::Github,
            ReportFormat::Html => v1::ReportFormat::Html,
            ReportFormat::Optimization => v1::ReportFormat::Optimization,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_its_own_name_and_number() {
        for format in ReportFormat::ALL {
            assert_eq!(ReportFormat::from_name(format.name()), Some(format));
            assert_eq!(ReportFormat::from_wire(format.to_wire()), format);
        }
        assert_eq!(ReportFormat::from_wire(v1::ReportFormat::Unspecified), ReportFormat::Json);
        assert_eq!(ReportFormat::from_name("pdf"), None);
        let of_checks = ReportFormat::ALL.into_iter().filter(|format| *format != ReportFormat::Optimization);
        assert!(of_checks.eq(ReportFormat::OF_CHECKS.iter().copied()));
    }
}

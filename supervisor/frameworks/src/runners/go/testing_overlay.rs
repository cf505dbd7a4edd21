//! A copy of Go's package `testing` that records which counters each top-level test changed, for `go test -overlay`.
//!
//! Edits of four files call the functions of `testing_records.go.txt` and `testing_alone.go.txt`, which are appended to one of
//! them. Each edit is found by its surrounding text, exactly once, and adds no line: positions in stacks stay those of the
//! toolchain. Nothing is copied of a version that was not tried, or whose sources differ from what the edits expect.

use super::test_records::{MAGIC, RECORDS_BYTES_MAX};
use crate::contract::{InjectedFile, ToolchainSources};
use std::collections::BTreeMap;
use thiserror::Error;

/// Files of a toolchain that an overlay is made from.
pub(super) const SOURCES: &[&str] = &["VERSION", TESTING, COVER, FUZZ, EXAMPLE, COUNTERS, TABLES];

const TESTING: &str = "src/testing/testing.go";
const COVER: &str = "src/testing/newcover.go";
const FUZZ: &str = "src/testing/fuzz.go";
const EXAMPLE: &str = "src/testing/example.go";
const COUNTERS: &str = "src/runtime/covercounter.go";
const TABLES: &str = "src/internal/coverage/rtcov/rtcov.go";

/// Minor versions of Go 1 with which the overlay was built and recorded a module; sets were compared with one process per
/// test on the newest.
const TRIED: std::ops::RangeInclusive<u32> = 23..=26;

/// Directory of the copies, below scratch.
const DIRECTORY: &str = "go-testing";

/// Directory below scratch for the programs of tests that are to run alone.
pub(super) const PROGRAMS: &str = "work/programs";

/// Why there is no overlay.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum OverlayError {
    /// The toolchain is not known, or is in the workspace.
    #[error("the sources of the Go toolchain are not known")]
    NoSources,
    /// A source cannot be read.
    #[error("the toolchain's {file} cannot be read")]
    Unreadable {
        /// The file, relative to the toolchain.
        file: &'static str,
    },
    /// The version was not tried.
    #[error("the package testing of {version} is not known: only those of Go 1.{} to 1.{} are", TRIED.start(), TRIED.end())]
    Version {
        /// The version, as the toolchain names it.
        version: String,
    },
    /// A source does not have the text that an edit expects.
    #[error("the toolchain's {file} is not the one of its version")]
    Unexpected {
        /// The file, relative to the toolchain.
        file: &'static str,
    },
}

/// A copy of the package, and the flag that has the go tool use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestingOverlay {
    pub(super) files: Vec<InjectedFile>,
    pub(super) flag: String,
}

/// An edit of a file: one of these texts, exactly once, becomes the other.
struct Edit {
    file: &'static str,
    forms: &'static [(&'static str, &'static str)],
}

const EDITS: &[Edit] = &[
    Edit {
        file: TESTING,
        forms: &[("\n\tgo tRunner(t, f)\n", "\n\tproctorEnter(t, t.name, t.level); go tRunner(t, f)\n")],
    },
    Edit {
        file: TESTING,
        forms: &[(
            "\n\tt.signal <- true   // Release calling test.\n",
            "\n\tproctorLeave(t, t.level, true); t.signal <- true   // Release calling test.\n",
        )],
    },
    Edit {
        file: TESTING,
        forms: &[
            (
                "// Wait for the parent test to complete.\n\tt.tstate.waitParallel()\n",
                "// Wait for the parent test to complete.\n\tt.tstate.waitParallel(); proctorEnter(t, t.name, t.level)\n",
            ),
            (
                "// Wait for the parent test to complete.\n\tt.context.waitParallel()\n",
                "// Wait for the parent test to complete.\n\tt.context.waitParallel(); proctorEnter(t, t.name, t.level)\n",
            ),
        ],
    },
    Edit {
        file: TESTING,
        forms: &[(
            "\n\t\t\tt.signal <- signal\n",
            "\n\t\t\tproctorLeave(t, t.level, !t.Failed() && !t.Skipped()); t.signal <- signal\n",
        )],
    },
    Edit {
        file: COVER,
        forms: &[
            ("\nfunc coverReport() {\n", "\nfunc coverReport() { if proctorWrite() { return }\n"),
            ("\nfunc coverReport2() {\n", "\nfunc coverReport2() { if proctorWrite() { return }\n"),
        ],
    },
    Edit {
        file: COVER,
        forms: &[(
            "\nimport (\n",
            "\nimport proctorAtomic \"sync/atomic\"; import proctorExithook \"internal/runtime/exithook\"; \
             import proctorRace \"internal/race\"; import proctorRtcov \"internal/coverage/rtcov\"; \
             import proctorStrings \"strings\"; import proctorSync \"sync\"; \
             import proctorTime \"time\"; import proctorUnsafe \"unsafe\"; import (\n",
        )],
    },
    Edit {
        file: FUZZ,
        forms: &[(
            "\n\t\t\t\tgo fRunner(f, ft.Fn)\n\t\t\t\t<-f.signal\n",
            "\n\t\t\t\tproctorEnter(f, f.name, f.level); go fRunner(f, ft.Fn)\n\t\t\t\t<-f.signal; proctorLeave(f, f.level, !f.Failed() && !f.Skipped())\n",
        )],
    },
    Edit {
        file: EXAMPLE,
        forms: &[(
            "\n\t\tif !runExample(eg) {\n",
            "\n\t\tif proctorEnter(eg.Name, eg.Name, 1); !proctorLeft(eg.Name, runExample(eg)) {\n",
        )],
    },
];

/// Declarations that the appended functions use.
const USED: &[(&str, &str)] = &[
    (TESTING, "\tcoverProfile = flag.String("),
    (TESTING, "t.level + 1,\n"),
    (TABLES, "\nvar Meta struct {\n"),
    (TABLES, "\n\tList []CovMetaBlob\n"),
    (TABLES, "\n\tP                  *byte\n\tLen                uint32\n"),
    (TABLES, "\n\tCounters *uint32\n\tLen      uint64\n"),
];

/// The overlay for the toolchain with these sources.
pub(super) fn testing_overlay(
    sources: Option<&ToolchainSources>,
    scratch: &str,
) -> Result<TestingOverlay, OverlayError> {
    let sources = sources.ok_or(OverlayError::NoSources)?;
    check_version(text(sources, "VERSION")?)?;
    for (file, declaration) in USED {
        if !text(sources, file)?.contains(declaration) {
            return Err(OverlayError::Unexpected { file });
        }
    }
    let mut copies: BTreeMap<&'static str, String> = BTreeMap::new();
    for Edit { file, forms } in EDITS {
        let before = match copies.get(file) {
            Some(copy) => copy.as_str(),
            None => text(sources, file)?,
        };
        let mut fitting = forms.iter().filter(|(anchor, _)| before.matches(anchor).take(2).count() == 1);
        let (Some((anchor, replacement)), None) = (fitting.next(), fitting.next()) else {
            return Err(OverlayError::Unexpected { file });
        };
        let after = before.replacen(anchor, replacement, 1);
        copies.insert(file, after);
    }
    let records = records(text(sources, COVER)?, text(sources, COUNTERS)?, scratch)?;
    copies.entry(COVER).or_default().push_str(&records);
    let replaced: BTreeMap<String, String> = copies
        .keys()
        .map(|file| (format!("{}/{file}", sources.root), format!("{scratch}/{}", path_of_copy(file))))
        .collect();
    let overlay = serde_json::json!({ "Replace": replaced }).to_string();
    let file = |path: String, text: String| InjectedFile { path, bytes: text.into_bytes(), executable: false };
    let mut files: Vec<InjectedFile> = copies.into_iter().map(|(name, text)| file(path_of_copy(name), text)).collect();
    files.push(file(format!("{DIRECTORY}/overlay.json"), overlay));
    Ok(TestingOverlay { files, flag: format!("-overlay={scratch}/{DIRECTORY}/overlay.json") })
}

fn path_of_copy(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    format!("{DIRECTORY}/{name}")
}

fn text<'s>(sources: &'s ToolchainSources, file: &'static str) -> Result<&'s str, OverlayError> {
    sources.files.get(file).map(String::as_str).ok_or(OverlayError::Unreadable { file })
}

fn check_version(version: &str) -> Result<(), OverlayError> {
    let version = version.lines().next().unwrap_or_default();
    let minor = version.strip_prefix("go1.").and_then(|rest| {
        let (minor, patch) = rest.split_once('.').unwrap_or((rest, "0"));
        patch.parse::<u32>().ok()?;
        minor.parse::<u32>().ok()
    });
    if minor.is_some_and(|minor| TRIED.contains(&minor)) {
        return Ok(());
    }
    let version: String = version.chars().filter(|letter| letter.is_ascii_graphic()).take(32).collect();
    Err(OverlayError::Version { version })
}

/// The appended functions, with the names that differ between versions.
fn records(cover: &str, counters: &str, scratch: &str) -> Result<String, OverlayError> {
    let declares = |name: &str| cover.contains(&format!("\nvar {name} struct {{\n\tmode        string\n"));
    let mode = ["cover", "cover2"].into_iter().find(|name| declares(name));
    let mode = mode.ok_or(OverlayError::Unexpected { file: COVER })?;
    let list = counters.lines().find_map(|line| line.strip_prefix("//go:linkname coverage_getCovCounterList "));
    let is_name = |name: &&str| name.starts_with("internal/coverage/") && name.ends_with(".getCovCounterList");
    let list = list.filter(is_name).ok_or(OverlayError::Unexpected { file: COUNTERS })?;
    let template = include_str!("testing_records.go.txt");
    let values = [
        ("COUNTER_LIST", list),
        ("COVER.mode", &format!("{mode}.mode")),
        ("BYTES_MAX", &RECORDS_BYTES_MAX.to_string()),
        ("MAGIC", MAGIC),
        ("PROGRAMS", &format!("{scratch}/{PROGRAMS}")),
    ];
    let template = format!("\n{template}\n{}", include_str!("testing_alone.go.txt"));
    Ok(values.iter().fold(template, |text, (name, value)| text.replace(name, value)))
}

#[cfg(test)]
mod tests;

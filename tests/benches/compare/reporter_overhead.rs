//! Cost of proctor's reporters in real suites: the project's own command and proctor's, each in the same sandbox, in turn.
//! Proctor's has warm caches, which can save more than the reporter costs. Also the cost of coverage, where it is measured.

use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_tests::process::{ProcessOutput, search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy, go_modules};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Pairs of runs per suite; an even number, since the second run of a pair finds a different machine.
const PAIRS: usize = 40;

/// Ranks of the ordered ratios between which their median lies with 95 % confidence, for any distribution (binomial).
const MEDIAN_WITHIN: [usize; 2] = [13, 26];

/// A real suite.
struct Suite {
    name: &'static str,
    /// Directory of its sources below the tools.
    source: &'static str,
    /// The project's own test command.
    command: &'static [&'static str],
    /// Files that the published package lacks.
    missing_files: &'static [(&'static str, &'static str)],
    /// Removed tests: timing-dependent ones, and those that need missing files or fail on this runtime.
    removed: &'static [&'static str],
    figure: &'static str,
}

const SUITES: [Suite; 4] = [
    Suite {
        name: "pytest: boltons",
        source: "pyprojects/boltons-26.2.0",
        command: &["python", "-m", "pytest"],
        missing_files: &[],
        removed: &["tests/test_socketutils.py"],
        figure: "pytest with our plugin, wall to plain",
    },
    Suite {
        name: "Jest: css-to-react-native",
        source: "jsprojects/lib/node_modules/css-to-react-native",
        command: &["node_modules/.bin/jest"],
        missing_files: &[("babel.config.json", r#"{"plugins": ["@babel/plugin-transform-modules-commonjs"]}"#)],
        removed: &[],
        figure: "Jest with our reporter, wall to plain",
    },
    Suite {
        name: "Vitest: css-what",
        source: "jsprojects/lib/node_modules/css-what",
        command: &["node_modules/.bin/vitest", "run"],
        missing_files: &[],
        removed: &[],
        figure: "Vitest with our reporter, wall to plain",
    },
    Suite {
        name: "Mocha: mathjs, its language",
        source: "jsprojects/lib/node_modules/mathjs",
        command: &["node_modules/.bin/mocha", "test", "--recursive"],
        missing_files: &[("tools/approx.js", APPROX)],
        removed: &["test/approx.test.js", "test/cli", "test/function", "test/type"],
        figure: "Mocha with our reporter, wall to plain",
    },
];

/// The comparison functions of mathjs' tests, which its package lacks.
const APPROX: &str = r"
const assert = require('assert');
const near = (a, b) => a == b || Math.abs(a - b) <= Math.max(1e-12, 1e-4 * Math.abs(b));
exports.equal = (a, b) => assert.ok(near(a, b), `${a} is not about ${b}`);
exports.deepEqual = (a, b) => {
  if (a === null || typeof a !== 'object') return exports.equal(a, b);
  assert.deepEqual(Object.keys(a), Object.keys(b));
  Object.keys(a).forEach((key) => exports.deepEqual(a[key], b[key]));
};
";

/// Largest acceptable ratio of wall times.
const TARGET: f64 = 1.03;

/// A copy of a suite.
struct SuiteCopy {
    workspace: TestWorkspace,
    path: OsString,
}

impl SuiteCopy {
    fn new(source: &Path, missing_files: &[(&str, &str)], removed: &[&str]) -> Result<SuiteCopy> {
        let workspace = TestWorkspace::empty();
        ensure!(source.is_dir(), "{} is missing: make tools", source.display());
        copy(source, &workspace.path);
        if source.starts_with(tools().join("jsprojects")) {
            symlink(tools().join("jsprojects/lib/node_modules"), workspace.path.join("node_modules"))?;
        }
        for (file, content) in missing_files {
            let file = workspace.path.join(file);
            fs::create_dir_all(file.parent().context("a file without a directory")?)?;
            fs::write(file, content)?;
        }
        for path in removed.iter().map(|path| workspace.path.join(path)) {
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        let path = search_path();
        let path = std::env::split_paths(&path).chain([tools().join("jsprojects/bin")]);
        Ok(SuiteCopy { workspace, path: std::env::join_paths(path)? })
    }

    /// Runs `proctor run`, which must pass, and returns the wall time of its commands in seconds.
    fn run(&self, more: &[&str]) -> Result<f64> {
        let mut proctor = self.workspace.command("proctor");
        proctor.args(["run", "--output", "json"]).args(more).env("PATH", &self.path);
        let output = wait_for_exit(proctor.spawn()?);
        let ProcessOutput { status, stdout, stderr } = &output;
        ensure!(*status == 0, "proctor run {more:?} ended with {status}: {stdout} {stderr}");
        output.json()["resources"]["wall_s"].as_f64().context("a report without wall_s")
    }

    /// Compares two kinds of run in pairs; each kind is first in every other pair. Ratios are taken within pairs, since the
    /// machine's speed changes over minutes.
    fn compare(&self, one: &[&str], other: &[&str]) -> Result<Comparison> {
        let mut pairs = Vec::new();
        for round in 0..=PAIRS {
            let pair = if round % 2 == 0 {
                [self.run(one)?, self.run(other)?]
            } else {
                let first = self.run(other)?;
                [self.run(one)?, first]
            };
            // The first pair fills caches.
            if round > 0 {
                pairs.push(pair);
            }
        }
        let median = |value: fn(&[f64; 2]) -> f64| quantile(&pairs.iter().map(value).collect::<Vec<_>>(), 0.5);
        Ok(Comparison {
            one: median(|[one, _]| *one),
            other: median(|[_, other]| *other),
            ratio: median(|[one, other]| other / one),
            within: {
                let mut ratios: Vec<f64> = pairs.iter().map(|[one, other]| other / one).collect();
                ratios.sort_by(f64::total_cmp);
                MEDIAN_WITHIN.map(|rank| ratios[rank])
            },
        })
    }
}

/// Median seconds of two kinds of run, and the median ratio within pairs.
struct Comparison {
    one: f64,
    other: f64,
    ratio: f64,
    /// Confidence interval of the ratio.
    within: [f64; 2],
}

impl Comparison {
    fn print(&self, name: &str) {
        let Comparison { one, other, ratio, within: [low, high] } = self;
        anstream::println!("{name:<32}{one:>10.2}{other:>10.2}{ratio:>9.3}x   {low:.3} to {high:.3}");
    }
}

/// Measures, prints the times and returns the figures with targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    anstream::println!("\nreal suites, seconds of wall time, medians of {PAIRS} pairs of runs in turn");
    anstream::println!("{:<32}{:>10}{:>10}{:>10}   95 % of it", "", "plain", "proctor", "ratio");
    let mut figures = Vec::new();
    for suite in &SUITES {
        let copy = SuiteCopy::new(&tools().join(suite.source), suite.missing_files, suite.removed)?;
        let plain = [&["--"], suite.command].concat();
        let comparison = copy.compare(&plain, &["--coverage", "off"])?;
        comparison.print(suite.name);
        figures.push(Figure::at_most(suite.figure, "x", comparison.ratio, TARGET));
    }
    measure_coverage()?;
    Ok(figures)
}

/// Coverage of Go; that of Python depends on the version, and its figures are in the README of the test runners.
fn measure_coverage() -> Result<()> {
    let copy = SuiteCopy::new(&go_modules().join("github.com/spf13/pflag@v1.0.10"), &[], &[])?;
    anstream::println!("{:<32}{:>10}{:>10}{:>10}", "", "off", "auto", "ratio");
    copy.compare(&["--coverage", "off"], &["--coverage", "auto"])?.print("coverage of Go: pflag");
    Ok(())
}

//! What our reporters cost inside the runners of real suites: the project's own command and proctor's, each in the same sandbox,
//! in turn. Proctor's has its caches where runs share them, which can win more than a reporter costs. And what measuring
//! coverage costs, where it is measured. Must not know how a reporter gets into a runner.

use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_tests::process::{search_path, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy, go_modules};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Pairs of runs of each suite, an even number: whoever runs second finds another machine.
const PAIRS: usize = 40;

/// Between which of the ordered ratios their median is, in 19 of 20 cases, whatever their distribution: a binomial's middle.
const MEDIAN_WITHIN: [usize; 2] = [13, 26];

/// A real suite.
struct Suite {
    name: &'static str,
    /// Its sources below the tools.
    source: &'static str,
    /// The command of somebody who does not know proctor.
    plainly: &'static [&'static str],
    /// Files that its package does not carry.
    lacking: &'static [(&'static str, &'static str)],
    /// What neither command has: tests that race with the clock, need what their package lacks, or fail on this runtime.
    without: &'static [&'static str],
    figure: &'static str,
}

const SUITES: [Suite; 4] = [
    Suite {
        name: "pytest: boltons",
        source: "pyprojects/boltons-26.2.0",
        plainly: &["python", "-m", "pytest"],
        lacking: &[],
        without: &["tests/test_socketutils.py"],
        figure: "pytest with our plugin, wall to plain",
    },
    Suite {
        name: "Jest: css-to-react-native",
        source: "jsprojects/lib/node_modules/css-to-react-native",
        plainly: &["node_modules/.bin/jest"],
        lacking: &[("babel.config.json", r#"{"plugins": ["@babel/plugin-transform-modules-commonjs"]}"#)],
        without: &[],
        figure: "Jest with our reporter, wall to plain",
    },
    Suite {
        name: "Vitest: css-what",
        source: "jsprojects/lib/node_modules/css-what",
        plainly: &["node_modules/.bin/vitest", "run"],
        lacking: &[],
        without: &[],
        figure: "Vitest with our reporter, wall to plain",
    },
    Suite {
        name: "Mocha: mathjs, its language",
        source: "jsprojects/lib/node_modules/mathjs",
        plainly: &["node_modules/.bin/mocha", "test", "--recursive"],
        lacking: &[("tools/approx.js", APPROX)],
        without: &["test/approx.test.js", "test/cli", "test/function", "test/type"],
        figure: "Mocha with our reporter, wall to plain",
    },
];

/// What mathjs' tests compare numbers with, which its package leaves out.
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

/// Beyond this our reporters are in the way of a suite.
const TARGET: f64 = 1.03;

struct Scene {
    place: TestWorkspace,
    path: OsString,
}

impl Scene {
    fn of(source: &Path, lacking: &[(&str, &str)], without: &[&str]) -> Result<Scene> {
        let place = TestWorkspace::empty();
        ensure!(source.is_dir(), "{} is missing: make tools", source.display());
        copy(source, &place.workspace);
        if source.starts_with(tools().join("jsprojects")) {
            symlink(tools().join("jsprojects/lib/node_modules"), place.workspace.join("node_modules"))?;
        }
        for (file, content) in lacking {
            let file = place.workspace.join(file);
            fs::create_dir_all(file.parent().context("a file without a directory")?)?;
            fs::write(file, content)?;
        }
        for path in without.iter().map(|path| place.workspace.join(path)) {
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        let path = search_path();
        let path = std::env::split_paths(&path).chain([tools().join("jsprojects/bin")]);
        Ok(Scene { place, path: std::env::join_paths(path)? })
    }

    /// Seconds from the first command's start to the last one's end, of a run that passes.
    fn run(&self, more: &[&str]) -> Result<f64> {
        let mut proctor = self.place.command("proctor");
        proctor.args(["run", "--output", "json"]).args(more).env("PATH", &self.path);
        let said = wait_for_exit(proctor.spawn()?);
        ensure!(said.status == 0, "proctor run {more:?} ended with {}: {} {}", said.status, said.stdout, said.stderr);
        said.json()["resources"]["wall_s"].as_f64().context("a report without wall_s")
    }

    /// Two kinds of run in pairs, each of which begins every other pair. A ratio is taken within a pair, because the machine is
    /// another one a minute later.
    fn compare(&self, one: &[&str], other: &[&str]) -> Result<Compared> {
        let mut pairs = Vec::new();
        for round in 0..=PAIRS {
            let pair = if round % 2 == 0 {
                [self.run(one)?, self.run(other)?]
            } else {
                let first = self.run(other)?;
                [self.run(one)?, first]
            };
            // The first fills caches.
            if round > 0 {
                pairs.push(pair);
            }
        }
        let median = |of: fn(&[f64; 2]) -> f64| quantile(&pairs.iter().map(of).collect::<Vec<_>>(), 0.5);
        Ok(Compared {
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

/// Medians of the seconds of two kinds of run, and of the ratios within pairs.
struct Compared {
    one: f64,
    other: f64,
    ratio: f64,
    /// Where the machine's noise leaves the last.
    within: [f64; 2],
}

impl Compared {
    fn print(&self, name: &str) {
        let Compared { one, other, ratio, within: [low, high] } = self;
        anstream::println!("{name:<32}{one:>10.2}{other:>10.2}{ratio:>9.3}x   {low:.3} to {high:.3}");
    }
}

/// Measures and prints the times; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    anstream::println!("\nreal suites, seconds of wall time, medians of {PAIRS} pairs of runs in turn");
    anstream::println!("{:<32}{:>10}{:>10}{:>10}   95 % of it", "", "plain", "proctor", "ratio");
    let mut figures = Vec::new();
    for suite in &SUITES {
        let scene = Scene::of(&tools().join(suite.source), suite.lacking, suite.without)?;
        let plainly = [&["--"], suite.plainly].concat();
        let compared = scene.compare(&plainly, &["--coverage", "off"])?;
        compared.print(suite.name);
        figures.push(Figure::at_most(suite.figure, "x", compared.ratio, TARGET));
    }
    coverage()?;
    Ok(figures)
}

/// Go alone has its coverage measured.
fn coverage() -> Result<()> {
    let scene = Scene::of(&go_modules().join("github.com/spf13/pflag@v1.0.10"), &[], &[])?;
    anstream::println!("{:<32}{:>10}{:>10}{:>10}", "", "off", "auto", "ratio");
    scene.compare(&["--coverage", "off"], &["--coverage", "auto"])?.print("coverage of Go: pflag");
    Ok(())
}

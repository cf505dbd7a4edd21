//! What our reporters cost inside the runners of real suites: the project's own command and proctor's, each in the same sandbox,
//! in turn. Proctor's has its caches where runs share them, which can win more than a reporter costs. And what measuring
//! coverage costs, where it is measured. Must not know how a reporter gets into a runner.

use crate::figures::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use proctor_tests::place::{Place, copy, go_modules};
use proctor_tests::process::{end_of, search_path, tools};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Pairs of runs of each suite.
const PAIRS: usize = 15;

/// A real suite.
struct Suite {
    name: &'static str,
    /// Its sources below the tools.
    source: &'static str,
    /// The command of somebody who does not know proctor.
    plainly: &'static [&'static str],
    /// Files that its package does not carry.
    lacking: &'static [(&'static str, &'static str)],
    /// Files whose tests race with the clock: neither command has them.
    racing: &'static [&'static str],
    figure: &'static str,
}

const SUITES: [Suite; 4] = [
    Suite {
        name: "pytest: boltons",
        source: "pyprojects/boltons-26.2.0",
        plainly: &["python", "-m", "pytest"],
        lacking: &[],
        racing: &["tests/test_socketutils.py"],
        figure: "pytest with our plugin, wall to plain",
    },
    Suite {
        name: "Jest: css-to-react-native",
        source: "jsprojects/lib/node_modules/css-to-react-native",
        plainly: &["node_modules/.bin/jest"],
        lacking: &[("babel.config.json", r#"{"plugins": ["@babel/plugin-transform-modules-commonjs"]}"#)],
        racing: &[],
        figure: "Jest with our reporter, wall to plain",
    },
    Suite {
        name: "Vitest: css-what",
        source: "jsprojects/lib/node_modules/css-what",
        plainly: &["node_modules/.bin/vitest", "run"],
        lacking: &[],
        racing: &[],
        figure: "Vitest with our reporter, wall to plain",
    },
    Suite {
        name: "Mocha: object-path",
        source: "jsprojects/lib/node_modules/object-path",
        plainly: &["node_modules/.bin/mocha", "test.js"],
        lacking: &[],
        racing: &[],
        figure: "Mocha with our reporter, wall to plain",
    },
];

/// Beyond this our reporters are in the way of a suite.
const TARGET: f64 = 1.03;

struct Scene {
    place: Place,
    path: OsString,
}

impl Scene {
    fn of(source: &Path, lacking: &[(&str, &str)], racing: &[&str]) -> Result<Scene> {
        let place = Place::empty();
        ensure!(source.is_dir(), "{} is missing: make tools", source.display());
        copy(source, &place.workspace);
        if source.starts_with(tools().join("jsprojects")) {
            symlink(tools().join("jsprojects/lib/node_modules"), place.workspace.join("node_modules"))?;
        }
        for (file, content) in lacking {
            fs::write(place.workspace.join(file), content)?;
        }
        for file in racing {
            fs::remove_file(place.workspace.join(file))?;
        }
        let path = search_path();
        let path = std::env::split_paths(&path).chain([tools().join("jsprojects/bin")]);
        Ok(Scene { place, path: std::env::join_paths(path)? })
    }

    /// Seconds from the first command's start to the last one's end, of a run that passes.
    fn run(&self, more: &[&str]) -> Result<f64> {
        let mut proctor = self.place.command("proctor");
        proctor.args(["run", "--output", "json"]).args(more).env("PATH", &self.path);
        let said = end_of(proctor.spawn()?);
        ensure!(said.status == 0, "proctor run {more:?} ended with {}: {} {}", said.status, said.stdout, said.stderr);
        said.json()["resources"]["wall_s"].as_f64().context("a report without wall_s")
    }

    /// Medians of two kinds of run.
    fn compare(&self, one: &[&str], other: &[&str]) -> Result<(f64, f64)> {
        let (mut ones, mut others) = (Vec::new(), Vec::new());
        for round in 0..=PAIRS {
            let pair = (self.run(one)?, self.run(other)?);
            // The first fills caches.
            if round > 0 {
                ones.push(pair.0);
                others.push(pair.1);
            }
        }
        Ok((quantile(&ones, 0.5), quantile(&others, 0.5)))
    }
}

/// Measures and prints the times; the figures that have targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    anstream::println!("\nreal suites, seconds of wall time, medians of {PAIRS} runs in turn");
    anstream::println!("{:<32}{:>10}{:>10}{:>10}", "", "plain", "proctor", "ratio");
    let mut figures = Vec::new();
    for suite in &SUITES {
        let scene = Scene::of(&tools().join(suite.source), suite.lacking, suite.racing)?;
        let plainly = [&["--"], suite.plainly].concat();
        let (plain, ours) = scene.compare(&plainly, &["--coverage", "off"])?;
        anstream::println!("{:<32}{plain:>10.2}{ours:>10.2}{:>9.3}x", suite.name, ours / plain);
        figures.push(Figure::at_most(suite.figure, "x", ours / plain, TARGET));
    }
    coverage()?;
    Ok(figures)
}

/// Go alone has its coverage measured.
fn coverage() -> Result<()> {
    let scene = Scene::of(&go_modules().join("github.com/spf13/pflag@v1.0.10"), &[], &[])?;
    let (off, auto) = scene.compare(&["--coverage", "off"], &["--coverage", "auto"])?;
    anstream::println!("{:<32}{:>10}{:>10}{:>10}", "", "off", "auto", "ratio");
    anstream::println!("{:<32}{off:>10.2}{auto:>10.2}{:>9.3}x", "coverage of Go: pflag", auto / off);
    Ok(())
}

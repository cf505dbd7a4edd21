//! PHPUnit 9 or newer, started by an injected script (`run.php`) that writes the run's report.
//!
//! `detect` finds projects, `selection` turns a request into paths and tests, and `run.php` runs PHPUnit in its own process with a
//! listener (`listener.php`, PHPUnit 9) or a tracer of its events (`tracer.php`, from 10 on). It loads the PHPUnit of the project's
//! Composer packages, else an archive (`phpunit.phar`) of the project or on PATH, else Debian's package. The project's
//! configuration and extensions stay in force, except for code coverage and the cache of results, which are off.
//!
//! A test's package is the file of its class; its name is PHPUnit's own: `App\CalcTest::testAdd with data set #0`. Reruns select
//! tests by a filter of these names; a test that depends on others runs with its whole class, and where the names are too many
//! for a filter, whole classes or everything run.
//!
//! Exceptions are errors, failed assertions failures, risky tests pass with a note, incomplete ones are skipped. A hook that
//! fails before the tests of a class fails all of them, one after them is a collection error. A file that cannot be loaded keeps
//! PHPUnit from running anything. A name filter is `--filter`, a part of `Class::method` or a regular expression. Output of failed
//! tests is captured. Tests run one at a time: ParaTest is not used. Pest's own tests are no classes of PHPUnit's and do not run.

mod detect;
mod selection;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    Framework, InjectedFile, Manifest, OptionSupport, OrderSupport, ParallelSupport, Parser, Plan, PlanError,
    PlanRequest, REPORT, RerunNames, ReservedVariables, StackDump, StackSource, Step, Toolchain,
};
use crate::ecosystems::path_selection::PathSelection;
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use crate::parsing::thread_stacks;
use proctor_core::hung_test::StackSignal;
use proctor_core::test_order::TestOrder;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Adapter for PHPUnit.
#[derive(Debug, Clone, Copy)]
pub struct Phpunit;

const NAME: &str = "phpunit";

/// The script that starts PHPUnit, below the scratch directory.
const SCRIPT: &str = "phpunit/run.php";

/// Scripts that it loads.
const SCRIPTS: [(&str, &[u8]); 3] = [
    (SCRIPT, include_bytes!("run.php")),
    ("phpunit/listener.php", include_bytes!("listener.php")),
    ("phpunit/tracer.php", include_bytes!("tracer.php")),
];

/// Options of each run: coverage needs a driver and writes to the workspace, as does the cache.
const OPTIONS: [&str; 3] = ["--colors=never", "--do-not-cache-result", "--no-coverage"];

const PROFILE: RunnerProfile = RunnerProfile {
    missing_remedy,
    nothing_selected: |output| output.lines().any(|line| line == "No tests executed!"),
    error_location,
    error_reason,
    other_failure,
    ..RunnerProfile::new(NAME)
};

/// Places in messages of PHP and PHPUnit: `in /ws/a.php on line 3`, `in /ws/a.php:3`, `Location: /ws/a.php:3`, `#1 /ws/a.php(3): f()`.
static PLACE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?m)(?: in |^Location: |^#\d+ )(?<file>/[^\n]+?\.php)(?: on line (?<line>\d+)|:(?<at>\d+)|\((?<call>\d+)\))",
    )
    .ok()
});

fn missing_remedy(output: &str) -> Option<String> {
    output.lines().find_map(|line| line.strip_prefix("proctor: ")).map(str::to_owned)
}

/// The first place that is neither in PHPUnit nor in a package.
fn error_location(output: &str) -> Option<(String, u32)> {
    let is_own = |file: &str| {
        !file.contains("/vendor/")
            && !file.starts_with("/usr/")
            && !SCRIPTS.iter().any(|(name, _)| file.ends_with(name))
    };
    let mut found = PLACE.as_ref()?.captures_iter(output).filter(|found| is_own(&found["file"]));
    found.find_map(|found| {
        let line = ["line", "at", "call"].into_iter().find_map(|name| found.name(name))?;
        Some((found["file"].to_owned(), line.as_str().parse().ok()?))
    })
}

/// PHPUnit's message of what it could not load, or the error that ended PHP.
fn error_reason(output: &str) -> Option<String> {
    let bootstrap = || {
        let lines = output.lines().skip_while(|line| !line.starts_with("Error in bootstrap script"));
        let text: Vec<&str> = lines.take_while(|line| !line.starts_with('#')).map(str::trim).collect();
        (!text.is_empty()).then(|| text.join(" ").trim().to_owned())
    };
    let crash = || output.lines().find_map(|line| line.strip_prefix("Message:")).map(|text| text.trim().to_owned());
    let fatal = || {
        let kinds = ["Fatal error:", "Parse error:"];
        let text = output
            .lines()
            .find_map(|line| kinds.iter().find_map(|kind| line.trim_start_matches("PHP ").strip_prefix(kind)))?;
        let end = text.rfind(" in /").unwrap_or(text.len());
        Some(text[..end].trim().trim_start_matches("Uncaught ").to_owned())
    };
    crash().or_else(bootstrap).or_else(fatal)
}

/// The line with the counts of risky tests, warnings and others that fail a run where the project's settings say so.
fn other_failure(output: &str) -> Option<String> {
    let counts = output.lines().rev().find(|line| line.starts_with("Tests: "))?;
    let fails = ["Risky", "Warning", "Incomplete", "Skipped", "Deprecation", "Notice"];
    fails.iter().any(|kind| counts.contains(kind)).then(|| format!("PHPUnit counted {counts}"))
}

/// PHP.
static PHP: Toolchain = Toolchain {
    name: "php",
    reserved: ReservedVariables { names: &["PHPRC", "PHP_INI_SCAN_DIR"], ..ReservedVariables::NONE },
    ..Toolchain::DEFAULT
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "PHPUnit returned from its run, and every test that it had selected was reported",
    proof_markers: &[b"end"],
    markers: detect::MARKERS,
    extensions: &["php", "phpt"],
    node_id_separator: Some("::"),
    options: OptionSupport {
        orders: OrderSupport { reversed: true, shuffled: true, selected: false },
        parallel: ParallelSupport::NoEffect("parallel has no effect: PHPUnit runs tests one at a time"),
        ..Manifest::DEFAULT.options
    },
    rerun_names: RerunNames { separators: &[" with data set "], ..RerunNames::PLAIN },
    stack_dump: Some(StackDump {
        source: StackSource::Signal(StackSignal::Reserved),
        read: |output| thread_stacks::hung_by_file(output, "/Framework/TestCase.php"),
        declared_note: Some(DECLARED_NOTE),
    }),
    toolchains: &[&PHP],
    sample: &[("phpunit.xml", "<phpunit/>\n")],
    ..Manifest::DEFAULT
};

/// Explains a place that is not from a stack.
const DECLARED_NOTE: &str = "(here the test begins: PHP prints no stack without the extension pcntl, in a process of the test's own, or in a call that no \
     signal ends)";

impl Framework for Phpunit {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn describe_markers(&self) -> String {
        "phpunit.xml, phpunit.xml.dist, phpunit.dist.xml, or a composer.json that requires phpunit/phpunit beside a directory \
         tests or test"
            .to_owned()
    }

    fn detect(&self, tree: &FileTree) -> Vec<Project> {
        detect::projects(tree)
    }

    fn plan(&self, projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
        plan(projects, tree, request, false)
    }

    fn plan_listing(
        &self,
        projects: &[Project],
        tree: &FileTree,
        request: &PlanRequest<'_>,
    ) -> Result<Plan, PlanError> {
        plan(projects, tree, request, true)
    }

    fn parser(&self, plan: &Plan, request: &PlanRequest<'_>) -> Box<dyn Parser> {
        Box::new(ReporterParser::new(PROFILE, plan, request))
    }
}

fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>, lists: bool) -> Result<Plan, PlanError> {
    let file =
        |path: &str, bytes: &[u8]| InjectedFile { path: path.to_owned(), bytes: bytes.to_vec(), executable: false };
    let files = SCRIPTS.iter().map(|(path, bytes)| file(path, bytes)).collect();
    let mut plan = Plan { files, report: true, ..Plan::default() };
    for selection in selection::selections(projects, tree, request.selection)? {
        let mut env = BTreeMap::from([
            ("PROCTOR_REPORT".to_owned(), format!("{}/{REPORT}", request.scratch)),
            ("PROCTOR_ROOT".to_owned(), request.workspace.to_owned()),
        ]);
        env.extend(lists.then(|| ("PROCTOR_LISTING".to_owned(), "1".to_owned())));
        if !selection.tests.is_empty() {
            let path = format!("phpunit/selection-{}", plan.steps.len());
            env.insert("PROCTOR_SELECTION".to_owned(), format!("{}/{path}", request.scratch));
            plan.files.push(file(&path, selection.tests_file().as_bytes()));
        }
        plan.steps.extend(steps(&selection, tree, request, &env));
        if detect::has_pest(tree, &selection.project.dir) {
            plan.notes
                .push("composer.json has Pest, whose own tests are not run: only classes of PHPUnit's are".to_owned());
        }
        plan.notes.extend(selection.notes);
    }
    Ok(plan)
}

/// PHPUnit prints the seed of a random order, which it picks if there is none.
fn order_options(order: TestOrder) -> Vec<String> {
    match order {
        TestOrder::Project | TestOrder::Selected => Vec::new(),
        TestOrder::Reversed => vec!["--order-by=reverse".to_owned()],
        TestOrder::Shuffled { seed } => {
            let seed = seed.map(|seed| format!("--random-order-seed={seed}"));
            ["--order-by=random".to_owned()].into_iter().chain(seed).collect()
        }
    }
}

/// One command for each path: PHPUnit takes one before version 11.
fn steps(
    selection: &PathSelection<'_>,
    tree: &FileTree,
    request: &PlanRequest<'_>,
    env: &BTreeMap<String, String>,
) -> Vec<Step> {
    let script = format!("{}/{SCRIPT}", request.scratch);
    let mut args: Vec<String> = [script].into_iter().chain(OPTIONS.map(str::to_owned)).collect();
    // In one argument, so that a filter stays a filter whatever it begins with.
    args.extend(selection.filter.iter().map(|filter| format!("--filter={filter}")));
    args.extend(order_options(request.order));
    let step = |path: Option<&str>| Step {
        programs: vec!["php".to_owned()],
        // From `./`, so that no file can be read as an option.
        args: args.iter().cloned().chain(path.map(|path| format!("./{path}"))).collect(),
        dir: selection.project.dir.clone(),
        env: env.clone(),
    };
    if selection.paths.is_empty() {
        return vec![step(detect::default_path(tree, &selection.project.dir))];
    }
    selection.paths.iter().map(|path| step(Some(path))).collect()
}

#[cfg(test)]
mod tests;

//! RSpec 3.6 or newer, started by an injected script (`start.rb`) that writes the run's report.
//!
//! `detect` finds projects, `selection` turns a request into spec files and examples, and `start.rb` runs RSpec in its own process
//! with a listener beside the project's formatters. The project's `.rspec`, hooks and formatters stay in force. Where a
//! `Gemfile.lock` names RSpec, the script runs under `bundle exec`, else with the RSpec of `ruby` on PATH.
//!
//! A test's package is its spec file, its name the descriptions of its groups and its own, joined with ` > `; an example without
//! a description is called `example [1:2]` by its place in the file. Names are assigned in the order of the files before any
//! example runs; a second example of one name gets ` (2)`. Reruns select examples by these names within the process, since
//! RSpec's own ids and lines change with edits above an example.
//!
//! An exception in an example is a failure, one in a hook an error; `pending` examples that fail are expected failures. A file
//! that cannot be loaded is a collection error, on which RSpec runs nothing. Output of failing examples is captured. A dry run
//! (`--dry-run`) in the project's settings proves nothing. A name filter is `--example`, a part of the full description. RSpec
//! runs examples one at a time. Coverage is not measured.

mod detect;
mod selection;

use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{
    Framework, InjectedFile, Manifest, OptionSupport, OrderSupport, ParallelSupport, Parser, Plan, PlanError,
    PlanRequest, REPORT, RerunNames, ReservedVariables, StackDump, StackSource, Step, Toolchain,
};
use crate::ecosystems::path_selection::{PathSelection, path_selections};
use crate::formats::reporter_protocol::{ReporterParser, RunnerProfile};
use crate::parsing::thread_stacks;
use proctor_core::hung_test::StackSignal;
use proctor_core::request::Selection;
use proctor_core::test_order::TestOrder;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Adapter for RSpec.
#[derive(Debug, Clone, Copy)]
pub struct Rspec;

const NAME: &str = "rspec";

/// The script that starts RSpec, below the scratch directory.
const START: &str = "rspec/start.rb";

const PROFILE: RunnerProfile = RunnerProfile {
    separator: " > ",
    missing_remedy: missing,
    error_location: blamed,
    error_reason: reason,
    other_failure: unmet,
    ..RunnerProfile::new(NAME)
};

/// A frame of an exception that ended Ruby: `/workspace/spec/a_spec.rb:3:in ...`.
static FRAME: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?m)^(?:\t?from )?(/[^:\n]+\.rb):(\d+):").ok());

/// A missing RSpec, or gems of the Gemfile.lock that are not installed.
fn missing(output: &str) -> Option<String> {
    let own = || output.lines().find_map(|line| line.strip_prefix("proctor: "));
    let bundler = || {
        let is_missing = |line: &&str| {
            line.starts_with("Could not find ")
                && (line.contains("in locally installed gems") || line.contains("in any of the sources"))
        };
        output.lines().find(is_missing)
    };
    let remedy = "a run sees the gems of vendor/bundle (bundle config set --local path vendor/bundle && bundle install), of the \
                  system and of version managers";
    own()
        .map(str::to_owned)
        .or_else(|| bundler().map(|line| format!("{}: {remedy}", line.trim_end_matches(['.', ' ']))))
}

fn blamed(output: &str) -> Option<(String, u32)> {
    let is_own = |file: &str| !file.contains("/gems/") && !file.ends_with(START);
    let mut frames = FRAME.as_ref()?.captures_iter(output).map(|found| (found[1].to_owned(), found[2].parse().ok()));
    frames.find(|(file, _)| is_own(file)).and_then(|(file, line)| Some((file, line?)))
}

/// The first line of an exception that ended Ruby, without its place: `boom (RuntimeError)`.
fn reason(output: &str) -> Option<String> {
    let line = output.lines().find(|line| line.ends_with("Error)") && line.contains(".rb:"))?;
    line.rsplit_once("': ").map(|(_, text)| text.trim().to_owned())
}

/// A minimum coverage that SimpleCov enforces after the run.
fn unmet(output: &str) -> Option<String> {
    output.lines().rev().find(|line| line.contains("is below the expected minimum coverage")).map(str::to_owned)
}

/// Ruby and its gems.
static RUBY: Toolchain = Toolchain {
    name: "ruby",
    installations: &[("GEM_HOME", ""), ("RBENV_ROOT", ".rbenv")],
    home_dirs: &[".rbenv"],
    installation_markers: &["lib/ruby"],
    reserved: ReservedVariables {
        names: &["GEM_PATH", "RUBYLIB", "RUBYOPT"],
        prefixes: &["BUNDLE_"],
        ..ReservedVariables::NONE
    },
    ..Toolchain::DEFAULT
};

static MANIFEST: Manifest = Manifest {
    name: NAME,
    proof: "RSpec returned from its run, and every example that it had selected was reported",
    proof_markers: &[b"end"],
    markers: detect::MARKERS,
    extensions: &["rb"],
    node_id_separator: Some(" > "),
    options: OptionSupport {
        orders: OrderSupport { shuffled: true, ..OrderSupport::NONE },
        parallel: ParallelSupport::NoEffect("parallel has no effect: RSpec runs examples one at a time"),
        ..Manifest::DEFAULT.options
    },
    stack_dump: Some(StackDump {
        source: StackSource::Signal(StackSignal::Reserved),
        read: |output| thread_stacks::hung_by_file(output, "/rspec/core/example.rb"),
        declared_note: None,
    }),
    rerun_names: RerunNames { are_titles: true, ..RerunNames::PLAIN },
    reserved: ReservedVariables { names: &["SPEC_OPTS"], ..ReservedVariables::NONE },
    toolchains: &[&RUBY],
    sample: &[(".rspec", ""), ("spec/a_spec.rb", "")],
    ..Manifest::DEFAULT
};

impl Framework for Rspec {
    fn manifest(&self) -> &'static Manifest {
        &MANIFEST
    }

    fn describe_markers(&self) -> String {
        ".rspec, files named *_spec.rb below spec, or a Gemfile with rspec".to_owned()
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
    let mut plan = Plan { files: vec![file(START, include_bytes!("start.rb"))], report: true, ..Plan::default() };
    let is_narrowed = !matches!(request.selection, Selection::All);
    for selection in path_selections(&selection::RULES, projects, tree, request.selection)? {
        let mut env = BTreeMap::from([("PROCTOR_REPORT".to_owned(), format!("{}/{REPORT}", request.scratch))]);
        env.extend(lists.then(|| ("PROCTOR_LISTING".to_owned(), "1".to_owned())));
        env.extend(is_narrowed.then(|| ("PROCTOR_ASKED".to_owned(), "1".to_owned())));
        if !selection.tests.is_empty() {
            let path = format!("rspec/selection-{}", plan.steps.len());
            env.insert("PROCTOR_SELECTION".to_owned(), format!("{}/{path}", request.scratch));
            plan.files.push(file(&path, selection.tests_file().as_bytes()));
        }
        plan.steps.push(step(&selection, tree, request, env));
        plan.notes.extend(selection.notes);
    }
    Ok(plan)
}

fn step(
    selection: &PathSelection<'_>,
    tree: &FileTree,
    request: &PlanRequest<'_>,
    env: BTreeMap<String, String>,
) -> Step {
    let script = format!("{}/{START}", request.scratch);
    let dir = &selection.project.dir;
    let (program, mut args) = if detect::is_bundled(tree, dir) {
        ("bundle", vec!["exec".to_owned(), "ruby".to_owned(), script])
    } else {
        ("ruby", vec![script])
    };
    // In one argument, so that a filter stays a filter whatever it begins with.
    args.extend(selection.filter.iter().map(|filter| format!("--example={filter}")));
    args.extend(match request.order {
        TestOrder::Shuffled { seed: Some(seed) } => Some(format!("--order=rand:{seed}")),
        TestOrder::Shuffled { seed: None } => Some("--order=rand".to_owned()),
        TestOrder::Project | TestOrder::Reversed | TestOrder::Selected => None,
    });
    // From `./`, so that no file can be read as an option.
    args.extend(selection.paths.iter().map(|path| format!("./{path}")));
    Step { programs: vec![program.to_owned()], args, dir: dir.clone(), env }
}

#[cfg(test)]
mod tests;

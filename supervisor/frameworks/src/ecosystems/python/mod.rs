//! What the two Python adapters share: project detection, selection, the interpreter, and cache locations outside of the workspace.

mod detect;
mod pytest_config;
mod selection;
mod stacks;
mod toolchain;
mod zip_archive;

pub(crate) use detect::{
    MANAGE_FILE, MARKERS, PythonRunner, describe_pytest_markers, describe_unittest_markers, is_ambiguous_config,
    is_django, is_manage_file, may_define_load_tests, projects, projects_for_pytest, pytest_collects, requires_package,
    unittest_files,
};
pub(crate) use selection::{ProjectSelection, project_selections};
pub(crate) use stacks::STACK_DUMP;
pub(crate) use toolchain::PYTHON;

use crate::contract::Project;
use crate::contract::{
    FixedChance, InjectedFile, NameScope, OrderSupport, Plan, PlanRequest, REPORT, RerunNames, ScopeSupport, Step,
    TestScope,
};
use crate::formats::line_records;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_order::TestOrder;
use std::collections::BTreeMap;
use toolchain::INTERPRETERS;

/// Names and content of the modules that both runners' plugins share.
const SHARED: [(&str, &[u8]); 11] = [
    ("proctor_python", include_bytes!("proctor_python.py")),
    ("proctor_sample", include_bytes!("proctor_sample.py")),
    ("proctor_coverage", include_bytes!("proctor_coverage.py")),
    ("proctor_monitoring", include_bytes!("proctor_monitoring.py")),
    ("proctor_tracing", include_bytes!("proctor_tracing.py")),
    ("proctor_positions", include_bytes!("proctor_positions.py")),
    ("proctor_records", include_bytes!("proctor_records.py")),
    ("proctor_keeping", include_bytes!("proctor_keeping.py")),
    ("proctor_changes", include_bytes!("proctor_changes.py")),
    ("proctor_project_coverage", include_bytes!("proctor_project_coverage.py")),
    (START_MODULE, include_bytes!("proctor_start.py")),
];

/// Extension module that stores executed lines (`proctor_lines.c`, and `proctor_tracer.c` for a Python before 3.12), beside the archive
/// of the others: Python loads such modules from files only.
const LINE_STORAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/proctor_lines.so"));

/// Module that starts the runner's module.
pub(crate) const START_MODULE: &str = "proctor_start";

/// Builds a plan: steps of one runner, with its injected modules.
pub(crate) struct PlanBuilder<'a> {
    name: &'static str,
    request: &'a PlanRequest<'a>,
    plan: Plan,
}

impl<'a> PlanBuilder<'a> {
    /// A builder without steps. `plugins` are names and content of the runner's injected modules.
    pub(crate) fn new(name: &'static str, request: &'a PlanRequest<'a>, plugins: &[(&str, &[u8])]) -> PlanBuilder<'a> {
        let modules = [plugins, &SHARED].concat();
        let modules = zip_archive::archive(format!("{name}/proctor.zip"), &modules);
        let measured = request.is_measured;
        let storage = measured.then(|| injected(format!("{name}/proctor_lines.so"), LINE_STORAGE.to_vec()));
        let files = [modules].into_iter().chain(storage).collect();
        let plan = Plan { files, report: true, ..Plan::default() };
        PlanBuilder { name, request, plan }
    }

    /// Adds a command in the directory of `project`. It runs only `tests`, names by file, unless these are empty.
    pub(crate) fn add(&mut self, project: &Project, args: Vec<String>, tests: &BTreeMap<String, Vec<String>>) {
        let mut env = self.environment();
        env.extend(scope_variable(self.request.scope));
        env.extend(self.order_variable());
        if !tests.is_empty() {
            let path = format!("{}/{}.json", self.name, self.plan.steps.len());
            env.insert("PROCTOR_SELECTION".to_owned(), format!("{}/{path}", self.request.scratch));
            self.plan.files.push(injected(path, serde_json::json!(tests).to_string().into_bytes()));
        }
        self.plan.steps.push(Step { programs: interpreters(&project.dir), args, dir: project.dir.clone(), env });
    }

    /// The order as both runners' plugins read it; that of the selection is in a file.
    fn order_variable(&mut self) -> Option<(String, String)> {
        let value = match self.request.order {
            TestOrder::Project => return None,
            TestOrder::Reversed => "reversed".to_owned(),
            TestOrder::Shuffled { seed: None } => "shuffled".to_owned(),
            TestOrder::Shuffled { seed: Some(seed) } => format!("shuffled:{seed}"),
            TestOrder::Selected => {
                let path = format!("{}/order.json", self.name);
                let value = format!("{}/{path}", self.request.scratch);
                if self.plan.files.iter().all(|file| file.path != path) {
                    self.plan.files.push(injected(path, selected_order(self.request.selection)));
                }
                value
            }
        };
        Some(("PROCTOR_ORDER".to_owned(), value))
    }

    /// Adds a sentence for the report.
    pub(crate) fn note(&mut self, note: String) {
        self.plan.notes.push(note);
    }

    /// The plan, with these variables added to each step.
    pub(crate) fn build(mut self, env: &[(&str, String)]) -> Plan {
        for step in &mut self.plan.steps {
            step.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        line_records::plan_measurement(&mut self.plan, self.name, self.request);
        self.plan
    }

    /// Cache paths contain the workspace's path, so workspaces do not share caches.
    fn environment(&self) -> BTreeMap<String, String> {
        let PlanRequest { workspace, scratch, cache, .. } = *self.request;
        let tracer = self.request.may_trace.then(|| ("PROCTOR_TRACER", "1".to_owned()));
        BTreeMap::from_iter(
            [
                ("PYTHONPATH", format!("{scratch}/{}/proctor.zip", self.name)),
                ("PYTHONPYCACHEPREFIX", format!("{cache}/pycache")),
                ("HYPOTHESIS_STORAGE_DIRECTORY", format!("{cache}/hypothesis{workspace}")),
                ("PROCTOR_REPORT", format!("{scratch}/{REPORT}")),
                ("PROCTOR_WORKSPACE", workspace.to_owned()),
            ]
            .into_iter()
            .chain(tracer)
            .map(|(name, value)| (name.to_owned(), value)),
        )
    }
}

/// The scope as the plugins read it: an expression for each kind of glob.
fn scope_variable(scope: &TestScope) -> Option<(String, String)> {
    let TestScope { patterns, exclude } = scope;
    let lists = [
        ("names", patterns.name_expression()),
        ("files", patterns.file_expression()),
        ("no_names", exclude.name_expression()),
        ("no_files", exclude.file_expression()),
    ];
    let lists: BTreeMap<&str, String> =
        lists.into_iter().filter_map(|(key, expression)| Some((key, expression?))).collect();
    (!lists.is_empty()).then(|| ("PROCTOR_SCOPE".to_owned(), serde_json::json!(lists).to_string()))
}

/// The files and names of an exact selection, in its order.
fn selected_order(selection: &Selection) -> Vec<u8> {
    let targets: &[RerunTarget] = if let Selection::Exactly(targets) = selection { targets } else { &[] };
    let test = |target: &RerunTarget| match target {
        RerunTarget::Test(test) => Some([test.package.clone(), test.name.clone()]),
        RerunTarget::Package(_) | RerunTarget::Name(_) => None,
    };
    serde_json::json!(targets.iter().filter_map(test).collect::<Vec<_>>()).to_string().into_bytes()
}

fn injected(path: String, bytes: Vec<u8>) -> InjectedFile {
    InjectedFile { path, bytes, executable: false }
}

/// Candidate interpreters of a project: of its own environment, of one above it, then the host's.
fn interpreters(dir: &str) -> Vec<String> {
    let depth = dir.split('/').filter(|part| !part.is_empty()).count();
    let own = (0..=depth).flat_map(|up| INTERPRETERS.iter().map(move |python| format!("{}{python}", "../".repeat(up))));
    own.chain(["python3", "python"].map(str::to_owned)).collect()
}

/// Candidate paths of a program that Python packages install, seen from `dir`: in the project's own environment, in one
/// above it, on PATH.
pub(crate) fn program_candidates(dir: &str, name: &str) -> Vec<String> {
    let beside = |python: String| python.rsplit_once('/').map(|(bin, _)| format!("{bin}/{name}"));
    interpreters(dir).into_iter().filter_map(beside).chain([name.to_owned()]).collect()
}

/// Both runners' plugins order the tests themselves.
pub(crate) const ORDERS: OrderSupport = OrderSupport { reversed: true, shuffled: true, selected: true };

/// Python takes a new seed for the hashes of strings in each process, which decides the order of sets.
pub(crate) const FIXED_CHANCE: &[FixedChance] =
    &[FixedChance { variable: "PYTHONHASHSEED", value: "0", what: "the hash seed of Python" }];

/// Both runners' plugins apply every glob of a scope.
pub(crate) const SCOPE: ScopeSupport = ScopeSupport { names: NameScope::Adapter, files: true };

/// How names of Python's tests relate to each other.
pub(crate) const RERUN_NAMES: RerunNames = RerunNames { parent: parent_of_subtest, ..RerunNames::PLAIN };

/// How the name of a Python subtest continues behind the name of its test. A passed test reports no subtests.
const SUBTESTS: [&str; 2] = ["/(", "/["];

/// The test of a subtest.
fn parent_of_subtest(name: &str) -> Option<&str> {
    SUBTESTS.iter().find_map(|start| name.split_once(start)).map(|(test, _)| test)
}

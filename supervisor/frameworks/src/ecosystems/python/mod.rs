//! What the two adapters for Python share: whose project a file is, which files and tests a request means, the interpreter,
//! and where caches go so that nothing is written to the workspace. Must not know how either runner is called.

mod detect;
mod pytest_config;
mod selection;
mod zip_archive;

pub(crate) use detect::{
    MANAGE_FILE, MARKERS, PythonRunner, describe_pytest_markers, describe_unittest_markers, is_ambiguous_config,
    is_django, is_manage_file, may_define_load_tests, projects, projects_for_pytest, pytest_collects, requires_package,
    unittest_files,
};
pub(crate) use selection::{ProjectSelection, project_selections};

use crate::contract::Project;
use crate::contract::{InjectedFile, Plan, PlanRequest, REPORT, Step};
use std::collections::BTreeMap;

/// Environments that a project has beside its files.
const ENVIRONMENTS: [&str; 2] = [".venv/bin/python", "venv/bin/python"];

/// What both runners' plugins import.
const SHARED: &[u8] = include_bytes!("proctor_python.py");

/// Module that starts the runners' own.
pub(crate) const START_MODULE: &str = "proctor_start";

/// A plan in the making: steps of one runner, with its plugin beside them.
pub(crate) struct PlanBuilder<'a> {
    name: &'static str,
    request: &'a PlanRequest<'a>,
    plan: Plan,
}

impl<'a> PlanBuilder<'a> {
    /// Without steps yet. `plugins` are the runner's modules of ours, and their content.
    pub(crate) fn new(name: &'static str, request: &'a PlanRequest<'a>, plugins: &[(&str, &[u8])]) -> PlanBuilder<'a> {
        let shared: [(&str, &[u8]); 2] =
            [("proctor_python", SHARED), (START_MODULE, include_bytes!("proctor_start.py"))];
        let modules = [plugins, &shared].concat();
        let modules = zip_archive::archive(format!("{name}/proctor.zip"), &modules);
        PlanBuilder { name, request, plan: Plan { files: vec![modules], report: true, ..Plan::default() } }
    }

    /// Adds a command in the directory of `project`, which runs only `tests` if there are any: names by file.
    pub(crate) fn add(&mut self, project: &Project, args: Vec<String>, tests: &BTreeMap<String, Vec<String>>) {
        let mut env = self.environment();
        if !tests.is_empty() {
            let path = format!("{}/{}.json", self.name, self.plan.steps.len());
            env.insert("PROCTOR_SELECTION".to_owned(), format!("{}/{path}", self.request.scratch));
            self.plan.files.push(injected(path, serde_json::json!(tests).to_string().into_bytes()));
        }
        self.plan.steps.push(Step { programs: interpreters(&project.dir), args, dir: project.dir.clone(), env });
    }

    /// Adds a sentence for the report.
    pub(crate) fn note(&mut self, note: String) {
        self.plan.notes.push(note);
    }

    /// The plan, each of whose steps has these variables besides.
    pub(crate) fn build(mut self, env: &[(&str, String)]) -> Plan {
        for step in &mut self.plan.steps {
            step.env.extend(env.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        }
        self.plan
    }

    /// Caches of one workspace are kept apart from those of another by its path.
    fn environment(&self) -> BTreeMap<String, String> {
        let PlanRequest { workspace, scratch, cache, .. } = *self.request;
        BTreeMap::from(
            [
                ("PYTHONPATH", format!("{scratch}/{}/proctor.zip", self.name)),
                ("PYTHONPYCACHEPREFIX", format!("{cache}/pycache")),
                ("HYPOTHESIS_STORAGE_DIRECTORY", format!("{cache}/hypothesis{workspace}")),
                ("PROCTOR_REPORT", format!("{scratch}/{REPORT}")),
                ("PROCTOR_WORKSPACE", workspace.to_owned()),
            ]
            .map(|(name, value)| (name.to_owned(), value)),
        )
    }
}

fn injected(path: String, bytes: Vec<u8>) -> InjectedFile {
    InjectedFile { path, bytes, executable: false }
}

/// The interpreter of a project: that of its own environment or of one above it, else the host's.
fn interpreters(dir: &str) -> Vec<String> {
    let depth = dir.split('/').filter(|part| !part.is_empty()).count();
    let own = (0..=depth).flat_map(|up| ENVIRONMENTS.map(|python| format!("{}{python}", "../".repeat(up))));
    own.chain(["python3", "python"].map(str::to_owned)).collect()
}

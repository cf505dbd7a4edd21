//! Builds Maestro's command lines: one command for each directory of flows.

use super::NAME;
use super::flows::{self, Flow};
use crate::contract::{
    ARTIFACTS, FileTree, InjectedFile, Plan, PlanError, PlanRequest, Project, Step, TestSelection, innermost_project,
    outside, path_of,
};
use crate::parsing::workspace_paths::is_within;
use proctor_core::filter::Filter;
use proctor_core::request::{RerunTarget, Selection};
use proctor_core::test_case::TestId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Injected list of the flows of each command, for the parser.
pub(super) const COMMAND_FLOWS_FILE: &str = "maestro/suites.json";

/// Maestro's subcommand.
const SUBCOMMAND: &str = "test";

/// File with the lines that a listing prints.
const LIST: &str = "maestro/flows.txt";

/// Longest list of files in one command, in bytes; an argument list is limited to a few MB in all.
const FILES_BYTES_MAX: usize = 512 * 1024;

/// The flows of one command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CommandFlows {
    /// The flows, in the order in which they run if that is known.
    pub(super) flows: Vec<Flow>,
    /// Whether exactly these flows run, one after the other in this order.
    pub(super) in_order: bool,
    /// Whether the command runs no flow.
    pub(super) is_empty: bool,
}

/// The plan of a run.
pub(super) fn plan(projects: &[Project], tree: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
    let mut plan = Plan { artifacts: true, dirs: vec![format!("{ARTIFACTS}/{NAME}")], ..Plan::default() };
    let mut suites = Vec::new();
    for (project, chosen) in selected_flows(projects, tree, request.selection)? {
        let suite = flows::suite(tree, project);
        let config = flows::config(tree, project);
        // Maestro reads the configuration of a directory argument, and applies its tags to files too.
        let whole = chosen == suite;
        let bytes: usize = chosen.iter().map(|flow| flow.file.len() + 1).sum();
        let as_directory = whole && (config.is_some() || bytes > FILES_BYTES_MAX);
        let mut args = options(suites.len(), request);
        let config = config.filter(|_| !as_directory && chosen.iter().all(|flow| suite.contains(flow)));
        args.extend(config.map(|path| format!("--config={}", within(project, &path))));
        if as_directory {
            args.push(within(project, &project.dir));
        } else {
            args.extend(chosen.iter().map(|flow| within(project, &flow.file)));
        }
        let in_order = !as_directory && request.parallel.is_none_or(|parallel| parallel <= 1);
        plan.steps.push(maestro(flows::parent(&project.dir), args));
        suites.push(CommandFlows { flows: chosen, in_order, is_empty: false });
    }
    if suites.is_empty() {
        let text = "no flow has this in its name or its file's\n".to_owned();
        plan.steps.push(print(&mut plan.files, request, text));
        suites.push(CommandFlows { is_empty: true, ..CommandFlows::default() });
    }
    plan.files.push(file(COMMAND_FLOWS_FILE, serde_json::to_string(&suites).unwrap_or_default()));
    Ok(plan)
}

/// The plan of a listing: prints the flows, which were read during detection.
pub(super) fn plan_listing(
    projects: &[Project],
    tree: &FileTree,
    request: &PlanRequest<'_>,
) -> Result<Plan, PlanError> {
    let chosen = selected_flows(projects, tree, request.selection)?;
    let flows = chosen.iter().flat_map(|(_, flows)| flows);
    let text: String = flows.map(|flow| serde_json::to_string(flow).unwrap_or_default() + "\n").collect();
    let mut plan = Plan::default();
    plan.steps.push(print(&mut plan.files, request, text));
    Ok(plan)
}

/// The same command for some of its flows, once more. `number` is the number of its report.
pub(super) fn rerun(step: &Step, flows: &[Flow], number: usize) -> Step {
    // Without the configuration, which could exclude these flows.
    let is_kept = |word: &&String| word.starts_with('-') && !word.starts_with("--config=") || *word == SUBCOMMAND;
    let renumbered = |word: &String| {
        let (name, path) = word.split_once('=').unwrap_or((word, ""));
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        match name {
            "--output" => format!("{name}={dir}/{}", report(number)),
            "--debug-output" => format!("{name}={dir}/{}", debug(number)),
            _ => word.clone(),
        }
    };
    let files = flows.iter().map(|flow| relative_to(&step.dir, &flow.file));
    Step { args: step.args.iter().filter(is_kept).map(renumbered).chain(files).collect(), ..step.clone() }
}

/// Name of the report of a command.
pub(super) fn report(number: usize) -> String {
    format!("report-{number}.xml")
}

/// Name of the directory of a command's screenshots and logs.
fn debug(number: usize) -> String {
    format!("debug-{number}")
}

fn options(number: usize, request: &PlanRequest<'_>) -> Vec<String> {
    let left = format!("{}/{ARTIFACTS}/{NAME}", request.scratch);
    let mut args = vec![
        SUBCOMMAND.to_owned(),
        "--no-ansi".to_owned(),
        "--format=junit".to_owned(),
        format!("--output={left}/{}", report(number)),
        format!("--debug-output={left}/{}", debug(number)),
        "--flatten-debug-output".to_owned(),
    ];
    args.extend(request.parallel.filter(|parallel| *parallel > 1).map(|parallel| format!("--shard-split={parallel}")));
    args
}

fn maestro(dir: &str, args: Vec<String>) -> Step {
    // The first would wait for an answer, the second for a network.
    let env = [("MAESTRO_CLI_NO_ANALYTICS", "1"), ("MAESTRO_DISABLE_UPDATE_CHECK", "true")];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Step { programs: vec![NAME.to_owned()], args, dir: dir.to_owned(), env: env.into() }
}

/// A step that prints a text.
fn print(files: &mut Vec<InjectedFile>, request: &PlanRequest<'_>, text: String) -> Step {
    files.push(file(LIST, text));
    let args = vec![format!("{}/{LIST}", request.scratch)];
    Step { programs: vec!["cat".to_owned()], args, dir: String::new(), env: BTreeMap::new() }
}

fn file(path: &str, text: String) -> InjectedFile {
    InjectedFile { path: path.to_owned(), bytes: text.into_bytes(), executable: false }
}

/// A project's path, relative to the working directory of its command.
fn within(project: &Project, path: &str) -> String {
    relative_to(flows::parent(&project.dir), path)
}

fn relative_to(dir: &str, path: &str) -> String {
    path.strip_prefix(dir).unwrap_or(path).trim_start_matches('/').to_owned()
}

type SelectedFlows<'a> = Vec<(&'a Project, Vec<Flow>)>;

/// The selected flows of each project.
fn selected_flows<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    selection: &Selection,
) -> Result<SelectedFlows<'a>, PlanError> {
    let all = || projects.iter().map(|project| (project, flows::suite(tree, project)));
    let (mut found, filter): (SelectedFlows<'a>, _) = match TestSelection::new(selection) {
        TestSelection::Everything { filter } => (all().collect(), filter),
        TestSelection::Files { files, filter } => (flows_of_files(projects, tree, files)?, filter),
        TestSelection::Targets(targets) => {
            let named = |target: &RerunTarget| match target {
                RerunTarget::Name(name) => {
                    let flows = all().flat_map(|(_, flows)| flows).filter(|flow| flow.name == *name);
                    flows.map(|flow| flow.file).collect()
                }
                RerunTarget::Package(file) | RerunTarget::Test(TestId { package: file, .. }) => vec![file.clone()],
            };
            let files: Vec<String> = targets.iter().flat_map(named).collect();
            let known = |file: &String| tree.contains(file) || tree.is_truncated();
            // A deleted file can only be covered by running everything.
            let is_known = files.iter().all(known);
            (if is_known { flows_of_files(projects, tree, &files)? } else { all().collect() }, None)
        }
    };
    if let Some(filter) = filter.map(Filter::as_str) {
        let matches = |flow: &Flow| flow.name.contains(filter) || flow.file.contains(filter);
        found.iter_mut().for_each(|(_, flows)| flows.retain(matches));
    }
    found.retain(|(_, flows)| !flows.is_empty());
    Ok(found)
}

fn flows_of_files<'a>(
    projects: &'a [Project],
    tree: &FileTree,
    files: &[String],
) -> Result<SelectedFlows<'a>, PlanError> {
    let mut found: BTreeMap<&Project, BTreeSet<Flow>> = BTreeMap::new();
    for file in files {
        let path = path_of(NAME, file)?;
        let inside = projects.iter().filter(|project| is_within(&project.dir, &path));
        let owners: Vec<&Project> = innermost_project(projects, &path).into_iter().chain(inside).collect();
        if owners.is_empty() {
            return Err(outside(NAME, file));
        }
        for project in owners {
            let flows = found.entry(project).or_default();
            if tree.contains(&path) {
                flows.insert(Flow::from_file(tree, &path));
            } else {
                // A directory selects its flows of the suite; a directory that contains only helpers, all of these.
                let suite: Vec<Flow> = flows::suite(tree, project);
                let below: Vec<Flow> = flows::below(tree, &path);
                let of_suite: Vec<Flow> = below.iter().filter(|flow| suite.contains(flow)).cloned().collect();
                let own = if of_suite.is_empty() { below } else { of_suite };
                flows.extend(own.into_iter().filter(|flow| is_within(&flow.file, &project.dir)));
            }
        }
    }
    Ok(found.into_iter().map(|(project, flows)| (project, flows.into_iter().collect())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::filter::Filter;

    const FLOW: &str = "appId: com.example\n---\n- launchApp\n";

    fn tree(config: &str) -> FileTree {
        let mut tree = FileTree::default();
        for (path, content) in [
            ("shop/.maestro/cart.yaml", "appId: x\nname: Fill the cart\n---\n- launchApp\n"),
            ("shop/.maestro/login.yaml", FLOW),
            ("shop/.maestro/parts/helper.yaml", FLOW),
            ("web/maestro/home.yml", FLOW),
        ] {
            tree.add_with_content(path, content);
        }
        if !config.is_empty() {
            tree.add_with_content("shop/.maestro/config.yaml", config);
        }
        tree
    }

    fn plan_for(config: &str, selection: &Selection, parallel: Option<u32>) -> Result<Plan, PlanError> {
        let tree = tree(config);
        plan(&flows::projects(&tree), &tree, &PlanRequest { parallel, ..PlanRequest::plain(selection) })
    }

    fn lines(config: &str, selection: &Selection) -> Vec<String> {
        let plan = plan_for(config, selection, None).unwrap();
        plan.steps.iter().map(line).collect()
    }

    fn line(step: &Step) -> String {
        let options = "test --no-ansi --format=junit --output=/s/artifacts/maestro/report-";
        let args = step.args.join(" ").replace(options, "");
        let args = args.replace(".xml --debug-output=/s/artifacts/maestro/debug-", "/");
        format!("{}: {} {}", step.dir, step.programs[0], args.replace(" --flatten-debug-output", ""))
    }

    fn files(filter: &str, files: &[&str]) -> Selection {
        let files = files.iter().map(|&file| file.to_owned()).collect();
        Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
    }

    #[test]
    fn names_the_suite_flow_by_flow_unless_a_configuration_decides() {
        let web = "web: maestro 1/1 maestro/home.yml";
        assert_eq!(lines("", &Selection::All), ["shop: maestro 0/0 .maestro/cart.yaml .maestro/login.yaml", web]);
        assert_eq!(lines("flows: '**'", &Selection::All), ["shop: maestro 0/0 .maestro", web]);
        let parallel = plan_for("", &Selection::All, Some(2)).unwrap();
        assert!(parallel.steps[0].args.contains(&"--shard-split=2".to_owned()));
        assert_eq!(parallel.steps[0].env["MAESTRO_CLI_NO_ANALYTICS"], "1");
        let suites: Vec<CommandFlows> = serde_json::from_slice(&parallel.files[0].bytes).unwrap();
        assert_eq!((suites.len(), suites[0].in_order, suites[0].flows[0].name.as_str()), (2, false, "Fill the cart"));
    }

    #[test]
    fn a_filter_matches_a_part_of_a_name_or_file() {
        for filter in ["Fill", "cart.y"] {
            assert_eq!(lines("", &files(filter, &[])), ["shop: maestro 0/0 .maestro/cart.yaml"]);
        }
        let config = "shop: maestro 0/0 --config=.maestro/config.yaml .maestro/cart.yaml";
        assert_eq!(lines("excludeTags: x", &files("Fill", &[])), [config]);
        assert_eq!(lines("", &files("nobody", &[])), [": cat /s/maestro/flows.txt"]);
    }

    #[test]
    fn runs_exactly_the_given_files_and_failed_flows() {
        let helper = ["shop: maestro 0/0 .maestro/parts/helper.yaml"];
        assert_eq!(lines("flows: cart.yaml", &files("", &["shop/.maestro/parts/helper.yaml"])), helper);
        assert_eq!(lines("", &files("", &["shop/.maestro/parts"])), helper);
        assert_eq!(lines("", &files("", &["shop"])), ["shop: maestro 0/0 .maestro/cart.yaml .maestro/login.yaml"]);
        for outside in ["../x.yaml", "/x.yaml", "README.yaml"] {
            assert!(plan_for("", &files("", &[outside]), None).is_err(), "{outside}");
        }
        let target =
            |file: &str| RerunTarget::Test(TestId { package: file.to_owned(), name: "an earlier name".to_owned() });
        let failed = Selection::Exactly(vec![target("web/maestro/home.yml"), target("shop/.maestro/login.yaml")]);
        let expected = ["shop: maestro 0/0 .maestro/login.yaml", "web: maestro 1/1 maestro/home.yml"];
        assert_eq!(lines("", &failed), expected);
        assert_eq!(lines("", &Selection::Exactly(vec![target("shop/.maestro/gone.yaml")])).len(), 2);
    }

    #[test]
    fn reruns_failed_flows_by_file() {
        for config in ["", "flows: '*'"] {
            let plan = plan_for(config, &Selection::All, None).unwrap();
            let suites: Vec<CommandFlows> = serde_json::from_slice(&plan.files[0].bytes).unwrap();
            let step = rerun(&plan.steps[0], &suites[0].flows[1..2], 7);
            assert_eq!(line(&step), "shop: maestro 7/7 .maestro/login.yaml");
        }
    }
}

//! How a runner is started: which of its copies, and with which environment.
//!
//! npm, pnpm and Yarn unpack packages below `node_modules`, as directories or links, and Node finds them. Yarn may keep them in
//! archives instead and write a file (`.pnp.cjs`) that teaches Node where each is. Then Node loads that file, as `yarn node` does,
//! and Yarn itself is not needed.

use super::injected_file;
use super::test_script::Invocation;
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{InjectedFile, PlanRequest, Step};
use crate::parsing::workspace_paths::{ancestors, join};
use std::collections::BTreeMap;

/// An injected script, below the scratch directory, that starts a program of packages in archives.
pub(crate) const PROGRAM_FILE: &str = "js/program.cjs";

/// How a project's runner is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    programs: Vec<String>,
    first: Vec<String>,
    dir: String,
    env: BTreeMap<String, String>,
}

impl Launch {
    /// Starts the program `name` (`jest`): the nearest copy in a `node_modules`, up to the workspace's root, as Node resolves
    /// packages; through [`PROGRAM_FILE`] where packages are in archives.
    pub(crate) fn for_program(
        tree: &FileTree,
        project: &Project,
        request: &PlanRequest<'_>,
        name: &str,
        script: &Invocation,
    ) -> Launch {
        let pnp = pnp_files(tree, &project.dir);
        let mut launch = Launch::for_packages(pnp.as_ref(), project, request, script);
        if pnp.is_some() {
            launch.first = vec![format!("{}/{PROGRAM_FILE}", request.scratch), name.to_owned()];
        } else {
            launch.programs = program_candidates(&project.dir, name);
        }
        launch
    }

    /// Starts Node itself: a copy among the project's packages, as npm finds it, or the one on PATH.
    pub(crate) fn for_node(
        tree: &FileTree,
        project: &Project,
        request: &PlanRequest<'_>,
        script: &Invocation,
    ) -> Launch {
        Launch::for_packages(pnp_files(tree, &project.dir).as_ref(), project, request, script)
    }

    fn for_packages(
        packages: Option<&PnpFiles>,
        project: &Project,
        request: &PlanRequest<'_>,
        script: &Invocation,
    ) -> Launch {
        const NODE: &str = "node";
        let mut programs = if packages.is_some() { Vec::new() } else { program_candidates(&project.dir, NODE) };
        programs.pop();
        programs.push(NODE.to_owned());
        let mut env = environment(script);
        if let Some(packages) = packages {
            let own = env.remove(NODE_OPTIONS);
            let all = [packages.options(request.workspace)].into_iter().chain(own).collect::<Vec<_>>();
            env.insert(NODE_OPTIONS.to_owned(), all.join(" "));
        }
        Launch { programs, first: Vec::new(), dir: project.dir.clone(), env }
    }

    /// Starts an injected script in Node, from the project's directory; the script finds the runner itself. The invocation's options
    /// for Node go before the script.
    pub(crate) fn for_file(
        tree: &FileTree,
        project: &Project,
        request: &PlanRequest<'_>,
        file: String,
        script: &Invocation,
    ) -> Launch {
        let bare = Invocation { node: Vec::new(), ..script.clone() };
        let first = script.node.iter().cloned().chain([file]).collect();
        Launch { programs: vec!["node".to_owned()], first, ..Launch::for_node(tree, project, request, &bare) }
    }

    /// Sets a further variable.
    pub(crate) fn with_env(mut self, name: &str, value: impl Into<String>) -> Launch {
        self.env.insert(name.to_owned(), value.into());
        self
    }

    /// Says where code with probes is cached, if lines are measured.
    pub(crate) fn with_lines_cache(self, request: &PlanRequest<'_>) -> Launch {
        if request.is_measured {
            return self.with_env("PROCTOR_LINES_CACHE", format!("{}/js-lines", request.cache));
        }
        self
    }

    /// The command with these arguments.
    pub(crate) fn step(&self, args: impl IntoIterator<Item = String>) -> Step {
        Step {
            programs: self.programs.clone(),
            args: self.first.iter().cloned().chain(args).collect(),
            dir: self.dir.clone(),
            env: self.env.clone(),
        }
    }
}

/// The variable with options for Node and the processes it starts.
const NODE_OPTIONS: &str = "NODE_OPTIONS";

/// A command of the program `name` in `dir` that is no test runner, and the files that it needs: the project's own copy,
/// or else the one on PATH.
pub(crate) fn program_step(
    tree: &FileTree,
    dir: &str,
    request: &PlanRequest<'_>,
    name: &str,
    args: Vec<String>,
) -> (Step, Vec<InjectedFile>) {
    let project = Project { dir: dir.to_owned(), name: String::new() };
    let mut step = Launch::for_program(tree, &project, request, name, &Invocation::default()).step(args);
    if pnp_files(tree, dir).is_some() {
        return (step, vec![injected_file(PROGRAM_FILE, include_bytes!("program.cjs"))]);
    }
    step.programs = program_paths(dir, name);
    (step, Vec::new())
}

/// Candidate paths of a program that the project or the host may have: in a `node_modules` up to the workspace's root,
/// then on PATH.
pub(crate) fn program_paths(dir: &str, name: &str) -> Vec<String> {
    let mut programs = program_candidates(dir, name);
    programs.pop();
    programs.push(name.to_owned());
    programs
}

/// Candidate paths of an unpacked package's program, seen from `dir`. The last is the one that an error names if none exists,
/// because people install in the project.
fn program_candidates(dir: &str, name: &str) -> Vec<String> {
    let depth = dir.split('/').filter(|part| !part.is_empty()).count();
    let bin = |levels| format!("{}node_modules/.bin/{name}", "../".repeat(levels));
    let mut programs: Vec<String> = (0..=depth).map(bin).collect();
    programs.push(bin(0));
    programs
}

/// Yarn's files that tell Node where the packages in archives are.
struct PnpFiles {
    /// File that teaches `require`, relative to the workspace.
    file: String,
    /// File that teaches `import`, relative to the workspace.
    loader: Option<String>,
}

impl PnpFiles {
    /// Options that make Node load these files, the same that `yarn node` passes: `--require` and, with a loader,
    /// `--experimental-loader`.
    fn options(&self, workspace: &str) -> String {
        let file = format!("{workspace}/{}", self.file).replace('\\', r"\\").replace('"', r#"\""#);
        let loader = self.loader.iter().map(|loader| format!(" --experimental-loader {}", url(workspace, loader)));
        [format!("--require \"{file}\"")].into_iter().chain(loader).collect()
    }
}

/// Yarn's files for a project in `dir`, in it or above it; `None` if its packages are unpacked.
fn pnp_files(tree: &FileTree, dir: &str) -> Option<PnpFiles> {
    ancestors(dir).find_map(|dir| {
        let there = |name: &&str| tree.contains(&join(dir, name));
        let file = [".pnp.cjs", ".pnp.js"].into_iter().find(there)?;
        let loader = Some(".pnp.loader.mjs").filter(there);
        Some(PnpFiles { file: join(dir, file), loader: loader.map(|name| join(dir, name)) })
    })
}

/// The URL of a file of the workspace.
fn url(workspace: &str, file: &str) -> String {
    let path = format!("{workspace}/{file}");
    let spelt = |byte: u8| match byte {
        b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    format!("file://{}", path.bytes().map(spelt).collect::<String>())
}

/// The environment of an invocation and its options for Node. Variables that decide where caches are stay proctor's.
fn environment(script: &Invocation) -> BTreeMap<String, String> {
    let mut env = script.env.clone();
    env.retain(|name, _| !matches!(name.as_str(), "PATH" | "HOME" | "TMPDIR") && !name.starts_with("PROCTOR_"));
    if !script.node.is_empty() {
        let options = env.get(NODE_OPTIONS).into_iter().cloned().chain(script.node.iter().cloned());
        let options = options.collect::<Vec<_>>().join(" ");
        env.insert(NODE_OPTIONS.to_owned(), options);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::request::Selection;

    const WANT: PlanRequest<'static> = PlanRequest { workspace: "/a b", ..PlanRequest::plain(&Selection::All) };

    fn tree(files: &[&str]) -> FileTree {
        let mut tree = FileTree::default();
        files.iter().for_each(|file| tree.add(*file));
        tree
    }

    fn project(dir: &str) -> Project {
        Project { dir: dir.to_owned(), name: String::new() }
    }

    fn line(launch: &Launch) -> String {
        let step = launch.step(["--ci".to_owned()]);
        let options =
            step.env.get(NODE_OPTIONS).map(|options| format!(" {NODE_OPTIONS}={options}")).unwrap_or_default();
        format!("{} {}{options}", step.programs.join("|"), step.args.join(" "))
    }

    #[test]
    fn starts_the_nearest_copy_up_to_the_root() {
        let step = Launch::for_program(&tree(&[]), &project("a/b"), &WANT, "jest", &Invocation::default())
            .step(["--ci".to_owned()]);
        let bin = "node_modules/.bin/jest";
        assert_eq!(step.programs, [bin, &format!("../{bin}"), &format!("../../{bin}"), bin]);
        assert_eq!((step.args.as_slice(), step.dir.as_str()), (["--ci".to_owned()].as_slice(), "a/b"));
        let node = Launch::for_node(&tree(&[]), &project("a"), &WANT, &Invocation::default());
        assert_eq!(line(&node), "node_modules/.bin/node|../node_modules/.bin/node|node --ci");
    }

    #[test]
    fn node_loads_yarns_file_where_packages_are_in_archives() {
        let script = Invocation { node: vec!["--x".to_owned()], ..Invocation::default() };
        for (files, options) in [
            (&[".pnp.cjs"][..], r#"--require "/a b/.pnp.cjs""#),
            (&["a/.pnp.js", ".pnp.cjs"], r#"--require "/a b/a/.pnp.js""#),
            (
                &[".pnp.cjs", ".pnp.loader.mjs"],
                r#"--require "/a b/.pnp.cjs" --experimental-loader file:///a%20b/.pnp.loader.mjs"#,
            ),
        ] {
            let (tree, project) = (tree(files), project("a"));
            let launch = Launch::for_program(&tree, &project, &WANT, "jest", &script);
            assert_eq!(line(&launch), format!("node /s/js/program.cjs jest --ci {NODE_OPTIONS}={options} --x"));
            let launch = Launch::for_node(&tree, &project, &WANT, &script);
            assert_eq!(line(&launch), format!("node --ci {NODE_OPTIONS}={options} --x"));
            let launch = Launch::for_file(&tree, &project, &WANT, "/s/run.cjs".to_owned(), &script);
            assert_eq!(line(&launch), format!("node --x /s/run.cjs --ci {NODE_OPTIONS}={options}"));
        }
    }

    #[test]
    fn an_injected_script_gets_the_invocations_options_for_node() {
        let script = Invocation { node: vec!["--experimental-vm-modules".to_owned()], ..Invocation::default() };
        let launch = Launch::for_file(&tree(&[]), &project("a"), &WANT, "/s/run.cjs".to_owned(), &script);
        assert_eq!(line(&launch), "node --experimental-vm-modules /s/run.cjs --ci");
    }

    #[test]
    fn keeps_the_environment_of_the_test_script() {
        let env = [("TZ", "UTC"), ("PATH", "/x"), ("NODE_OPTIONS", "--a")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let script = Invocation { env, node: vec!["--b".to_owned()], ..Invocation::default() };
        let launch = Launch::for_program(&tree(&[]), &project(""), &WANT, "jest", &script);
        let env = launch.with_env("X", "1").step([]).env;
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["NODE_OPTIONS=--a --b", "TZ=UTC", "X=1"]);
    }
}

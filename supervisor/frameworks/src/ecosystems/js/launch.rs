//! How a runner is started: which of its copies, and with which environment. Must not know any runner's options.
//!
//! npm, pnpm and Yarn unpack packages below `node_modules`, with links where they differ, and Node finds them. Yarn may
//! leave them in archives instead and write a file (`.pnp.cjs`) that teaches Node where each is: then Node is told to load
//! it, as `yarn node` would do, and Yarn itself is not needed.

use super::test_script::Invocation;
use crate::contract::FileTree;
use crate::contract::Project;
use crate::contract::{PlanRequest, Step};
use crate::parsing::workspace_paths::{ancestors, join};
use std::collections::BTreeMap;

/// A file of ours, below the scratch directory, that starts a program of packages which are not unpacked.
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
    /// Of the runner whose program is `name` (`jest`): the nearest one in a `node_modules`, up to the workspace's root, as
    /// Node resolves packages; through [`PROGRAM_FILE`] where packages are not unpacked.
    pub(crate) fn for_program(
        tree: &FileTree,
        project: &Project,
        request: &PlanRequest<'_>,
        name: &str,
        script: &Invocation,
    ) -> Launch {
        let packages = packages(tree, &project.dir);
        let mut launch = Launch::through(packages.as_ref(), project, request, script);
        if packages.is_some() {
            launch.first = vec![format!("{}/{PROGRAM_FILE}", request.scratch), name.to_owned()];
        } else {
            launch.programs = copies(&project.dir, name);
        }
        launch
    }

    /// Of Node itself: one among the project's packages, as npm would find it, or the one on PATH.
    pub(crate) fn for_node(
        tree: &FileTree,
        project: &Project,
        request: &PlanRequest<'_>,
        script: &Invocation,
    ) -> Launch {
        Launch::through(packages(tree, &project.dir).as_ref(), project, request, script)
    }

    fn through(
        packages: Option<&Packages>,
        project: &Project,
        request: &PlanRequest<'_>,
        script: &Invocation,
    ) -> Launch {
        const NODE: &str = "node";
        let mut programs = if packages.is_some() { Vec::new() } else { copies(&project.dir, NODE) };
        programs.pop();
        programs.push(NODE.to_owned());
        let mut env = environment(script);
        if let Some(packages) = packages {
            let own = env.remove(OPTIONS);
            let all = [packages.options(request.workspace)].into_iter().chain(own).collect::<Vec<_>>();
            env.insert(OPTIONS.to_owned(), all.join(" "));
        }
        Launch { programs, first: Vec::new(), dir: project.dir.clone(), env }
    }

    /// Of a file of ours, which finds the runner itself, in Node, from the project's directory. Node's options that the
    /// script gives go before the file.
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

    /// The same with a further variable.
    pub(crate) fn with_env(mut self, name: &str, value: impl Into<String>) -> Launch {
        self.env.insert(name.to_owned(), value.into());
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

/// The variable with options for Node and the processes that it starts.
const OPTIONS: &str = "NODE_OPTIONS";

/// Where a program of packages that are unpacked may be, seen from `dir`. The last is the one that is told when none is
/// there: a person installs in the project.
fn copies(dir: &str, name: &str) -> Vec<String> {
    let depth = dir.split('/').filter(|part| !part.is_empty()).count();
    let bin = |levels| format!("{}node_modules/.bin/{name}", "../".repeat(levels));
    let mut programs: Vec<String> = (0..=depth).map(bin).collect();
    programs.push(bin(0));
    programs
}

/// Yarn's files that tell Node where packages are that are not unpacked.
struct Packages {
    /// What `require` is taught by, relative to the workspace.
    file: String,
    /// The same for `import`.
    loader: Option<String>,
}

impl Packages {
    /// Options for Node, as `yarn node` gives them.
    fn options(&self, workspace: &str) -> String {
        let file = format!("{workspace}/{}", self.file).replace('\\', r"\\").replace('"', r#"\""#);
        let loader = self.loader.iter().map(|loader| format!(" --experimental-loader {}", url(workspace, loader)));
        [format!("--require \"{file}\"")].into_iter().chain(loader).collect()
    }
}

/// The files for a project in `dir`, which are its own or above it, if its packages are not unpacked.
fn packages(tree: &FileTree, dir: &str) -> Option<Packages> {
    ancestors(dir).find_map(|dir| {
        let there = |name: &&str| tree.contains(&join(dir, name));
        let file = [".pnp.cjs", ".pnp.js"].into_iter().find(there)?;
        let loader = Some(".pnp.loader.mjs").filter(there);
        Some(Packages { file: join(dir, file), loader: loader.map(|name| join(dir, name)) })
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

/// What the project's own script sets, and Node's options that it gives. The caches are proctor's to place.
fn environment(script: &Invocation) -> BTreeMap<String, String> {
    let mut env = script.env.clone();
    env.retain(|name, _| !matches!(name.as_str(), "PATH" | "HOME" | "TMPDIR") && !name.starts_with("PROCTOR_"));
    if !script.node.is_empty() {
        let options = env.get(OPTIONS).into_iter().cloned().chain(script.node.iter().cloned());
        let options = options.collect::<Vec<_>>().join(" ");
        env.insert(OPTIONS.to_owned(), options);
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
        let options = step.env.get(OPTIONS).map(|options| format!(" {OPTIONS}={options}")).unwrap_or_default();
        format!("{} {}{options}", step.programs.join("|"), step.args.join(" "))
    }

    #[test]
    fn the_nearest_copy_is_taken_up_to_the_root() {
        let step = Launch::for_program(&tree(&[]), &project("a/b"), &WANT, "jest", &Invocation::default())
            .step(["--ci".to_owned()]);
        let bin = "node_modules/.bin/jest";
        assert_eq!(step.programs, [bin, &format!("../{bin}"), &format!("../../{bin}"), bin]);
        assert_eq!((step.args.as_slice(), step.dir.as_str()), (["--ci".to_owned()].as_slice(), "a/b"));
        let node = Launch::for_node(&tree(&[]), &project("a"), &WANT, &Invocation::default());
        assert_eq!(line(&node), "node_modules/.bin/node|../node_modules/.bin/node|node --ci");
    }

    #[test]
    fn node_is_told_where_packages_are_that_are_not_unpacked() {
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
            assert_eq!(line(&launch), format!("node /s/js/program.cjs jest --ci {OPTIONS}={options} --x"));
            let launch = Launch::for_node(&tree, &project, &WANT, &script);
            assert_eq!(line(&launch), format!("node --ci {OPTIONS}={options} --x"));
            let launch = Launch::for_file(&tree, &project, &WANT, "/s/run.cjs".to_owned(), &script);
            assert_eq!(line(&launch), format!("node --x /s/run.cjs --ci {OPTIONS}={options}"));
        }
    }

    #[test]
    fn a_file_of_ours_is_started_as_the_script_starts_node() {
        let script = Invocation { node: vec!["--experimental-vm-modules".to_owned()], ..Invocation::default() };
        let launch = Launch::for_file(&tree(&[]), &project("a"), &WANT, "/s/run.cjs".to_owned(), &script);
        assert_eq!(line(&launch), "node --experimental-vm-modules /s/run.cjs --ci");
    }

    #[test]
    fn what_the_script_sets_is_kept() {
        let env = [("TZ", "UTC"), ("PATH", "/x"), ("NODE_OPTIONS", "--a")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let script = Invocation { env, node: vec!["--b".to_owned()], ..Invocation::default() };
        let launch = Launch::for_program(&tree(&[]), &project(""), &WANT, "jest", &script);
        let env = launch.with_env("X", "1").step([]).env;
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["NODE_OPTIONS=--a --b", "TZ=UTC", "X=1"]);
    }
}

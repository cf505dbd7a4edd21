//! How a runner is started: which of its copies, and with which environment. Must not know any runner's options.

use super::script::Script;
use crate::framework::{Project, Step};
use crate::paths::join;
use crate::tree::FileTree;
use std::collections::BTreeMap;

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
    /// Node resolves packages; through `yarn` where packages are not unpacked.
    pub(crate) fn of(tree: &FileTree, project: &Project, name: &str, script: &Script) -> Launch {
        let depth = project.dir.split('/').filter(|part| !part.is_empty()).count();
        let above = |levels: usize| "../".repeat(levels);
        let (programs, first) = if has_pnp(tree, &project.dir) {
            (vec!["yarn".to_owned()], vec!["run".to_owned(), name.to_owned()])
        } else {
            let bin = |levels| format!("{}node_modules/.bin/{name}", above(levels));
            // The last is the one that is told when none is there: a person installs in the project.
            let mut programs: Vec<String> = (0..=depth).map(bin).collect();
            programs.dedup();
            programs.push(bin(0));
            (programs, Vec::new())
        };
        Launch { programs, first, dir: project.dir.clone(), env: environment(script) }
    }

    /// Of a file of ours, which finds the runner itself, from the project's directory: in Node, through `yarn` where
    /// packages are not unpacked. Node's options that the script gives go before the file.
    pub(crate) fn of_file(tree: &FileTree, project: &Project, file: String, script: &Script) -> Launch {
        let (program, node) = if has_pnp(tree, &project.dir) { ("yarn", Some("node")) } else { ("node", None) };
        let first = node.map(str::to_owned).into_iter().chain(script.node.iter().cloned()).chain([file]);
        let bare = Script { node: Vec::new(), ..script.clone() };
        let (programs, first) = (vec![program.to_owned()], first.collect());
        Launch { programs, first, dir: project.dir.clone(), env: environment(&bare) }
    }

    /// The same with a further variable.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Launch {
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

/// Whether packages of a project in `dir` are not unpacked: Yarn keeps a file of where each of them is, above.
fn has_pnp(tree: &FileTree, dir: &str) -> bool {
    let mut dirs = std::iter::successors(Some(dir), |dir| {
        (!dir.is_empty()).then(|| dir.rsplit_once('/').map_or("", |(parent, _)| parent))
    });
    dirs.any(|dir| [".pnp.cjs", ".pnp.js"].iter().any(|name| tree.contains(&join(dir, name))))
}

/// What the project's own script sets, and Node's options that it gives. The caches are proctor's to place.
fn environment(script: &Script) -> BTreeMap<String, String> {
    let mut env = script.env.clone();
    env.retain(|name, _| !matches!(name.as_str(), "PATH" | "HOME" | "TMPDIR") && !name.starts_with("PROCTOR_"));
    if !script.node.is_empty() {
        let options = env.get("NODE_OPTIONS").into_iter().cloned().chain(script.node.iter().cloned());
        let options = options.collect::<Vec<_>>().join(" ");
        env.insert("NODE_OPTIONS".to_owned(), options);
    }
    env
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(dir: &str, files: &[&str], script: &Script) -> Launch {
        let mut tree = FileTree::default();
        files.iter().for_each(|file| tree.add(*file));
        Launch::of(&tree, &Project { dir: dir.to_owned(), name: String::new() }, "jest", script)
    }

    #[test]
    fn the_nearest_copy_is_taken_up_to_the_root() {
        let step = launch("a/b", &[], &Script::default()).step(["--ci".to_owned()]);
        let bin = "node_modules/.bin/jest";
        assert_eq!(step.programs, [bin, &format!("../{bin}"), &format!("../../{bin}"), bin]);
        assert_eq!((step.args.as_slice(), step.dir.as_str()), (["--ci".to_owned()].as_slice(), "a/b"));
        for pnp in [".pnp.cjs", "a/.pnp.cjs"] {
            let step = launch("a", &[pnp], &Script::default()).step(["--ci".to_owned()]);
            assert_eq!((step.programs.join(" "), step.args.join(" ")), ("yarn".to_owned(), "run jest --ci".to_owned()));
        }
    }

    #[test]
    fn a_file_of_ours_is_started_as_the_script_starts_node() {
        let script = Script { node: vec!["--experimental-vm-modules".to_owned()], ..Script::default() };
        let project = Project { dir: "a".to_owned(), name: String::new() };
        let mut tree = FileTree::default();
        let line = |tree: &FileTree| {
            let step = Launch::of_file(tree, &project, "/s/run.cjs".to_owned(), &script).step([]);
            format!("{} {} {:?}", step.programs.join(" "), step.args.join(" "), step.env)
        };
        assert_eq!(line(&tree), "node --experimental-vm-modules /s/run.cjs {}");
        tree.add(".pnp.cjs");
        assert_eq!(line(&tree), "yarn node --experimental-vm-modules /s/run.cjs {}");
    }

    #[test]
    fn what_the_script_sets_is_kept() {
        let env = [("TZ", "UTC"), ("PATH", "/x"), ("NODE_OPTIONS", "--a")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let script = Script { env, node: vec!["--b".to_owned()], args: Vec::new() };
        let env = launch("", &[], &script).with("X", "1").step([]).env;
        let env: Vec<String> = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(env, ["NODE_OPTIONS=--a --b", "TZ=UTC", "X=1"]);
    }
}

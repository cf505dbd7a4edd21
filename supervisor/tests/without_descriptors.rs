//! Workspace scans without free file descriptors, in a process of its own, because the limit is per process.

use proctor::workspace::{Root, Workspace, WorkspaceError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

#[test]
fn without_descriptors_a_workspace_operation_reports_the_host_shortage() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let path = top.join("shop");
    // Deep enough that the last descriptor may be used up at any level.
    fs::create_dir_all(path.join("a/b/c/d")).unwrap();
    for marker in ["go.mod", "a/package.json", "a/b/c/d/go.mod"] {
        fs::write(path.join(marker), "{}").unwrap();
    }
    let (roots, workspace) = ([Root::new(&top)], Workspace::open(&path).unwrap());
    let whole = workspace.scan().unwrap();
    let before = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let (mut short, mut well) = (0, 0);
    // Open descriptors may have higher numbers than free ones.
    for most in 3..open + 20 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..before }).unwrap();
        let results = [
            Workspace::open(&path).map(drop),
            Workspace::open_below(&roots, &path).map(drop),
            workspace.owner().map(drop),
            workspace.relative("a/../go.mod").map(drop),
            workspace.relative("a/package.json").map(drop),
            workspace.existing("a/b/c/d/go.mod").map(drop),
            workspace.scan().map(|look| {
                assert_eq!((look.fingerprint, look.tree.contains("a/b/c/d/go.mod")), (whole.fingerprint, true));
            }),
        ];
        setrlimit(Resource::Nofile, before).unwrap();
        for (which, result) in results.into_iter().enumerate() {
            match result {
                Ok(()) => well += 1,
                // Rejected before any look-up.
                Err(WorkspaceError::Outside { .. }) if which == 3 => {}
                Err(WorkspaceError::Host(error)) => {
                    let text = WorkspaceError::Host(error).to_string();
                    assert_eq!(text, "the supervisor has no file descriptor left", "{which} with {most}");
                    short += 1;
                }
                Err(other) => panic!("{which} with {most}: {other:?}"),
            }
        }
    }
    assert!(short > 10 && well > 60, "{short} {well}");
}

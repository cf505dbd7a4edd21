//! A look at a workspace when there are no descriptors, in a process of its own, whose limit nothing else feels. Must not know
//! what is made of what it says.

use proctor::workspace::{Root, Workspace, WorkspaceError};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;

#[test]
fn without_descriptors_a_workspace_is_neither_missing_nor_replaced_nor_another_project() {
    let dir = tempfile::tempdir().unwrap();
    let top = dir.path().canonicalize().unwrap();
    let path = top.join("shop");
    // Deep enough that the last descriptor may go at any level.
    fs::create_dir_all(path.join("a/b/c/d")).unwrap();
    for marker in ["go.mod", "a/package.json", "a/b/c/d/go.mod"] {
        fs::write(path.join(marker), "{}").unwrap();
    }
    let (roots, held) = ([Root::new(&top)], Workspace::open(&path).unwrap());
    let whole = held.scan().unwrap();
    let before = getrlimit(Resource::Nofile);
    let open = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let (mut short, mut well) = (0, 0);
    // Those that are open may have higher numbers than those that are free.
    for most in 3..open + 20 {
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..before }).unwrap();
        let looks = [
            Workspace::open(&path).map(drop),
            Workspace::open_below(&roots, &path).map(drop),
            held.owner().map(drop),
            held.relative("a/../go.mod").map(drop),
            held.relative("a/package.json").map(drop),
            held.existing("a/b/c/d/go.mod").map(drop),
            held.scan().map(|look| {
                assert_eq!((look.fingerprint, look.tree.contains("a/b/c/d/go.mod")), (whole.fingerprint, true));
            }),
        ];
        setrlimit(Resource::Nofile, before).unwrap();
        for (which, look) in looks.into_iter().enumerate() {
            match look {
                Ok(()) => well += 1,
                // Refused before anything is looked up.
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

//! Workspaces on a real file system.

use super::*;
use nix::sched::CloneFlags;
use proctor_frameworks::Why;
use rustix::mount::{MountFlags, MountPropagationFlags};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

fn workspace() -> (tempfile::TempDir, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("a/b")).unwrap();
    fs::write(dir.path().join("a/b/x.go"), "package b").unwrap();
    fs::write(dir.path().join("go.mod"), "module m").unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    (dir, workspace)
}

#[test]
fn paths_stay_inside_also_through_symlinks() {
    let (dir, workspace) = workspace();
    symlink("/etc", dir.path().join("out")).unwrap();
    symlink("a", dir.path().join("in")).unwrap();
    assert_eq!(workspace.relative("./a//b/x.go").unwrap(), "a/b/x.go");
    assert_eq!(workspace.relative(workspace.root().join("a/b").to_str().unwrap()).unwrap(), "a/b");
    assert_eq!(workspace.relative("deleted.go").unwrap(), "deleted.go");
    assert_eq!(workspace.existing("in/b/x.go").unwrap(), "in/b/x.go");
    symlink("/nowhere", dir.path().join("dangling")).unwrap();
    // What is outside is not said to be there or not.
    for outside in ["../x", "a/../../x", "/etc/passwd", "out/passwd", "out/no-such-file", "dangling"] {
        let error = workspace.relative(outside).unwrap_err();
        assert!(matches!(error, WorkspaceError::Outside { .. }), "{outside}: {error}");
    }
    assert!(matches!(workspace.existing("deleted.go"), Err(WorkspaceError::NoSuchFile { .. })));
}

#[test]
fn a_fingerprint_changes_with_every_edit_and_not_with_what_tools_leave() {
    let (dir, workspace) = workspace();
    let before = workspace.look().unwrap();
    assert_eq!(before.tree.content("go.mod"), Some("module m"));
    assert_eq!(before.fingerprint, workspace.look().unwrap().fingerprint);
    fs::create_dir(dir.path().join("node_modules")).unwrap();
    fs::write(dir.path().join("node_modules/x.js"), "1").unwrap();
    assert_eq!(before.fingerprint, workspace.look().unwrap().fingerprint);
    fs::create_dir_all(dir.path().join("target/debug")).unwrap();
    fs::write(dir.path().join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    fs::write(dir.path().join("target/debug/x"), "1").unwrap();
    assert_eq!(before.fingerprint, workspace.look().unwrap().fingerprint);
    fs::write(dir.path().join("a/b/x.go"), "package c").unwrap();
    assert_ne!(before.fingerprint, workspace.look().unwrap().fingerprint);
}

#[test]
fn an_edit_of_a_file_whose_name_is_no_text_is_an_edit() {
    let (dir, workspace) = workspace();
    let strange = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("x.txt"), "1").unwrap();
    for file in [strange.join("x.txt"), dir.path().join(OsStr::from_bytes(b"\xe9.txt"))] {
        let before = workspace.look().unwrap();
        fs::write(&file, "12").unwrap();
        let after = workspace.look().unwrap();
        assert_ne!(before.fingerprint, after.fingerprint, "{}", file.display());
        assert_eq!(before.tree, after.tree, "no request could name it");
    }
}

/// What is left out of a look at a workspace with a Go module, after `change` to it.
fn left_out_after(change: impl FnOnce(&Path)) -> Vec<(String, Why)> {
    let (dir, workspace) = workspace();
    change(dir.path());
    let look = workspace.look().unwrap();
    look.tree.left_out().iter().map(|left_out| (left_out.path.clone(), left_out.why)).collect()
}

#[test]
fn what_may_hold_tests_and_is_not_in_the_tree_is_left_out_by_name() {
    let write = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    let nothing: [(String, Why); 0] = [];
    let deep = format!("{}x", "d/".repeat(64));
    assert_eq!(
        left_out_after(|dir| write(dir.join(&deep))),
        [("d/".repeat(64).trim_end_matches('/').to_owned(), Why::TooDeep)]
    );
    assert_eq!(left_out_after(|dir| write(dir.join(&deep[2..]))), nothing);
    let strange = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    assert_eq!(left_out_after(|dir| write(dir.join(strange(b"caf\xe9")).join("picture.png"))), nothing);
    let found = left_out_after(|dir| {
        write(dir.join(strange(b"t/caf\xe9")).join("a/test_a.py"));
        write(dir.join(strange(b"t/caf\xe9")).join("test_b.py"));
    });
    assert_eq!(found, [("t/caf\u{fffd}".to_owned(), Why::NotUtf8)]);
    let large = |name: &str| left_out_after(|dir| fs::File::create(dir.join(name)).unwrap().set_len(2 << 20).unwrap());
    assert_eq!(large("package.json"), [("package.json".to_owned(), Why::SettingsTooLarge)]);
    assert_eq!(large("test.txt"), nothing, "data is called like that");
    assert_eq!(large("picture.png"), nothing);
}

#[test]
fn a_cache_tag_hides_nothing_but_a_cache() {
    const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag.";
    for (name, tag, beside, is_hidden) in [
        ("tests", TAG, "x", false),
        ("out", TAG, ".rustc_info.json", true),
        ("env", TAG, "pyvenv.cfg", true),
        ("target", TAG, "x", true),
        ("target", "no tag", "x", false),
        (".pytest_cache", TAG, "x", true),
        ("env", "", "pyvenv.cfg", false),
    ] {
        let (dir, workspace) = workspace();
        let cache = dir.path().join(name);
        fs::create_dir(&cache).unwrap();
        fs::write(cache.join("CACHEDIR.TAG"), tag).unwrap();
        fs::write(cache.join(beside), "").unwrap();
        fs::write(cache.join("test_a.py"), "").unwrap();
        let look = workspace.look().unwrap();
        assert_eq!(look.tree.contains(&format!("{name}/test_a.py")), !is_hidden, "{name} {beside}");
        assert!(look.fingerprint.is_some() && look.tree.left_out().is_empty(), "{name} {beside}");
    }
}

#[test]
fn settings_in_another_encoding_are_read() {
    let (dir, workspace) = workspace();
    fs::write(dir.path().join("CMakeLists.txt"), b"# caf\xe9\nenable_testing()\n").unwrap();
    fs::write(dir.path().join(".proctor.yaml"), b"# caf\xe9\n").unwrap();
    let tree = workspace.look().unwrap().tree;
    assert!(tree.content("CMakeLists.txt").unwrap().ends_with("\nenable_testing()\n"));
    assert!(
        tree.contains(".proctor.yaml") && tree.content(".proctor.yaml").is_none(),
        "what bounds a run is not guessed at"
    );
}

#[test]
fn a_directory_that_only_sounds_like_a_cache_is_looked_at() {
    let (dir, workspace) = workspace();
    fs::create_dir(dir.path().join("target")).unwrap();
    fs::write(dir.path().join("target/x.go"), "package target").unwrap();
    assert!(workspace.look().unwrap().tree.contains("target/x.go"));
}

#[test]
fn what_a_build_leaves_beside_its_script_is_no_edit_and_is_looked_at() {
    for (marker, name, is_filled) in [
        ("pom.xml", "target", true),
        ("build.gradle", "build", true),
        ("build.gradle.kts", "build", true),
        ("settings.gradle", "build", true),
        ("settings.gradle.kts", "build", true),
        ("pom.xml", "build", false),
        ("build.gradle", "target", false),
        ("go.mod", "target", false),
    ] {
        let (dir, workspace) = workspace();
        let core = dir.path().join("core");
        fs::create_dir(&core).unwrap();
        fs::write(core.join(marker), "").unwrap();
        fs::write(core.join("Core.java"), "class Core {}").unwrap();
        let fingerprint = || workspace.look().unwrap().fingerprint.unwrap();
        let before = fingerprint();
        let classes = core.join(name).join("classes");
        fs::create_dir_all(&classes).unwrap();
        fs::write(classes.join("Core.class"), "compiled").unwrap();
        fs::write(core.join(name).join(marker), "of the build").unwrap();
        assert_eq!(fingerprint() == before, is_filled, "{name} beside {marker}");
        let tree = workspace.look().unwrap().tree;
        assert!(tree.contains(&format!("core/{name}/classes/Core.class")), "{name} beside {marker}");
        assert_eq!(tree.content(&format!("core/{name}/{marker}")), Some("of the build"), "{name} beside {marker}");
        fs::write(core.join("Core.java"), "final class Core {}").unwrap();
        assert_ne!(fingerprint(), before, "an edit beside {name} and {marker}");
        // Its name says nothing where the script is elsewhere.
        let built = fingerprint();
        fs::create_dir_all(core.join("src").join(name)).unwrap();
        fs::write(core.join("src").join(name).join("Source.java"), "").unwrap();
        assert_ne!(fingerprint(), built, "{name} below {marker}");
    }
}

#[test]
fn another_directory_at_the_same_path_is_another_workspace() {
    let (dir, workspace) = workspace();
    let (here, there) = (dir.path().join("ws"), dir.path().join("old"));
    fs::create_dir(&here).unwrap();
    let opened = Workspace::open(&here).unwrap();
    assert!(opened.look().is_ok() && workspace.look().is_ok());
    fs::rename(&here, &there).unwrap();
    assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
    symlink(&there, &here).unwrap();
    assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
    // The same directory, and a link on the way to it.
    let (above, aside) = (dir.path().join("a"), dir.path().join("aside"));
    let opened = Workspace::open(&above.join("b")).unwrap();
    fs::rename(&above, &aside).unwrap();
    symlink(&aside, &above).unwrap();
    assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
}

#[test]
fn what_takes_its_place_is_never_looked_at() {
    let (dir, _) = workspace();
    let (here, theirs) = (dir.path().join("ws"), dir.path().join("theirs"));
    fs::create_dir(&here).unwrap();
    fs::create_dir(&theirs).unwrap();
    fs::write(here.join("own.txt"), "").unwrap();
    fs::write(theirs.join("secret.txt"), "").unwrap();
    let opened = Workspace::open(&here).unwrap();
    fs::rename(&here, dir.path().join("aside")).unwrap();
    symlink(&theirs, &here).unwrap();
    assert_eq!(opened.existing("own.txt").unwrap(), "own.txt");
    assert!(matches!(opened.existing("secret.txt"), Err(WorkspaceError::NoSuchFile { .. })));
    assert!(opened.changed_since("secret.txt", Timestamp(u64::MAX)), "it is not there");
    assert!(!opened.changed_since("own.txt", Timestamp(u64::MAX)));
    assert!(matches!(opened.look(), Err(WorkspaceError::Replaced)));
}

#[test]
fn no_other_directory_gets_the_identity_of_one_that_is_held() {
    let (dir, _) = workspace();
    let here = dir.path().join("ws");
    fs::create_dir(&here).unwrap();
    let opened = Workspace::open(&here).unwrap();
    // File systems give the number of a directory that is gone to the next one that is made.
    for _ in 0..64 {
        fs::remove_dir(&here).unwrap();
        fs::create_dir(&here).unwrap();
        assert_ne!(Workspace::open(&here).unwrap().identity(), opened.identity());
        assert!(matches!(opened.owner(), Err(WorkspaceError::Replaced)));
    }
}

#[test]
fn below_a_root_nothing_leads_out() {
    let (dir, _) = workspace();
    let top = dir.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("roots/own/shop/inner")).unwrap();
    fs::create_dir_all(top.join("roots/other/shop")).unwrap();
    fs::write(top.join("roots/own/file"), "").unwrap();
    symlink("roots/own", top.join("by-name")).unwrap();
    for (link, target) in [
        ("here", "."),
        ("alias", "shop"),
        ("nowhere", "gone"),
        ("up", ".."),
        ("theirs", "../other/shop"),
        ("circle", "circle"),
    ] {
        symlink(target, top.join("roots/own").join(link)).unwrap();
    }
    symlink(top.join("roots/other/shop"), top.join("roots/own/absolute-theirs")).unwrap();
    symlink(top.join("roots/own/shop"), top.join("roots/own/absolute-own")).unwrap();
    symlink(format!("/proc/{}/root/etc", std::process::id()), top.join("roots/own/magic")).unwrap();
    let roots = [Root::new(&top.join("by-name"))];
    let open = |tail: &str| Workspace::open_below(&roots, &top.join(tail));
    let at_hand = |tail: &str| Workspace::at_hand(&roots, &top.join(tail));
    for (inside, at, is_straight) in [
        ("roots/own/shop", "roots/own/shop", true),
        ("roots/own//./shop/", "roots/own/shop", true),
        ("by-name/shop", "roots/own/shop", true),
        ("roots/own", "roots/own", true),
        ("roots/own/here/shop/", "roots/own/shop", false),
        ("roots/own/shop/inner/..", "roots/own/shop", false),
    ] {
        let opened = open(inside).unwrap();
        assert_eq!(opened.0.root(), top.join(at), "{inside}");
        // It has just been looked up, so that the kernel has it in its memory; what is renamed beside it may cost a look.
        let found = (0..1_000).find_map(|_| at_hand(inside));
        assert_eq!(found, is_straight.then_some(opened), "{inside}");
    }
    for outside in [
        "roots/other/shop",
        "roots/other/gone",
        "roots/ownx",
        "roots/own/../other/shop",
        "roots/own/..",
        "roots/own/up/other/shop",
        "roots/own/theirs",
        "roots/own/theirs/gone",
        "roots/own/absolute-theirs",
        "roots/own/absolute-own/inner",
        "roots/own/circle/x",
        "roots/own/magic",
        "",
    ] {
        let refused = open(outside).unwrap_err();
        assert!(matches!(refused, WorkspaceError::Elsewhere), "{outside}: {refused}");
        assert_eq!(at_hand(outside), None, "{outside}");
    }
    assert!(matches!(open("roots/own/gone"), Err(WorkspaceError::NotFound(_))));
    assert!(matches!(open("roots/own/file"), Err(WorkspaceError::NotADirectory)));
    for link in ["alias", "alias/", "nowhere", "here"] {
        assert!(matches!(open(&format!("roots/own/{link}")), Err(WorkspaceError::Link)), "{link}");
        assert_eq!(at_hand(&format!("roots/own/{link}")), None, "{link}");
    }
    assert!(matches!(Workspace::open_below(&roots, Path::new("shop")), Err(WorkspaceError::NotAbsolute)));
    assert_eq!(Workspace::at_hand(&roots, Path::new("shop")), None);

    // Links of /proc to what a process has open, where a root would hold them.
    let all = [Root::new(Path::new("/"))];
    for magic in ["/proc/self/root/etc", "/proc/self/cwd"] {
        let refused = Workspace::open_below(&all, Path::new(magic)).unwrap_err();
        assert!(matches!(refused, WorkspaceError::Elsewhere), "{magic}: {refused}");
        assert_eq!(Workspace::at_hand(&all, Path::new(magic)), None, "{magic}");
    }
    // A root that was made a link since it was read leads nowhere.
    fs::rename(top.join("roots/own"), top.join("roots/moved")).unwrap();
    symlink("other", top.join("roots/own")).unwrap();
    assert!(matches!(open("roots/own/shop"), Err(WorkspaceError::NotFound(_))));
    assert_eq!(at_hand("roots/own/shop"), None);
}

#[test]
fn a_mount_that_covers_a_workspace_is_another_directory() {
    let (dir, _) = workspace();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return; // nobody but root can mount
    }
    let here = dir.path().join("ws");
    fs::create_dir(&here).unwrap();
    let opened = Workspace::open(&here).unwrap();
    fs::write(here.join("own.txt"), "").unwrap();
    let covered = std::thread::scope(|scope| {
        // Mounts of one thread's own, which no other sees.
        let covered = scope.spawn(|| {
            nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
            rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            rustix::mount::mount("none", &here, "tmpfs", MountFlags::empty(), None).unwrap();
            (opened.existing("own.txt").is_ok(), matches!(opened.look(), Err(WorkspaceError::Replaced)))
        });
        covered.join().unwrap()
    });
    assert_eq!(covered, (true, true));
}

#[test]
fn a_directory_of_the_system_is_no_workspace() {
    for path in ["/", "/etc", "/usr/lib", "/proc/self", "/dev", "/dev/shm", "/bin", "/sys/fs/cgroup"] {
        assert!(matches!(Workspace::open(Path::new(path)), Err(WorkspaceError::Reserved)), "{path}");
    }
    if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
        assert!(Workspace::open(dir.path()).is_ok());
    }
}

#[test]
fn a_look_says_whose_the_workspace_is() {
    let (dir, workspace) = workspace();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    assert_eq!(workspace.look().unwrap().owner, uid);
    if uid == 0 {
        std::os::unix::fs::chown(dir.path(), Some(4_000), None).unwrap();
        assert_eq!(workspace.look().unwrap().owner, 4_000);
    }
    fs::remove_dir_all(dir.path()).unwrap();
    assert!(matches!(workspace.owner(), Err(WorkspaceError::Replaced)));
}

#[test]
fn a_workspace_is_an_absolute_directory() {
    let (dir, _) = workspace();
    assert!(matches!(Workspace::open(Path::new("x")), Err(WorkspaceError::NotAbsolute)));
    assert!(matches!(Workspace::open(&dir.path().join("none")), Err(WorkspaceError::NotFound(_))));
    assert!(matches!(Workspace::open(&dir.path().join("go.mod")), Err(WorkspaceError::NotADirectory)));
}

//! Tests of workspaces on a real file system.

use super::*;
use nix::sched::CloneFlags;
use proctor_frameworks::UnscannedReason;
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
fn paths_stay_inside_even_through_symlinks() {
    let (dir, workspace) = workspace();
    symlink("/etc", dir.path().join("out")).unwrap();
    symlink("a", dir.path().join("in")).unwrap();
    assert_eq!(workspace.relative("./a//b/x.go").unwrap(), "a/b/x.go");
    assert_eq!(workspace.relative(workspace.root().join("a/b").to_str().unwrap()).unwrap(), "a/b");
    assert_eq!(workspace.relative("deleted.go").unwrap(), "deleted.go");
    assert_eq!(workspace.existing("in/b/x.go").unwrap(), "in/b/x.go");
    symlink("/nowhere", dir.path().join("dangling")).unwrap();
    // The error does not reveal whether an outside path exists.
    for outside in ["../x", "a/../../x", "/etc/passwd", "out/passwd", "out/no-such-file", "dangling"] {
        let error = workspace.relative(outside).unwrap_err();
        assert!(matches!(error, WorkspaceError::Outside { .. }), "{outside}: {error}");
    }
    assert!(matches!(workspace.existing("deleted.go"), Err(WorkspaceError::NoSuchFile { .. })));
}

#[test]
fn a_source_is_a_regular_file_on_a_path_without_links() {
    let (dir, workspace) = workspace();
    symlink("/etc/passwd", dir.path().join("out")).unwrap();
    symlink("a", dir.path().join("in")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("pipe"),
        FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    assert_eq!(workspace.read_source("a/b/x.go", 9).as_deref(), Some(&b"package b"[..]));
    for refused in ["out", "in/b/x.go", "pipe", "a", "../x", "missing"] {
        assert_eq!(workspace.read_source(refused, 9), None, "{refused}");
    }
    assert_eq!(workspace.read_source("a/b/x.go", 8), None, "too large");
}

#[test]
fn a_fingerprint_changes_with_edits_but_not_with_tool_output() {
    let (dir, workspace) = workspace();
    let before = workspace.scan().unwrap();
    assert_eq!(before.tree.content("go.mod"), Some("module m"));
    assert_eq!(before.fingerprint, workspace.scan().unwrap().fingerprint);
    fs::create_dir(dir.path().join("node_modules")).unwrap();
    fs::write(dir.path().join("node_modules/x.js"), "1").unwrap();
    assert_eq!(before.fingerprint, workspace.scan().unwrap().fingerprint);
    fs::create_dir_all(dir.path().join("target/debug")).unwrap();
    fs::write(dir.path().join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55").unwrap();
    fs::write(dir.path().join("target/debug/x"), "1").unwrap();
    assert_eq!(before.fingerprint, workspace.scan().unwrap().fingerprint);
    fs::write(dir.path().join("a/b/x.go"), "package c").unwrap();
    assert_ne!(before.fingerprint, workspace.scan().unwrap().fingerprint);
}

#[test]
fn editing_a_file_with_a_non_utf8_name_changes_the_fingerprint() {
    let (dir, workspace) = workspace();
    let strange = dir.path().join(OsStr::from_bytes(b"caf\xe9"));
    fs::create_dir(&strange).unwrap();
    fs::write(strange.join("x.txt"), "1").unwrap();
    for file in [strange.join("x.txt"), dir.path().join(OsStr::from_bytes(b"\xe9.txt"))] {
        let before = workspace.scan().unwrap();
        fs::write(&file, "12").unwrap();
        let after = workspace.scan().unwrap();
        assert_ne!(before.fingerprint, after.fingerprint, "{}", file.display());
        assert_eq!(before.tree, after.tree, "a request cannot name it");
    }
}

/// What a scan of a workspace with a Go module leaves out after `change`.
fn left_out_after(change: impl FnOnce(&Path)) -> Vec<(String, UnscannedReason)> {
    let (dir, workspace) = workspace();
    change(dir.path());
    let scan = workspace.scan().unwrap();
    scan.tree.unscanned().iter().map(|left_out| (left_out.path.clone(), left_out.reason)).collect()
}

#[test]
fn reports_left_out_paths_that_may_hold_tests() {
    let write = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    let nothing: [(String, UnscannedReason); 0] = [];
    let deep = format!("{}x", "d/".repeat(64));
    assert_eq!(
        left_out_after(|dir| write(dir.join(&deep))),
        [("d/".repeat(64).trim_end_matches('/').to_owned(), UnscannedReason::TooDeep)]
    );
    assert_eq!(left_out_after(|dir| write(dir.join(&deep[2..]))), nothing);
    let strange = |name: &[u8]| OsStr::from_bytes(name).to_owned();
    assert_eq!(left_out_after(|dir| write(dir.join(strange(b"caf\xe9")).join("picture.png"))), nothing);
    let found = left_out_after(|dir| {
        write(dir.join(strange(b"t/caf\xe9")).join("a/test_a.py"));
        write(dir.join(strange(b"t/caf\xe9")).join("test_b.py"));
    });
    assert_eq!(found, [("t/caf\u{fffd}".to_owned(), UnscannedReason::NotUtf8)]);
    let large = |name: &str| left_out_after(|dir| fs::File::create(dir.join(name)).unwrap().set_len(2 << 20).unwrap());
    assert_eq!(large("package.json"), [("package.json".to_owned(), UnscannedReason::SettingsTooLarge)]);
    assert_eq!(large("test.txt"), nothing, "the name is also used for data");
    assert_eq!(large("picture.png"), nothing);
}

#[test]
fn a_cache_tag_hides_only_caches() {
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
        let scan = workspace.scan().unwrap();
        assert_eq!(scan.tree.contains(&format!("{name}/test_a.py")), !is_hidden, "{name} {beside}");
        assert!(scan.fingerprint.is_some() && scan.tree.unscanned().is_empty(), "{name} {beside}");
    }
}

#[test]
fn reads_settings_in_other_encodings() {
    let (dir, workspace) = workspace();
    fs::write(dir.path().join("CMakeLists.txt"), b"# caf\xe9\nenable_testing()\n").unwrap();
    fs::write(dir.path().join(".proctor.yaml"), b"# caf\xe9\n").unwrap();
    let tree = workspace.scan().unwrap().tree;
    assert!(tree.content("CMakeLists.txt").unwrap().ends_with("\nenable_testing()\n"));
    assert!(
        tree.contains(".proctor.yaml") && tree.content(".proctor.yaml").is_none(),
        "the project file is never guessed"
    );
}

#[test]
fn scans_a_directory_that_is_a_cache_by_name_only() {
    let (dir, workspace) = workspace();
    fs::create_dir(dir.path().join("target")).unwrap();
    fs::write(dir.path().join("target/x.go"), "package target").unwrap();
    assert!(workspace.scan().unwrap().tree.contains("target/x.go"));
}

#[test]
fn build_output_is_scanned_but_is_no_edit() {
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
        let fingerprint = || workspace.scan().unwrap().fingerprint.unwrap();
        let before = fingerprint();
        let classes = core.join(name).join("classes");
        fs::create_dir_all(&classes).unwrap();
        fs::write(classes.join("Core.class"), "compiled").unwrap();
        fs::write(core.join(name).join(marker), "of the build").unwrap();
        assert_eq!(fingerprint() == before, is_filled, "{name} beside {marker}");
        let tree = workspace.scan().unwrap().tree;
        assert!(tree.contains(&format!("core/{name}/classes/Core.class")), "{name} beside {marker}");
        assert_eq!(tree.content(&format!("core/{name}/{marker}")), Some("of the build"), "{name} beside {marker}");
        fs::write(core.join("Core.java"), "final class Core {}").unwrap();
        assert_ne!(fingerprint(), before, "an edit beside {name} and {marker}");
        // The name means nothing away from the build script.
        let built = fingerprint();
        fs::create_dir_all(core.join("src").join(name)).unwrap();
        fs::write(core.join("src").join(name).join("Source.java"), "").unwrap();
        assert_ne!(fingerprint(), built, "{name} below {marker}");
    }
}

#[test]
fn another_directory_at_the_same_path_is_another_workspace() {
    let (dir, workspace) = workspace();
    let (path, there) = (dir.path().join("ws"), dir.path().join("old"));
    fs::create_dir(&path).unwrap();
    let opened = Workspace::open(&path).unwrap();
    assert!(opened.scan().is_ok() && workspace.scan().is_ok());
    fs::rename(&path, &there).unwrap();
    assert!(matches!(opened.scan(), Err(WorkspaceError::Replaced)));
    symlink(&there, &path).unwrap();
    assert!(matches!(opened.scan(), Err(WorkspaceError::Replaced)));
    // The same directory, but a link in its path.
    let (above, aside) = (dir.path().join("a"), dir.path().join("aside"));
    let opened = Workspace::open(&above.join("b")).unwrap();
    fs::rename(&above, &aside).unwrap();
    symlink(&aside, &above).unwrap();
    assert!(matches!(opened.scan(), Err(WorkspaceError::Replaced)));
}

#[test]
fn a_replacement_of_the_directory_is_never_read() {
    let (dir, _) = workspace();
    let (path, theirs) = (dir.path().join("ws"), dir.path().join("theirs"));
    fs::create_dir(&path).unwrap();
    fs::create_dir(&theirs).unwrap();
    fs::write(path.join("own.txt"), "").unwrap();
    fs::write(theirs.join("secret.txt"), "").unwrap();
    let opened = Workspace::open(&path).unwrap();
    fs::rename(&path, dir.path().join("aside")).unwrap();
    symlink(&theirs, &path).unwrap();
    assert_eq!(opened.existing("own.txt").unwrap(), "own.txt");
    assert!(matches!(opened.existing("secret.txt"), Err(WorkspaceError::NoSuchFile { .. })));
    assert!(opened.changed_since("secret.txt", Timestamp(u64::MAX)), "a missing file counts as changed");
    assert!(!opened.changed_since("own.txt", Timestamp(u64::MAX)));
    assert!(matches!(opened.scan(), Err(WorkspaceError::Replaced)));
}

#[test]
fn the_identity_of_an_open_directory_is_not_reused() {
    let (dir, _) = workspace();
    let path = dir.path().join("ws");
    fs::create_dir(&path).unwrap();
    let opened = Workspace::open(&path).unwrap();
    // File systems reuse the inode number of a removed directory for the next one.
    for _ in 0..64 {
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_ne!(Workspace::open(&path).unwrap().identity(), opened.identity());
        assert!(matches!(opened.owner(), Err(WorkspaceError::Replaced)));
    }
}

#[test]
fn no_path_leads_out_of_a_root() {
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
    let open_cached = |tail: &str| Workspace::open_cached(&roots, &top.join(tail));
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
        // The path was just looked up, so it is cached; concurrent renames may make a cached look-up fail.
        let found = (0..1_000).find_map(|_| open_cached(inside));
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
        assert!(matches!(refused, WorkspaceError::OutsideRoots), "{outside}: {refused}");
        assert_eq!(open_cached(outside), None, "{outside}");
    }
    assert!(matches!(open("roots/own/gone"), Err(WorkspaceError::NotFound(_))));
    assert!(matches!(open("roots/own/file"), Err(WorkspaceError::NotADirectory)));
    for link in ["alias", "alias/", "nowhere", "here"] {
        assert!(matches!(open(&format!("roots/own/{link}")), Err(WorkspaceError::Link)), "{link}");
        assert_eq!(open_cached(&format!("roots/own/{link}")), None, "{link}");
    }
    assert!(matches!(Workspace::open_below(&roots, Path::new("shop")), Err(WorkspaceError::NotAbsolute)));
    assert_eq!(Workspace::open_cached(&roots, Path::new("shop")), None);

    // Magic links of /proc, below a root that would allow them.
    let all = [Root::new(Path::new("/"))];
    for magic in ["/proc/self/root/etc", "/proc/self/cwd"] {
        let refused = Workspace::open_below(&all, Path::new(magic)).unwrap_err();
        assert!(matches!(refused, WorkspaceError::OutsideRoots), "{magic}: {refused}");
        assert_eq!(Workspace::open_cached(&all, Path::new(magic)), None, "{magic}");
    }
    // A root replaced by a link after it was read leads nowhere.
    fs::rename(top.join("roots/own"), top.join("roots/moved")).unwrap();
    symlink("other", top.join("roots/own")).unwrap();
    assert!(matches!(open("roots/own/shop"), Err(WorkspaceError::NotFound(_))));
    assert_eq!(open_cached("roots/own/shop"), None);
}

#[test]
fn a_mount_that_covers_a_workspace_is_another_directory() {
    let (dir, _) = workspace();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        return; // only root can mount
    }
    let path = dir.path().join("ws");
    fs::create_dir(&path).unwrap();
    let opened = Workspace::open(&path).unwrap();
    fs::write(path.join("own.txt"), "").unwrap();
    let covered = std::thread::scope(|scope| {
        // Mounts in a namespace of this thread only.
        let covered = scope.spawn(|| {
            nix::sched::unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_FS).unwrap();
            rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
            rustix::mount::mount("none", &path, "tmpfs", MountFlags::empty(), None).unwrap();
            (opened.existing("own.txt").is_ok(), matches!(opened.scan(), Err(WorkspaceError::Replaced)))
        });
        covered.join().unwrap()
    });
    assert_eq!(covered, (true, true));
}

#[test]
fn a_system_directory_cannot_be_a_workspace() {
    for path in ["/", "/etc", "/usr/lib", "/proc/self", "/dev", "/dev/shm", "/bin", "/sys/fs/cgroup"] {
        assert!(matches!(Workspace::open(Path::new(path)), Err(WorkspaceError::Reserved)), "{path}");
    }
    if let Ok(dir) = tempfile::tempdir_in("/dev/shm") {
        assert!(Workspace::open(dir.path()).is_ok());
    }
}

#[test]
fn a_scan_reports_the_owner() {
    let (dir, workspace) = workspace();
    let uid = fs::metadata(dir.path()).unwrap().uid();
    assert_eq!(workspace.scan().unwrap().owner, uid);
    if uid == 0 {
        std::os::unix::fs::chown(dir.path(), Some(4_000), None).unwrap();
        assert_eq!(workspace.scan().unwrap().owner, 4_000);
    }
    fs::remove_dir_all(dir.path()).unwrap();
    assert!(matches!(workspace.owner(), Err(WorkspaceError::Replaced)));
}

#[test]
fn a_workspace_must_be_an_absolute_directory() {
    let (dir, _) = workspace();
    assert!(matches!(Workspace::open(Path::new("x")), Err(WorkspaceError::NotAbsolute)));
    assert!(matches!(Workspace::open(&dir.path().join("none")), Err(WorkspaceError::NotFound(_))));
    assert!(matches!(Workspace::open(&dir.path().join("go.mod")), Err(WorkspaceError::NotADirectory)));
}

//! Tests of the bounds of caches, including hostile contents.

use super::*;
use crate::host::trash::{empty_when_unlocked, trash_dir};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::mkdirat;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

fn cache_named(name: &str, bytes: u64, used: i64) -> Cache {
    Cache { name: CString::new(name).unwrap(), is_leftover: false, bytes, used }
}

/// The directory name for a workspace named `name`, of at most 16 bytes.
fn key(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<32}")
}

#[test]
fn removes_oversized_caches_first_then_those_unused_longest() {
    let rows: [(&[Cache], &[&str]); 6] = [
        (&[], &[]),
        (&[cache_named("a", 5, 1), cache_named("b", 5, 2)], &[]),
        (&[cache_named("a", 5, 1), cache_named("b", 6, 2)], &["a"]),
        (&[cache_named("new", 4, 9), cache_named("old", 4, 1), cache_named("older", 4, 0)], &["older"]),
        (&[cache_named("old", 4, 1), cache_named("large", 11, 9)], &["large"]),
        (&[cache_named("a", 6, 1), cache_named("deep", u64::MAX, 5), cache_named("b", 6, 2)], &["deep", "a"]),
    ];
    for (caches, gone) in rows {
        let mut remaining = caches.to_vec();
        let removed = split_off_removable(&mut remaining, 10);
        let names: Vec<_> = removed.iter().map(|cache| cache.name.to_str().unwrap()).collect();
        assert_eq!(names, gone, "{caches:?}");
        assert!(total(&remaining) <= 10 && remaining.len() + gone.len() == caches.len(), "{remaining:?}");
    }
}

#[test]
fn measures_only_when_the_bound_may_be_exceeded() {
    let measurement = |bytes, secs| Measurement { bytes, free: 1_000, age: Duration::from_secs(secs) };
    let rows = [
        (measurement(10, 61), 1_000, false),
        (measurement(10, 61), 911, false),
        (measurement(10, 61), 910, true),
        (measurement(10, 59), 0, false),
        (measurement(100, 61), 2_000, true),
        (measurement(10, 3_600), 1_000, true),
    ];
    for (measurement, free_now, due) in rows {
        assert_eq!(measurement.is_due(free_now, 100), due, "{measurement:?} {free_now}");
    }
}

/// The inverse of [`key`].
fn name_of(entry: &str) -> String {
    if !run_cache::is_workspace_name(&CString::new(entry).unwrap()) {
        return entry.to_owned();
    }
    let bytes = (0..16).map(|at| u8::from_str_radix(&entry[2 * at..2 * at + 2], 16).unwrap());
    String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
}

struct Harness {
    dir: TempDir,
}

impl Harness {
    fn new() -> Harness {
        let harness = Harness { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(harness.cache()).unwrap();
        harness
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Adds caches of a workspace with a file of `kib` KiB, last used `ago` seconds ago.
    fn add(&self, name: &str, kib: usize, ago: u64) {
        let name = &key(name);
        let dir = self.cache().join(name).join("deep/er");
        fs::create_dir_all(&dir).unwrap();
        let time = SystemTime::now() - Duration::from_secs(ago);
        let file = File::create(dir.join("file")).unwrap();
        (&file).write_all(&vec![7; kib << 10]).unwrap();
        File::open(self.cache().join(name)).unwrap().set_modified(time).unwrap();
    }

    /// What is left in the cache directory, sorted: workspaces by the names given to `add`, other entries by their file
    /// names.
    fn remaining(&self) -> Vec<String> {
        let entries = fs::read_dir(self.cache()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| name_of(&entry.unwrap().file_name().into_string().unwrap())).collect();
        names.sort();
        names
    }

    fn tidy(&self, mib: u64) -> Tidied {
        let tidied = try_tidy(&self.cache(), mib << 20).unwrap();
        let trash = self.dir.path().join("cache.trash");
        assert!(!trash.exists() || fs::read_dir(trash).unwrap().next().is_none(), "the trash is not empty");
        tidied
    }

    /// Makes the last measurement old.
    fn age(&self) {
        let used = File::options().write(true).open(self.dir.path().join("cache.used")).unwrap();
        used.set_modified(SystemTime::now() - PAUSE_MAX).unwrap();
    }
}

#[test]
fn removes_whole_caches_until_the_rest_is_within_the_bound() {
    let harness = Harness::new();
    harness.add("go-build", 1_024, 10);
    harness.add("npm", 1_024, 5_000);
    harness.add("pip", 1_024, 500);
    assert_eq!(harness.tidy(4), Tidied::default());
    assert!(!is_untidy(&harness.cache(), 4 << 20));
    assert!(is_untidy(&harness.cache(), 2 << 20), "known excess is due at once");
    harness.age();
    assert!(is_untidy(&harness.cache(), 4 << 20));
    let tidied = harness.tidy(2);
    assert_eq!(harness.remaining(), ["go-build"]);
    assert!(tidied.removed.len() == 2 && tidied.bytes >= 2 << 20, "{tidied:?}");
    // A recent measurement is not repeated, whatever was added.
    harness.add("npm", 4_096, 0);
    assert_eq!(harness.tidy(2), Tidied::default());
    harness.age();
    harness.tidy(2);
    assert_eq!(harness.remaining(), ["go-build"]);
}

#[test]
fn removes_nothing_while_a_run_uses_the_caches() {
    let harness = Harness::new();
    harness.add("go-build", 4_096, 0);
    let run = lock_for_run(&harness.cache()).unwrap();
    assert_eq!(harness.tidy(1), Tidied::default());
    assert_eq!(harness.remaining(), ["go-build"]);
    assert!(!is_untidy(&harness.cache(), 1 << 20), "measuring would be useless while in use");
    assert!(are_overfull(&harness.cache(), 1 << 20) && !are_overfull(&harness.cache(), 3 << 20));
    drop(run);
    assert!(!are_overfull(&harness.cache(), 1 << 20), "the end of the next run tidies them");
    assert!(is_untidy(&harness.cache(), 1 << 20));
    harness.tidy(1);
    assert_eq!(harness.remaining(), [""; 0]);
    assert!(!is_untidy(&harness.cache(), 1 << 20));
}

#[test]
fn a_cache_unreadable_for_lack_of_descriptors_is_not_too_large() {
    let harness = Harness::new();
    harness.add("go-build", 16, 0);
    let result = std::thread::spawn(move || {
        // This thread gets its own descriptor table and fills it.
        unshare(CloneFlags::CLONE_FILES).unwrap();
        let dir = openat(CWD, harness.cache(), OPEN_DIR, Mode::empty()).unwrap();
        let taken: Vec<OwnedFd> = std::iter::from_fn(|| rustix::io::dup(&dir).ok()).collect();
        let result = measure(&dir, CString::new(key("go-build")).unwrap(), &mut HashSet::new());
        drop(taken);
        result
    });
    assert_eq!(result.join().unwrap().unwrap_err().raw_os_error(), Some(Errno::MFILE.raw_os_error()));
}

#[test]
fn a_foreign_lock_only_delays_a_run() {
    let harness = Harness::new();
    let used = open_used(&harness.cache()).unwrap();
    assert_eq!(used.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    used.lock().unwrap();
    let cache = harness.cache();
    let (sender, received) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || sender.send(lock_for_run(&cache).is_none()));
    assert_eq!(received.recv_timeout(Duration::from_secs(120)), Ok(true));
    drop(used);
    assert!(lock_for_run(&harness.cache()).is_some());
}

#[test]
fn rejects_a_link_or_a_fifo_as_lock_file() {
    let harness = Harness::new();
    let precious = harness.dir.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let used = harness.dir.path().join("cache.used");
    symlink(&precious, &used).unwrap();
    assert!(lock_for_run(&harness.cache()).is_none());
    assert!(try_tidy(&harness.cache(), 1).is_err());
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    fs::remove_file(&used).unwrap();
    rustix::fs::mknodat(CWD, &used, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(try_tidy(&harness.cache(), 1).is_err());
}

#[test]
fn empties_trash_with_colliding_names() {
    let harness = Harness::new();
    let trash = harness.dir.path().join("cache.trash");
    for remaining in ["up-1/deep/er", "up-2/deep/er", "up-4/deep/er"] {
        fs::create_dir_all(trash.join(remaining)).unwrap();
    }
    fs::write(trash.join("up-3"), "").unwrap();
    for name in ["up-1", "up-2"] {
        harness.add(name, 1_024, 0);
    }
    fs::write(harness.cache().join("file"), vec![7; 1 << 20]).unwrap();
    assert_eq!(harness.tidy(0).removed.len(), 3);
    assert_eq!(harness.remaining(), [""; 0]);
}

#[test]
fn discarded_caches_move_away_at_once_and_are_removed_later() {
    let harness = Harness::new();
    harness.add("go-build", 16, 0);
    let parent = File::open(harness.dir.path()).unwrap();
    let trash = trash_dir(&parent, "cache").unwrap();
    assert!(!harness.cache().exists());
    assert!(
        harness.dir.path().join("cache.trash/up-1").join(key("go-build")).join("deep/er/file").exists(),
        "nothing has been removed yet"
    );
    fs::create_dir(harness.cache()).unwrap();
    harness.add("npm", 16, 0);
    trash_dir(&parent, "cache").unwrap();
    empty_when_unlocked(&trash);
    assert_eq!(fs::read_dir(harness.dir.path().join("cache.trash")).unwrap().count(), 0);
}

#[test]
fn removes_a_hostile_tree_and_nothing_outside_it() {
    let harness = Harness::new();
    let precious = harness.dir.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), vec![7; 2 << 20]).unwrap();
    let bad = harness.cache().join(key("bad"));
    fs::create_dir(&bad).unwrap();
    symlink(&precious, bad.join("link")).unwrap();
    symlink(&precious, harness.cache().join("link")).unwrap();
    fs::create_dir(bad.join("locked")).unwrap();
    fs::write(bad.join("locked/file"), "").unwrap();
    fs::set_permissions(bad.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    // Deeper than the longest path, and than a call stack or the descriptor limit allows.
    let mut at = OwnedFd::from(File::open(&bad).unwrap());
    for _ in 0..5_000 {
        mkdirat(&at, "deeper", Mode::RWXU).unwrap();
        at = openat(&at, "deeper", OPEN_DIR, Mode::empty()).unwrap();
    }
    drop(at);
    harness.add("npm", 512, 0);
    let tidied = harness.tidy(1);
    assert_eq!(tidied.removed, [c"link".to_owned(), CString::new(key("bad")).unwrap()]);
    assert_eq!(harness.remaining(), ["npm"]);
    let measurement = Measurement::read(&mut open_used(&harness.cache()).unwrap()).unwrap();
    assert!(measurement.bytes >= 512 << 10, "the size of the rest is recorded: {measurement:?}");
    assert!(precious.join("file").exists());
}

#[test]
fn removes_leftovers_once_no_run_is_active() {
    let harness = Harness::new();
    harness.add("one", 16, 10);
    // Caches of an earlier version, of a run whose supervisor was killed, and of an attempt to compile Go's library.
    for name in ["cargo-home/config.toml", "fresh-0/go-build/a", "stage-0/a", "go-build"] {
        fs::create_dir_all(harness.cache().join(name)).unwrap();
    }
    fs::create_dir(harness.cache().join("go-library-0")).unwrap();
    let run = lock_for_run(&harness.cache()).unwrap();
    assert_eq!(harness.tidy(20), Tidied::default());
    drop(run);
    harness.age();
    assert_eq!(harness.tidy(20).removed.len(), 4);
    assert_eq!(harness.remaining(), ["go-library-0", "one"]);
}

#[test]
fn bounds_the_number_of_workspaces_with_caches() {
    // Higher numbers have been unused longer.
    let caches = |count| {
        (0..count).zip((i64::MIN..9).rev()).map(|(number, used)| cache_named(&number.to_string(), 1, used)).collect()
    };
    let mut remaining: Vec<Cache> = caches(TENANT_CACHED_WORKSPACES_MAX);
    assert_eq!(split_off_removable(&mut remaining, u64::MAX), []);
    let mut remaining: Vec<Cache> = caches(TENANT_CACHED_WORKSPACES_MAX + 2);
    let names: Vec<_> = split_off_removable(&mut remaining, u64::MAX).into_iter().map(|cache| cache.name).collect();
    assert_eq!(names, [c"4097".to_owned(), c"4096".to_owned()], "the longest unused");
    assert_eq!(remaining.len(), TENANT_CACHED_WORKSPACES_MAX);
}

#[test]
fn a_use_in_the_future_counts_as_never() {
    let harness = Harness::new();
    harness.add("one", 16, 0);
    let dir = harness.cache().join(key("one"));
    let measurement = || measure_all(&openat(CWD, harness.cache(), OPEN_DIR, Mode::empty()).unwrap()).unwrap()[0].used;
    File::open(&dir).unwrap().set_modified(SystemTime::now() + PAUSE_MAX).unwrap();
    assert_eq!(measurement(), 0);
    mark_used(&dir).unwrap();
    assert!(measurement() > 0);
}

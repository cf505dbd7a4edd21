//! What becomes of caches within and beyond their bound, as their user leaves them.

use super::*;
use crate::host::trash::{empty_in_turn, put_aside};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::mkdirat;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use tempfile::TempDir;

fn named(name: &str, bytes: u64, used: i64) -> Cache {
    Cache { name: CString::new(name).unwrap(), is_left_over: false, bytes, used }
}

/// The directory of a workspace called so, of at most 16 bytes.
fn key(name: &str) -> String {
    let digits: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("{digits:0<32}")
}

#[test]
fn the_longest_unused_go_and_what_is_too_large_alone_goes_first() {
    let rows: [(&[Cache], &[&str]); 6] = [
        (&[], &[]),
        (&[named("a", 5, 1), named("b", 5, 2)], &[]),
        (&[named("a", 5, 1), named("b", 6, 2)], &["a"]),
        (&[named("new", 4, 9), named("old", 4, 1), named("older", 4, 0)], &["older"]),
        (&[named("old", 4, 1), named("large", 11, 9)], &["large"]),
        (&[named("a", 6, 1), named("deep", u64::MAX, 5), named("b", 6, 2)], &["deep", "a"]),
    ];
    for (caches, gone) in rows {
        let mut kept = caches.to_vec();
        let condemned = condemned(&mut kept, 10);
        let names: Vec<_> = condemned.iter().map(|cache| cache.name.to_str().unwrap()).collect();
        assert_eq!(names, gone, "{caches:?}");
        assert!(total(&kept) <= 10 && kept.len() + gone.len() == caches.len(), "{kept:?}");
    }
}

#[test]
fn caches_are_added_up_when_they_may_be_beyond_their_bound_and_not_every_time() {
    let seen = |bytes, secs| Seen { bytes, free: 1_000, age: Duration::from_secs(secs) };
    let rows = [
        (seen(10, 61), 1_000, false),
        (seen(10, 61), 911, false),
        (seen(10, 61), 910, true),
        (seen(10, 59), 0, false),
        (seen(100, 61), 2_000, true),
        (seen(10, 3_600), 1_000, true),
    ];
    for (seen, free_now, due) in rows {
        assert_eq!(seen.is_due(free_now, 100), due, "{seen:?} {free_now}");
    }
}

/// What [`key`] was made of.
fn name_of(entry: &str) -> String {
    if !run_cache::is_of_workspace(&CString::new(entry).unwrap()) {
        return entry.to_owned();
    }
    let bytes = (0..16).map(|at| u8::from_str_radix(&entry[2 * at..2 * at + 2], 16).unwrap());
    String::from_utf8(bytes.take_while(|byte| *byte != 0).collect()).unwrap()
}

struct World {
    dir: TempDir,
}

impl World {
    fn new() -> World {
        let world = World { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(world.cache()).unwrap();
        world
    }

    fn cache(&self) -> PathBuf {
        self.dir.path().join("cache")
    }

    /// Caches of a workspace with a file of so many KiB, last used so many seconds ago.
    fn add(&self, name: &str, kib: usize, ago: u64) {
        let name = &key(name);
        let dir = self.cache().join(name).join("deep/er");
        fs::create_dir_all(&dir).unwrap();
        let time = SystemTime::now() - Duration::from_secs(ago);
        let file = File::create(dir.join("file")).unwrap();
        (&file).write_all(&vec![7; kib << 10]).unwrap();
        File::open(self.cache().join(name)).unwrap().set_modified(time).unwrap();
    }

    /// Workspaces whose caches are left, and whatever else is.
    fn left(&self) -> Vec<String> {
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

    /// As if the caches had not been looked at for long.
    fn age(&self) {
        let used = File::options().write(true).open(self.dir.path().join("cache.used")).unwrap();
        used.set_modified(SystemTime::now() - PAUSE_MAX).unwrap();
    }
}

#[test]
fn whole_caches_go_until_the_rest_is_within_the_bound() {
    let world = World::new();
    world.add("go-build", 1_024, 10);
    world.add("npm", 1_024, 5_000);
    world.add("pip", 1_024, 500);
    assert_eq!(world.tidy(4), Tidied::default());
    assert!(!is_untidy(&world.cache(), 4 << 20));
    assert!(is_untidy(&world.cache(), 2 << 20), "what is known to be too much waits for nothing");
    world.age();
    assert!(is_untidy(&world.cache(), 4 << 20));
    let tidied = world.tidy(2);
    assert_eq!(world.left(), ["go-build"]);
    assert!(tidied.removed.len() == 2 && tidied.bytes >= 2 << 20, "{tidied:?}");
    // What was just looked at is left alone, whatever was added.
    world.add("npm", 4_096, 0);
    assert_eq!(world.tidy(2), Tidied::default());
    world.age();
    world.tidy(2);
    assert_eq!(world.left(), ["go-build"]);
}

#[test]
fn nothing_goes_while_a_run_uses_the_caches() {
    let world = World::new();
    world.add("go-build", 4_096, 0);
    let run = in_use(&world.cache()).unwrap();
    assert_eq!(world.tidy(1), Tidied::default());
    assert_eq!(world.left(), ["go-build"]);
    assert!(!is_untidy(&world.cache(), 1 << 20), "it would be added up for nothing");
    assert!(are_overfull(&world.cache(), 1 << 20) && !are_overfull(&world.cache(), 3 << 20));
    drop(run);
    assert!(!are_overfull(&world.cache(), 1 << 20), "the next run's end would tidy them");
    assert!(is_untidy(&world.cache(), 1 << 20));
    world.tidy(1);
    assert_eq!(world.left(), [""; 0]);
    assert!(!is_untidy(&world.cache(), 1 << 20));
}

#[test]
fn a_cache_that_cannot_be_read_for_want_of_descriptors_is_not_a_large_one() {
    let world = World::new();
    world.add("go-build", 16, 0);
    let found = std::thread::spawn(move || {
        // Descriptors of this thread's own, of which none is left.
        unshare(CloneFlags::CLONE_FILES).unwrap();
        let dir = openat(CWD, world.cache(), OPEN_DIR, Mode::empty()).unwrap();
        let taken: Vec<OwnedFd> = std::iter::from_fn(|| rustix::io::dup(&dir).ok()).collect();
        let found = cache(&dir, CString::new(key("go-build")).unwrap(), &mut HashSet::new());
        drop(taken);
        found
    });
    assert_eq!(found.join().unwrap().unwrap_err().raw_os_error(), Some(libc::EMFILE));
}

#[test]
fn whoever_locks_the_caches_delays_a_run_and_no_more() {
    let world = World::new();
    let used = open_used(&world.cache()).unwrap();
    assert_eq!(used.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    used.lock().unwrap();
    let cache = world.cache();
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    std::thread::spawn(move || tell.send(in_use(&cache).is_none()));
    assert_eq!(told.recv_timeout(Duration::from_secs(120)), Ok(true));
    drop(used);
    assert!(in_use(&world.cache()).is_some());
}

#[test]
fn a_link_or_a_fifo_in_place_of_the_lock_is_refused() {
    let world = World::new();
    let precious = world.dir.path().join("precious");
    fs::write(&precious, "precious").unwrap();
    let used = world.dir.path().join("cache.used");
    symlink(&precious, &used).unwrap();
    assert!(in_use(&world.cache()).is_none());
    assert!(try_tidy(&world.cache(), 1).is_err());
    assert_eq!(fs::read(&precious).unwrap(), b"precious");
    fs::remove_file(&used).unwrap();
    rustix::fs::mknodat(CWD, &used, FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(try_tidy(&world.cache(), 1).is_err());
}

#[test]
fn trash_with_names_like_ours_is_emptied() {
    let world = World::new();
    let trash = world.dir.path().join("cache.trash");
    for left in ["up-1/deep/er", "up-2/deep/er", "up-4/deep/er"] {
        fs::create_dir_all(trash.join(left)).unwrap();
    }
    fs::write(trash.join("up-3"), "").unwrap();
    for name in ["up-1", "up-2"] {
        world.add(name, 1_024, 0);
    }
    fs::write(world.cache().join("file"), vec![7; 1 << 20]).unwrap();
    assert_eq!(world.tidy(0).removed.len(), 3);
    assert_eq!(world.left(), [""; 0]);
}

#[test]
fn caches_that_are_of_no_use_are_out_of_the_way_at_once_and_then_gone() {
    let world = World::new();
    world.add("go-build", 16, 0);
    let parent = File::open(world.dir.path()).unwrap();
    let trash = put_aside(&parent, "cache").unwrap();
    assert!(!world.cache().exists());
    assert!(
        world.dir.path().join("cache.trash/up-1").join(key("go-build")).join("deep/er/file").exists(),
        "nobody has waited"
    );
    fs::create_dir(world.cache()).unwrap();
    world.add("npm", 16, 0);
    put_aside(&parent, "cache").unwrap();
    empty_in_turn(&trash);
    assert_eq!(fs::read_dir(world.dir.path().join("cache.trash")).unwrap().count(), 0);
}

#[test]
fn a_hostile_tree_goes_and_nothing_beyond_it() {
    let world = World::new();
    let precious = world.dir.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), vec![7; 2 << 20]).unwrap();
    let bad = world.cache().join(key("bad"));
    fs::create_dir(&bad).unwrap();
    symlink(&precious, bad.join("link")).unwrap();
    symlink(&precious, world.cache().join("link")).unwrap();
    fs::create_dir(bad.join("locked")).unwrap();
    fs::write(bad.join("locked/file"), "").unwrap();
    fs::set_permissions(bad.join("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    // Deeper than any path can say, and than a stack of calls or of descriptors would hold.
    let mut at = OwnedFd::from(File::open(&bad).unwrap());
    for _ in 0..5_000 {
        mkdirat(&at, "deeper", Mode::RWXU).unwrap();
        at = openat(&at, "deeper", OPEN_DIR, Mode::empty()).unwrap();
    }
    drop(at);
    world.add("npm", 512, 0);
    let tidied = world.tidy(1);
    assert_eq!(tidied.removed, [c"link".to_owned(), CString::new(key("bad")).unwrap()]);
    assert_eq!(world.left(), ["npm"]);
    let seen = Seen::read(&mut open_used(&world.cache()).unwrap()).unwrap();
    assert!(seen.bytes >= 512 << 10, "what is left is known, whatever went: {seen:?}");
    assert!(precious.join("file").exists());
}

#[test]
fn what_is_no_workspaces_goes_as_soon_as_no_run_is_on() {
    let world = World::new();
    world.add("one", 16, 10);
    // Caches of an earlier version, of a run whose supervisor was killed, and an attempt to compile Go's library.
    for name in ["cargo-home/config.toml", "fresh-0/go-build/a", "stage-0/a", "go-build"] {
        fs::create_dir_all(world.cache().join(name)).unwrap();
    }
    fs::create_dir(world.cache().join("go-library-0")).unwrap();
    let run = in_use(&world.cache()).unwrap();
    assert_eq!(world.tidy(20), Tidied::default());
    drop(run);
    world.age();
    assert_eq!(world.tidy(20).removed.len(), 4);
    assert_eq!(world.left(), ["go-library-0", "one"]);
}

#[test]
fn a_tenant_has_caches_of_so_many_workspaces_and_no_more() {
    // The higher its number, the longer it is unused.
    let caches =
        |count| (0..count).zip((i64::MIN..9).rev()).map(|(number, used)| named(&number.to_string(), 1, used)).collect();
    let mut kept: Vec<Cache> = caches(WORKSPACES_MAX);
    assert_eq!(condemned(&mut kept, u64::MAX), []);
    let mut kept: Vec<Cache> = caches(WORKSPACES_MAX + 2);
    let names: Vec<_> = condemned(&mut kept, u64::MAX).into_iter().map(|cache| cache.name).collect();
    assert_eq!(names, [c"4097".to_owned(), c"4096".to_owned()], "the longest unused");
    assert_eq!(kept.len(), WORKSPACES_MAX);
}

#[test]
fn a_use_that_is_to_come_is_none() {
    let world = World::new();
    world.add("one", 16, 0);
    let dir = world.cache().join(key("one"));
    let seen = || add_up(&openat(CWD, world.cache(), OPEN_DIR, Mode::empty()).unwrap()).unwrap()[0].used;
    File::open(&dir).unwrap().set_modified(SystemTime::now() + PAUSE_MAX).unwrap();
    assert_eq!(seen(), 0);
    mark_used(&dir).unwrap();
    assert!(seen() > 0);
}

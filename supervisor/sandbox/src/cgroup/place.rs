//! Where the supervisor itself lives in each cgroup hierarchy, read from `/proc`. Leaves are nested below that and
//! nowhere else. Must not make or change anything.

use super::name::Maker;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Which kinds of cgroup hierarchies are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One v2 hierarchy holds everything.
    V2,
    /// v1 hierarchies hold the controllers, a v2 hierarchy is there too.
    Hybrid,
    /// v1 hierarchies only.
    V1,
    /// Nothing is mounted.
    None,
}

impl Mode {
    /// The name users see.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::V2 => "v2",
            Mode::Hybrid => "hybrid",
            Mode::V1 => "v1",
            Mode::None => "none",
        }
    }
}

/// The supervisor's own groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) mode: Mode,
    /// Directory of the own group by v1 controller name.
    pub(crate) v1: BTreeMap<String, PathBuf>,
    /// Directory of the own group in the v2 hierarchy: the one around the group into which the supervisor moves itself.
    pub(crate) v2: Option<PathBuf>,
    /// The calling process.
    pub(crate) maker: Maker,
}

impl Places {
    /// Looks at the calling process. What cannot be read counts as not there.
    pub(crate) fn find() -> Places {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Places::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"), Maker::own())
    }

    /// `groups` is in the format of `cgroup(7)`'s `/proc/[pid]/cgroup`, `mounts` in that of `proc_pid_mountinfo(5)`.
    fn parse(groups: &str, mounts: &str, maker: Maker) -> Places {
        let mut v1 = BTreeMap::new();
        let mut v2 = None;
        for mount in mounts.lines().filter_map(Mount::parse) {
            for group in groups.lines().filter_map(Group::parse) {
                if mount.is_v2 && group.controllers.is_empty() {
                    v2 = v2.or_else(|| mount.own_dir(group.path));
                } else if !mount.is_v2 {
                    let ours = group.controllers.split(',').filter(|name| mount.options.split(',').any(|o| o == *name));
                    for controller in ours {
                        if let Some(dir) = mount.own_dir(group.path) {
                            v1.entry(controller.to_owned()).or_insert(dir);
                        }
                    }
                }
            }
        }
        let moved = v2.as_ref().is_some_and(|dir: &PathBuf| dir.ends_with(maker.supervisor()));
        let v2 = v2.and_then(|dir| if moved { dir.parent().map(Path::to_owned) } else { Some(dir) });
        let has_v1 = ["memory", "cpu", "pids"].iter().any(|name| v1.contains_key(*name));
        let mode = match (has_v1, v2.is_some()) {
            (true, true) => Mode::Hybrid,
            (true, false) => Mode::V1,
            (false, true) => Mode::V2,
            (false, false) => Mode::None,
        };
        Places { mode, v1, v2, maker }
    }
}

/// A line of `/proc/[pid]/cgroup`: `4:memory:/a/b`, or `0::/a/b` for v2.
struct Group<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Group<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let _id = fields.next()?;
        Some(Group { controllers: fields.next()?, path: fields.next()? })
    }
}

/// A mounted cgroup hierarchy.
struct Mount<'a> {
    /// The part of the hierarchy that is mounted.
    root: PathBuf,
    point: PathBuf,
    is_v2: bool,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let is_v2 = match after.next()? {
            "cgroup" => false,
            "cgroup2" => true,
            _ => return None,
        };
        let options = after.nth(1)?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        Some(Mount { root: unescape(root), point: unescape(point), is_v2, options })
    }

    /// The directory of the group with the hierarchy-wide `path`, when this mount shows it.
    fn own_dir(&self, path: &str) -> Option<PathBuf> {
        let inside = Path::new(path).strip_prefix(&self.root).ok()?;
        // "/.." stands for a group outside of the cgroup namespace's root.
        if inside.components().any(|part| part == std::path::Component::ParentDir) {
            return None;
        }
        Some(self.point.join(inside))
    }
}

/// Undoes the octal escapes that mountinfo uses for blanks, tabs, newlines and backslashes.
fn unescape(text: &str) -> PathBuf {
    PathBuf::from(text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(groups: &str, mounts: &str) -> Places {
        Places::parse(groups, mounts, Maker::own())
    }

    const HYBRID_MOUNTS: &str = "\
        22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn a_hybrid_host_gives_a_directory_for_each_controller_below_the_own_group() {
        let groups = "4:memory:/api/36\n1:cpu,cpuacct:/\n9:name=systemd:/\n0::/\n";
        let places = parse(groups, HYBRID_MOUNTS);
        assert_eq!(places.mode, Mode::Hybrid);
        assert_eq!(places.v1["memory"], Path::new("/sys/fs/cgroup/memory/api/36"));
        assert_eq!(places.v1["cpu"], Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(places.v1["cpuacct"], places.v1["cpu"]);
        assert_eq!(places.v2.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(places.v1.len(), 3);
    }

    #[test]
    fn a_container_whose_mount_begins_at_its_own_group_is_understood() {
        let mounts = "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let inside = parse("4:memory:/docker/ab\n", mounts);
        assert_eq!(inside.v1["memory"], Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(inside.mode, Mode::V1);
        let outside = parse("4:memory:/other\n", mounts);
        assert_eq!(outside.mode, Mode::None);
    }

    #[test]
    fn pure_v2_and_nothing_at_all_are_told_apart() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let v2 = parse("0::/user.slice/x.scope\n", mounts);
        assert_eq!((v2.mode, v2.v2), (Mode::V2, Some("/sys/fs/cgroup/user.slice/x.scope".into())));
        assert_eq!(parse("0::/\n", "").mode, Mode::None);
        assert_eq!(parse("0::/../other\n", mounts).mode, Mode::None);
    }

    #[test]
    fn a_supervisor_that_has_moved_itself_still_makes_its_leaves_around_it() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = |group: &str| format!("0::/system.slice/proctor.service/{group}\n");
        let own = Maker::own();
        let moved = parse(&groups(&own.supervisor()), mounts);
        assert_eq!(moved.v2.as_deref(), Some(Path::new("/sys/fs/cgroup/system.slice/proctor.service")));
        let another = "proctor-1-1f-f0000000-supervisor";
        let inside = parse(&groups(another), mounts);
        assert!(inside.v2.is_some_and(|dir| dir.ends_with(another)));
    }
}

//! The mounted cgroup hierarchies and the supervisor's own group in each, read from `/proc`. Leaves are made below
//! these groups only.

use super::group_name::SupervisorId;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Kinds of cgroup hierarchies that are mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HierarchyMode {
    /// One v2 hierarchy holds everything.
    V2,
    /// v1 hierarchies hold the controllers, and a v2 hierarchy exists too.
    Hybrid,
    /// v1 hierarchies only.
    V1,
    /// None.
    None,
}

impl HierarchyMode {
    /// Name of the mode in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            HierarchyMode::V2 => "v2",
            HierarchyMode::Hybrid => "hybrid",
            HierarchyMode::V1 => "v1",
            HierarchyMode::None => "none",
        }
    }
}

/// The supervisor's own groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchies {
    pub(crate) mode: HierarchyMode,
    /// Directory of the own group by v1 controller name.
    pub(crate) v1: BTreeMap<String, PathBuf>,
    /// Directory of the own group in the v2 hierarchy: the parent of the group into which the supervisor moves itself.
    pub(crate) v2: Option<PathBuf>,
    /// The calling process.
    pub(crate) supervisor: SupervisorId,
}

impl Hierarchies {
    /// Detects the hierarchies of the calling process. What cannot be read counts as not mounted.
    pub(crate) fn detect() -> Hierarchies {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        Hierarchies::parse(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"), SupervisorId::current())
    }

    /// `groups` is in the format of `/proc/[pid]/cgroup` (cgroup(7)), `mounts` in that of `proc_pid_mountinfo(5)`.
    fn parse(groups: &str, mounts: &str, supervisor: SupervisorId) -> Hierarchies {
        let mut v1 = BTreeMap::new();
        let mut v2 = None;
        for mount in mounts.lines().filter_map(Mount::parse) {
            for membership in groups.lines().filter_map(Membership::parse) {
                if mount.is_v2 && membership.controllers.is_empty() {
                    v2 = v2.or_else(|| mount.group_dir(membership.path));
                } else if !mount.is_v2 {
                    let shared_controllers =
                        membership.controllers.split(',').filter(|name| mount.options.split(',').any(|o| o == *name));
                    for controller in shared_controllers {
                        if let Some(dir) = mount.group_dir(membership.path) {
                            v1.entry(controller.to_owned()).or_insert(dir);
                        }
                    }
                }
            }
        }
        let is_moved = v2.as_ref().is_some_and(|dir: &PathBuf| dir.ends_with(supervisor.supervisor_name()));
        let v2 = v2.and_then(|dir| if is_moved { dir.parent().map(Path::to_owned) } else { Some(dir) });
        let has_v1 = ["memory", "cpu", "pids"].iter().any(|name| v1.contains_key(*name));
        let mode = match (has_v1, v2.is_some()) {
            (true, true) => HierarchyMode::Hybrid,
            (true, false) => HierarchyMode::V1,
            (false, true) => HierarchyMode::V2,
            (false, false) => HierarchyMode::None,
        };
        Hierarchies { mode, v1, v2, supervisor }
    }
}

/// A line of `/proc/[pid]/cgroup`: `4:memory:/a/b`, or `0::/a/b` for v2.
struct Membership<'a> {
    controllers: &'a str,
    path: &'a str,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let _id = fields.next()?;
        Some(Membership { controllers: fields.next()?, path: fields.next()? })
    }
}

/// A mounted cgroup hierarchy.
struct Mount<'a> {
    /// Group of the hierarchy that is mounted at `point`.
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

    /// Directory of the group with the hierarchy-wide `path`; `None` if it is outside of this mount.
    fn group_dir(&self, path: &str) -> Option<PathBuf> {
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

    fn parse(groups: &str, mounts: &str) -> Hierarchies {
        Hierarchies::parse(groups, mounts, SupervisorId::current())
    }

    const HYBRID_MOUNTS: &str = "\
        22 27 0:21 / /proc rw,relatime - proc proc rw\n\
        32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn detects_a_directory_for_each_controller_on_a_hybrid_host() {
        let groups = "4:memory:/api/36\n1:cpu,cpuacct:/\n9:name=systemd:/\n0::/\n";
        let hierarchies = parse(groups, HYBRID_MOUNTS);
        assert_eq!(hierarchies.mode, HierarchyMode::Hybrid);
        assert_eq!(hierarchies.v1["memory"], Path::new("/sys/fs/cgroup/memory/api/36"));
        assert_eq!(hierarchies.v1["cpu"], Path::new("/sys/fs/cgroup/cpu,cpuacct"));
        assert_eq!(hierarchies.v1["cpuacct"], hierarchies.v1["cpu"]);
        assert_eq!(hierarchies.v2.as_deref(), Some(Path::new("/sys/fs/cgroup/unified")));
        assert_eq!(hierarchies.v1.len(), 3);
    }

    #[test]
    fn detects_a_container_whose_mount_starts_at_its_own_group() {
        let mounts = "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let inside = parse("4:memory:/docker/ab\n", mounts);
        assert_eq!(inside.v1["memory"], Path::new("/sys/fs/cgroup/memory"));
        assert_eq!(inside.mode, HierarchyMode::V1);
        let outside = parse("4:memory:/other\n", mounts);
        assert_eq!(outside.mode, HierarchyMode::None);
    }

    #[test]
    fn distinguishes_pure_v2_from_no_hierarchy() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let v2 = parse("0::/user.slice/x.scope\n", mounts);
        assert_eq!((v2.mode, v2.v2), (HierarchyMode::V2, Some("/sys/fs/cgroup/user.slice/x.scope".into())));
        assert_eq!(parse("0::/\n", "").mode, HierarchyMode::None);
        assert_eq!(parse("0::/../other\n", mounts).mode, HierarchyMode::None);
    }

    #[test]
    fn a_supervisor_in_its_own_subgroup_makes_leaves_in_the_parent() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let groups = |membership: &str| format!("0::/system.slice/proctor.service/{membership}\n");
        let current = SupervisorId::current();
        let is_moved = parse(&groups(&current.supervisor_name()), mounts);
        assert_eq!(is_moved.v2.as_deref(), Some(Path::new("/sys/fs/cgroup/system.slice/proctor.service")));
        let another = "proctor-1-1f-f0000000-supervisor";
        let inside = parse(&groups(another), mounts);
        assert!(inside.v2.is_some_and(|dir| dir.ends_with(another)));
    }
}

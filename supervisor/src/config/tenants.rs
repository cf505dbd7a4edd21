//! The `[[tenant]]` tables: roots of workspaces and user ids of each tenant, and their checks. Identities are checked
//! in [`super::identities`].

use super::limits::LimitsTable;
use super::quota::QuotaTable;
use super::{Config, Problem};
use crate::config::units::Bytes;
use crate::host::resolved_path::ResolvedPath;
use crate::workspace::is_system_dir;
use proctor_core::bounds::{TENANT_RETAINED_BESIDE_LOG_MIN, TENANT_RETAINED_MEMORY_BYTES_MIN, TENANT_UID_MIN};
use proctor_core::human_units::format_bytes;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};

/// Reserved UIDs: the overflow ids of kernels and file systems, and -1 in 16 and 32 bits.
const RESERVED_UIDS: [u32; 3] = [65_534, 65_535, u32::MAX];

/// One tenant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantTable {
    /// Its name: letters, digits, `-` and `_`, at most 64. Required.
    #[serde(default)]
    pub id: String,
    /// UIDs of its peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of its bearer tokens.
    #[serde(default)]
    pub token_hashes: Vec<String>,
    /// Its subjects in JSON web tokens.
    #[serde(default)]
    pub jwt_subjects: Vec<String>,
    /// Its names (subjectAltName) in client certificates: URIs or DNS names.
    #[serde(default)]
    pub cert_names: Vec<String>,
    /// UIDs of the host for this tenant alone; they own its workspaces, processes and build caches.
    pub uid_range: Option<UidRange>,
    /// Directories that contain its workspaces. At least one is required.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// `none`, or `host` if its runs may use the host's network.
    #[serde(default)]
    pub network: Network,
    /// Most concurrent sessions; default 1,000.
    pub sessions_max: Option<u32>,
    /// Size of all its build caches between runs; default 20 GiB.
    pub cache: Option<Bytes>,
    /// The most that any of its runs gets.
    #[serde(default)]
    pub max: LimitsTable,
    /// Its share of the host.
    #[serde(default)]
    pub quota: QuotaTable,
}

/// UIDs of one tenant, and GIDs of the same numbers. Its runs have the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UidRange {
    /// The lowest UID.
    pub first: u32,
    /// Number of UIDs.
    pub count: u32,
}

impl UidRange {
    /// The range of UIDs, clamped to the highest possible UID.
    #[must_use]
    pub fn uids(self) -> RangeInclusive<u32> {
        self.first..=self.first.saturating_add(self.count.saturating_sub(1))
    }

    /// Whether the ranges share a UID.
    #[must_use]
    pub fn overlaps(self, other: UidRange) -> bool {
        self.uids().start() <= other.uids().end() && other.uids().start() <= self.uids().end()
    }

    fn problem(self) -> Option<String> {
        let UidRange { first, count } = self;
        if count == 0 {
            return Some("count must be at least 1".to_owned());
        }
        if first < TENANT_UID_MIN {
            return Some(format!("starts at {first}; user ids below {TENANT_UID_MIN} belong to the system"));
        }
        if first.checked_add(count - 1).is_none() {
            return Some(format!("ends beyond the highest user id, {}", u32::MAX));
        }
        let reserved = RESERVED_UIDS.into_iter().find(|uid| self.uids().contains(uid))?;
        Some(format!("contains {reserved}, a reserved user id"))
    }
}

impl TenantTable {
    /// The tenant's label in messages.
    pub(super) fn label(&self) -> String {
        format!("tenant {:?}", self.id)
    }
}

/// The roots of all tenants. A tenant can write to the path between its root and a root inside it, so links on that
/// path are not followed: they must not move a root, nor invalidate the file.
pub struct TenantRoots<'c>(BTreeSet<&'c Path>);

impl TenantRoots<'_> {
    /// Resolves a root.
    #[must_use]
    pub fn resolve(&self, root: &Path) -> ResolvedPath {
        // The last one is the outermost root, which is in no other.
        self.enclosing_roots(root)
            .last()
            .map_or_else(|| ResolvedPath::new(root), |outer| ResolvedPath::below(outer, root))
    }

    /// All absolute roots, resolved.
    pub(super) fn resolved(&self) -> impl Iterator<Item = ResolvedPath> {
        self.0.iter().filter(|root| root.is_absolute()).map(|root| self.resolve(root))
    }

    // The roots that contain this one, the nearest first.
    fn enclosing_roots<'r>(&self, root: &'r Path) -> impl Iterator<Item = &'r Path> {
        let is_plain = root.is_absolute() && !root.components().any(|part| part == Component::ParentDir);
        root.ancestors().skip(1).filter(move |outer| is_plain && self.0.contains(outer))
    }

    // Conditions that a tenant or an unmounted volume can cause. They must not keep an operator from revoking something
    // else, so they are only notes.
    fn notes(&self, root: &Path) -> Vec<String> {
        let (resolved, root_name) = (self.resolve(root), root.display());
        let reason = match resolved.real().canonicalize() {
            Err(error) => Some(format!("cannot be read ({error})")),
            Ok(found) if found != resolved.real() => Some("is reached through a link inside another root".to_owned()),
            Ok(found) => (!found.is_dir()).then(|| "is not a directory".to_owned()),
        };
        let unusable =
            reason.map(|reason| format!("root {root_name} {reason}; it admits no workspace until that changes"));
        let inside = self.enclosing_roots(root).next().map(|outer| {
            let outer = outer.display();
            format!("root {root_name} is inside root {outer}, whose writers can remove or replace it")
        });
        unusable.into_iter().chain(inside).collect()
    }
}

impl Config {
    /// The roots of all tenants.
    #[must_use]
    pub fn roots(&self) -> TenantRoots<'_> {
        TenantRoots(self.tenant.iter().flat_map(|tenant| &tenant.roots).map(PathBuf::as_path).collect())
    }

    /// Problems of the tenant at `index`, except with its identities.
    pub(super) fn tenant_problems(&self, index: usize, roots: &TenantRoots<'_>) -> Vec<Problem> {
        let tenant = &self.tenant[index];
        let (mut problems, name) = (Vec::new(), tenant.label());
        let mut wrong = |condition: bool, key: &str, text: &str| {
            if condition {
                let at = format!("tenant.{index}{}{key}", if key.is_empty() { "" } else { "." });
                problems.push(Problem::new(at, format!("{name}: {text}")));
            }
        };
        let well_named = (1..=64).contains(&tenant.id.len())
            && tenant.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        wrong(!well_named, "id", "id must be 1 to 64 letters, digits, '-' or '_'");
        wrong(self.tenant[..index].iter().any(|other| other.id == tenant.id), "id", "is defined twice");
        wrong(tenant.roots.is_empty(), "roots", "roots is empty; name a directory that contains its workspaces");
        for (position, root) in tenant.roots.iter().enumerate() {
            let (at, shown) = (format!("roots.{position}"), root.display());
            wrong(!root.is_absolute(), &at, &format!("root {shown} is not absolute"));
            // The resolved path decides what the root contains.
            let resolved = roots.resolve(root);
            let real = resolved.real();
            let shown =
                if real == *root { shown.to_string() } else { format!("{shown}, which is {},", real.display()) };
            let system = format!("root {shown} is a system directory, which runs must not write to");
            wrong(is_system_dir(root) || is_system_dir(real), &at, &system);
            // A root that contains state_dir is allowed: no session can have the supervisor's own directory as its
            // workspace.
            let own = resolved.is_in(&ResolvedPath::new(&self.state_dir));
            let shared = format!("root {shown} is in state_dir, which belongs to the supervisor");
            wrong(root.is_absolute() && self.state_dir.is_absolute() && own, &at, &shared);
        }
        wrong(tenant.sessions_max == Some(0), "sessions_max", "sessions_max must be at least 1");
        for (key, problem) in tenant.quota.problems() {
            wrong(true, &format!("quota.{key}"), &format!("quota.{problem}"));
        }
        // The last run of a session is never forgotten, so the quota must leave room for another run after a maximal
        // one.
        let log = self.defaults.apply_to(Limits::DEFAULT).min(self.ceiling(tenant)).log_bytes_max;
        let least = log.saturating_add(TENANT_RETAINED_BESIDE_LOG_MIN);
        let message = format!(
            "quota.kept must be at least {}, the most that one run may retain (512 MiB plus its log)",
            format_bytes(least)
        );
        let quota = tenant.quota.quota();
        wrong(quota.retained_bytes_max < least, "quota.kept", &message);
        let message = format!(
            "quota.kept_memory must be at least {}, the most that one run may retain",
            format_bytes(TENANT_RETAINED_MEMORY_BYTES_MIN)
        );
        wrong(quota.retained_memory_bytes_max < TENANT_RETAINED_MEMORY_BYTES_MIN, "quota.kept_memory", &message);
        for problem in self.uid_problems(index, self.sandbox.required().contains(&Layer::TenantUid)) {
            wrong(true, "uid_range", &problem);
        }
        for (position, root) in tenant.roots.iter().enumerate().filter(|(_, root)| root.is_absolute()) {
            let note =
                |text: String| Problem::note(format!("tenant.{index}.roots.{position}"), format!("{name}: {text}"));
            problems.extend(roots.notes(root).into_iter().map(note));
        }
        problems
    }

    // A run with a UID of another user acts as that user towards files, signals and the unix socket.
    fn uid_problems(&self, index: usize, required: bool) -> Vec<String> {
        let tenant = &self.tenant[index];
        let Some(range) = tenant.uid_range else {
            let missing = "uid_range is missing: layer tenant_uid is required and needs user ids for this tenant alone";
            return required.then(|| missing.to_owned()).into_iter().collect();
        };
        let holds = |uids: &[u32]| uids.iter().find(|uid| range.uids().contains(uid)).copied();
        let mut problems: Vec<String> = range.problem().into_iter().collect();
        problems.extend(holds(&self.operators.uids).map(|uid| format!("contains {uid}, a user id of an operator")));
        for (at, other) in self.tenant.iter().enumerate().filter(|(at, _)| *at != index) {
            let overlaps = at < index && other.uid_range.is_some_and(|theirs| theirs.overlaps(range));
            problems.extend(overlaps.then(|| format!("overlaps that of tenant {:?}", other.id)));
            problems
                .extend(holds(&other.uids).map(|uid| format!("contains {uid}, a user id of tenant {:?}", other.id)));
        }
        problems.into_iter().map(|problem| format!("uid_range {problem}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::{parse, problems, problems_of};
    use crate::tenants::Tenants;
    use crate::workspace::Workspace;
    use std::os::unix::fs::symlink;

    #[test]
    fn uid_ranges_must_not_overlap_other_users() {
        let apart = ["uid_range = { first = 200000, count = 65536 }", "uid_range = { first = 265536, count = 1 }"];
        let required = "[sandbox]\nrequired_layers = [\"tenant_uid\"]";
        assert_eq!(problems_of(apart, required), "");
        for (range, problem) in [
            ("{ first = 200000, count = 65537 }", "tenant \"b\": uid_range overlaps that of tenant \"a\""),
            ("{ first = 999, count = 1 }", "uid_range starts at 999"),
            ("{ first = 0, count = 10 }", "uid_range starts at 0"),
            ("{ first = 300000, count = 0 }", "uid_range count must be at least 1"),
            ("{ first = 4294967290, count = 7 }", "uid_range ends beyond"),
            ("{ first = 4294967290, count = 6 }", "uid_range contains 4294967295, a reserved user id"),
            ("{ first = 65000, count = 535 }", "uid_range contains 65534, a reserved user id"),
            ("{ first = 65535, count = 1 }", "uid_range contains 65535, a reserved user id"),
            ("{ first = 1002, count = 1 }", "uid_range contains 1002, a user id of tenant \"b\""),
            ("{ first = 6999, count = 2 }", "uid_range contains 7000, a user id of an operator"),
        ] {
            let problems = problems_of([&format!("uid_range = {range}"), apart[1]], required);
            assert!(problems.contains(problem), "{range}: {problem} in:\n{problems}");
        }
        // A tenant's own peers may be in its range.
        assert_eq!(problems_of(["uid_range = { first = 1001, count = 1 }", apart[1]], required), "");
    }

    #[test]
    fn a_root_must_not_be_in_the_state_directory() {
        for root in ["/x", "/x/tenants/a"] {
            let problems = problems(&format!(
                "state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[sandbox]\nleft_off = [\"tenant_uid\"]\n\
                 [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [{root:?}]\n"
            ));
            let expected = format!("tenant \"a\": root {root} is in state_dir");
            assert!(
                problems.contains(&expected),
                "{expected} in:
{problems}"
            );
        }
    }

    /// Roots and state_dir are compared by their resolved paths.
    #[test]
    fn roots_are_checked_by_their_resolved_paths() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        ["root/below", "state/below"].iter().for_each(|name| std::fs::create_dir_all(at(name)).unwrap());
        for (link, target) in [
            ("etc", "/etc".into()),
            ("bin", "/etc/../usr/bin".into()),
            ("all", "/".into()),
            ("own", at("state/below")),
            ("state-in-root", at("root/below")),
            ("good", at("root")),
            ("shm", "/dev/shm".into()),
        ] {
            symlink(target, at(link)).unwrap();
        }
        for (root, state, problem) in [
            ("etc", "state", Some("which is /etc, is a system directory")),
            ("bin", "state", Some("is a system directory")),
            ("all", "state", Some("state is in root")),
            ("own", "state", Some("state/below, is in state_dir")),
            ("root/below", "state-in-root", Some("is in state_dir")),
            ("root", "state-in-root/not/made", Some("state-in-root/not/made is in root")),
            ("good", "state", None),
            ("shm", "state", None),
        ] {
            let problems = problems(&format!(
                "state_dir = {:?}\n[listen]\nunix = \"/s\"\n[sandbox]\nleft_off = [\"tenant_uid\"]\n\
                 [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [{:?}]\n",
                at(state),
                at(root)
            ));
            assert_eq!(problems.is_empty(), problem.is_none(), "{root} {state}: {problems}");
            assert!(problem.is_none_or(|problem| problems.contains(problem)), "{problem:?} in {problems}");
        }
    }

    /// Changes by a tenant or a volume below a root cause notes, move no root, and keep the file valid.
    #[test]
    fn a_missing_or_replaced_root_is_only_a_note() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        ["a/there", "state/own", "b", "tools"].iter().for_each(|name| std::fs::create_dir_all(at(name)).unwrap());
        std::fs::write(at("a/file"), "").unwrap();
        for (link, target) in [("system", "/etc".into()), ("own", at("state/own")), ("b", at("b")), ("x", at("tools"))]
        {
            symlink(target, at("a").join(link)).unwrap();
        }
        symlink(at("a"), at("named")).unwrap();
        let inside = "is inside root";
        for (root, note) in [
            ("a/there", &[inside][..]),
            ("a/gone", &["cannot be read (No such file", inside]),
            ("a/file", &["is not a directory; it admits no workspace until that changes", inside]),
            ("a/file/below", &["cannot be read (Not a directory", inside]),
            ("a/system", &["is reached through a link", inside]),
            ("a/own", &["is reached through a link", inside]),
            ("a/b", &["is reached through a link", inside]),
            ("a/x", &["is reached through a link", inside]),
            ("named", &[]),
            ("not-mounted", &["cannot be read (No such file"]),
        ] {
            let config = parse(&format!(
                "state_dir = {:?}\n[listen]\nunix = \"/s\"\n[host]\ntoolchains = [{:?}]\n\
                 [sandbox]\nleft_off = [\"tenant_uid\"]\n\
                 [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [{:?}, {:?}]\n",
                at("state"),
                at("tools"),
                at("a"),
                at(root)
            ));
            let problems = config.problems();
            let as_told = problems.len() == note.len()
                && problems.iter().zip(note).all(|(problem, note)| problem.text.contains(note));
            assert!(as_told && problems.iter().all(|problem| problem.is_note), "{root}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.at == "tenant.0.roots.1"), "{root}: {problems:?}");
            let tenants = Tenants::from_config(&config, false, &Tenants::default());
            let roots = &tenants.all()[0].roots[1..];
            let admitted = Workspace::open_below(roots, &at(root)).is_ok();
            assert_eq!(admitted, ["a/there", "named"].contains(&root), "{root}");
        }
    }

    /// Otherwise one run could block all others until its session ends.
    #[test]
    fn the_retention_quota_must_fit_one_run() {
        let note = |tables: &str, tenant: &str| {
            problems(&format!(
                "state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[sandbox]\nleft_off = [\"tenant_uid\"]\n{tables}\n\
                 [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [\"/tmp\"]\n{tenant}\n"
            ))
        };
        for (tables, tenant, least) in [
            ("", "", None),
            ("", "quota = { kept = \"767MiB\" }", Some("768 MiB")),
            ("", "quota = { kept = \"768MiB\" }", None),
            ("[defaults]\nlog = \"1MiB\"", "quota = { kept = \"513MiB\" }", None),
            ("[max]\nlog = \"1MiB\"", "quota = { kept = \"512MiB\" }", Some("513 MiB")),
            ("", "quota = { kept = \"513MiB\" }\nmax = { log = \"1MiB\" }", None),
            ("[defaults]\nlog = \"30GiB\"\n[max]\nlog = \"30GiB\"", "", Some("30.5 GiB")),
        ] {
            let problem = |least| {
                format!(
                    "tenant \"a\": quota.kept must be at least {least}, the most that one run may retain (512 MiB plus its log)"
                )
            };
            assert_eq!(note(tables, tenant), least.map(problem).unwrap_or_default(), "{tables} {tenant}");
        }
        let too_small = "tenant \"a\": quota.kept_memory must be at least 320 MiB, the most that one run may retain";
        assert_eq!(note("", "quota = { kept_memory = \"319MiB\" }"), too_small);
        assert_eq!(note("", "quota = { kept_memory = \"320MiB\" }"), "");
    }

    #[test]
    fn uid_range_is_required_with_layer_tenant_uid() {
        let problems = problems_of(["", ""], "[sandbox]\nrequired_layers = [\"tenant_uid\"]");
        let missing = "uid_range is missing: layer tenant_uid is required and needs user ids for this tenant alone";
        assert_eq!(problems, format!("tenant \"a\": {missing}\ntenant \"b\": {missing}"));
        assert_eq!(problems_of(["", ""], "[sandbox]\nleft_off = [\"tenant_uid\"]"), "");
    }
}

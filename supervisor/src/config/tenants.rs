//! Who may run tests on a host, where, and as which of its user ids. Must not know how a tenant is known, which `who.rs`
//! has, or how much of its quota is in use.

use super::limits::LimitsTable;
use super::quota::QuotaTable;
use super::{Config, Problem};
use crate::config::units::Bytes;
use crate::host::resolved_path::ResolvedPath;
use crate::sessions::limits::{KEPT_BESIDE_LOG, KEPT_MEMORY_MIN};
use crate::workspace::is_system_dir;
use proctor_core::isolation::{Layer, Network};
use proctor_core::limits::Limits;
use proctor_core::quantity::show_bytes;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Component, Path, PathBuf};

/// User ids that are nobody's in particular: the overflow ids of kernels and file systems, and -1 in 16 and 32 bits.
const NOBODYS: [u32; 3] = [65_534, 65_535, u32::MAX];

/// The lowest user id that a tenant may have. Below are the system's.
const UID_MIN: u32 = 1_000;

/// One tenant.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantTable {
    /// Its name: letters, digits, `-` and `_`, at most 64. It has to be there.
    #[serde(default)]
    pub id: String,
    /// User ids of its peers on the unix socket.
    #[serde(default)]
    pub uids: Vec<u32>,
    /// BLAKE3 hashes of its bearer tokens.
    #[serde(default)]
    pub token_hashes: Vec<String>,
    /// What JSON web tokens call it.
    #[serde(default)]
    pub jwt_subjects: Vec<String>,
    /// Names in client certificates, of subjectAltName: URIs, or DNS names.
    #[serde(default)]
    pub cert_names: Vec<String>,
    /// User ids of the host that are its own: to them belong its workspaces, its processes and its build cache.
    pub uid_range: Option<UidRange>,
    /// Directories below which its workspaces are. There has to be one.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// `none`, or `host` when its runs may have the host's network.
    #[serde(default)]
    pub network: Network,
    /// Sessions at the same time; default 1,000.
    pub sessions_max: Option<u32>,
    /// Its build caches between two runs, all together; default 20 GiB.
    pub cache: Option<Bytes>,
    /// The most that any of its runs gets.
    #[serde(default)]
    pub max: LimitsTable,
    /// What it may have of the host at once.
    #[serde(default)]
    pub quota: QuotaTable,
}

/// User ids of one tenant, and group ids of the same numbers. Its runs are the first of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UidRange {
    /// The lowest.
    pub first: u32,
    /// How many.
    pub count: u32,
}

impl UidRange {
    /// The ids themselves. One that would be beyond the highest is the highest.
    #[must_use]
    pub fn uids(self) -> RangeInclusive<u32> {
        self.first..=self.first.saturating_add(self.count.saturating_sub(1))
    }

    /// Whether an id is in both.
    #[must_use]
    pub fn overlaps(self, other: UidRange) -> bool {
        self.uids().start() <= other.uids().end() && other.uids().start() <= self.uids().end()
    }

    fn problem(self) -> Option<String> {
        let UidRange { first, count } = self;
        if count == 0 {
            return Some("count must be at least 1".to_owned());
        }
        if first < UID_MIN {
            return Some(format!("begins at {first}, and user ids below {UID_MIN} are the system's"));
        }
        if first.checked_add(count - 1).is_none() {
            return Some(format!("ends beyond the highest user id, {}", u32::MAX));
        }
        let nobodys = NOBODYS.into_iter().find(|uid| self.uids().contains(uid))?;
        Some(format!("holds {nobodys}, which stands for nobody"))
    }
}

impl TenantTable {
    /// The tenant as problems name it.
    pub(super) fn called(&self) -> String {
        format!("tenant {:?}", self.id)
    }
}

/// The roots of all tenants. The way to one that is inside another is for whoever writes there to change, a tenant, so no link
/// on it is followed: what they put there must not become a root, nor make the file wrong.
pub struct Roots<'c>(BTreeSet<&'c Path>);

impl Roots<'_> {
    /// Where a root is.
    #[must_use]
    pub fn place(&self, root: &Path) -> ResolvedPath {
        // The outermost is in none itself.
        self.around(root).last().map_or_else(|| ResolvedPath::new(root), |outer| ResolvedPath::below(outer, root))
    }

    /// Those that can be somewhere.
    pub(super) fn places(&self) -> impl Iterator<Item = ResolvedPath> {
        self.0.iter().filter(|root| root.is_absolute()).map(|root| self.place(root))
    }

    // The roots that hold this one, the nearest first.
    fn around<'r>(&self, root: &'r Path) -> impl Iterator<Item = &'r Path> {
        let is_plain = root.is_absolute() && !root.components().any(|part| part == Component::ParentDir);
        root.ancestors().skip(1).filter(move |outer| is_plain && self.0.contains(outer))
    }

    // What is no problem: a tenant or a volume that is not mounted would keep an operator from revoking something else.
    fn notes(&self, root: &Path) -> Vec<String> {
        let (place, shown) = (self.place(root), root.display());
        let why = match place.real().canonicalize() {
            Err(error) => Some(format!("cannot be looked at ({error})")),
            Ok(found) if found != place.real() => Some("has a link on the way to it from another root".to_owned()),
            Ok(found) => (!found.is_dir()).then(|| "is not a directory".to_owned()),
        };
        let unusable = why.map(|why| format!("root {shown} {why}; no workspace is below it until that changes"));
        let inside = self.around(root).next().map(|outer| {
            let outer = outer.display();
            format!("root {shown} is inside root {outer}, and whoever writes there can remove or replace it")
        });
        unusable.into_iter().chain(inside).collect()
    }
}

impl Config {
    /// The roots of all tenants.
    #[must_use]
    pub fn roots(&self) -> Roots<'_> {
        Roots(self.tenant.iter().flat_map(|tenant| &tenant.roots).map(PathBuf::as_path).collect())
    }

    /// What is wrong with the tenant at `index`, its identities left out.
    pub(super) fn tenant_problems(&self, index: usize, roots: &Roots<'_>) -> Vec<Problem> {
        let tenant = &self.tenant[index];
        let (mut problems, name) = (Vec::new(), tenant.called());
        let mut wrong = |condition: bool, key: &str, text: &str| {
            if condition {
                let at = format!("tenant.{index}{}{key}", if key.is_empty() { "" } else { "." });
                problems.push(Problem::new(at, format!("{name}: {text}")));
            }
        };
        let well_named = (1..=64).contains(&tenant.id.len())
            && tenant.id.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        wrong(!well_named, "id", "id must be 1 to 64 letters, digits, '-' or '_'");
        wrong(self.tenant[..index].iter().any(|other| other.id == tenant.id), "id", "defined twice");
        wrong(tenant.roots.is_empty(), "roots", "roots is empty; name a directory below which its workspaces are");
        for (place, root) in tenant.roots.iter().enumerate() {
            let (at, shown) = (format!("roots.{place}"), root.display());
            wrong(!root.is_absolute(), &at, &format!("root {shown} is not absolute"));
            // What it holds is where its links lead.
            let place = roots.place(root);
            let real = place.real();
            let shown =
                if real == *root { shown.to_string() } else { format!("{shown}, which is {},", real.display()) };
            let system = format!("root {shown} is a directory of the system, which no run may write to");
            wrong(is_system_dir(root) || is_system_dir(real), &at, &system);
            // One that holds state_dir will do: of what is below it, no session gets the supervisor's own as its workspace.
            let own = place.is_in(&ResolvedPath::new(&self.state_dir));
            let shared = format!("root {shown} is in state_dir, which is the supervisor's own");
            wrong(root.is_absolute() && self.state_dir.is_absolute() && own, &at, &shared);
        }
        wrong(tenant.sessions_max == Some(0), "sessions_max", "sessions_max must be at least 1");
        for (key, problem) in tenant.quota.problems() {
            wrong(true, &format!("quota.{key}"), &format!("quota.{problem}"));
        }
        // The last run of a session is never forgotten: one that has said all that it may has to leave room for another.
        let log = self.defaults.over(Limits::DEFAULT).min(self.ceiling(tenant)).log_bytes_max;
        let least = log.saturating_add(KEPT_BESIDE_LOG);
        let said = format!(
            "quota.kept must be at least {}, which one run may keep (512 MiB beside its log)",
            show_bytes(least)
        );
        let kept = tenant.quota.kept(None);
        wrong(kept.bytes_max < least, "quota.kept", &said);
        let said =
            format!("quota.kept_memory must be at least {}, which one run may keep", show_bytes(KEPT_MEMORY_MIN));
        wrong(kept.memory_max < KEPT_MEMORY_MIN, "quota.kept_memory", &said);
        for problem in self.uid_problems(index, self.sandbox.required().contains(&Layer::TenantUid)) {
            wrong(true, "uid_range", &problem);
        }
        for (place, root) in tenant.roots.iter().enumerate().filter(|(_, root)| root.is_absolute()) {
            let told = |text: String| Problem::note(format!("tenant.{index}.roots.{place}"), format!("{name}: {text}"));
            problems.extend(roots.notes(root).into_iter().map(told));
        }
        problems
    }

    // A run that is somebody else's user is that somebody: to files, to signals, to whoever asks the unix socket.
    fn uid_problems(&self, index: usize, required: bool) -> Vec<String> {
        let tenant = &self.tenant[index];
        let Some(range) = tenant.uid_range else {
            let missing = "uid_range is missing: layer tenant_uid is required, and takes user ids of the tenant's own";
            return required.then(|| missing.to_owned()).into_iter().collect();
        };
        let holds = |uids: &[u32]| uids.iter().find(|uid| range.uids().contains(uid)).copied();
        let mut problems: Vec<String> = range.problem().into_iter().collect();
        problems.extend(holds(&self.operators.uids).map(|uid| format!("holds {uid}, which is an operator's")));
        for (at, other) in self.tenant.iter().enumerate().filter(|(at, _)| *at != index) {
            let overlaps = at < index && other.uid_range.is_some_and(|theirs| theirs.overlaps(range));
            problems.extend(overlaps.then(|| format!("overlaps that of tenant {:?}", other.id)));
            problems.extend(holds(&other.uids).map(|uid| format!("holds {uid}, which is tenant {:?}'s", other.id)));
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
    fn user_ids_of_a_tenant_are_nobody_elses() {
        let apart = ["uid_range = { first = 200000, count = 65536 }", "uid_range = { first = 265536, count = 1 }"];
        let required = "[sandbox]\nrequired_layers = [\"tenant_uid\"]";
        assert_eq!(problems_of(apart, required), "");
        for (range, problem) in [
            ("{ first = 200000, count = 65537 }", "tenant \"b\": uid_range overlaps that of tenant \"a\""),
            ("{ first = 999, count = 1 }", "uid_range begins at 999"),
            ("{ first = 0, count = 10 }", "uid_range begins at 0"),
            ("{ first = 300000, count = 0 }", "uid_range count must be at least 1"),
            ("{ first = 4294967290, count = 7 }", "uid_range ends beyond"),
            ("{ first = 4294967290, count = 6 }", "uid_range holds 4294967295, which stands for nobody"),
            ("{ first = 65000, count = 535 }", "uid_range holds 65534, which stands for nobody"),
            ("{ first = 65535, count = 1 }", "uid_range holds 65535, which stands for nobody"),
            ("{ first = 1002, count = 1 }", "uid_range holds 1002, which is tenant \"b\"'s"),
            ("{ first = 6999, count = 2 }", "uid_range holds 7000, which is an operator's"),
        ] {
            let problems = problems_of([&format!("uid_range = {range}"), apart[1]], required);
            assert!(problems.contains(problem), "{range}: {problem} in:\n{problems}");
        }
        // A tenant's own people may be in its range.
        assert_eq!(problems_of(["uid_range = { first = 1001, count = 1 }", apart[1]], required), "");
    }

    #[test]
    fn the_supervisors_own_directory_is_no_tenants() {
        for root in ["/x", "/x/tenants/a"] {
            let problems = problems(&format!(
                "state_dir = \"/x\"\n[listen]\nunix = \"/s\"\n[sandbox]\nleft_off = [\"tenant_uid\"]\n\
                 [[tenant]]\nid = \"a\"\nuids = [1001]\nroots = [{root:?}]\n"
            ));
            let wanted = format!("tenant \"a\": root {root} is in state_dir");
            assert!(problems.contains(&wanted), "{wanted} in:\n{problems}");
        }
    }

    /// A root is where its links lead, and so is state_dir.
    #[test]
    fn no_link_makes_a_root_of_what_is_none() {
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
            ("etc", "state", Some("which is /etc, is a directory of the system")),
            ("bin", "state", Some("is a directory of the system")),
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

    /// Whatever a tenant or a volume does below a root is told, is nowhere a root, and keeps nobody from anything.
    #[test]
    fn a_root_that_others_take_away_or_replace_is_no_problem_of_the_file() {
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
        for (root, told) in [
            ("a/there", &[inside][..]),
            ("a/gone", &["cannot be looked at (No such file", inside]),
            ("a/file", &["is not a directory; no workspace is below it until that changes", inside]),
            ("a/file/below", &["cannot be looked at (Not a directory", inside]),
            ("a/system", &["has a link on the way", inside]),
            ("a/own", &["has a link on the way", inside]),
            ("a/b", &["has a link on the way", inside]),
            ("a/x", &["has a link on the way", inside]),
            ("named", &[]),
            ("not-mounted", &["cannot be looked at (No such file"]),
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
            let as_told = problems.len() == told.len()
                && problems.iter().zip(told).all(|(problem, told)| problem.text.contains(told));
            assert!(as_told && problems.iter().all(|problem| problem.is_note), "{root}: {problems:?}");
            assert!(problems.iter().all(|problem| problem.at == "tenant.0.roots.1"), "{root}: {problems:?}");
            let tenants = Tenants::from_config(&config, false, &Tenants::default());
            let roots = &tenants.all()[0].roots[1..];
            let admitted = Workspace::open_below(roots, &at(root)).is_ok();
            assert_eq!(admitted, ["a/there", "named"].contains(&root), "{root}");
        }
    }

    /// Else one run would keep all others out, until its session is gone.
    #[test]
    fn as_much_is_kept_as_one_run_keeps() {
        let told = |tables: &str, tenant: &str| {
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
                    "tenant \"a\": quota.kept must be at least {least}, which one run may keep (512 MiB beside its log)"
                )
            };
            assert_eq!(told(tables, tenant), least.map(problem).unwrap_or_default(), "{tables} {tenant}");
        }
        let too_small = "tenant \"a\": quota.kept_memory must be at least 320 MiB, which one run may keep";
        assert_eq!(told("", "quota = { kept_memory = \"319MiB\" }"), too_small);
        assert_eq!(told("", "quota = { kept_memory = \"320MiB\" }"), "");
    }

    #[test]
    fn a_tenant_without_user_ids_is_refused_where_they_are_required() {
        let problems = problems_of(["", ""], "[sandbox]\nrequired_layers = [\"tenant_uid\"]");
        let missing = "uid_range is missing: layer tenant_uid is required, and takes user ids of the tenant's own";
        assert_eq!(problems, format!("tenant \"a\": {missing}\ntenant \"b\": {missing}"));
        assert_eq!(problems_of(["", ""], "[sandbox]\nleft_off = [\"tenant_uid\"]"), "");
    }
}

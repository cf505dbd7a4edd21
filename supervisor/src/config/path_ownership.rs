//! Checks which other users can replace the supervisor's own files: the state directory and the directories of its socket and
//! audit log. A user that can write to one of them, or to a directory above, can put another in its place.

use super::{Config, Problem};
use crate::host::resolved_path::ResolvedPath;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The world-writable bit, and the sticky bit that restricts removal to an entry's owner.
const WRITABLE: u32 = 0o0002;
const STICKY: u32 = 0o1000;

/// Notes about users that could replace one of these paths.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let parents = [("listen.unix", &config.listen.unix), ("audit.path", &config.audit.path)];
    let parents = parents.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?.parent()?)));
    // A directory equal to the state directory is reported once.
    let elsewhere = parents.filter(|(_, dir)| *dir != config.state_dir);
    let paths = [("state_dir", config.state_dir.as_path())].into_iter().chain(elsewhere);
    let paths = paths.filter(|(_, dir)| dir.is_absolute()).map(|(key, dir)| (key, ResolvedPath::new(dir)));
    let roots: Vec<ResolvedPath> = config.roots().resolved().collect();
    // Only a note: no session can have the supervisor's own directory as its workspace.
    paths
        .filter_map(|(key, dir)| {
            let text = match roots.iter().find(|root| dir.is_in(root)) {
                Some(root) => {
                    let (dir, root) = (dir.named().display(), root.named().display());
                    format!("{dir} is in root {root} of a tenant; name a directory outside all roots")
                }
                None => untrusted_ancestor(config, dir.real())?,
            };
            Some(Problem::note(key, format!("{key}: {text}")))
        })
        .collect()
}

// The nearest directory on the path to `dir` that another user controls, and the remedy.
fn untrusted_ancestor(config: &Config, dir: &Path) -> Option<String> {
    dir.ancestors().find_map(|above| {
        let reason = untrusted_writer(config, &above.metadata().ok()?)?;
        Some(format!(
            "{} {reason}, so another user can replace it; chown it to the supervisor's user and chmod go-w it",
            above.display()
        ))
    })
}

fn untrusted_writer(config: &Config, found: &Metadata) -> Option<String> {
    if found.mode() & (WRITABLE | STICKY) == WRITABLE {
        return Some("is writable by every user of this host".to_owned());
    }
    let owner =
        |uid| config.tenant.iter().find(|tenant| tenant.uid_range.is_some_and(|range| range.uids().contains(&uid)));
    Some(format!("belongs to a user of tenant {:?}", owner(found.uid())?.id))
}

#[cfg(test)]
mod tests {
    use crate::config::tests::parse;
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn reports_users_that_could_replace_the_supervisors_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for (name, mode) in
            [("good", 0o755), ("open/in", 0o755), ("open", 0o777), ("sticky", 0o1777), ("root/in", 0o755)]
        {
            create_dir_all(at(name)).unwrap();
            set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(at("root/in"), at("link")).unwrap();
        let messages = |state: &str, socket: &str, audit: &str, more: &str| {
            let config = parse(&format!(
                "state_dir = {:?}\n[listen]\nunix = {:?}\n[audit]\npath = {:?}\n[sandbox]\nleft_off = [\"tenant_uid\"]\n\
                 [[tenant]]\nid = \"a\"\nuids = [7]\nroots = [{:?}]\n{more}\n",
                at(state),
                at(socket),
                at(audit),
                at("root")
            ));
            let short = |text: &str| text.replace(at("").to_str().unwrap(), "");
            let all = config.problems().into_iter();
            all.map(|problem| (problem.is_note, short(&problem.text))).collect::<Vec<_>>()
        };
        let good = ("good", "good/s", "good/a");
        assert_eq!(messages(good.0, good.1, good.2, ""), []);
        assert_eq!(messages("good/not/made", "sticky/s", "sticky/a", ""), []);
        let open = |key: &str| {
            let text = "is writable by every user of this host, so another user can replace it; chown it";
            (true, format!("{key}: open {text} to the supervisor's user and chmod go-w it"))
        };
        assert_eq!(messages("open/in", good.1, good.2, ""), [open("state_dir")]);
        assert_eq!(messages("good", "open/s", "open/in/a", ""), [open("listen.unix"), open("audit.path")]);
        assert_eq!(messages("open/new", good.1, "open/new/a", ""), [open("state_dir")], "which has the audit log");
        let below = |key: &str, dir: &str| {
            (true, format!("{key}: {dir} is in root root of a tenant; name a directory outside all roots"))
        };
        assert_eq!(
            messages("root/in", "root/s", "link/a", ""),
            [below("state_dir", "root/in"), below("listen.unix", "root"), below("audit.path", "link")]
        );
        // The user that runs this test owns the directories.
        let range = format!("uid_range = {{ first = {}, count = 1 }}", at("good").metadata().unwrap().uid());
        let theirs = messages("good", "good/s", "sticky/a", &range);
        for (key, dir) in [("state_dir", "good"), ("audit.path", "sticky")] {
            let text =
                format!("{key}: {dir} belongs to a user of tenant \"a\", so another user can replace it; chown it");
            assert!(
                theirs.iter().any(|(is_note, message)| *is_note && message.starts_with(&text)),
                "{text} in {theirs:?}"
            );
        }
    }
}

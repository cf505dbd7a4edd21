//! Where the supervisor keeps its own: the state directory, and the directories of its socket and of its audit log. Whoever
//! can write to one of them, or to what it is in, can put another in its place. Must not know what is kept there.

use super::{Config, Problem};
use crate::host::resolved_path::ResolvedPath;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// In a directory that everybody may write to, and that has the second of these bits, each may only remove what is theirs.
const WRITABLE: u32 = 0o0002;
const STICKY: u32 = 0o1000;

/// Who else could say what is there.
pub(super) fn problems(config: &Config) -> Vec<Problem> {
    let parents = [("listen.unix", &config.listen.unix), ("audit.path", &config.audit.path)];
    let parents = parents.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?.parent()?)));
    // What is in the state directory is told with it.
    let elsewhere = parents.filter(|(_, dir)| *dir != config.state_dir);
    let own = [("state_dir", config.state_dir.as_path())].into_iter().chain(elsewhere);
    let own = own.filter(|(_, dir)| dir.is_absolute()).map(|(key, dir)| (key, ResolvedPath::new(dir)));
    let roots: Vec<ResolvedPath> = config.roots().places().collect();
    // Of what is below a root no session gets the supervisor's own as its workspace, so it is no more than told.
    own.filter_map(|(key, dir)| {
        let text = match roots.iter().find(|root| dir.is_in(root)) {
            Some(root) => {
                let (dir, root) = (dir.named().display(), root.named().display());
                format!("{dir} is in root {root}, which is a tenant's; name one in no root")
            }
            None => others(config, dir.real())?,
        };
        Some(Problem::note(key, format!("{key}: {text}")))
    })
    .collect()
}

// Who has a part of the way to `dir`, and what helps.
fn others(config: &Config, dir: &Path) -> Option<String> {
    dir.ancestors().find_map(|above| {
        let who = other(config, &above.metadata().ok()?)?;
        Some(format!(
            "{} {who}, who can put another in its place; chown it to the supervisor's user and chmod go-w it",
            above.display()
        ))
    })
}

fn other(config: &Config, found: &Metadata) -> Option<String> {
    if found.mode() & (WRITABLE | STICKY) == WRITABLE {
        return Some("can be written to by every user of this host".to_owned());
    }
    let has =
        |uid| config.tenant.iter().find(|tenant| tenant.uid_range.is_some_and(|range| range.uids().contains(&uid)));
    Some(format!("belongs to a user of tenant {:?}", has(found.uid())?.id))
}

#[cfg(test)]
mod tests {
    use crate::config::tests::parse;
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn who_else_could_put_another_in_the_place_of_the_supervisors_own_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for (name, mode) in
            [("good", 0o755), ("open/in", 0o755), ("open", 0o777), ("sticky", 0o1777), ("root/in", 0o755)]
        {
            create_dir_all(at(name)).unwrap();
            set_permissions(at(name), Permissions::from_mode(mode)).unwrap();
        }
        std::os::unix::fs::symlink(at("root/in"), at("link")).unwrap();
        let told = |state: &str, socket: &str, audit: &str, more: &str| {
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
            all.map(|told| (told.is_note, short(&told.text))).collect::<Vec<_>>()
        };
        let good = ("good", "good/s", "good/a");
        assert_eq!(told(good.0, good.1, good.2, ""), []);
        assert_eq!(told("good/not/made", "sticky/s", "sticky/a", ""), []);
        let open = |key: &str| {
            let text = "can be written to by every user of this host, who can put another in its place; chown it";
            (true, format!("{key}: open {text} to the supervisor's user and chmod go-w it"))
        };
        assert_eq!(told("open/in", good.1, good.2, ""), [open("state_dir")]);
        assert_eq!(told("good", "open/s", "open/in/a", ""), [open("listen.unix"), open("audit.path")]);
        assert_eq!(told("open/new", good.1, "open/new/a", ""), [open("state_dir")], "which has the audit log");
        let below = |key: &str, dir: &str| {
            (true, format!("{key}: {dir} is in root root, which is a tenant's; name one in no root"))
        };
        assert_eq!(
            told("root/in", "root/s", "link/a", ""),
            [below("state_dir", "root/in"), below("listen.unix", "root"), below("audit.path", "link")]
        );
        // Whoever runs this test has the directories.
        let range = format!("uid_range = {{ first = {}, count = 1 }}", at("good").metadata().unwrap().uid());
        let theirs = told("good", "good/s", "sticky/a", &range);
        for (key, dir) in [("state_dir", "good"), ("audit.path", "sticky")] {
            let text =
                format!("{key}: {dir} belongs to a user of tenant \"a\", who can put another in its place; chown it");
            assert!(theirs.iter().any(|(is_note, told)| *is_note && told.starts_with(&text)), "{text} in {theirs:?}");
        }
    }
}

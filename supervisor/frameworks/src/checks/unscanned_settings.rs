//! Where a check may have missed projects or settings, because the scan of its workspace left something out. Such a
//! check is not clean.

use crate::contract::{FileTree, UnscannedPath, UnscannedReason};
use crate::parsing::workspace_paths::is_within;
use proctor_core::check::CheckRequest;

/// Most paths that a report names.
const NAMED_MAX: usize = 8;

/// Where the settings of checkers are not known, as one sentence; `None` if the scan shows all that this request needs.
pub(super) fn unscanned_settings(tree: &FileTree, request: &CheckRequest) -> Option<String> {
    let is_relevant = |unscanned: &&UnscannedPath| unscanned.settings && may_decide(unscanned, request);
    let found: Vec<&UnscannedPath> = tree.unscanned().iter().filter(is_relevant).collect();
    // An unlisted path may be anywhere.
    let more = found.len().saturating_sub(NAMED_MAX) as u64 + tree.settings_unlisted();
    let mut parts: Vec<String> = found.iter().take(NAMED_MAX).map(|unscanned| shown(unscanned)).collect();
    parts.extend((more > 0).then(|| format!("{more} further files or directories")));
    (!parts.is_empty())
        .then(|| format!("projects and settings are not known where nothing was scanned: {}", parts.join(", ")))
}

/// Whether settings at this path may decide about files of the request.
fn may_decide(unscanned: &UnscannedPath, request: &CheckRequest) -> bool {
    let dir = match unscanned.reason {
        UnscannedReason::SettingsTooLarge => unscanned.path.rsplit_once('/').map_or("", |(dir, _)| dir),
        _ => &unscanned.path,
    };
    request.files.is_empty() || request.files.iter().any(|file| is_within(file, dir) || is_within(dir, file))
}

fn shown(UnscannedPath { path, reason, .. }: &UnscannedPath) -> String {
    let place = if path.is_empty() { "." } else { path };
    let remedy = match reason {
        UnscannedReason::NotUtf8 | UnscannedReason::SettingsTooLarge => reason.remedy(),
        _ => "name the files or directories to check",
    };
    format!("{place} ({}: {remedy})", reason.text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::choose;
    use crate::contract::{FrameworkSet, PlanRequest};
    use proctor_core::check::CheckerStatus;
    use proctor_core::request::Selection;

    fn unscanned(path: &str, reason: UnscannedReason, settings: bool) -> UnscannedPath {
        UnscannedPath { path: path.to_owned(), reason, frameworks: FrameworkSet::NONE, settings }
    }

    fn tree() -> FileTree {
        let mut tree = FileTree::with_contents(&[("go.mod", "module m\n"), ("a.go", ""), ("b/b.go", "")]);
        tree.add_unscanned(unscanned("deep/er", UnscannedReason::TooDeep, true));
        tree.add_unscanned(unscanned("web/tsconfig.json", UnscannedReason::SettingsTooLarge, true));
        tree.add_unscanned(unscanned("x.py", UnscannedReason::NotUtf8, false));
        tree
    }

    fn reason(files: &[&str]) -> Option<String> {
        let files = files.iter().map(|file| (*file).to_owned()).collect();
        unscanned_settings(&tree(), &CheckRequest { files, ..CheckRequest::default() })
    }

    #[test]
    fn names_what_was_not_scanned_where_it_may_decide_about_a_file() {
        let all = reason(&[]).unwrap();
        let expected = "deep/er (it is too many directories deep: name the files or directories to check), \
                        web/tsconfig.json (the file is too large to be read: make it smaller)";
        assert!(all.ends_with(expected), "{all}");
        for (files, named) in [
            (&["a.go", "b"][..], None),
            (&["deep"], Some("deep/er (")),
            (&["deep/er/x/a.go"], Some("deep/er (")),
            (&["web/src/a.ts"], Some("web/tsconfig.json (")),
            (&["x.py"], None),
        ] {
            let found = reason(files);
            assert_eq!(found.is_some(), named.is_some(), "{files:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(named.unwrap_or_default()), "{files:?}");
        }
    }

    #[test]
    fn counts_what_the_tree_does_not_list() {
        let mut tree = tree();
        (0..2_000).for_each(|number| {
            tree.add_unscanned(unscanned(&format!("d{number}"), UnscannedReason::TooMany, true));
        });
        let reason = unscanned_settings(&tree, &CheckRequest::default()).unwrap();
        assert!(reason.ends_with(", 1994 further files or directories"), "{reason}");
        assert_eq!(tree.unscanned_unlisted(), 0, "no test is there");
    }

    #[test]
    fn a_checker_has_checked_only_a_part_of_a_workspace_with_unscanned_settings() {
        let status = |files: &[&str]| {
            let files = files.iter().map(|file| (*file).to_owned()).collect();
            let request = CheckRequest { files, checkers: vec!["go-vet".to_owned()], ..CheckRequest::default() };
            let want = PlanRequest::plain(&Selection::All);
            let (plan, parser) = choose(&tree(), &request).unwrap().plan(&tree(), &want, &|_| true);
            assert_eq!(plan.steps.len(), 1);
            parser.report().checkers.into_iter().map(|checker| checker.status).collect::<Vec<_>>()
        };
        assert!(matches!(&status(&[])[..], [CheckerStatus::Partial { .. }, _]), "{:?}", status(&[]));
        assert_eq!(status(&["b/b.go"]).len(), 1);
    }
}

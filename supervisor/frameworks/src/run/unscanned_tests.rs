//! Reports where a run may have missed tests because the scan of its workspace left something out. Such a run is not green.

use crate::contract::FileTree;
use crate::contract::UnscannedPath;
use crate::contract::innermost_project;
use crate::parsing::workspace_paths::is_within;
use crate::run::framework_choice::FrameworkChoice;
use proctor_core::request::Selection;
use proctor_core::test_case::{Collector, CollectorKind};

/// Most paths that a report names.
const NAMED_MAX: usize = 8;

impl FrameworkChoice {
    /// One error for each unscanned path where a run of `selection` may have missed tests, at most a handful. Nobody knows what is
    /// there, so the run is not green.
    #[must_use]
    pub fn unscanned_errors(&self, tree: &FileTree, selection: &Selection) -> Vec<Collector> {
        let is_relevant = |unscanned: &&UnscannedPath| {
            self.detected.iter().any(|detected| unscanned.frameworks.contains(detected.framework.name()))
                && self.may_select(tree, selection, &unscanned.path)
        };
        let found: Vec<&UnscannedPath> = tree.unscanned().iter().filter(is_relevant).collect();
        // An unlisted path may be anywhere. With an exact selection it cannot hold a selected test.
        let is_exact = matches!(selection, Selection::Exactly(_) | Selection::Named(_));
        let unnamed = if is_exact { 0 } else { tree.unscanned_unlisted() };
        let more = found.len().saturating_sub(NAMED_MAX) as u64 + unnamed;
        let more = found.first().filter(|_| more > 0).map(|first| Collector {
            nodeid: "(more)".to_owned(),
            message: format!("{more} further files or directories were not scanned: {}", first.reason.remedy()),
            ..to_collector(first)
        });
        found.iter().take(NAMED_MAX).map(|unscanned| to_collector(unscanned)).chain(more).collect()
    }

    /// Whether a selected test may be at `path` or below it. A directory and a test file contain their tests; those of another
    /// file may be anywhere in its project.
    fn may_select(&self, tree: &FileTree, selection: &Selection, path: &str) -> bool {
        let files = match selection {
            Selection::Exactly(_) | Selection::Named(_) => return false,
            Selection::Matching { files, .. } if !files.is_empty() => files,
            _ => return true,
        };
        let meets = |dir: &str| is_within(path, dir) || is_within(dir, path);
        files.iter().any(|file| {
            let is_of_tests = ["test", "spec"].iter().any(|word| file.to_ascii_lowercase().contains(word));
            if !tree.contains(file) || is_of_tests {
                return meets(file);
            }
            let project = self.detected.iter().find_map(|detected| innermost_project(&detected.projects, file));
            project.is_none_or(|project| meets(&project.dir))
        })
    }
}

fn to_collector(UnscannedPath { path, reason, .. }: &UnscannedPath) -> Collector {
    let place = if path.is_empty() { "." } else { path };
    Collector {
        nodeid: place.to_owned(),
        kind: CollectorKind::Collection,
        file: Some(place.to_owned()),
        line: None,
        message: format!("not scanned, so tests there may not have run: {}: {}", reason.text(), reason.remedy()),
        output: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{FrameworkSet, UNSCANNED_MAX, UnscannedReason};
    use crate::run::detection;
    use proctor_core::request::RerunTarget;
    use proctor_core::test_case::TestId;

    fn matching(files: &[&str]) -> Selection {
        Selection::Matching { filter: None, files: files.iter().map(|file| (*file).to_owned()).collect() }
    }

    /// A tree of two Go modules with these unscanned paths.
    fn tree(unscanned: &[&str]) -> FileTree {
        let mut tree = FileTree::default();
        for module in ["a", "b"] {
            tree.add_with_content(format!("{module}/go.mod"), format!("module {module}"));
            tree.add(format!("{module}/x.go"));
            tree.add(format!("{module}/x_test.go"));
        }
        for path in unscanned {
            let concerns = if path.contains('.') { FrameworkSet::for_path(path) } else { FrameworkSet::ALL };
            tree.add_unscanned(UnscannedPath {
                path: (*path).to_owned(),
                reason: UnscannedReason::TooDeep,
                frameworks: concerns,
                settings: true,
            });
        }
        tree
    }

    fn errors_for(unscanned: &[&str], selection: &Selection) -> Vec<String> {
        let tree = tree(unscanned);
        let chosen = detection::choose(&tree, Some("go"), selection).unwrap();
        chosen.unscanned_errors(&tree, selection).into_iter().map(|collector| collector.nodeid).collect()
    }

    #[test]
    fn an_unscanned_path_counts_where_a_selected_test_may_be() {
        let unscanned = ["a/deep", "c"];
        for (selection, expected) in [
            (Selection::All, &["a/deep", "c"][..]),
            (matching(&[]), &["a/deep", "c"]),
            (matching(&["a"]), &["a/deep"]),
            (matching(&["a/deep/er"]), &["a/deep"]),
            (matching(&["b"]), &[]),
            (matching(&["a/x.go"]), &["a/deep"]),
            (matching(&["b/x.go"]), &[]),
            (matching(&["a/x_test.go"]), &[]),
        ] {
            assert_eq!(errors_for(&unscanned, &selection), expected, "{selection:?}");
        }
        let id = TestId { package: "a".to_owned(), name: "TestX".to_owned() };
        assert!(errors_for(&unscanned, &Selection::Exactly(vec![RerunTarget::Test(id)])).is_empty());
    }

    #[test]
    fn an_unscanned_file_counts_for_the_frameworks_that_read_it() {
        for (path, expected) in
            [("a/b.go", true), ("a/package.json", true), ("a/b.py", false), ("a/b.png", false), ("a/README.md", false)]
        {
            assert_eq!(!errors_for(&[path], &Selection::All).is_empty(), expected, "{path}");
        }
        assert!(FrameworkSet::for_path("x.png").is_empty() && !FrameworkSet::for_path("x.py").is_empty());
    }

    #[test]
    fn names_a_handful_of_paths_and_counts_the_rest() {
        let names: Vec<String> = (0..UNSCANNED_MAX + 5).map(|number| format!("d{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let tree = tree(&names);
        assert_eq!((tree.unscanned().len(), tree.unscanned_unlisted()), (UNSCANNED_MAX, 5));
        let chosen = detection::choose(&tree, Some("go"), &Selection::All).unwrap();
        let missed = chosen.unscanned_errors(&tree, &Selection::All);
        assert_eq!(missed.len(), NAMED_MAX + 1);
        let more = UNSCANNED_MAX + 5 - NAMED_MAX;
        assert!(missed[NAMED_MAX].message.starts_with(&format!("{more} further files")), "{missed:?}");
    }
}

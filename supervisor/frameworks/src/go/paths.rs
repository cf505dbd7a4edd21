//! Makes paths relative to the workspace, and keeps the workspace's own path out of texts. Must not know what the texts say.

use super::detect::join;

/// Where the workspace is, as the runner sees it.
#[derive(Debug, Clone)]
pub(super) struct Paths {
    /// With a trailing slash.
    root: String,
}

impl Paths {
    pub(super) fn new(workspace: &str) -> Paths {
        Paths { root: format!("{}/", workspace.trim_end_matches('/')) }
    }

    /// An absolute path below the workspace, relative to it.
    pub(super) fn relative(&self, path: &str) -> Option<String> {
        path.strip_prefix(&self.root).map(|path| join("", path))
    }

    /// A path that the go tool printed in `dir`: absolute, or relative to `dir`.
    pub(super) fn relative_to(&self, dir: &str, path: &str) -> Option<String> {
        if path.starts_with('/') { self.relative(path) } else { Some(join(dir, path)) }
    }

    /// The text with every path below the workspace made relative.
    pub(super) fn scrub(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(&self.root) {
            let (before, after) = rest.split_at(at);
            clean.push_str(before);
            // `/x/workspace/y` is another path than `/workspace/y`.
            let is_inside_a_name = before.ends_with(|last: char| last.is_alphanumeric() || "._-/".contains(last));
            if is_inside_a_name {
                clean.push_str(&self.root);
            }
            rest = &after[self.root.len()..];
        }
        clean.push_str(rest);
        clean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_workspace_itself_is_taken_off() {
        let paths = Paths::new("/workspace");
        assert_eq!(
            paths.scrub("at /workspace/a/b.go:3, (/workspace/c) /x/workspace/d"),
            "at a/b.go:3, (c) /x/workspace/d"
        );
        assert_eq!(paths.relative("/workspace/a/./b.go").unwrap(), "a/b.go");
        assert_eq!(paths.relative("/workspaces/a"), None);
        assert_eq!(paths.relative_to("m", "./x.go").unwrap(), "m/x.go");
        assert_eq!(paths.relative_to("m", "../n/x.go").unwrap(), "n/x.go");
        assert_eq!(paths.relative_to("m", "/usr/x.go"), None);
    }
}

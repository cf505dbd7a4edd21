//! Reports changed files of a workspace, for `proctor run --watch`.
//!
//! Only directories that a scan of the workspace visits are watched: those that the frameworks' manifests ignore (build outputs,
//! packages, caches, `.git`) are not.

use super::CommandError;
use crate::workspace::Workspace;
use notify::event::ModifyKind;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;

/// Events that wait to be read. If more arrive, they are lost, and the change is incomplete.
const EVENTS_QUEUED: usize = 4_096;

/// Files of one change that are remembered; more are as good as all.
const FILES_MAX: usize = 4_096;

/// A change ends when nothing has happened for this long: an editor writes a file in several steps, a checkout many files.
const QUIET: Duration = Duration::from_millis(200);

/// Longest change. A program that writes all the time must not keep the tests from running.
const CHANGE_MAX: Duration = Duration::from_secs(2);

/// What has changed in a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Change {
    /// Files relative to the workspace, sorted.
    pub(super) files: BTreeSet<String>,
    /// Whether further files may have changed, whose names are lost.
    pub(super) is_incomplete: bool,
}

impl Change {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && !self.is_incomplete
    }
}

/// Watches the directories of a workspace.
pub(super) struct FileWatcher {
    workspace: Workspace,
    watcher: RecommendedWatcher,
    events: mpsc::Receiver<PathBuf>,
    /// Whether events were lost since the flag was read last.
    lost: Arc<AtomicBool>,
    watched: BTreeSet<PathBuf>,
    /// Files of the latest scan, relative to the workspace.
    known: BTreeSet<String>,
}

impl FileWatcher {
    /// Starts to watch a workspace.
    pub(super) fn start(workspace: &Workspace) -> Result<FileWatcher, CommandError> {
        let (sender, events) = mpsc::channel(EVENTS_QUEUED);
        let lost = Arc::new(AtomicBool::new(false));
        let queue = EventQueue { sender, lost: Arc::clone(&lost), root: workspace.root().to_owned() };
        let watcher = notify::recommended_watcher(move |event| queue.handle(event)).map_err(|error| failure(&error))?;
        let (watched, known) = (BTreeSet::new(), BTreeSet::new());
        let mut watcher = FileWatcher { workspace: workspace.clone(), watcher, events, lost, watched, known };
        watcher.refresh()?;
        Ok(watcher)
    }

    /// Scans the workspace anew, and watches the directories that are there now. Returns their number.
    pub(super) fn refresh(&mut self) -> Result<usize, CommandError> {
        let scan = self.workspace.scan().map_err(|error| super::in_process::path_failure("workspace", &error))?;
        self.known = scan.tree.files().map(str::to_owned).collect();
        let root = self.workspace.root();
        let above =
            |file: &String| -> Vec<PathBuf> { Path::new(file).ancestors().skip(1).map(|dir| root.join(dir)).collect() };
        let mut wanted: BTreeSet<PathBuf> = self.known.iter().flat_map(above).collect();
        wanted.insert(root.to_owned());
        for gone in self.watched.difference(&wanted) {
            // It fails for a removed directory, which is no longer watched then.
            _ = self.watcher.unwatch(gone);
        }
        let mut watched: BTreeSet<PathBuf> = self.watched.intersection(&wanted).cloned().collect();
        for dir in wanted.difference(&self.watched) {
            match self.watcher.watch(dir, RecursiveMode::NonRecursive) {
                Ok(()) => _ = watched.insert(dir.clone()),
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(failure(&error)),
            }
        }
        self.watched = watched;
        Ok(self.watched.len())
    }

    /// Waits for a change and its end. Dropped before it is ready, it loses at most names of files.
    pub(super) async fn change(&mut self) -> Result<Change, CommandError> {
        loop {
            let Some(first) = self.events.recv().await else { return std::future::pending().await };
            let mut paths = vec![first];
            let end = tokio::time::Instant::now() + CHANGE_MAX;
            while let Ok(Some(path)) =
                tokio::time::timeout_at(end.min(tokio::time::Instant::now() + QUIET), self.events.recv()).await
            {
                if paths.len() < FILES_MAX {
                    paths.push(path);
                }
            }
            let changed = self.change_of(paths)?;
            if !changed.is_empty() {
                return Ok(changed);
            }
        }
    }

    /// What has changed since it was asked for last, without waiting.
    pub(super) fn changed_so_far(&mut self) -> Result<Change, CommandError> {
        let mut paths = Vec::new();
        while let Ok(path) = self.events.try_recv() {
            if paths.len() < FILES_MAX {
                paths.push(path);
            }
        }
        if paths.is_empty() { Ok(Change::default()) } else { self.change_of(paths) }
    }

    /// The files of the latest scan.
    pub(super) fn known(&self) -> &BTreeSet<String> {
        &self.known
    }

    /// The files at these paths that a scan knows or knew. A new directory stands for the files in it.
    fn change_of(&mut self, paths: Vec<PathBuf>) -> Result<Change, CommandError> {
        let is_incomplete = self.lost.swap(false, Ordering::AcqRel);
        let before = std::mem::take(&mut self.known);
        self.refresh()?;
        let root = self.workspace.root();
        let mut files = BTreeSet::new();
        for path in paths {
            let Some(relative) = path.strip_prefix(root).ok().and_then(Path::to_str) else { continue };
            if before.contains(relative) || self.known.contains(relative) {
                files.insert(relative.to_owned());
            } else {
                let within = format!("{relative}/");
                let new = self.known.range(within.clone()..).take_while(|file| file.starts_with(&within));
                files.extend(new.filter(|file| !before.contains(*file)).cloned());
            }
        }
        files.retain(|file| !is_of_editor(file));
        Ok(Change { files, is_incomplete })
    }
}

/// The queue of events, as notify's thread fills it.
struct EventQueue {
    sender: mpsc::Sender<PathBuf>,
    lost: Arc<AtomicBool>,
    root: PathBuf,
}

impl EventQueue {
    /// Queues the paths of a change, or remembers that events were lost: by the kernel, by notify, or by a full queue.
    fn handle(&self, event: notify::Result<Event>) {
        let is_queued = match event {
            Ok(event) if event.need_rescan() => false,
            Ok(event) if is_change(&event.kind) => {
                event.paths.into_iter().filter(|path| self.sender.try_send(path.clone()).is_err()).count() == 0
            }
            Ok(_) => true,
            Err(_) => false,
        };
        if !is_queued {
            self.lost.store(true, Ordering::Release);
            // Wakes the reader. A queue that is full now is not read yet, and its reader looks at the flag afterwards.
            _ = self.sender.try_send(self.root.clone());
        }
    }
}

/// Whether an event can change what a test reads.
fn is_change(kind: &EventKind) -> bool {
    match kind {
        EventKind::Create(_) | EventKind::Remove(_) => true,
        EventKind::Modify(kind) => !matches!(kind, ModifyKind::Metadata(_)),
        EventKind::Any | EventKind::Other | EventKind::Access(_) => false,
    }
}

/// Whether an editor keeps the file beside the one that it edits.
fn is_of_editor(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.ends_with('~') || name.starts_with(".#") || name == "4913" || name.ends_with(".swp") || name.ends_with(".swx")
}

fn is_missing(error: &notify::Error) -> bool {
    match &error.kind {
        notify::ErrorKind::PathNotFound => true,
        notify::ErrorKind::Io(error) => error.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

fn failure(error: &notify::Error) -> CommandError {
    let remedy = match error.kind {
        notify::ErrorKind::MaxFilesWatch => {
            ": raise fs.inotify.max_user_watches (sysctl), or watch a part of the workspace"
        }
        _ => "",
    };
    CommandError::host(format!("the workspace cannot be watched: {:?}{remedy}", error.kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn reports_changes_of_files_that_a_scan_knows() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        for (file, text) in
            [("package.json", "{}"), ("a.test.js", "1"), ("node_modules/x/index.js", "1"), (".git/HEAD", "1")]
        {
            fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
            fs::write(root.join(file), text).unwrap();
        }
        let workspace = Workspace::open(&root).unwrap();
        let mut watcher = FileWatcher::start(&workspace).unwrap();
        assert!(!watcher.watched.iter().any(|dir| dir.ends_with("node_modules") || dir.ends_with(".git")));
        for ignored in ["node_modules/x/index.js", ".git/HEAD", "a.test.js~", ".#a.test.js"] {
            fs::write(root.join(ignored), "2").unwrap();
        }
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::write(root.join("src/deep/b.test.js"), "1").unwrap();
        let changed = watcher.change().await.unwrap();
        assert!(!changed.is_incomplete);
        assert_eq!(changed.files.into_iter().collect::<Vec<_>>(), ["src/deep/b.test.js"]);
        fs::write(root.join("src/deep/b.test.js"), "2").unwrap();
        fs::remove_file(root.join("a.test.js")).unwrap();
        let mut all = BTreeSet::new();
        while all.len() < 2 {
            all.extend(watcher.change().await.unwrap().files);
        }
        assert_eq!(all.into_iter().collect::<Vec<_>>(), ["a.test.js", "src/deep/b.test.js"]);
        assert!(watcher.known().contains("src/deep/b.test.js") && !watcher.known().contains("a.test.js"));
    }

    #[tokio::test]
    async fn lost_events_are_a_change() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(&dir.path().canonicalize().unwrap()).unwrap();
        let mut watcher = FileWatcher::start(&workspace).unwrap();
        let (sender, events) = mpsc::channel(1);
        watcher.events = events;
        let queue = EventQueue { sender, lost: Arc::clone(&watcher.lost), root: workspace.root().to_owned() };
        let created = |name: &str| {
            let created = EventKind::Create(notify::event::CreateKind::File);
            Ok(Event::new(created).add_path(workspace.root().join(name)))
        };
        let overflow = Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan);
        let rows = [vec![Ok(overflow)], vec![Err(notify::Error::generic("lost"))], vec![created("a"), created("b")]];
        for events in rows {
            events.into_iter().for_each(|event| queue.handle(event));
            let change = watcher.change().await.unwrap();
            assert!(change.is_incomplete && change.files.is_empty(), "{change:?}");
            queue.handle(Err(notify::Error::generic("lost")));
            assert!(watcher.changed_so_far().unwrap().is_incomplete);
            assert!(watcher.changed_so_far().unwrap().is_empty());
        }
    }
}

//! A file that a report is written to, looked at before the run. Tests of the run may replace anything in their workspace, so
//! that no name there is followed afterwards: neither a link nor a pipe that a test has made can redirect or block the write.

use crate::random_id::random_id;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fcntl_setfl, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

/// Links to what is open already, and directories of such links. No other user makes names there.
const OPEN_FILES: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];

/// A place for one report.
#[derive(Debug)]
pub(super) enum ReportTarget {
    /// A device or pipe, such as `/dev/stdout`: it cannot be replaced, and is written as it was before the run.
    Open(File),
    /// A file, replaced as a whole when the report is there: a reader never sees half of it.
    File {
        /// Directory without links in its path, as it was before the run.
        dir: PathBuf,
        /// Name within the directory.
        name: OsString,
    },
}

impl ReportTarget {
    /// Looks at `path`, and makes its directory.
    ///
    /// # Errors
    /// The directory cannot be made; the path names no file; nobody reads the pipe.
    pub(super) fn open(path: &Path) -> io::Result<ReportTarget> {
        if is_written_in_place(path) {
            return open_in_place(path).map(ReportTarget::Open);
        }
        let name = path.file_name().ok_or_else(|| io::Error::from(Errno::ISDIR))?.to_owned();
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        Ok(ReportTarget::File { dir: dir.canonicalize()?, name })
    }

    /// The path of a file that is replaced, without links.
    pub(super) fn path(&self) -> Option<PathBuf> {
        match self {
            ReportTarget::Open(_) => None,
            ReportTarget::File { dir, name } => Some(dir.join(name)),
        }
    }

    /// Writes the report.
    ///
    /// # Errors
    /// A directory of the path is a link now, or the file cannot be written.
    pub(super) fn write(&self, document: &[u8]) -> io::Result<()> {
        match self {
            ReportTarget::Open(file) => (&*file).write_all(document),
            ReportTarget::File { dir, name } => replace(&open_dir(dir)?, name, document),
        }
    }
}

// A link elsewhere is replaced as a file is: an earlier run may have left it.
fn is_written_in_place(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| {
        let kind = found.file_type();
        let is_open = kind.is_symlink() && OPEN_FILES.iter().any(|open| path.starts_with(open));
        is_open || kind.is_fifo() || kind.is_char_device() || kind.is_block_device()
    })
}

// Without waiting: a pipe that an earlier run left has no reader, and would block for ever.
fn open_in_place(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).map_err(|error| match error {
        Errno::NXIO => io::Error::other("no process reads this pipe"),
        error => error.into(),
    })?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file.into())
}

/// Opens a directory without following a link, and makes what is missing: a build may have cleaned it up.
fn open_dir(dir: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut opened = openat(CWD, "/", flags, Mode::empty())?;
    for part in dir.components().filter(|part| *part != Component::RootDir) {
        let part = part.as_os_str();
        opened = match openat(&opened, part, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                mkdirat(&opened, part, Mode::from_raw_mode(0o777))?;
                openat(&opened, part, flags, Mode::empty())?
            }
            found => found?,
        };
    }
    Ok(opened)
}

fn replace(dir: &OwnedFd, name: &OsStr, document: &[u8]) -> io::Result<()> {
    let random = random_id().ok_or_else(|| io::Error::other("no random numbers"))?;
    // Not made from the name, which may be as long as names can be.
    let temporary = format!(".proctor-{}.new", random.as_str());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(dir, &temporary, flags, Mode::from_raw_mode(0o666))?);
    file.write_all(document).and_then(|()| Ok(renameat(dir, &temporary, dir, name)?)).inspect_err(|_| {
        _ = unlinkat(dir, &temporary, AtFlags::empty());
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, mknodat};
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn make_pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    }

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn replaces_a_file_and_makes_its_directories() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/junit.xml");
        for document in ["first", "2"] {
            ReportTarget::open(&file).unwrap().write(document.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), document);
        }
        assert_eq!(names(file.parent().unwrap()), ["junit.xml"], "no temporary file is left");
        assert!(ReportTarget::open(&file.join("below")).is_err());
        assert!(ReportTarget::open(Path::new("/")).is_err());
    }

    #[test]
    fn a_directory_that_the_run_removed_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("target/reports/junit.xml");
        let target = ReportTarget::open(&file).unwrap();
        fs::remove_dir_all(dir.path().join("target")).unwrap();
        target.write(b"x").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"x");
    }

    #[test]
    fn a_link_that_a_test_made_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (outside, workspace) = (dir.path().join("outside"), dir.path().join("workspace"));
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("junit.xml"), "precious").unwrap();
        let file = workspace.join("reports/junit.xml");
        // The file is a link.
        let target = ReportTarget::open(&file).unwrap();
        symlink(outside.join("junit.xml"), &file).unwrap();
        target.write(b"x").unwrap();
        assert!(fs::symlink_metadata(&file).unwrap().is_file(), "the link itself is replaced");
        // The directory is a link.
        let target = ReportTarget::open(&file).unwrap();
        fs::rename(workspace.join("reports"), workspace.join("moved")).unwrap();
        symlink(&outside, workspace.join("reports")).unwrap();
        assert!(target.write(b"y").is_err());
        assert_eq!(names(&outside), ["junit.xml"]);
        assert_eq!(fs::read_to_string(outside.join("junit.xml")).unwrap(), "precious");
    }

    #[test]
    fn a_pipe_that_nobody_reads_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("junit.xml");
        // One that a test of this run made is replaced.
        let target = ReportTarget::open(&file).unwrap();
        make_pipe(&file);
        target.write(b"x").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"x");
        // One of an earlier run is refused.
        fs::remove_file(&file).unwrap();
        make_pipe(&file);
        assert_eq!(ReportTarget::open(&file).unwrap_err().to_string(), "no process reads this pipe");
    }

    #[test]
    fn a_pipe_with_a_reader_gets_the_report() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        make_pipe(&pipe);
        let reader = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut reader = File::from(openat(CWD, &pipe, reader, Mode::empty()).unwrap());
        ReportTarget::open(&pipe).unwrap().write(b"report").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "report");
    }

    #[test]
    fn a_device_is_written_and_stays() {
        ReportTarget::open(Path::new("/dev/null")).unwrap().write(b"report").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    }
}

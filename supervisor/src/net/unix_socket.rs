//! The file of a unix socket: bound where no process listens, and removed at the end if it is still the bound one.

use super::Listener;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

/// Why a unix socket could not be bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// Another process listens there.
    #[error("{}: another supervisor is listening there", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// The file of a bound socket. Removed on drop, unless another file has taken its place.
pub struct SocketFile {
    path: PathBuf,
    id: FileId,
}

/// Identity of a file, independent of its name. No other file has the same while its socket exists.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    fn from_metadata(found: &Metadata) -> FileId {
        FileId { dev: found.dev(), ino: found.ino() }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|found| FileId::from_metadata(&found) == self.id) {
            _ = fs::remove_file(&self.path);
        }
    }
}

/// Binds a unix socket at `path` with these permission bits. Replaces a socket without a listener.
pub async fn bind_unix(path: &Path, mode: u32) -> Result<Listener, BindError> {
    let failed = |source| BindError::Io { path: path.to_owned(), source };
    match UnixStream::connect(path).await {
        // If it is unclear whether a process listens, nothing is removed.
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => {}
            io::ErrorKind::ConnectionRefused => remove_stale(path).map_err(failed)?,
            // The listener's backlog is full.
            io::ErrorKind::WouldBlock => return Err(BindError::InUse { path: path.to_owned() }),
            _ => return Err(failed(error)),
        },
        Ok(_) => return Err(BindError::InUse { path: path.to_owned() }),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    let id = FileId::from_metadata(&fs::symlink_metadata(path).map_err(failed)?);
    let file = SocketFile { path: path.to_owned(), id };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    Ok(Listener::Unix { listener, file })
}

// The kernel refuses a connection to any other kind of file as well.
fn remove_stale(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other("exists and is not a socket: remove it, or name another path"));
    }
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    use std::os::unix::net;

    fn inode(path: &Path) -> u64 {
        fs::symlink_metadata(path).unwrap().ino()
    }

    fn is_in_use(bound: Result<Listener, BindError>) -> bool {
        matches!(bound, Err(BindError::InUse { .. }))
    }

    #[tokio::test]
    async fn replaces_a_socket_without_a_listener() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        drop(net::UnixListener::bind(&path).unwrap());
        let listener = bind_unix(&path, 0o620).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o620);
        UnixStream::connect(&path).await.unwrap();
        assert!(is_in_use(bind_unix(&path, 0o600).await));
        drop(listener);
        assert!(!path.exists(), "its file is removed with it");
    }

    #[tokio::test]
    async fn keeps_the_socket_of_a_listener_with_a_full_backlog() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let busy = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&busy, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&busy, 1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(one) = UnixStream::connect(&path).await {
            waiting.push(one);
        }
        let before = inode(&path);
        assert!(is_in_use(bind_unix(&path, 0o600).await));
        assert_eq!(inode(&path), before);
    }

    #[tokio::test]
    async fn keeps_files_that_are_no_stream_sockets() {
        let dir = tempfile::tempdir().unwrap();
        let (file, datagrams) = (dir.path().join("file"), dir.path().join("datagrams"));
        fs::write(&file, "precious").unwrap();
        let _other = net::UnixDatagram::bind(&datagrams).unwrap();
        let before = inode(&datagrams);
        for path in [&file, &datagrams] {
            assert!(matches!(bind_unix(path, 0o600).await, Err(BindError::Io { .. })), "{path:?}");
        }
        assert_eq!((fs::read_to_string(&file).unwrap().as_str(), inode(&datagrams)), ("precious", before));
    }

    #[tokio::test]
    async fn keeps_the_file_of_another_supervisor() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let ours = bind_unix(&path, 0o600).await.unwrap();
        fs::remove_file(&path).unwrap();
        let theirs = bind_unix(&path, 0o600).await.unwrap();
        drop(ours);
        assert!(is_in_use(bind_unix(&path, 0o600).await));
        drop(theirs);
        assert!(!path.exists());
    }
}

//! The SQLite file of one tenant's history: opening, schema, and which error means what.

use super::{HistoryError, HistoryLocation};
use crate::host::state_dir::own_dir;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file in the tenant's directory.
const FILE: &str = "history.sqlite";

/// Bytes of the database in `dir` with what is not merged into it yet; zero without one.
#[must_use]
pub fn stored_bytes(dir: &Path) -> u64 {
    let files = [FILE.to_owned(), format!("{FILE}-wal")];
    files.iter().filter_map(|name| Some(dir.join(name).symlink_metadata().ok()?.len())).sum()
}

/// Suffix of the name that a damaged file gets. The next damaged file replaces it.
const DAMAGED: &str = "damaged";

/// How long to wait for another process that writes: less than a run waits.
const LOCK_WAIT: Duration = Duration::from_secs(4);

/// Bytes of a page, SQLite's default; the quota is enforced in pages.
pub(super) const PAGE_BYTES: u64 = 4_096;

/// Each step brings a database from the version before it to its own: its position, from 1. Never edit one; append.
const MIGRATIONS: [&str; 3] = [
    "
    CREATE TABLE workspace (id INTEGER PRIMARY KEY, key BLOB NOT NULL UNIQUE);
    CREATE TABLE test (
        id INTEGER PRIMARY KEY, workspace INTEGER NOT NULL, package TEXT NOT NULL, name TEXT NOT NULL,
        last_run INTEGER NOT NULL, UNIQUE (workspace, package, name)
    );
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT, workspace INTEGER NOT NULL, run_id TEXT NOT NULL,
        started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, outcome TEXT NOT NULL, framework TEXT NOT NULL,
        selection TEXT NOT NULL, is_complete INTEGER NOT NULL, partial INTEGER NOT NULL,
        total INTEGER NOT NULL, passed INTEGER NOT NULL, failed INTEGER NOT NULL, skipped INTEGER NOT NULL,
        xfailed INTEGER NOT NULL, xpassed INTEGER NOT NULL, error INTEGER NOT NULL,
        duration_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL, memory_peak_bytes INTEGER, conditions BLOB,
        new INTEGER, fixed INTEGER, still_failing INTEGER
    );
    CREATE INDEX run_of_workspace ON run (workspace, id);
    CREATE INDEX green_run ON run (workspace, id) WHERE is_complete AND outcome = 'passed';
    CREATE TABLE result (run INTEGER PRIMARY KEY, tests BLOB NOT NULL);
",
    // `directory` is null in runs of version 1. `repeated` has the tests that a run executed more than once.
    "
    ALTER TABLE run ADD COLUMN directory BLOB;
    CREATE TABLE repeated (
        run INTEGER NOT NULL, test INTEGER NOT NULL, executions INTEGER NOT NULL, failures INTEGER NOT NULL,
        PRIMARY KEY (run, test)
    ) WITHOUT ROWID;
",
    // The order in which the tests of a run finished that had a failure.
    "CREATE TABLE test_order (run INTEGER PRIMARY KEY, tests BLOB NOT NULL);",
];

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    path: PathBuf,
    /// Device and inode of the file, as another file may take its place.
    identity: (u64, u64),
}

impl Database {
    /// Opens the database of a tenant for writing, and creates it if missing: directory 0700, files 0600.
    pub(super) fn open(location: &HistoryLocation) -> Result<Database, HistoryError> {
        let path = create_file(&location.dir).map_err(|error| host_error(&location.dir, &error))?;
        let database = Database::connect(path)?;
        let pages = (location.bytes_max / PAGE_BYTES).max(1);
        database.setup(pages).map_err(|error| error.into_history_error(&database.path))?;
        Ok(database)
    }

    /// Opens the database of a tenant for reading; `None` if nothing was recorded yet.
    pub(super) fn open_existing(location: &HistoryLocation) -> Result<Option<Database>, HistoryError> {
        let path = location.dir.join(FILE);
        match path.symlink_metadata() {
            Ok(found) if found.is_file() && found.len() > 0 => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(host_error(&path, &error)),
        }
        let database = Database::connect(path)?;
        let check = || -> Result<bool, DatabaseError> {
            database.connection.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;")?;
            database.check_version().map(|version| version > 0)
        };
        let has_schema = check().map_err(|error| error.into_history_error(&database.path))?;
        Ok(has_schema.then_some(database))
    }

    fn connect(path: PathBuf) -> Result<Database, HistoryError> {
        let found = path.symlink_metadata().map_err(|error| host_error(&path, &error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&path, flags)
            .and_then(|connection| connection.busy_timeout(LOCK_WAIT).map(|()| connection))
            .map_err(|error| DatabaseError::from(error).into_history_error(&path))?;
        Ok(Database { connection, path, identity: (found.dev(), found.ino()) })
    }

    fn setup(&self, pages_max: u64) -> Result<(), DatabaseError> {
        // The order matters: auto_vacuum only works on an empty file. With WAL and `synchronous = NORMAL` a killed process
        // loses nothing that was committed, and a host without power the last runs at most.
        self.connection.execute_batch(&format!(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             PRAGMA journal_size_limit = 1048576; PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;
             PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA max_page_count = {pages_max};"
        ))?;
        while self.migrate()? {}
        Ok(())
    }

    // Takes one step; returns whether there may be another. Two processes may both be here.
    fn migrate(&self) -> Result<bool, DatabaseError> {
        if self.check_version()? == MIGRATIONS.len() {
            return Ok(false);
        }
        let transaction =
            rusqlite::Transaction::new_unchecked(&self.connection, rusqlite::TransactionBehavior::Immediate)?;
        let version = self.check_version()?;
        if let Some(step) = MIGRATIONS.get(version) {
            transaction.execute_batch(step)?;
            transaction.pragma_update(None, "user_version", version + 1)?;
        }
        transaction.commit()?;
        Ok(true)
    }

    fn check_version(&self) -> Result<usize, DatabaseError> {
        let version: u32 = self.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let version = usize::try_from(version).unwrap_or(usize::MAX);
        if version > MIGRATIONS.len() { Err(DatabaseError::Newer) } else { Ok(version) }
    }

    /// Whether its file is still the one at its path.
    pub(super) fn is_current(&self) -> bool {
        self.path.symlink_metadata().is_ok_and(|found| (found.dev(), found.ino()) == self.identity)
    }

    /// Bytes in use, and bytes of the file.
    pub(super) fn bytes(&self) -> rusqlite::Result<(u64, u64)> {
        let pragma = |name| self.connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        let (pages, free) = (pragma("page_count")?, pragma("freelist_count")?);
        Ok((pages.saturating_sub(free) * PAGE_BYTES, pages * PAGE_BYTES))
    }

    /// What an error of this database means; the details go to the log.
    pub(super) fn error(&self, error: rusqlite::Error) -> HistoryError {
        DatabaseError::from(error).into_history_error(&self.path)
    }
}

/// Moves a damaged database aside, so that the next one begins anew.
pub(super) fn move_aside(location: &HistoryLocation) -> io::Result<()> {
    let path = location.dir.join(FILE);
    for file in [format!("{FILE}-wal"), format!("{FILE}-shm")] {
        match fs::remove_file(location.dir.join(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    fs::rename(&path, path.with_extension(format!("sqlite.{DAMAGED}")))
}

/// Error of an operation on a database.
#[derive(Debug)]
enum DatabaseError {
    Newer,
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for DatabaseError {
    fn from(error: rusqlite::Error) -> DatabaseError {
        DatabaseError::Sqlite(error)
    }
}

impl DatabaseError {
    fn into_history_error(self, path: &Path) -> HistoryError {
        let (error, text) = match &self {
            DatabaseError::Newer => (HistoryError::Newer, HistoryError::Newer.to_string()),
            DatabaseError::Sqlite(error) => (classify(error), error.to_string()),
        };
        tracing::warn!(path = %path.display(), error = text, "the history of runs failed");
        error
    }
}

fn classify(error: &rusqlite::Error) -> HistoryError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HistoryError::Locked,
        Some(ErrorCode::DiskFull) => HistoryError::Full,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => HistoryError::Damaged,
        // A table or column is missing although the version says otherwise.
        Some(ErrorCode::Unknown) => HistoryError::Damaged,
        Some(_) => HistoryError::Host,
        // A value of another type than the schema's.
        None => HistoryError::Damaged,
    }
}

fn host_error(path: &Path, error: &io::Error) -> HistoryError {
    tracing::warn!(path = %path.display(), %error, "the history of runs failed");
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => HistoryError::Full,
        _ => HistoryError::Host,
    }
}

// Creates the directory and the empty file; SQLite gives its other files the same mode.
fn create_file(dir: &Path) -> io::Result<PathBuf> {
    let (base, name) = (dir.parent(), dir.file_name().and_then(|name| name.to_str()));
    let (Some(base), Some(name)) = (base, name) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let path = own_dir(base, &[name], None)?.join(FILE);
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)?;
    Ok(path)
}

//! A workspace whose test waits until it is told to go on, so that suites know where a run is without watching a clock. Must
//! not know how the run was started.
//!
//! The marks lie in `.cache`, tagged as a cache, which proctor passes over when it looks whether a workspace has
//! changed.

use crate::process::wait_until;
use std::fs;
use std::path::{Path, PathBuf};

const MODULE: &str = "module example.com/waiting\n\ngo 1.21\n";

const TEST: &str = r#"package waiting

import (
	"os"
	"testing"
	"time"
)

func TestEnds(t *testing.T) { t.Log("done") }

func TestWaits(t *testing.T) {
	os.WriteFile(".cache/here", nil, 0o666)
	for {
		if _, err := os.Stat(".cache/gate"); err == nil {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestLast(t *testing.T) { t.Log("and out") }
"#;

/// Node ids of its tests, in the order in which they run.
pub const TESTS: [&str; 3] =
    ["example.com/waiting/TestEnds", "example.com/waiting/TestWaits", "example.com/waiting/TestLast"];

/// Such a workspace.
#[derive(Debug, Clone)]
pub struct PausedTest {
    /// Where it is.
    pub workspace: PathBuf,
}

impl PausedTest {
    /// Makes one at `workspace`.
    #[must_use]
    pub fn at(workspace: &Path) -> PausedTest {
        fs::create_dir_all(workspace.join(".cache")).unwrap();
        fs::write(workspace.join(".cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
        fs::write(workspace.join("go.mod"), MODULE).unwrap();
        fs::write(workspace.join("waiting_test.go"), TEST).unwrap();
        PausedTest { workspace: workspace.to_owned() }
    }

    /// Waits until the test waits.
    pub fn wait_until_paused(&self) {
        wait_until("the test waits", || self.workspace.join(".cache/here").exists());
    }

    /// Lets the test go on.
    pub fn resume(&self) {
        fs::write(self.workspace.join(".cache/gate"), "").unwrap();
    }

    /// Makes the next run wait again.
    pub fn rearm(&self) {
        for mark in ["gate", "here"] {
            _ = fs::remove_file(self.workspace.join(".cache").join(mark));
        }
    }

    /// Changes a file that counts.
    pub fn change(&self) {
        fs::write(self.workspace.join("notes.txt"), "something else").unwrap();
    }
}

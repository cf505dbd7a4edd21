//! A Go workspace whose test pauses until the suite resumes it, so that a suite knows how far a run is without timing it.
//!
//! The marker files lie in `.cache`, tagged as a cache directory, which proctor skips when it fingerprints a workspace.

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

/// Node ids of the workspace's tests, in execution order.
pub const TESTS: [&str; 3] =
    ["example.com/waiting/TestEnds", "example.com/waiting/TestWaits", "example.com/waiting/TestLast"];

/// A workspace with a pausing test.
#[derive(Debug, Clone)]
pub struct PausedTest {
    /// Root directory of the workspace.
    pub workspace: PathBuf,
}

impl PausedTest {
    /// Writes the workspace to `workspace`.
    #[must_use]
    pub fn at(workspace: &Path) -> PausedTest {
        fs::create_dir_all(workspace.join(".cache")).unwrap();
        fs::write(workspace.join(".cache/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n").unwrap();
        fs::write(workspace.join("go.mod"), MODULE).unwrap();
        fs::write(workspace.join("waiting_test.go"), TEST).unwrap();
        PausedTest { workspace: workspace.to_owned() }
    }

    /// Waits until the test is running and paused.
    pub fn wait_until_paused(&self) {
        wait_until("the test is paused", || self.workspace.join(".cache/here").exists());
    }

    /// Lets the paused test continue.
    pub fn resume(&self) {
        fs::write(self.workspace.join(".cache/gate"), "").unwrap();
    }

    /// Makes the test pause again in the next run.
    pub fn rearm(&self) {
        for mark in ["gate", "here"] {
            _ = fs::remove_file(self.workspace.join(".cache").join(mark));
        }
    }

    /// Changes a file that is part of the workspace's fingerprint.
    pub fn change(&self) {
        fs::write(self.workspace.join("notes.txt"), "something else").unwrap();
    }
}

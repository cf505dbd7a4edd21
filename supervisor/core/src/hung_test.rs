//! A test that was running at the deadline, with the place where it hangs, and the signals on which runners print stacks.

use crate::bounds::{HUNG_STACK_BYTES_MAX, NAME_BYTES_MAX, clip};
use crate::redact::redacted;
use crate::test_case::TestId;
use serde::{Deserialize, Serialize};

/// A test that was running at the deadline, and its stack as the runner printed it then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HungTest {
    /// The test, one of [`Evidence::running`](crate::outcome::Evidence::running).
    pub test: TestId,
    /// File of the innermost frame in the project's own code, relative to the workspace; `None` if no frame is in it. Where the
    /// runner gave no stack, the file in which the test begins: the stack says so.
    pub file: Option<String>,
    /// Line of that frame, or of where the test begins, from 1.
    pub line: Option<u32>,
    /// Stack of the test, innermost frame first, at most [`HUNG_STACK_BYTES_MAX`] bytes.
    pub stack: String,
}

impl HungTest {
    /// Clips every string to its bound and redacts known secrets in the stack.
    #[must_use]
    pub fn bounded(self) -> HungTest {
        HungTest {
            test: self.test.bounded(),
            file: self.file.map(|file| clip(file, NAME_BYTES_MAX)),
            // Redacted before it is clipped, so that no half of a secret is left.
            stack: clip(redacted(self.stack), HUNG_STACK_BYTES_MAX),
            ..self
        }
    }

    /// Memory use in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<HungTest>() + self.test.text_bytes() + self.file.as_ref().map_or(0, String::len) + self.stack.len()
    }
}

/// Signal on which a process of a runner prints its stacks. Only processes that handle the signal get it, since it would
/// end any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StackSignal {
    /// SIGQUIT, on which Go's runtime prints all goroutines and ends the process.
    Quit,
    /// SIGINT to processes that use a processor, on which `node --trace-sigint` prints the stack and ends the process. An
    /// idle process has no stack to print, and may be the runner that passes the others' output on.
    InterruptBusy,
    /// Real-time signal 62, which no program uses: proctor's code in the runner handles it, and the process goes on.
    Reserved,
}

impl StackSignal {
    /// Number of the signal on Linux.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            StackSignal::InterruptBusy => 2,
            StackSignal::Quit => 3,
            StackSignal::Reserved => 62,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redacts_a_stack_before_clipping_it() {
        let secret = format!("ghp_{}", "a1B2".repeat(9));
        let test = TestId { package: "p".to_owned(), name: "t".to_owned() };
        let stack = format!("{}{secret}", "x".repeat(HUNG_STACK_BYTES_MAX - 20));
        let hung = HungTest { test, file: None, line: None, stack }.bounded();
        assert!(hung.stack.len() <= HUNG_STACK_BYTES_MAX && !hung.stack.contains("ghp_"), "{}", hung.stack);
    }
}

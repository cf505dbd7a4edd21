//! A program at a pseudo terminal, as a person runs it: it reads keys, and a test waits for what it prints.

use crate::process::{WAIT_MAX, command, program};
use crate::test_workspace::find_on_path;
use nix::pty::{Winsize, openpty};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Chunks of output that wait until the test reads them.
const CHUNKS_MAX: usize = 1_024;

/// A `proctor` whose controlling terminal is a pseudo terminal of 50 lines with 200 columns.
pub struct PseudoTerminal {
    child: Child,
    terminal: File,
    chunks: Receiver<Vec<u8>>,
    printed: String,
    screen: vt100::Parser,
}

/// Lines and columns of the terminal.
const LINES: NonZeroU16 = NonZeroU16::new(50).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(200).unwrap();

impl PseudoTerminal {
    /// Starts `proctor` with the directory, arguments and environment of `like`.
    #[must_use]
    pub fn start(like: &Command) -> PseudoTerminal {
        let size = Winsize { ws_row: LINES.get(), ws_col: COLUMNS.get(), ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        // Makes the terminal the controlling one, so that Ctrl-C is a signal.
        let mut started = command(&find_on_path("setsid"));
        started.arg("--ctty").arg("--wait").arg(program("proctor")).args(like.get_args());
        started.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
        started.env("TERM", "xterm");
        if let Some(dir) = like.get_current_dir() {
            started.current_dir(dir);
        }
        let end = || Stdio::from(pty.slave.try_clone().unwrap());
        let child = started.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let terminal = File::from(pty.master);
        let mut reader = terminal.try_clone().unwrap();
        let (sender, chunks) = sync_channel(CHUNKS_MAX);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = vt100::Parser::new(LINES, COLUMNS, 0);
        PseudoTerminal { child, terminal, chunks, printed: String::new(), screen }
    }

    /// Waits until `end` finds an end in what was printed since the last wait, and returns all before it.
    ///
    /// # Panics
    /// If the program prints no such text.
    pub fn wait_until(&mut self, end: impl Fn(&str) -> Option<usize>) -> String {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            if let Some(at) = end(&self.printed) {
                let rest = self.printed.split_off(at);
                return std::mem::replace(&mut self.printed, rest);
            }
            self.read_until(deadline);
        }
    }

    /// Waits until the screen shows `text` in one line.
    ///
    /// # Panics
    /// If it never does.
    pub fn wait_for_screen(&mut self, text: &str) {
        let deadline = Instant::now() + WAIT_MAX;
        while !self.screen.screen().contents().contains(text) {
            self.read_until(deadline);
        }
    }

    fn read_until(&mut self, deadline: Instant) {
        match self.chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(bytes) => {
                self.screen.process(&bytes);
                self.printed.push_str(&String::from_utf8_lossy(&bytes));
            }
            Err(error) => panic!("{error} after {:?}, which shows:\n{}", self.printed, self.screen.screen().contents()),
        }
    }

    /// Types `keys`.
    pub fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end of the program; its exit status.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    pub fn status(mut self) -> Option<i32> {
        let end = Instant::now() + WAIT_MAX;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "it does not end: {:?}", self.printed);
            _ = self.chunks.recv_timeout(Duration::from_millis(20));
        }
    }
}

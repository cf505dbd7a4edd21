//! An input as what a runner wrote: steps, each with pieces of its streams and an ending, and the files it left. Must not
//! know any framework.
//!
//! Sections begin with a record separator and a letter: `o` stdout, `e` stderr, `r` report, `f` a file (its path, a newline,
//! its content), `x` the step exits (a digit is its status, `s` a signal, `n` not started), `k` proctor kills it. Every
//! sequence of bytes is an input: what follows no letter is stdout.

use proctor_core::outcome::Exit;

/// What sections begin with. No runner's output has it, so a golden stream is one section.
pub const SEPARATOR: u8 = 0x1e;

/// Where bytes were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
    Report,
}

/// One step of a run.
#[derive(Debug, Clone)]
pub struct Step<'a> {
    pub pieces: Vec<(Stream, &'a [u8])>,
    pub exit: Exit,
    pub killed: bool,
}

/// A step that wrote nothing and exited well.
pub static SILENT: Step<'static> = Step { pieces: Vec::new(), exit: Exit::Code(0), killed: false };

/// A run.
#[derive(Debug, Clone, Default)]
pub struct Run<'a> {
    pub steps: Vec<Step<'a>>,
    pub files: Vec<(String, Vec<u8>)>,
}

impl<'a> Run<'a> {
    /// Reads an input.
    pub fn of(bytes: &'a [u8]) -> Run<'a> {
        let mut run = Run::default();
        let mut now = SILENT.clone();
        for section in bytes.split(|byte| *byte == SEPARATOR) {
            let Some((letter, rest)) = section.split_first() else { continue };
            match letter {
                b'e' => now.pieces.push((Stream::Stderr, rest)),
                b'r' => now.pieces.push((Stream::Report, rest)),
                b'f' => run.files.push(file(rest)),
                b'x' => {
                    now.exit = exit(rest);
                    run.steps.push(std::mem::replace(&mut now, SILENT.clone()));
                }
                b'k' => {
                    run.steps.push(Step { exit: Exit::Signal(9), killed: true, ..now });
                    return run;
                }
                b'o' => now.pieces.push((Stream::Stdout, rest)),
                _ => now.pieces.push((Stream::Stdout, section)),
            }
        }
        if !now.pieces.is_empty() {
            run.steps.push(now);
        }
        run
    }

    /// The same run whose last piece ended after `bytes` bytes.
    pub fn cut(&self, bytes: usize) -> Run<'a> {
        let mut cut = self.clone();
        if let Some((_, piece)) = cut.steps.last_mut().and_then(|step| step.pieces.last_mut()) {
            *piece = &piece[..bytes.min(piece.len())];
        }
        cut
    }

    /// Length of its last piece.
    pub fn last_piece(&self) -> usize {
        self.steps.last().and_then(|step| step.pieces.last()).map_or(0, |(_, piece)| piece.len())
    }
}

fn file(section: &[u8]) -> (String, Vec<u8>) {
    let end = section.iter().position(|byte| *byte == b'\n').unwrap_or(section.len());
    let content = section.get(end + 1..).unwrap_or_default();
    (String::from_utf8_lossy(&section[..end]).into_owned(), content.to_vec())
}

fn exit(section: &[u8]) -> Exit {
    match section.first() {
        None => Exit::Code(0),
        Some(digit @ b'0'..=b'9') => Exit::Code((digit - b'0').into()),
        Some(b's') => Exit::Signal(11),
        Some(b'n') => Exit::NotStarted(2),
        Some(other) => Exit::Code((*other).into()),
    }
}

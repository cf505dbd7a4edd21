//! Decodes a fuzz input as the output of a runner: steps, each with pieces of its streams and an exit, and files.
//!
//! Sections begin with a record separator and a letter: `o` stdout, `e` stderr, `r` report, `f` a file (path, newline,
//! content), `x` the step exits (a digit is its status, `s` a signal, `n` not started), `k` proctor kills it. Every
//! sequence of bytes is a valid input: a section without such a letter is stdout.

use proctor_core::outcome::Exit;

/// First byte of a section. No runner prints it, so a golden stream is one section.
pub const SEPARATOR: u8 = 0x1e;

/// Stream to which bytes were written.
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

/// A step that prints nothing and exits with 0.
pub static SILENT: Step<'static> = Step { pieces: Vec::new(), exit: Exit::Code(0), killed: false };

/// A decoded run.
#[derive(Debug, Clone, Default)]
pub struct Run<'a> {
    pub steps: Vec<Step<'a>>,
    pub files: Vec<(String, Vec<u8>)>,
}

impl<'a> Run<'a> {
    /// Decodes an input.
    pub fn parse(bytes: &'a [u8]) -> Run<'a> {
        let mut run = Run::default();
        let mut step = SILENT.clone();
        for section in bytes.split(|byte| *byte == SEPARATOR) {
            let Some((letter, rest)) = section.split_first() else { continue };
            match letter {
                b'e' => step.pieces.push((Stream::Stderr, rest)),
                b'r' => step.pieces.push((Stream::Report, rest)),
                b'f' => run.files.push(parse_file(rest)),
                b'x' => {
                    step.exit = parse_exit(rest);
                    run.steps.push(std::mem::replace(&mut step, SILENT.clone()));
                }
                b'k' => {
                    run.steps.push(Step { exit: Exit::Signal(9), killed: true, ..step });
                    return run;
                }
                b'o' => step.pieces.push((Stream::Stdout, rest)),
                _ => step.pieces.push((Stream::Stdout, section)),
            }
        }
        if !step.pieces.is_empty() {
            run.steps.push(step);
        }
        run
    }

    /// Returns the run with its last piece cut off after `bytes` bytes.
    pub fn cut(&self, bytes: usize) -> Run<'a> {
        let mut cut = self.clone();
        if let Some((_, piece)) = cut.steps.last_mut().and_then(|step| step.pieces.last_mut()) {
            *piece = &piece[..bytes.min(piece.len())];
        }
        cut
    }

    /// Length of the last piece.
    pub fn last_piece_length(&self) -> usize {
        self.steps.last().and_then(|step| step.pieces.last()).map_or(0, |(_, piece)| piece.len())
    }
}

fn parse_file(section: &[u8]) -> (String, Vec<u8>) {
    let end = section.iter().position(|byte| *byte == b'\n').unwrap_or(section.len());
    let content = section.get(end + 1..).unwrap_or_default();
    (String::from_utf8_lossy(&section[..end]).into_owned(), content.to_vec())
}

fn parse_exit(section: &[u8]) -> Exit {
    match section.first() {
        None => Exit::Code(0),
        Some(digit @ b'0'..=b'9') => Exit::Code((digit - b'0').into()),
        Some(b's') => Exit::Signal(11),
        Some(b'n') => Exit::NotStarted(2),
        Some(other) => Exit::Code((*other).into()),
    }
}

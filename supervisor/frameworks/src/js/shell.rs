//! Reads a script as a shell would, as far as that can be done without one: its commands, each as words. Must not know what
//! any word means.
//!
//! A variable counts as empty, since runs have a clean environment, and what a command would print is not known; either is
//! told as lost. So is nothing that a shell takes for itself: quotes, comments, and where output goes.

use std::iter::Peekable;
use std::str::Chars;

/// A command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// Its words, without quotes.
    pub(super) words: Vec<String>,
    /// What of it only a shell can read, as it is written: `$FLAGS`.
    pub(super) lost: Vec<String>,
}

/// The commands of a script, in its order.
pub(super) fn commands(script: &str) -> Vec<Command> {
    let mut lexer = Lexer { chars: script.chars().peekable(), ..Lexer::default() };
    lexer.read();
    lexer.commands
}

struct Lexer<'a> {
    chars: Peekable<Chars<'a>>,
    commands: Vec<Command>,
    command: Command,
    word: String,
    /// Whether there is a word, which may be empty where it was quoted.
    begun: bool,
    /// Whether the next word says where output goes.
    is_place: bool,
}

impl Default for Lexer<'_> {
    fn default() -> Self {
        Lexer {
            chars: "".chars().peekable(),
            commands: Vec::new(),
            command: Command::default(),
            word: String::new(),
            begun: false,
            is_place: false,
        }
    }
}

impl Lexer<'_> {
    fn read(&mut self) {
        let mut quote = None;
        while let Some(char) = self.chars.next() {
            match (quote, char) {
                (Some(open), _) if char == open => quote = None,
                (None, '\'' | '"') => (quote, self.begun) = (Some(char), true),
                (None | Some('"'), '\\') => {
                    self.word.extend(self.chars.next());
                    self.begun = true;
                }
                (None | Some('"'), '$') => self.dollar(),
                (None | Some('"'), '`') => {
                    let text = self.until(|char| char == '`');
                    self.substitution(&text, format!("`{text}`"));
                }
                (None, '>' | '<') => self.redirection(),
                (None, '&' | '|' | ';' | '(' | ')' | '\n') => self.end_command(),
                (None, '#') if !self.begun => {
                    self.until(|char| char == '\n');
                    self.end_command();
                }
                (None, _) if char.is_whitespace() => self.end_word(),
                _ => {
                    self.word.push(char);
                    self.begun = true;
                }
            }
        }
        self.end_command();
    }

    fn dollar(&mut self) {
        match self.chars.peek().copied() {
            Some('(') => {
                let mut depth = 0;
                let text = self.until(|char| {
                    depth += i32::from(char == '(') - i32::from(char == ')');
                    depth == 0
                });
                self.substitution(text.trim_start_matches('('), format!("${text})"));
            }
            Some('{') => {
                let text = self.until(|char| char == '}');
                let inner = text.trim_start_matches('{');
                // Empty as it is, it has its other value.
                match inner.split_once(":-").or_else(|| inner.split_once("-")) {
                    Some((_, value)) => self.add(value),
                    None => self.command.lost.push(format!("${text}}}")),
                }
            }
            // The arguments of the script itself, which has none.
            Some('@' | '*') => drop(self.chars.next()),
            Some(first) if first.is_ascii_alphanumeric() || first == '_' => {
                let mut name = String::from("$");
                while let Some(char) = self.chars.next_if(|char| char.is_ascii_alphanumeric() || *char == '_') {
                    name.push(char);
                }
                self.command.lost.push(name);
            }
            _ => self.add("$"),
        }
    }

    /// What a command prints is not known, but for where a package manager has a program: `$(yarn bin jest)`.
    fn substitution(&mut self, text: &str, written: String) {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["npm" | "pnpm" | "yarn", "bin"] => self.add("node_modules/.bin"),
            ["npm" | "pnpm" | "yarn", "bin", program] => self.add(&format!("node_modules/.bin/{program}")),
            _ => self.command.lost.push(written),
        }
    }

    /// `2>&1`, `> file`, `< file`.
    fn redirection(&mut self) {
        if self.word.chars().all(|char| char.is_ascii_digit()) {
            (self.word, self.begun) = (String::new(), false);
        }
        self.end_word();
        while self.chars.next_if(|char| ">|<&".contains(*char)).is_some() {}
        self.is_place = true;
    }

    /// What comes before the first character that ends it, which is taken as well.
    fn until(&mut self, mut ends: impl FnMut(char) -> bool) -> String {
        self.chars.by_ref().take_while(|char| !ends(*char)).collect()
    }

    fn add(&mut self, text: &str) {
        self.word.push_str(text);
        self.begun = true;
    }

    fn end_word(&mut self) {
        if std::mem::take(&mut self.begun) {
            let word = std::mem::take(&mut self.word);
            if !std::mem::take(&mut self.is_place) {
                self.command.words.push(word);
            }
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.is_place = false;
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Vec<String> {
        let of = |command: Command| format!("{}|{}", command.words.join(" "), command.lost.join(" "));
        commands(script).into_iter().map(of).collect()
    }

    #[test]
    fn a_shells_own_is_taken_off_and_what_only_it_can_read_is_told() {
        for (script, commands) in [
            ("a 'b c' \"d\\\"e\" f\\ g && h|i;j", &["a b c d\"e f g|", "h|", "i|", "j|"][..]),
            ("a $X --b \"$Y/c\" 'd$'", &["a --b /c d$|$X $Y"]),
            ("A=\"$A --b\" c", &["A= --b c|$A"]),
            ("a ${X:-d} ${Y-e} ${Z} \"$@\" \"x$\"", &["a d e  x$|${Z}"]),
            ("a $(git diff $(b)) c `d e` f", &["a c f|$(git diff $(b)) `d e`"]),
            ("$(npm bin)/jest $(yarn bin jest)", &["node_modules/.bin/jest node_modules/.bin/jest|"]),
            ("a > out.txt 2>&1 b 2>/dev/null c", &["a b c|"]),
            ("a # b && c\nd", &["a|", "d|"]),
            ("", &[]),
        ] {
            assert_eq!(read(script), commands, "{script}");
        }
    }
}

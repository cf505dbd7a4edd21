//! Reads a script as a shell would, as far as that can be done without one: its commands, each as words. Must not know what
//! any word means.
//!
//! A variable counts as empty, since runs have a clean environment, and what a command would print is not known; either is
//! told as lost. So is nothing that a shell takes for itself: quotes, comments, and where output goes.

/// Most subshells that a command is known to be in.
const SUBSHELLS_MAX: usize = 16;

/// A command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScriptCommand {
    /// Its words, without quotes.
    pub(super) words: Vec<String>,
    /// What of it only a shell can read, as it is written: `$FLAGS`.
    pub(super) lost: Vec<String>,
    /// The whole of it, as it is written.
    pub(super) text: String,
    /// What stands between it and the next one.
    pub(super) then: Separator,
    /// Whether it reads what the one before it prints.
    pub(super) is_piped: bool,
    /// The subshells that it is in, the outermost first, each by its number in the script.
    pub(super) within: Vec<usize>,
}

/// What stands after a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Separator {
    /// `&&`, `;`, a parenthesis or nothing.
    #[default]
    Next,
    /// `|`
    Pipe,
    /// `||`
    Else,
    /// `&`
    Beside,
}

/// The commands of a script, in its order.
pub(super) fn commands(script: &str) -> Vec<ScriptCommand> {
    let mut lexer = Lexer { chars: Source { text: script, at: 0 }, ..Lexer::default() };
    lexer.read();
    lexer.commands
}

/// A script's characters, and how far they were read.
#[derive(Default)]
struct Source<'a> {
    text: &'a str,
    at: usize,
}

impl Source<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next_if(&mut self, is_it: impl FnOnce(char) -> bool) -> Option<char> {
        let char = self.peek().filter(|char| is_it(*char))?;
        self.at += char.len_utf8();
        Some(char)
    }
}

impl Iterator for Source<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        self.next_if(|_| true)
    }
}

#[derive(Default)]
struct Lexer<'a> {
    chars: Source<'a>,
    /// Where the current command begins.
    from: usize,
    commands: Vec<ScriptCommand>,
    command: ScriptCommand,
    word: String,
    /// Whether there is a word, which may be empty where it was quoted.
    begun: bool,
    /// Whether the next word says where output goes.
    is_place: bool,
    /// Subshells that are open, and how many there were.
    within: Vec<usize>,
    subshells: usize,
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
                (None, '&') if self.chars.peek() == Some('>') => {}
                (None, '&' | '|' | ';' | '(' | ')' | '\n') => {
                    let end = self.chars.at - char.len_utf8();
                    self.end_command(end, char);
                }
                (None, '#') if !self.begun => {
                    let end = self.chars.at - char.len_utf8();
                    self.until(|char| char == '\n');
                    self.end_command(end, '\n');
                }
                (None, _) if char.is_whitespace() => self.end_word(),
                _ => {
                    self.word.push(char);
                    self.begun = true;
                }
            }
        }
        self.end_command(self.chars.at, '\n');
    }

    fn dollar(&mut self) {
        match self.chars.peek() {
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
                while let Some(char) = self.chars.next_if(|char| char.is_ascii_alphanumeric() || char == '_') {
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
        while self.chars.next_if(|char| ">|<&".contains(char)).is_some() {}
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

    /// A command ends before the byte `end`, where `by` stands.
    fn end_command(&mut self, end: usize, by: char) {
        self.end_word();
        self.is_place = false;
        let twice = self.chars.next_if(|char| char == by && "&|".contains(char)).is_some();
        let then = match (by, twice) {
            ('&', false) => Separator::Beside,
            ('|', false) => Separator::Pipe,
            ('|', true) => Separator::Else,
            _ => Separator::Next,
        };
        let from = std::mem::replace(&mut self.from, self.chars.at);
        let mut command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            let text = self.chars.text.get(from..end).unwrap_or_default();
            text.trim().clone_into(&mut command.text);
            command.then = then;
            command.within.clone_from(&self.within);
            command.is_piped = self.commands.last().is_some_and(|before| before.then == Separator::Pipe);
            self.commands.push(command);
        }
        match by {
            '(' if self.within.len() < SUBSHELLS_MAX => {
                self.within.push(self.subshells);
                self.subshells += 1;
            }
            // Of what opens no subshell too: `case x in a)`.
            ')' => _ = self.within.pop(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Vec<String> {
        let of = |command: ScriptCommand| format!("{}|{}", command.words.join(" "), command.lost.join(" "));
        commands(script).into_iter().map(of).collect()
    }

    #[test]
    fn a_shells_own_is_taken_off_and_what_only_it_can_read_is_told() {
        let texts = |script: &str| {
            commands(script).into_iter().map(|one| (one.text, one.then, one.is_piped)).collect::<Vec<_>>()
        };
        let one = |text: &str, then, is_piped| (text.to_owned(), then, is_piped);
        assert_eq!(
            texts("A=b 'c d' && e \"$f\"|g || h >x 2>&1 & ü; (i) # j"),
            [
                one("A=b 'c d'", Separator::Next, false),
                one("e \"$f\"", Separator::Pipe, false),
                one("g", Separator::Else, true),
                one("h >x 2>&1", Separator::Beside, false),
                one("ü", Separator::Next, false),
                one("i", Separator::Next, false),
            ]
        );
        assert_eq!(read("a &> b"), ["a|"]);
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

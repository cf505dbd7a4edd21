//! Splits a script into its commands and words, as far as that is possible without a shell.
//!
//! A variable counts as empty, since runs have a clean environment, and the output of a substitution is unknown; both are recorded as
//! unread. Quotes, comments and redirections belong to the shell and are removed.

/// Deepest nesting of subshells that is followed.
const SUBSHELLS_MAX: usize = 16;

/// A command of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ScriptCommand {
    /// Its words, without quotes.
    pub(super) words: Vec<String>,
    /// Parts that only a shell can read, as written: `$FLAGS`.
    pub(super) unread: Vec<String>,
    /// The whole command as written.
    pub(super) text: String,
    /// The separator between it and the next command.
    pub(super) separator: Separator,
    /// Whether it reads the output of the command before it.
    pub(super) is_piped: bool,
    /// The subshells it is in, the outermost first, each by its number in the script.
    pub(super) within: Vec<usize>,
}

/// The separator after a command.
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
    Background,
}

/// The commands of a script, in order.
pub(super) fn commands(script: &str) -> Vec<ScriptCommand> {
    let mut lexer = Lexer { chars: Source { text: script, at: 0 }, ..Lexer::default() };
    lexer.read();
    lexer.commands
}

/// A script's characters, and the position of the reader.
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
    /// Start of the current command.
    from: usize,
    commands: Vec<ScriptCommand>,
    command: ScriptCommand,
    word: String,
    /// Whether a word has started; it may be empty if quoted.
    has_word: bool,
    /// Whether the next word is the target of a redirection.
    is_redirection_target: bool,
    /// Open subshells, and the number of subshells so far.
    within: Vec<usize>,
    subshells: usize,
}

impl Lexer<'_> {
    fn read(&mut self) {
        let mut quote = None;
        while let Some(char) = self.chars.next() {
            match (quote, char) {
                (Some(open), _) if char == open => quote = None,
                (None, '\'' | '"') => (quote, self.has_word) = (Some(char), true),
                (None | Some('"'), '\\') => {
                    self.word.extend(self.chars.next());
                    self.has_word = true;
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
                (None, '#') if !self.has_word => {
                    let end = self.chars.at - char.len_utf8();
                    self.until(|char| char == '\n');
                    self.end_command(end, '\n');
                }
                (None, _) if char.is_whitespace() => self.end_word(),
                _ => {
                    self.word.push(char);
                    self.has_word = true;
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
                // Variables are empty, so the default applies.
                match inner.split_once(":-").or_else(|| inner.split_once("-")) {
                    Some((_, value)) => self.add(value),
                    None => self.command.unread.push(format!("${text}}}")),
                }
            }
            // The arguments of the script itself: there are none.
            Some('@' | '*') => drop(self.chars.next()),
            Some(first) if first.is_ascii_alphanumeric() || first == '_' => {
                let mut name = String::from("$");
                while let Some(char) = self.chars.next_if(|char| char.is_ascii_alphanumeric() || char == '_') {
                    name.push(char);
                }
                self.command.unread.push(name);
            }
            _ => self.add("$"),
        }
    }

    /// The output of a substitution is unknown, except for the directory of a package manager's programs: `$(yarn bin jest)`.
    fn substitution(&mut self, text: &str, written: String) {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["npm" | "pnpm" | "yarn", "bin"] => self.add("node_modules/.bin"),
            ["npm" | "pnpm" | "yarn", "bin", program] => self.add(&format!("node_modules/.bin/{program}")),
            _ => self.command.unread.push(written),
        }
    }

    /// `2>&1`, `> file`, `< file`.
    fn redirection(&mut self) {
        if self.word.chars().all(|char| char.is_ascii_digit()) {
            (self.word, self.has_word) = (String::new(), false);
        }
        self.end_word();
        while self.chars.next_if(|char| ">|<&".contains(char)).is_some() {}
        self.is_redirection_target = true;
    }

    /// Reads up to the first character that satisfies `ends`, and skips that one.
    fn until(&mut self, mut ends: impl FnMut(char) -> bool) -> String {
        self.chars.by_ref().take_while(|char| !ends(*char)).collect()
    }

    fn add(&mut self, text: &str) {
        self.word.push_str(text);
        self.has_word = true;
    }

    fn end_word(&mut self) {
        if std::mem::take(&mut self.has_word) {
            let word = std::mem::take(&mut self.word);
            if !std::mem::take(&mut self.is_redirection_target) {
                self.command.words.push(word);
            }
        }
    }

    /// Ends a command before the byte `end`, at the separator `by`.
    fn end_command(&mut self, end: usize, by: char) {
        self.end_word();
        self.is_redirection_target = false;
        let twice = self.chars.next_if(|char| char == by && "&|".contains(char)).is_some();
        let separator = match (by, twice) {
            ('&', false) => Separator::Background,
            ('|', false) => Separator::Pipe,
            ('|', true) => Separator::Else,
            _ => Separator::Next,
        };
        let from = std::mem::replace(&mut self.from, self.chars.at);
        let mut command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            let text = self.chars.text.get(from..end).unwrap_or_default();
            text.trim().clone_into(&mut command.text);
            command.separator = separator;
            command.within.clone_from(&self.within);
            command.is_piped = self.commands.last().is_some_and(|before| before.separator == Separator::Pipe);
            self.commands.push(command);
        }
        match by {
            '(' if self.within.len() < SUBSHELLS_MAX => {
                self.within.push(self.subshells);
                self.subshells += 1;
            }
            // Also a parenthesis that opens no subshell: `case x in a)`.
            ')' => _ = self.within.pop(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(script: &str) -> Vec<String> {
        let render = |command: ScriptCommand| format!("{}|{}", command.words.join(" "), command.unread.join(" "));
        commands(script).into_iter().map(render).collect()
    }

    #[test]
    fn removes_shell_syntax_and_records_what_only_a_shell_can_read() {
        let texts = |script: &str| {
            commands(script).into_iter().map(|one| (one.text, one.separator, one.is_piped)).collect::<Vec<_>>()
        };
        let one = |text: &str, then, is_piped| (text.to_owned(), then, is_piped);
        assert_eq!(
            texts("A=b 'c d' && e \"$f\"|g || h >x 2>&1 & ü; (i) # j"),
            [
                one("A=b 'c d'", Separator::Next, false),
                one("e \"$f\"", Separator::Pipe, false),
                one("g", Separator::Else, true),
                one("h >x 2>&1", Separator::Background, false),
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

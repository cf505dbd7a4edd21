//! Reads what a runner prints when it cannot load a file: Node's words about an error, with its place before them or in a
//! stack. Must not know how a run went on.

/// What Mocha says before them: of a file of tests, and of one that is to be loaded before.
const BEGIN: [&str; 2] = ["Exception during run: ", "✖ ERROR: "];

/// A line without what Mocha says before it.
fn own(line: &str) -> &str {
    let line = line.trim_start();
    BEGIN.iter().find_map(|begin| line.strip_prefix(begin)).unwrap_or(line)
}

/// The error's own line, after its place, the line of code and the caret that V8 puts before it.
fn error(said: &str) -> Option<(usize, &str)> {
    let mut lines = said.lines().enumerate().map(|(at, line)| (at, own(line)));
    lines.find(|(_, line)| {
        let kind = line.split([':', '[', ' ']).next().unwrap_or_default();
        kind.ends_with("Error") && line.contains(": ")
    })
}

/// What the error says: `SyntaxError: Unexpected token ';'`, and of a plain one its message alone.
pub(crate) fn error_reason(said: &str) -> Option<String> {
    let (_, line) = error(said)?;
    let (kind, message) = line.split_once(": ")?;
    let kind = kind.split(['[', ' ']).next().unwrap_or_default();
    Some(if kind == "Error" { message.to_owned() } else { format!("{kind}: {message}") })
}

/// The file and line that the error is about.
pub(crate) fn error_location(said: &str) -> Option<(String, u32)> {
    let (at, line) = error(said)?;
    let is_own = |(file, _): &(String, u32)| !file.contains("/node_modules/") && !file.starts_with("node:");
    let before = said.lines().take(at).filter_map(|line| place(own(line), 1));
    let frames = said.lines().skip(at + 1).filter_map(|line| place(line.trim().strip_prefix("at ")?, 2));
    // Mocha adds the file to the error of a module that does not compile, and Node to those of a manifest that it cannot read
    // and of a module that is not there.
    let between = |before, after| line.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    let named = between("[ @", " ]").or_else(|| between(": Error parsing ", ": ")).map(|(file, _)| file);
    let named = named.or_else(|| line.rsplit_once(" imported from ").map(|(_, file)| file));
    let named = named.map(|file| (file.trim_start_matches("file://").to_owned(), 1));
    before.filter(is_own).last().or(named).or_else(|| frames.filter(is_own).find(|(file, _)| file.starts_with('/')))
}

/// A file and a line from `f (/a/b.js:1:2)` or `/a/b.js:1`, with that many numbers at its end.
fn place(text: &str, numbers: usize) -> Option<(String, u32)> {
    let text = text.trim_end_matches(')');
    let mut parts = text.rsplitn(numbers + 1, ':');
    let line = (0..numbers).map(|_| parts.next().and_then(|number| number.parse::<u32>().ok())).last()??;
    let file = parts.next()?;
    let file = file.rsplit_once(" (").map_or(file, |(_, file)| file).trim_start_matches("async ");
    let file = file.trim_start_matches("file://");
    file.starts_with('/').then(|| (file.to_owned(), line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_node_says_is_told_with_its_place() {
        let read = |said: &str| {
            let (file, line) = error_location(said).unwrap_or_default();
            format!("{file}:{line} {}", error_reason(said).unwrap_or_default())
        };
        for (said, told) in [
            (
                "\n Exception during run: Error: Cannot find module './missing'\nRequire stack:\n- /w/b.js\n    at M (node:internal/a:1:2)\n    at f (/w/node_modules/x/y.js:1:2)\n    at Object.<anonymous> (/w/b.js:3:11)\n",
                "/w/b.js:3 Cannot find module './missing'",
            ),
            (
                "\n Exception during run: /w/b.js:7\nconst x = ;\n          ^\n\nSyntaxError: Unexpected token ';'\n    at wrapSafe (node:internal/m:1:2)\n",
                "/w/b.js:7 SyntaxError: Unexpected token ';'",
            ),
            (
                " Exception during run: SyntaxError[ @/w/b.mjs ]: Identifier 'a' has already been declared\n    at c (node:i:1:2)",
                "/w/b.mjs:1 SyntaxError: Identifier 'a' has already been declared",
            ),
            (
                " Exception during run: Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/w/m.js' imported from /w/b.js\n    at f (node:i:1:2) {",
                "/w/b.js:1 Cannot find module '/w/m.js' imported from /w/b.js",
            ),
            (
                "/w/b.js:1\ndescribe('d')\n   ^\n\nTypeError: no\n    at Suite.<anonymous> (/w/b.js:1:35)\n    at async file:///w/c.mjs:9:1",
                "/w/b.js:1 TypeError: no",
            ),
            (" Exception during run: TypeError: top\n    at async file:///w/c.mjs:9:1\n", "/w/c.mjs:9 TypeError: top"),
            (
                "node:internal/modules/package_json_reader:93\n        throw error;\n        ^\n\nSyntaxError: Error parsing /w/package.json: Expected double-quoted property name in JSON at position 42\n    at parse (<anonymous>)\n    at read (node:internal/modules/package_json_reader:80:16) {\n  path: '/w/package.json'\n}\n\nNode.js v20.20.2\n",
                "/w/package.json:1 SyntaxError: Error parsing /w/package.json: Expected double-quoted property name in JSON at position 42",
            ),
            (
                "\n✖ ERROR: TypeError: Cannot read properties of undefined (reading 'x')\n    at f (/w/node_modules/t/i.js:1:2)\n    at Object.<anonymous> (/w/setup.js:4:1)\n    at async runCommand (file:///w/node_modules/mocha/lib/cli/cli.js:91:5)\n",
                "/w/setup.js:4 TypeError: Cannot read properties of undefined (reading 'x')",
            ),
            ("nothing of the kind", ":0 "),
        ] {
            assert_eq!(read(said), told);
        }
    }
}

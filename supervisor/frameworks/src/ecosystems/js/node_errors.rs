//! Reads Node's error output of a file that could not be loaded: the message, and the place before it or in a stack.

/// What Mocha prints before Node's error, for a test file and for a file that is loaded before.
const MOCHA_PREFIXES: [&str; 2] = ["Exception during run: ", "✖ ERROR: "];

/// The line without Mocha's prefix.
fn without_prefix(line: &str) -> &str {
    let line = line.trim_start();
    MOCHA_PREFIXES.iter().find_map(|begin| line.strip_prefix(begin)).unwrap_or(line)
}

/// Index and text of the line with the error itself. V8 prints the place, the source line and a caret before it.
fn find_error(output: &str) -> Option<(usize, &str)> {
    let mut lines = output.lines().enumerate().map(|(at, line)| (at, without_prefix(line)));
    lines.find(|(_, line)| {
        let kind = line.split([':', '[', ' ']).next().unwrap_or_default();
        kind.ends_with("Error") && line.contains(": ")
    })
}

/// The error's message: `SyntaxError: Unexpected token ';'`, and of a plain `Error` the message alone.
pub(crate) fn error_reason(output: &str) -> Option<String> {
    let (_, line) = find_error(output)?;
    let (kind, message) = line.split_once(": ")?;
    let kind = kind.split(['[', ' ']).next().unwrap_or_default();
    Some(if kind == "Error" { message.to_owned() } else { format!("{kind}: {message}") })
}

/// The file and line of the error.
pub(crate) fn error_location(output: &str) -> Option<(String, u32)> {
    let (at, line) = find_error(output)?;
    let is_project_file = |(file, _): &(String, u32)| !file.contains("/node_modules/") && !file.starts_with("node:");
    let before = output.lines().take(at).filter_map(|line| place(without_prefix(line), 1));
    let frames = output.lines().skip(at + 1).filter_map(|line| place(line.trim().strip_prefix("at ")?, 2));
    // Mocha adds the file to the error of a module that does not compile; Node adds it to the error of a manifest that it cannot
    // read and of a missing module.
    let between = |before, after| line.split_once(before).and_then(|(_, rest)| rest.split_once(after));
    let named = between("[ @", " ]").or_else(|| between(": Error parsing ", ": ")).map(|(file, _)| file);
    let named = named.or_else(|| line.rsplit_once(" imported from ").map(|(_, file)| file));
    let named = named.map(|file| (file.trim_start_matches("file://").to_owned(), 1));
    before
        .filter(is_project_file)
        .last()
        .or(named)
        .or_else(|| frames.filter(is_project_file).find(|(file, _)| file.starts_with('/')))
}

/// Parses a file and a line out of `f (/a/b.js:1:2)` or `/a/b.js:1`, which ends in `numbers` numbers.
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
    fn reads_the_message_and_the_place() {
        let read = |output: &str| {
            let (file, line) = error_location(output).unwrap_or_default();
            format!("{file}:{line} {}", error_reason(output).unwrap_or_default())
        };
        for (output, expected) in [
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
            assert_eq!(read(output), expected);
        }
    }
}

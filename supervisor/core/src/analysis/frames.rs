//! Frames of the project in the stacks of reports, whatever the language. A stack in a report names the project's files relative to the
//! workspace and other files by absolute paths.

/// Directories of installed packages, whose files are not the project's own.
const INSTALLED: [&str; 7] =
    ["site-packages/", "dist-packages/", "node_modules/", "vendor/", "gems/", ".yarn/", "rustc/"];

/// Extensions of source files: what else has a dot and a number behind it, as a host with a port, is no frame.
const SOURCES: [&str; 40] = [
    "go", "py", "pyi", "pyx", "js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx", "vue", "svelte", "rs", "java",
    "kt", "kts", "groovy", "scala", "rb", "rake", "erb", "php", "phtml", "c", "cc", "cpp", "cxx", "h", "hh", "hpp",
    "hxx", "m", "mm", "swift", "sh", "yaml", "yml", "feature",
];

/// Most lines of a stack that are read.
const LINES_MAX: usize = 200;

/// A frame in a file of the project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectFrame<'a> {
    pub(super) file: &'a str,
    pub(super) line: u32,
    /// The function, where the stack names one that is not anonymous.
    pub(super) function: Option<&'a str>,
}

/// The frames of the project in `stack`, in its order.
pub(super) fn project_frames(stack: &str) -> Vec<ProjectFrame<'_>> {
    let mut frames = Vec::new();
    let mut before = "";
    for text in stack.lines().take(LINES_MAX) {
        if let Some((file, line)) = place(text) {
            let function = function(text).or_else(|| function_above(before)).filter(|name| is_named(name));
            frames.push(ProjectFrame { file, line, function });
        }
        before = text;
    }
    frames
}

/// The first `file:line` of a text whose file could be the project's.
pub(super) fn place(text: &str) -> Option<(&str, u32)> {
    text.match_indices(':').find_map(|(at, _)| {
        let digits = &text[at + 1..];
        let digits = &digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())];
        let line: u32 = digits.parse().ok().filter(|line| *line > 0)?;
        let start = text[..at].rfind([' ', '(', '\t', '"', '\'', '`', ':']).map_or(0, |before| before + 1);
        let file = text[start..at].trim_start_matches("./");
        is_project_file(file).then_some((file, line))
    })
}

/// Whether a path is that of a file of the project, as far as its form tells.
pub(super) fn is_project_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, extension)| extension);
    let is_source = extension.is_some_and(|extension| SOURCES.contains(&extension));
    is_source && !is_foreign(path)
}

/// Whether a path leads out of the project or into an installed package.
pub(super) fn is_foreign(path: &str) -> bool {
    let is_installed = INSTALLED.iter().any(|directory| path.contains(directory));
    path.starts_with(['/', '<']) || path.contains("../") || is_installed
}

// `a.py:3 in f`, `at f (a.js:1:2)`, "a.rb:2:in `f'".
fn function(text: &str) -> Option<&str> {
    let text = text.trim();
    if let Some((_, after)) = text.split_once(":in ") {
        return Some(after.trim_matches(['`', '\'']));
    }
    if let Some(called) = text.strip_prefix("at ") {
        let (name, _) = called.split_once('(')?;
        return Some(name.trim().trim_start_matches("async "));
    }
    text.split_once(" in ").map(|(_, name)| name.trim())
}

// Go and Rust print the function on the line above its place: `shop.Add(0x0)`, `   3: shop::add`.
fn function_above(text: &str) -> Option<&str> {
    let text = text.trim().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(": ");
    let name = text.rfind('(').filter(|at| *at > 0).map_or(text, |at| &text[..at]);
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

fn is_named(name: &str) -> bool {
    !name.is_empty() && !name.contains(['<', ' ']) && !name.ends_with("Object.") && name != "testing.tRunner"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_frames_of_each_language() {
        for (stack, frames) in [
            (
                "shop.py:5 in price\n    return x.price\ntest_shop.py:4 in test_price",
                "shop.py:5 price, test_shop.py:4 test_price",
            ),
            ("at price (src/price.ts:6:20)\nat price.test.ts:21:5", "src/price.ts:6 price, price.test.ts:21 -"),
            ("at Object.<anonymous> (a.test.js:9:5)\nat x (/usr/lib/node/y.js:1:1)", "a.test.js:9 -"),
            (
                "IOError: no\nlib/shout.rb:2:in `shout'\nspec/a_spec.rb:22:in `block (2 levels)'",
                "lib/shout.rb:2 shout, spec/a_spec.rb:22 -",
            ),
            ("DivisionByZeroError: Division by zero\nsrc/a.php:6", "src/a.php:6 -"),
            (
                "goroutine 7 [running]:\nexample.com/shop.(*Store).Add(0x0)\n\tstore.go:5 +0x1d\ntesting.tRunner(0xc0)\n\t/usr/go/testing.go:1689 +0xfb",
                "store.go:5 example.com/shop.(*Store).Add",
            ),
            ("   3: shop::first\n             at ./src/lib.rs:2:5", "src/lib.rs:2 shop::first"),
            ("at shop.Shop.length(Shop.java:4)", "Shop.java:4 shop.Shop.length"),
            ("a.py:1 in f\n/w/venv/site-packages/p.py:3 in g\nvenv/lib/site-packages/q.py:1 in h", "a.py:1 f"),
            ("took 12:30:01, 127.0.0.1:80 and http://x:80", ""),
        ] {
            let found: Vec<String> = project_frames(stack)
                .iter()
                .map(|frame| format!("{}:{} {}", frame.file, frame.line, frame.function.unwrap_or("-")))
                .collect();
            assert_eq!(found.join(", "), frames, "{stack}");
        }
    }
}

//! Functions and modules of tests in a source of Rust, by the forms that rustfmt keeps. No parser: what looks like one in a string of
//! several lines is taken for one.

use crate::coverage::LineSpan;

/// Words before the keyword of a function in Rust.
const RUST_QUALIFIERS: [&str; 7] = ["default ", "const ", "async ", "unsafe ", "safe ", "extern ", "\"C\" "];

/// The name of the function that a line of Rust declares.
pub(crate) fn declared_function(line: &str) -> Option<&str> {
    let mut code = line.trim_start();
    if let Some(rest) = code.strip_prefix("pub") {
        code = match rest.strip_prefix('(') {
            Some(rest) => rest.split_once(')')?.1.trim_start(),
            None => rest.strip_prefix(' ')?,
        };
    }
    while let Some(rest) = RUST_QUALIFIERS.iter().find_map(|word| code.strip_prefix(word)) {
        code = rest;
    }
    let name = code.strip_prefix("fn ")?;
    let name = &name[..name.find(['(', '<'])?];
    (!name.is_empty() && !name.contains(' ')).then_some(name)
}

/// Lines of the modules that are compiled for tests only, in order.
pub(crate) fn test_modules(source: &str) -> Vec<LineSpan> {
    let (mut modules, mut is_marked, mut open) = (Vec::new(), false, None);
    for (number, line) in (1..).zip(source.lines()) {
        let code = line.trim_start();
        let indent = line.len() - code.len();
        if let Some((first, of_module)) = open {
            if indent == of_module && code.starts_with('}') {
                modules.push(LineSpan { first, last: number });
                open = None;
            }
        } else if code.trim_end() == "#[cfg(test)]" {
            is_marked = true;
        } else if !code.is_empty() && !code.starts_with("#[") && !code.starts_with("//") {
            let is_module = code.starts_with("mod ") || code.starts_with("pub mod ");
            open = (is_marked && is_module && code.trim_end().ends_with('{')).then_some((number, indent));
            is_marked = false;
        }
    }
    // A module without an end has all lines behind it.
    modules.extend(open.map(|(first, _)| LineSpan { first, last: u32::MAX }));
    modules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::spans_to_text;

    #[test]
    fn reads_the_name_of_a_function() {
        for (line, name) in [
            ("fn a() {", Some("a")),
            ("    pub(in crate::b) const unsafe extern \"C\" fn a<T>(t: T)", Some("a")),
            ("pub async fn a(", Some("a")),
            ("pub f: fn(u8) -> u8,", None),
            ("fn", None),
            ("let fn_a = 1;", None),
        ] {
            assert_eq!(declared_function(line), name, "{line}");
        }
    }

    #[test]
    fn finds_the_modules_of_tests() {
        let source = "fn a() {}\n\n#[cfg(test)]\n#[allow(x)]\nmod tests {\n    fn b() {\n    }\n}\n#[cfg(test)]\nuse x;\n\
                      mod c {\n}\n#[cfg(test)]\nmod d;\n#[cfg(test)]\nmod e {\n";
        assert_eq!(spans_to_text(&test_modules(source)), format!("5-8,16-{}", u32::MAX));
        assert_eq!(test_modules(""), []);
    }
}

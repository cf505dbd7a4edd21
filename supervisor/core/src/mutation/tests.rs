//! The mutants of small texts, and what holds for every text.

use super::{Language, choose, mutants};
use proptest::prelude::*;

/// The changed lines of a text.
fn changed(language: Language, text: &str) -> Vec<String> {
    mutants(language, text).iter().map(|mutant| mutant.lines(text).1).collect()
}

#[test]
fn mutates_python() {
    let table: [(&str, &[&str]); 24] = [
        ("if a < b:", &["if a <= b:"]),
        ("x = a in b", &["x = a not in b"]),
        ("x = a not in b", &["x = a in b"]),
        ("for a in b:", &[]),
        ("y = [a for a in b if a in c]", &["y = [a for a in b if a not in c]"]),
        ("x = a is None", &["x = a is not None"]),
        ("x = a is not None", &["x = a is None"]),
        ("x = not a and b", &["x = a and b", "x = not a or b"]),
        ("x = a // 2", &["x = a * 2", "x = a // 3"]),
        ("x = -1", &["x = -2"]),
        ("f(*a, **b)", &["pass"]),
        ("def f(a, *, b: int = 3) -> bool:", &["def f(a, *, b: int = 4) -> bool:"]),
        ("x: Literal[1] = y", &[]),
        ("x = 'a < b' + c  # 1 < 2", &[]),
        ("x = f'{a < b}' % 1", &["x = f'{a < b}' % 2"]),
        ("\"\"\"a < b\n1 + 2\"\"\"", &[]),
        ("return a", &["return None"]),
        ("return None", &[]),
        ("return (a,\n  b)", &[]),
        ("self.items.append(a)", &["pass"]),
        ("print(a)", &[]),
        ("x = f(a)", &[]),
        ("if ready(a):", &["if not (ready(a)):"]),
        ("while True:\n    break", &["while False:", "continue"]),
    ];
    for (text, expected) in table {
        assert_eq!(changed(Language::Python, text), expected, "{text}");
    }
}

#[test]
fn mutates_go() {
    let table: [(&str, &[&str]); 19] = [
        ("if a <= b {", &["if a < b {"]),
        ("x := <-c", &[]),
        ("func f(p *T, q []*T) *T {", &[]),
        ("x := a*b + 2", &["x := a/b + 2", "x := a*b - 2", "x := a*b + 3"]),
        ("x := *p", &[]),
        ("i++", &["i--"]),
        ("x := a && !b", &["x := a || !b", "x := a && b"]),
        ("x := \"a < b\" + `c\n&& d` // 1", &[]),
        ("x := 'a' /* 1 < 2 */", &[]),
        ("return x, err", &["return x, nil"]),
        ("return nil, fmt.Errorf(\"a %d\", n)", &["return nil, nil"]),
        ("return x", &[]),
        ("s.add(a)", &["{}"]),
        ("x := f(\n\tg(a),\n)", &[]),
        ("if v, ok := m[k]; ok {", &["if v, ok := m[k]; !(ok) {"]),
        ("for {\nbreak\n}", &["continue"]),
        ("switch a {\ncase b:\nbreak\n}", &[]),
        ("return true", &["return false"]),
        ("type T [4]int", &[]),
    ];
    for (text, expected) in table {
        assert_eq!(changed(Language::Go, text), expected, "{text}");
    }
}

#[test]
fn mutates_javascript_and_typescript() {
    let table: [(&str, &[&str]); 20] = [
        ("if (a < b) {", &["if (a <= b) {"]),
        ("x = a === b;", &["x = a !== b;"]),
        ("const m = new Map<string, Array<number>>();", &[]),
        ("type A = 1 | 2;", &[]),
        ("const x: 1 | 2 = y;", &[]),
        ("x = a / b / c;", &["x = a * b / c;", "x = a / b * c;"]),
        ("x = y.replace(/a < [/] 1/g, z);", &[]),
        ("x = `a < ${b < `${1 + 2}`} + 1`;", &[]),
        ("x = 'a && b' // c && d", &[]),
        ("x = a! && !b;", &["x = a! || !b;", "x = a! && b;"]),
        ("return a;", &["return undefined;"]),
        ("return a\n  .b();", &[]),
        ("list.push(a);", &["{};"]),
        ("foo(a)\n  .then(b);", &[]),
        ("console.log(a);", &[]),
        ("if (ready(a)) {", &["if (!(ready(a))) {"]),
        ("x = { true: 1 };", &["x = { true: 2 };"]),
        ("x = a <-1;", &["x = a <-2;"]),
        ("describe(() => {\n  save(a);\n});", &["{};"]),
        ("switch (a) { case b: break; }", &[]),
    ];
    for (text, expected) in table {
        for language in [Language::JavaScript, Language::TypeScript] {
            let is_typed = ["<string", "type ", ": 1 |", "a!"].iter().any(|part| text.contains(part));
            if !is_typed || language == Language::TypeScript {
                assert_eq!(changed(language, text), expected, "{text}");
            }
        }
    }
}

#[test]
fn knows_the_sources_of_a_product() {
    for (path, language) in [
        ("a/b.go", Some(Language::Go)),
        ("a/b_test.go", None),
        ("src/a.py", Some(Language::Python)),
        ("tests/helper.py", None),
        ("test_a.py", None),
        ("conftest.py", None),
        ("src/a.mjs", Some(Language::JavaScript)),
        ("src/a.test.js", None),
        ("src/__tests__/a.js", None),
        ("src/a.tsx", Some(Language::TypeScript)),
        ("src/a.d.ts", None),
        ("a.rs", None),
        ("Makefile", None),
    ] {
        assert_eq!(Language::of_product(path), language, "{path}");
    }
}

#[test]
fn chooses_evenly_over_the_lines() {
    let lines = [1, 1, 1, 2, 3, 3, 4, 5, 6, 7];
    assert_eq!(choose(&lines, 20), (0..10).collect::<Vec<_>>());
    assert_eq!(choose(&lines, 3).iter().map(|index| lines[*index]).collect::<Vec<_>>(), [1, 3, 5]);
    let seven = choose(&lines, 7);
    assert_eq!(seven.iter().map(|index| lines[*index]).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(choose(&lines, 0), [0; 0]);
    assert_eq!(choose::<u32>(&[], 5), [0; 0]);
}

/// Strings and comments with what would be mutated anywhere else. None ends a line or a program early.
const MASKED: [(Language, &[&str]); 4] = [
    (Language::Go, &["\"1 < 2 && x\"", "`true == 3`", "/* 4 + 5 */", "\"\\\" != 6\""]),
    (Language::Python, &["'1 < 2 and x'", "\"\"\"True == 3\"\"\"", "rb'\\' != 6'", "f'{7 + 8}'"]),
    (Language::JavaScript, &["'1 < 2 && x'", "`true == ${3 + `${4}`}`", "/* 4 + 5 */", "\"\\\" != 6\""]),
    (Language::TypeScript, &["'1 < 2 && x'", "`true == ${3 + `${4}`}`", "/* 4 + 5 */", "\"\\\" != 6\""]),
];

const CODE: [&str; 10] = ["a", "<", "==", "+", "1", "return", "(", ")", "if", "!"];

proptest! {
    #[test]
    fn a_mutant_changes_one_line_and_no_string_or_comment(
        language in 0_usize..4,
        lines in prop::collection::vec((prop::collection::vec(0_usize..10, 0..6), 0_usize..4, prop::collection::vec(0_usize..10, 0..6)), 1..8),
    ) {
        let (language, masked) = MASKED[language];
        let code = |parts: &[usize]| parts.iter().map(|part| CODE[*part]).collect::<Vec<_>>().join(" ");
        let texts: Vec<String> = lines.iter().map(|(before, text, after)| format!("{} {} {}", code(before), masked[*text], code(after))).collect();
        let text = texts.join("\n");
        for mutant in mutants(language, &text) {
            let changed = mutant.apply(&text);
            let after: Vec<&str> = changed.split('\n').collect();
            prop_assert_eq!(after.len(), texts.len());
            let different: Vec<usize> = (0..texts.len()).filter(|line| texts[*line] != after[*line]).collect();
            prop_assert_eq!(different, vec![mutant.line as usize - 1], "{:?}", mutant);
            let touches = |line: usize| {
                let part = masked[lines[line].1];
                let is_whole = mutant.range.len() >= part.len() && matches!(mutant.operator, super::Operator::ReturnValue | super::Operator::Call);
                is_whole || after[line].contains(part)
            };
            prop_assert!((0..texts.len()).all(touches), "{:?} in {:?}", mutant, text);
        }
    }

    #[test]
    fn any_text_has_mutants_of_one_line(text in "[ -~\n\u{e4}\u{1f600}]{0,200}") {
        for language in [Language::Go, Language::Python, Language::JavaScript, Language::TypeScript] {
            for mutant in mutants(language, &text) {
                prop_assert_eq!(mutant.apply(&text).matches('\n').count(), text.matches('\n').count());
                prop_assert_ne!(mutant.apply(&text), text.clone());
            }
        }
    }
}

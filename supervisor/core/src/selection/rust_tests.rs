//! A table of changes of a Cargo workspace with the tests that they select.

use super::tests::{Files, Project, check, files, shown};
use crate::coverage::{Attribution, Calibration, CoverageMeasurement, LineSpan};
use crate::test_case::TestOutcome;

const PRICE: &str = "pub const RATE: u32 = 5;\n\npub fn tax(a: u32) -> u32 {\n    let b = a;\n    b / RATE\n}\n\npub fn refund(a: u32) -> u32 {\n    a\n}\n\npub const fn base() -> u32 {\n    7\n}\n\npub fn unused() -> u32 {\n    9\n}\n";
const CART: &str = "pub fn total(a: u32) -> u32 {\n    price::tax(a)\n}\n";
const SHOP: &str = "pub fn open() -> bool {\n    true\n}\n";
const IT: &str = "#[test]\nfn pays() {\n    cart::total(1);\n}\n";

const TESTS: [(&str, TestOutcome); 7] = [
    ("price.taxes", TestOutcome::Passed),
    ("price.refunds", TestOutcome::Passed),
    ("price::doc/lib.documented", TestOutcome::Passed),
    ("cart.totals", TestOutcome::Passed),
    ("cart::it.pays", TestOutcome::Passed),
    ("shop.opens", TestOutcome::Passed),
    ("shop.ignored", TestOutcome::Skipped),
];

/// The documentation test, which is not measured, and the test that was skipped: selected with any change.
const ALWAYS: [&str; 2] = ["price::doc/lib.documented", "shop.ignored"];

fn workspace() -> Files {
    files(&[
        ("Cargo.toml", "[workspace]\nmembers = ['*']\n"),
        ("Cargo.lock", ""),
        ("README.md", "text"),
        ("price/Cargo.toml", "[package]\nname = 'price'\n"),
        ("price/src/lib.rs", PRICE),
        ("price/src/extra.rs", "pub struct Extra;\n"),
        ("price/data.json", "{}"),
        ("cart/Cargo.toml", "[package]\nname = 'cart'\n[dependencies]\nprice.path = '../price'\n"),
        ("cart/src/lib.rs", CART),
        ("cart/tests/it.rs", IT),
        ("shop/Cargo.toml", "[package]\nname = 'shop'\n"),
        ("shop/src/lib.rs", SHOP),
        ("tool/Cargo.toml", "[package]\nname = 'tool'\n"),
        ("tool/src/lib.rs", SHOP),
    ])
}

fn measured(unit: &str, test: &str, lines: &[(&str, u32, u32)]) -> CoverageMeasurement {
    let files =
        lines.iter().map(|(file, first, last)| ((*file).to_owned(), vec![LineSpan { first: *first, last: *last }]));
    CoverageMeasurement {
        package: unit.to_owned(),
        tests: vec![test.to_owned()],
        complete: true,
        attribution: Attribution::Test,
        started_processes: false,
        kept: Vec::new(),
        calibration: Calibration::None,
        files: files.collect(),
    }
}

fn coverage() -> Vec<CoverageMeasurement> {
    vec![
        measured("price", "taxes", &[("price/src/lib.rs", 3, 6)]),
        measured("price", "refunds", &[("price/src/lib.rs", 8, 10)]),
        measured("cart", "totals", &[("price/src/lib.rs", 3, 6), ("cart/src/lib.rs", 1, 3)]),
        measured(
            "cart::it",
            "pays",
            &[("price/src/lib.rs", 3, 6), ("cart/src/lib.rs", 1, 3), ("cart/tests/it.rs", 2, 4)],
        ),
        measured("shop", "opens", &[("shop/src/lib.rs", 1, 3)]),
    ]
}

fn project_of(files: &Files) -> Project {
    Project::new("cargo", files, &TESTS, coverage())
}

fn with_others(names: &[&str]) -> String {
    let mut names: Vec<&str> = names.iter().chain(&ALWAYS).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

#[test]
fn selects_the_targets_that_executed_a_function_or_are_built_with_the_package() {
    let tax = PRICE.replace("let b = a;", "let b = a + 1;\n    let c = b;");
    let refund = PRICE.replace("    a\n", "    a + 1\n");
    let [unused, constant, base] = [("    9\n", "    8\n"), ("RATE: u32 = 5", "RATE: u32 = 6"), ("    7\n", "    6\n")]
        .map(|(old, new)| PRICE.replace(old, new));
    let (own, dependent) = (["price.refunds", "price.taxes"], ["cart.totals", "cart::it.pays"]);
    let of_price = with_others(&[&own[..], &dependent].concat());
    let of_tests = with_others(&["cart::it.pays"]);
    let rows: &[(&str, Option<&str>, &str)] = &[
        ("price/src/lib.rs", Some(&tax), &of_price),
        ("price/src/lib.rs", Some(&refund), &with_others(&own)),
        // Executed by no test, not in a function, and executed by the compiler.
        ("price/src/lib.rs", Some(&unused), &of_price),
        ("price/src/lib.rs", Some(&constant), &of_price),
        ("price/src/lib.rs", Some(&base), &of_price),
        ("price/src/extra.rs", Some("pub struct More;\n"), &of_price),
        ("price/src/extra.rs", None, &of_price),
        ("price/src/new.rs", Some("pub struct New;\n"), &of_price),
        (
            "cart/src/lib.rs",
            Some("pub fn total(a: u32) -> u32 {\n    price::tax(a) + 1\n}\n"),
            &with_others(&dependent),
        ),
        ("cart/tests/it.rs", Some("#[test]\nfn pays() {\n    cart::total(2);\n}\n"), &of_tests),
        ("cart/tests/it.rs", Some("#[test]\nfn pays_more() {\n    cart::total(1);\n}\n"), &of_tests),
        ("shop/src/lib.rs", Some("pub fn open() -> bool {\n    false\n}\n"), &with_others(&["shop.opens"])),
        ("README.md", Some("other"), &with_others(&[])),
    ];
    check(&project_of(&workspace()), &workspace(), rows);
}

#[test]
fn selects_all_tests_where_it_cannot_tell() {
    let any = |file: &str, how: &str| format!("full: {file} was {how}, and any test may read it");
    let target = |file: &str, how: &str| {
        format!(
            "full: {file} was {how}, and it may be a test file: Cargo finds the tests and programs of this directory by itself"
        )
    };
    let rows: &[(&str, Option<&str>, &str)] = &[
        ("Cargo.toml", Some("[workspace]\n"), "full: Cargo.toml, a build file, was changed"),
        ("Cargo.lock", Some("x"), "full: Cargo.lock, a lock file, was changed"),
        ("price/build.rs", Some("fn main() {}\n"), "full: price/build.rs, a build file, was added"),
        (".cargo/config.toml", Some("x"), "full: .cargo/config.toml, a build file, was added"),
        ("rust-toolchain.toml", Some("x"), "full: rust-toolchain.toml, the choice of a toolchain, was added"),
        ("price/data.json", Some("x"), &any("price/data.json", "changed")),
        ("tool/src/lib.rs", Some("x"), &any("tool/src/lib.rs", "changed")),
        ("cart/tests/new.rs", Some("x"), &target("cart/tests/new.rs", "added")),
        ("cart/tests/it.rs", None, &target("cart/tests/it.rs", "removed")),
        (
            "other/src/lib.rs",
            Some("x"),
            "full: other/src/lib.rs was added, and it belongs to no package of the workspace",
        ),
    ];
    check(&project_of(&workspace()), &workspace(), rows);
}

/// What a change of the text of `price/src/lib.rs` selects in a workspace with more files.
fn selected_with(more: &[(&str, &str)], text: &str) -> String {
    let mut before = workspace();
    before.extend(files(more));
    let project = project_of(&before);
    before.insert("price/src/lib.rs".to_owned(), text.to_owned());
    shown(&project.select(&before))
}

#[test]
fn what_other_sources_do_selects_more() {
    let refund = PRICE.replace("    a\n", "    a + 1\n");
    let longer = PRICE.replace("    a\n", "    let b = a;\n    b\n");
    let shifted =
        PRICE.replace("    a\n", "    let b = a;\n    b\n").replace("    let b = a;\n    b / RATE", "    a / RATE");
    let (own, all) = (
        with_others(&["price.refunds", "price.taxes"]),
        with_others(&["cart.totals", "cart::it.pays", "price.refunds", "price.taxes"]),
    );
    let with_tests = with_others(&["cart::it.pays", "price.refunds", "price.taxes"]);
    let shop = ("shop/Cargo.toml", "[package]\nname = 'shop'\n[build-dependencies]\nprice.path = '../price'\n");
    for (more, text, expected) in [
        (&[][..], &refund, own.as_str()),
        (
            &[("cart/tests/it.rs", "let text = include_str!(\"../../price/src/lib.rs\");")],
            &refund,
            "full: sources or settings with `#[path]` or `include!` of another directory load modules by a convention that no import shows",
        ),
        (
            &[("cart/src/x.rs", "let text = read(\"lib.rs\");")],
            &refund,
            "full: price/src/lib.rs was changed, and any test may read it",
        ),
        (&[("cart/tests/it.rs", "let dir = env!(\"CARGO_MANIFEST_DIR\");")], &refund, &with_tests),
        (&[("cart/src/x.rs", "line!()")], &refund, &own),
        (&[("cart/src/x.rs", "line!()")], &longer, &all),
        // As many lines as before, but others have new numbers.
        (&[("cart/src/x.rs", "line!()")], &shifted, &all),
        (
            &[(
                "cart/Cargo.toml",
                "[package]\nname = 'cart'\n[dependencies]\nprice = { path = '../price', features = ['x'] }\n",
            )],
            &refund,
            "full: a run of some packages may build other programs than a run of all: a package chooses the features of another one",
        ),
        (
            &[shop],
            &refund,
            &with_others(&["cart.totals", "cart::it.pays", "price.refunds", "price.taxes", "shop.opens"]),
        ),
    ] {
        assert_eq!(selected_with(more, text), expected, "{more:?}");
    }
}

#[test]
fn a_target_of_which_a_test_was_not_measured_or_started_processes_runs_with_any_change() {
    let mut missing = coverage();
    missing.retain(|set| set.tests != ["refunds"]);
    let [mut incomplete, mut with_processes] = [coverage(), coverage()];
    incomplete[1].complete = false;
    with_processes[1].started_processes = true;
    let mut now = workspace();
    now.insert("shop/src/lib.rs".to_owned(), SHOP.replace("true", "false"));
    for (measured, is_outdated) in [(missing, false), (incomplete, false), (with_processes, false), (coverage(), true)]
    {
        let mut project = Project::new("nextest", &workspace(), &TESTS, measured);
        if is_outdated {
            project.index.record_unmeasured(&[("price", "refunds")].into());
        }
        assert_eq!(shown(&project.select(&now)), with_others(&["price.refunds", "price.taxes", "shop.opens"]));
    }
}

#[test]
fn the_first_test_of_a_target_is_selected() {
    let mut before = workspace();
    before.remove("cart/src/lib.rs");
    let tests: Vec<(&str, TestOutcome)> = TESTS.into_iter().filter(|(name, _)| !name.starts_with("cart.")).collect();
    let measured = coverage().into_iter().filter(|set| set.package != "cart").collect();
    before.insert("cart/src/lib.rs".to_owned(), CART.to_owned());
    let project = Project::new("cargo", &before, &tests, measured);
    let mut now = before.clone();
    now.insert("cart/src/lib.rs".to_owned(), format!("{CART}\n#[test]\nfn new() {{}}\n"));
    assert_eq!(shown(&project.select(&now)), with_others(&["cart.*", "cart::it.pays"]));
}

#[test]
fn documentation_that_a_source_may_list_selects_all_tests() {
    for (reader, is_read) in [
        ("for file in read_dir(\"tests/cases\") {}", true),
        ("let text = format!(\"docs/{name}.md\");", true),
        ("path.extension() == Some(\"md\")", true),
        ("include_str!(\"other.txt\")", false),
    ] {
        let mut before = workspace();
        before.insert("cart/src/reader.rs".to_owned(), reader.to_owned());
        let project = project_of(&before);
        before.insert("README.md".to_owned(), "other".to_owned());
        let expected = if is_read { "full: README.md was changed, and any test may read it" } else { "shop.ignored" };
        assert!(shown(&project.select(&before)).contains(expected), "{reader}");
    }
}

#[test]
fn selects_all_tests_without_coverage() {
    let project = Project::new("cargo", &workspace(), &TESTS, Vec::new());
    let mut now = workspace();
    now.insert("shop/src/lib.rs".to_owned(), SHOP.replace("true", "false"));
    assert_eq!(shown(&project.select(&now)), "full: no coverage has been measured here");
}

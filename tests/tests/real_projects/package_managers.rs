//! One project, as each package manager installs it: a workspace of two packages with two runners, of which one needs the
//! other. What a run says of it does not depend on who laid it out. `.ci/tools managed` installs `fixtures/managers`.

use proctor_tests::process::{command, ensure_installed, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy};
use serde_json::Value;
use std::path::Path;
use std::sync::Once;

/// `npm ci`, `pnpm install`, and `yarn install` of Yarn 1: packages are below `node_modules`; pnpm's are links into `.pnpm`.
const UNPACKED: [&str; 3] = ["npm", "pnpm", "yarn-classic"];

/// Yarn 4, which has no `node_modules`, with its default settings: archives in the user's home, and `.pnp.cjs`.
const PACKED: &str = "yarn-pnp";

/// A copy with all of its links.
fn laid_out(manager: &str) -> TestWorkspace {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("managed"));
    let place = TestWorkspace::empty();
    let whole = tools().join("managed").join(manager).join(".");
    let copied = command(Path::new("/bin/cp")).arg("-a").args([&whole, &place.workspace]).spawn();
    assert_eq!(wait_for_exit(copied.unwrap()).status, 0);
    place
}

fn assert_run(manager: &str, place: &TestWorkspace) {
    let said = place.proctor(&["run", "--framework", "all", "--output", "json"]);
    let report = said.json();
    let tests = report["tests"].as_array().unwrap();
    let text = |test: &Value, field: &str| test[field].as_str().unwrap_or_default().to_owned();
    let of = |outcome: &'static str| tests.iter().filter(move |test| test["outcome"] == outcome);
    let mut passed: Vec<_> = of("passed").map(|test| text(test, "nodeid")).collect();
    passed.sort();
    let (cart, shop) = ("test/cart.spec.js > cart > is held", "test/shop.test.js > the shop");
    assert_eq!(passed, [format!("{cart} in seconds"), format!("{shop} knows the cart")], "{manager}: {report}");
    let place = |test: &Value| format!("{}:{}", text(test, "file"), test["line"]);
    let found =
        of("failed").map(|test| [text(test, "nodeid"), place(test), text(test, "expected"), text(test, "actual")]);
    let mut found: Vec<_> = found.collect();
    found.sort();
    let wanted = [
        [&format!("{cart} forever"), "packages/cart/test/cart.spec.js:9", "60", "3600"],
        [&format!("{shop} closes"), "packages/shop/test/shop.test.js:8", "1000", "60000"],
    ];
    assert_eq!(found, wanted, "{manager}: {report}");
    assert_eq!((said.status, tests.len(), &report["outcome"]), (1, 4, &Value::from("failed")), "{manager}: {report}");
}

#[test]
fn packages_that_are_unpacked_are_found() {
    for manager in UNPACKED {
        assert_run(manager, &laid_out(manager));
    }
}

#[test]
fn packages_in_archives_are_found_without_yarn_and_told_to_be_missing() {
    let place = laid_out(PACKED);
    assert!(!place.workspace.join("node_modules").exists());
    let said = place.proctor(&["run", "--framework", "mocha", "--output", "json"]);
    let report = said.json();
    let remedy = "mocha: Yarn keeps its packages where runs do not see them: set `enableGlobalCache: false` in .yarnrc.yml \
                  and run `yarn install`";
    assert_eq!((said.status, &report["outcome"]), (5, &Value::from("runner_missing")), "{report}");
    assert_eq!(report["evidence"]["notes"][0], remedy, "{report}");

    let cache = ".yarn/berry/cache";
    copy(&tools().join("managed/home").join(cache), &place.root().join("home").join(cache));
    assert_run(PACKED, &place);
}

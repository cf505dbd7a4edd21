//! One JavaScript project as each package manager installs it: a workspace of two packages with two runners, one of which
//! depends on the other. Results must not depend on the package manager. `.ci/tools managed` installs `fixtures/managers`.

use proctor_tests::process::{command, ensure_installed, tools, wait_for_exit};
use proctor_tests::test_workspace::{TestWorkspace, copy};
use serde_json::Value;
use std::path::Path;
use std::sync::Once;

/// `npm ci`, `pnpm install` and Yarn 1 unpack packages below `node_modules`; pnpm's are symlinks into `.pnpm`.
const UNPACKED: [&str; 3] = ["npm", "pnpm", "yarn-classic"];

/// Yarn 4 with default settings: packages are archives in the user's home, found through `.pnp.cjs`.
const PACKED: &str = "yarn-pnp";

/// Copies an installed project with all of its symlinks.
fn copy_installed_project(manager: &str) -> TestWorkspace {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| ensure_installed("managed"));
    let workspace = TestWorkspace::empty();
    let installed = tools().join("managed").join(manager).join(".");
    let copied = command(Path::new("/bin/cp")).arg("-a").args([&installed, &workspace.path]).spawn();
    assert_eq!(wait_for_exit(copied.unwrap()).status, 0);
    workspace
}

fn assert_results(manager: &str, workspace: &TestWorkspace) {
    let output = workspace.proctor(&["run", "--framework", "all", "--output", "json"]);
    let report = output.json();
    let tests = report["tests"].as_array().unwrap();
    let text = |test: &Value, field: &str| test[field].as_str().unwrap_or_default().to_owned();
    let with_outcome = |outcome: &'static str| tests.iter().filter(move |test| test["outcome"] == outcome);
    let mut passed: Vec<_> = with_outcome("passed").map(|test| text(test, "nodeid")).collect();
    passed.sort();
    let (cart, shop) = ("test/cart.spec.js > cart > is held", "test/shop.test.js > the shop");
    assert_eq!(passed, [format!("{cart} in seconds"), format!("{shop} knows the cart")], "{manager}: {report}");
    let location = |test: &Value| format!("{}:{}", text(test, "file"), test["line"]);
    let failed = with_outcome("failed")
        .map(|test| [text(test, "nodeid"), location(test), text(test, "expected"), text(test, "actual")]);
    let mut failed: Vec<_> = failed.collect();
    failed.sort();
    let wanted = [
        [&format!("{cart} forever"), "packages/cart/test/cart.spec.js:9", "60", "3600"],
        [&format!("{shop} closes"), "packages/shop/test/shop.test.js:8", "1000", "60000"],
    ];
    assert_eq!(failed, wanted, "{manager}: {report}");
    assert_eq!((output.status, tests.len(), &report["outcome"]), (1, 4, &Value::from("failed")), "{manager}: {report}");
}

#[test]
fn finds_unpacked_packages() {
    for manager in UNPACKED {
        assert_results(manager, &copy_installed_project(manager));
    }
}

#[test]
fn finds_archived_packages_without_yarn_or_names_the_remedy() {
    let workspace = copy_installed_project(PACKED);
    assert!(!workspace.path.join("node_modules").exists());
    let output = workspace.proctor(&["run", "--framework", "mocha", "--output", "json"]);
    let report = output.json();
    let remedy = "mocha: Yarn keeps its packages where runs do not see them: set `enableGlobalCache: false` in .yarnrc.yml \
                  and run `yarn install`";
    assert_eq!((output.status, &report["outcome"]), (5, &Value::from("runner_missing")), "{report}");
    assert_eq!(report["evidence"]["notes"][0], remedy, "{report}");

    let cache = ".yarn/berry/cache";
    copy(&tools().join("managed/home").join(cache), &workspace.root().join("home").join(cache));
    assert_results(PACKED, &workspace);
}

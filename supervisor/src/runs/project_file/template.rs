//! A first project file for a workspace: every key as a comment, with values that fit its frameworks.

use super::PATHS;
use proctor_core::bounds::{PARALLEL_MAX, RETRY_FAILED_MAX};
use proctor_frameworks::{FRAMEWORKS, Manifest, NameScope};
use std::fmt::Write as _;

/// The file for a workspace with these frameworks. It changes nothing until a line's `#` is removed.
#[must_use]
pub fn template(frameworks: &[&str]) -> String {
    let manifests: Vec<&Manifest> =
        FRAMEWORKS.iter().map(|one| one.manifest()).filter(|one| frameworks.contains(&one.name)).collect();
    let mut text = format!(
        "# {}: settings of proctor for every run in this workspace.\n\
         # Remove the `# ` before a key to use it. A request overrides the file, and a tenant's policy bounds both.\n\
         # `proctor init --schema` prints the JSON schema of this file, for editors.\n\n",
        PATHS[0]
    );
    let (detected, framework, owner) = match frameworks {
        [] => ("No framework is detected here.".to_owned(), "go", "go"),
        [only] => (format!("Detected here: {only}."), *only, *only),
        [first, ..] => (format!("Detected here: {}. `all` runs every one.", frameworks.join(", ")), "all", *first),
    };
    let _ = write!(
        text,
        "# {detected}\n# framework: {framework}\n\n\
         # A command in the framework's place: a line for the shell, or a list of words. Its exit status decides.\n\
         # command: make check\n\
         # A JUnit file that this command writes.\n# report: build/junit.xml\n\n\
         # Wall time until SIGTERM; `timeouts` has precedence for a framework.\n\
         # timeout: 300s\n# timeouts:\n#   {owner}: 600s\n\n\
         # Tests at the same time, 1 to {PARALLEL_MAX}.\n# parallel: 4\n\n"
    );
    text.push_str(&scope(&manifests));
    let _ = write!(
        text,
        "# Variables of every run.\n# environment:\n#   TZ: UTC\n\n\
         # Bounds below the tenant's. `allow_network: true` asks for the host's network, which the policy must allow.\n\
         # sandbox:\n#   max_memory: 1GiB\n#   max_cpu: 2\n#   allow_network: false\n\n\
         # How often a failed test runs again in the same run, to show whether it is flaky, 0 to {RETRY_FAILED_MAX}. It remains\n\
         # failed.\n\
         # retries: 0\n\n\
         # Tests known as flaky, named as `proctor list` prints them. Reports name those that failed; they remain failed.\n\
         # quarantine: []\n"
    );
    text
}

/// `patterns` and `exclude`, with globs that each of the frameworks can apply.
fn scope(manifests: &[&Manifest]) -> String {
    let cannot: Vec<&str> = manifests.iter().filter(|one| scope_example(one).is_none()).map(|one| one.name).collect();
    let (patterns, exclude) =
        manifests.iter().find_map(|one| scope_example(one)).unwrap_or(("Test*", "TestIntegration*"));
    let refused = if cannot.is_empty() {
        String::new()
    } else {
        format!("# {} cannot apply them and refuses the run.\n", cannot.join(", "))
    };
    format!(
        "# Which tests run where a run does not select tests itself: globs for names, or for files (with a `/` or an\n\
         # extension).\n{refused}# patterns:\n#   - \"{patterns}\"\n# exclude:\n#   - \"{exclude}\"\n\n"
    )
}

/// A glob for `patterns` and one for `exclude`; `None` for a framework that can apply none.
fn scope_example(manifest: &Manifest) -> Option<(&'static str, &'static str)> {
    let scope = manifest.options.scope;
    match (manifest.name, scope.names, scope.files) {
        ("go", ..) => Some(("Test*", "TestIntegration*")),
        (_, NameScope::Adapter, true) => Some(("tests/**", "test_slow*")),
        (_, NameScope::Titles, true) => Some(("src/**", "integration*")),
        (_, NameScope::Titles | NameScope::Adapter, false) => Some(("unit*", "integration*")),
        (_, NameScope::Refused, true) => Some(("tests/**", "tests/slow/**")),
        (_, NameScope::Refused, false) => None,
    }
}

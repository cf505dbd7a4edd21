//! The JavaScript test runners, and what each is recognised by.

/// A JavaScript test runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum JsRunner {
    Jest,
    Vitest,
    Mocha,
    Node,
    Cypress,
    Playwright,
}

/// How a runner is recognised.
pub(super) struct RunnerMarkers {
    /// Names of its program.
    pub(super) programs: &'static [&'static str],
    /// Packages that contain it.
    pub(super) packages: &'static [&'static str],
    /// Names of its configuration files without the extension.
    pub(super) configs: &'static [&'static str],
    /// Further extensions of these files.
    pub(super) extensions: &'static [&'static str],
    /// A key of `package.json` that configures it.
    pub(super) key: Option<&'static str>,
    /// Whether it finds the tests of directories below its own.
    pub(super) covers_below: bool,
    /// The subcommand that runs tests, if its program has several.
    pub(super) subcommand: Option<&'static str>,
    /// First words and options with which its program runs no tests.
    pub(super) idle: &'static [&'static str],
}

impl JsRunner {
    /// Unit test runners; a project has one of them.
    pub(super) const UNIT_RUNNERS: [JsRunner; 4] = [JsRunner::Jest, JsRunner::Vitest, JsRunner::Mocha, JsRunner::Node];

    /// End-to-end test runners, which a project may have besides: they run a whole application.
    pub(super) const END_TO_END: [JsRunner; 2] = [JsRunner::Cypress, JsRunner::Playwright];

    pub(super) fn markers(self) -> RunnerMarkers {
        match self {
            JsRunner::Jest => RunnerMarkers {
                programs: &["jest", "jest.js"],
                packages: &["jest", "jest-cli", "@jest/core"],
                configs: &["jest.config."],
                extensions: &["json"],
                key: Some("jest"),
                covers_below: true,
                subcommand: None,
                idle: &["--clearCache", "--help", "--init", "--listTests", "--showConfig", "--version"],
            },
            JsRunner::Vitest => RunnerMarkers {
                programs: &["vitest", "vitest.mjs"],
                packages: &["vitest"],
                configs: &["vitest.config.", "vitest.workspace.", "vitest.projects."],
                extensions: &["json"],
                key: None,
                covers_below: true,
                subcommand: None,
                idle: &["bench", "init", "list", "--clearCache", "--help", "--version"],
            },
            JsRunner::Mocha => RunnerMarkers {
                programs: &["mocha", "_mocha", "mocha.js"],
                packages: &["mocha"],
                configs: &[".mocharc."],
                extensions: &["json", "jsonc", "yaml", "yml"],
                key: Some("mocha"),
                covers_below: false,
                subcommand: None,
                idle: &["--help", "--list-interfaces", "--list-reporters", "--version"],
            },
            JsRunner::Node => RunnerMarkers {
                programs: &[],
                packages: &[],
                configs: &[],
                extensions: &[],
                key: None,
                covers_below: false,
                subcommand: None,
                idle: &[],
            },
            JsRunner::Playwright => RunnerMarkers {
                programs: &["playwright"],
                packages: &["@playwright/test"],
                configs: &["playwright.config."],
                extensions: &[],
                key: None,
                covers_below: false,
                subcommand: Some("test"),
                idle: &["--help", "--list"],
            },
            JsRunner::Cypress => RunnerMarkers {
                programs: &["cypress"],
                packages: &["cypress"],
                configs: &["cypress.config.", "cypress."],
                extensions: &["json"],
                key: None,
                covers_below: false,
                subcommand: Some("run"),
                idle: &[],
            },
        }
    }

    /// Whether a runner's program has this name, whatever its arguments.
    pub(super) fn is_program(name: &str) -> bool {
        JsRunner::UNIT_RUNNERS
            .into_iter()
            .chain(JsRunner::END_TO_END)
            .any(|runner| runner.markers().programs.contains(&name))
    }

    /// Its name in a script.
    pub(super) fn program(self) -> &'static str {
        self.markers().programs.first().copied().unwrap_or("node")
    }

    /// The runner whose program has this name, if these arguments make it run tests.
    pub(super) fn from_program(name: &str, args: &[String]) -> Option<JsRunner> {
        let runs = |word: &str| args.first().is_some_and(|first| first == word);
        let is_idle = |word: &&str| if word.starts_with('-') { args.iter().any(|arg| arg == word) } else { runs(word) };
        let is_it = |markers: RunnerMarkers| {
            let does = markers.subcommand.is_none_or(runs) && !markers.idle.iter().any(is_idle);
            markers.programs.contains(&name) && does
        };
        JsRunner::UNIT_RUNNERS.into_iter().chain(JsRunner::END_TO_END).find(|runner| is_it(runner.markers()))
    }
}

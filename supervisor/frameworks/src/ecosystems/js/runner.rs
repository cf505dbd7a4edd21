//! The test runners of JavaScript, and by what each is recognised. Must not know a project.

/// A test runner of JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Runner {
    Jest,
    Vitest,
    Mocha,
    Node,
    Cypress,
    Playwright,
}

/// How a runner is recognised.
pub(super) struct Marks {
    /// Names of its program.
    pub(super) programs: &'static [&'static str],
    /// Packages that bring it.
    pub(super) packages: &'static [&'static str],
    /// Names of its configuration files without the ending.
    pub(super) configs: &'static [&'static str],
    /// Further endings that those may have.
    pub(super) endings: &'static [&'static str],
    /// A key of `package.json` that configures it.
    pub(super) key: Option<&'static str>,
    /// Whether it finds the tests of directories below its own.
    pub(super) covers_below: bool,
    /// The word that makes its program run tests, where it does other things as well.
    pub(super) subcommand: Option<&'static str>,
    /// First words and options with which its program runs none.
    pub(super) idle: &'static [&'static str],
}

impl Runner {
    /// Runners of units, of which a project has one.
    pub(super) const UNITS: [Runner; 4] = [Runner::Jest, Runner::Vitest, Runner::Mocha, Runner::Node];

    /// Runners that stand beside them: they run a whole application.
    pub(super) const BESIDE: [Runner; 2] = [Runner::Cypress, Runner::Playwright];

    pub(super) fn marks(self) -> Marks {
        match self {
            Runner::Jest => Marks {
                programs: &["jest", "jest.js"],
                packages: &["jest", "jest-cli", "@jest/core"],
                configs: &["jest.config."],
                endings: &["json"],
                key: Some("jest"),
                covers_below: true,
                subcommand: None,
                idle: &["--clearCache", "--help", "--init", "--listTests", "--showConfig", "--version"],
            },
            Runner::Vitest => Marks {
                programs: &["vitest", "vitest.mjs"],
                packages: &["vitest"],
                configs: &["vitest.config.", "vitest.workspace.", "vitest.projects."],
                endings: &["json"],
                key: None,
                covers_below: true,
                subcommand: None,
                idle: &["bench", "init", "list", "--clearCache", "--help", "--version"],
            },
            Runner::Mocha => Marks {
                programs: &["mocha", "_mocha", "mocha.js"],
                packages: &["mocha"],
                configs: &[".mocharc."],
                endings: &["json", "jsonc", "yaml", "yml"],
                key: Some("mocha"),
                covers_below: false,
                subcommand: None,
                idle: &["--help", "--list-interfaces", "--list-reporters", "--version"],
            },
            Runner::Node => Marks {
                programs: &[],
                packages: &[],
                configs: &[],
                endings: &[],
                key: None,
                covers_below: false,
                subcommand: None,
                idle: &[],
            },
            Runner::Playwright => Marks {
                programs: &["playwright"],
                packages: &["@playwright/test"],
                configs: &["playwright.config."],
                endings: &[],
                key: None,
                covers_below: false,
                subcommand: Some("test"),
                idle: &["--help", "--list"],
            },
            Runner::Cypress => Marks {
                programs: &["cypress"],
                packages: &["cypress"],
                configs: &["cypress.config.", "cypress."],
                endings: &["json"],
                key: None,
                covers_below: false,
                subcommand: Some("run"),
                idle: &[],
            },
        }
    }

    /// Whether this is a runner's program, whatever it is told to do.
    pub(super) fn is_program(name: &str) -> bool {
        Runner::UNITS.into_iter().chain(Runner::BESIDE).any(|runner| runner.marks().programs.contains(&name))
    }

    /// What it is called in a script.
    pub(super) fn program(self) -> &'static str {
        self.marks().programs.first().copied().unwrap_or("node")
    }

    /// The runner whose program has this name, if these arguments make it run tests.
    pub(super) fn of_program(name: &str, args: &[String]) -> Option<Runner> {
        let runs = |word: &str| args.first().is_some_and(|first| first == word);
        let is_idle = |word: &&str| if word.starts_with('-') { args.iter().any(|arg| arg == word) } else { runs(word) };
        let is_it = |marks: Marks| {
            let does = marks.subcommand.is_none_or(runs) && !marks.idle.iter().any(is_idle);
            marks.programs.contains(&name) && does
        };
        Runner::UNITS.into_iter().chain(Runner::BESIDE).find(|runner| is_it(runner.marks()))
    }
}

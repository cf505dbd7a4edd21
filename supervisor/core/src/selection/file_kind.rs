//! What a changed file is to the tests: one table of names for each ecosystem.

/// Languages whose tests can be selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ecosystem {
    /// Go, whose coverage names packages.
    Go,
    /// Rust, whose manifests name packages.
    Rust,
    /// Python, whose imports name modules.
    Python,
    /// JavaScript and TypeScript, whose runners say what each test file loaded.
    JavaScript,
}

impl Ecosystem {
    /// The ecosystem of a run of this framework; `None` for others and for runs of several.
    #[must_use]
    pub fn of_framework(framework: &str) -> Option<Ecosystem> {
        match framework {
            "go" => Some(Ecosystem::Go),
            "cargo" | "nextest" => Some(Ecosystem::Rust),
            "pytest" | "unittest" => Some(Ecosystem::Python),
            "jest" | "mocha" | "node" | "vitest" => Some(Ecosystem::JavaScript),
            _ => None,
        }
    }

    /// Whether a selection reads the text of the file at `path` to find out who imports what.
    #[must_use]
    pub fn is_read(self, path: &str) -> bool {
        let name = file_name(path);
        match self {
            Ecosystem::Go => name.ends_with(".go") || name == "go.mod",
            Ecosystem::Rust => name.ends_with(".rs") || name == "Cargo.toml",
            Ecosystem::Python => [".py", ".cfg", ".toml", ".ini"].iter().any(|extension| name.ends_with(extension)),
            Ecosystem::JavaScript => {
                let is_settings = matches!(name, "package.json" | "jest.config.json" | "mocha.opts");
                is_script(name) || is_settings || name.starts_with(".mocharc")
            }
        }
    }

    /// The ecosystem of the source at `path`, by its extension. Such a file is compared by line.
    #[must_use]
    pub fn of_source(path: &str) -> Option<Ecosystem> {
        match path.rsplit_once('.')?.1 {
            "go" => Some(Ecosystem::Go),
            "rs" => Some(Ecosystem::Rust),
            "py" => Some(Ecosystem::Python),
            _ => is_script(path).then_some(Ecosystem::JavaScript),
        }
    }
}

/// Ends of the names of files that are JavaScript, or become JavaScript of their own.
const SCRIPTS: [&str; 10] = [".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx", ".vue", ".svelte"];

/// Whether a file is JavaScript, or becomes JavaScript of its own.
pub(super) fn is_script(path: &str) -> bool {
    SCRIPTS.iter().any(|end| path.ends_with(end))
}

/// What a file is to the tests of an ecosystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// It decides what is built or run, and how: all tests.
    Settings(&'static str),
    /// Source of the product.
    Source,
    /// Source that only tests run.
    Test,
    /// Set-up of all tests in its directory and below.
    SetUp,
    /// What the tests of one file are compared with.
    Snapshot,
    /// Text for people, if no source names it.
    Documentation,
    /// Anything else may be read by any test.
    Data,
}

/// How a row recognises a file.
#[derive(Clone, Copy)]
enum Pattern {
    /// By its whole name.
    Name(&'static str),
    /// By the beginning and the end of its name.
    Affixes(&'static str, &'static str),
    /// By a directory above it.
    Below(&'static str),
    /// By a part of the name of a JavaScript source.
    Script(&'static str),
}
use Pattern::{Affixes, Below, Name, Script};

const LOCK: FileKind = FileKind::Settings("a lock file");
const BUILD: FileKind = FileKind::Settings("a build file");
const RUNNER: FileKind = FileKind::Settings("a test runner's settings");
const TOOLCHAIN: FileKind = FileKind::Settings("the choice of a toolchain");
const ENVIRONMENT: FileKind = FileKind::Settings("environment variables");

/// The rows of all ecosystems; the first that fits decides, after those of the file's own ecosystem.
const COMMON: &[(Pattern, FileKind)] = &[
    (Name(".proctor.yaml"), RUNNER),
    (Below(".agenticorp"), RUNNER),
    (Name(".env"), ENVIRONMENT),
    (Affixes(".env.", ""), ENVIRONMENT),
    (Name(".envrc"), ENVIRONMENT),
    (Name(".tool-versions"), TOOLCHAIN),
    (Name("mise.toml"), TOOLCHAIN),
    (Name("Makefile"), BUILD),
    (Name("CMakeLists.txt"), BUILD),
    (Name("Dockerfile"), BUILD),
    (Name("package.json"), BUILD),
    (Name("Cargo.toml"), BUILD),
    (Name("Cargo.lock"), LOCK),
    (Name("package-lock.json"), LOCK),
    (Name("yarn.lock"), LOCK),
    (Name("pnpm-lock.yaml"), LOCK),
    (Affixes("", ".lock"), LOCK),
    (Affixes("", ".md"), FileKind::Documentation),
    (Affixes("", ".rst"), FileKind::Documentation),
    (Affixes("", ".adoc"), FileKind::Documentation),
    (Affixes("LICENSE", ""), FileKind::Documentation),
    (Affixes("CHANGELOG", ""), FileKind::Documentation),
    (Name("AUTHORS"), FileKind::Documentation),
    (Name("CODEOWNERS"), FileKind::Documentation),
    (Name(".gitignore"), FileKind::Documentation),
    (Name(".gitattributes"), FileKind::Documentation),
    (Name(".editorconfig"), FileKind::Documentation),
    (Below(".github"), FileKind::Documentation),
];

const GO: &[(Pattern, FileKind)] = &[
    (Below("testdata"), FileKind::Data),
    (Below("vendor"), FileKind::Settings("vendored code")),
    (Name("go.mod"), BUILD),
    (Name("go.work"), BUILD),
    (Name("go.sum"), LOCK),
    (Name("go.work.sum"), LOCK),
    (Name(".go-version"), TOOLCHAIN),
    (Affixes("", "_test.go"), FileKind::Test),
    (Affixes("", ".go"), FileKind::Source),
];

const RUST: &[(Pattern, FileKind)] = &[
    (Below("vendor"), FileKind::Settings("vendored code")),
    (Below(".cargo"), BUILD),
    (Name("build.rs"), BUILD),
    (Name("rust-toolchain"), TOOLCHAIN),
    (Name("rust-toolchain.toml"), TOOLCHAIN),
    (Name("rustfmt.toml"), FileKind::Documentation),
    (Name(".rustfmt.toml"), FileKind::Documentation),
    (Name("clippy.toml"), FileKind::Documentation),
    (Name(".clippy.toml"), FileKind::Documentation),
    (Name("deny.toml"), FileKind::Documentation),
    (Affixes("", ".rs"), FileKind::Source),
];

const PYTHON: &[(Pattern, FileKind)] = &[
    (Name("pyproject.toml"), BUILD),
    (Name("setup.py"), BUILD),
    (Name("setup.cfg"), BUILD),
    (Name("MANIFEST.in"), BUILD),
    (Name("tox.ini"), RUNNER),
    (Name("pytest.ini"), RUNNER),
    (Name(".pytest.ini"), RUNNER),
    (Name("pytest.toml"), RUNNER),
    (Name(".pytest.toml"), RUNNER),
    (Name("noxfile.py"), RUNNER),
    (Name(".coveragerc"), RUNNER),
    (Name("Pipfile"), BUILD),
    (Name("environment.yml"), BUILD),
    (Name("environment.yaml"), BUILD),
    (Affixes("requirements", ".txt"), LOCK),
    (Affixes("constraints", ".txt"), LOCK),
    (Name(".python-version"), TOOLCHAIN),
    (Name("runtime.txt"), TOOLCHAIN),
    (Name("sitecustomize.py"), FileKind::Settings("a module that every Python imports")),
    (Name("usercustomize.py"), FileKind::Settings("a module that every Python imports")),
    (Affixes("", ".pth"), FileKind::Settings("a path file of Python")),
    (Name("conftest.py"), FileKind::SetUp),
    (Affixes("test_", ".py"), FileKind::Test),
    (Affixes("", "_test.py"), FileKind::Test),
    (Affixes("", ".py"), FileKind::Source),
];

const TYPES: FileKind = FileKind::Settings("a declaration of types");

const JAVASCRIPT: &[(Pattern, FileKind)] = &[
    (Below("node_modules"), FileKind::Settings("an installed package")),
    (Name("npm-shrinkwrap.json"), LOCK),
    (Name("bun.lockb"), LOCK),
    (Name("pnpm-workspace.yaml"), BUILD),
    (Name("lerna.json"), BUILD),
    (Name("nx.json"), BUILD),
    (Name("turbo.json"), BUILD),
    (Name(".npmrc"), BUILD),
    (Name(".yarnrc"), BUILD),
    (Name(".yarnrc.yml"), BUILD),
    (Affixes(".pnp.", ""), BUILD),
    (Affixes("tsconfig", ".json"), BUILD),
    (Affixes("jsconfig", ".json"), BUILD),
    (Affixes(".babelrc", ""), BUILD),
    (Name(".swcrc"), BUILD),
    (Affixes("babel.config.", ""), BUILD),
    (Affixes("jest.config.", ""), RUNNER),
    (Affixes("jest-", ".config.js"), RUNNER),
    (Affixes(".mocharc", ""), RUNNER),
    (Name("mocha.opts"), RUNNER),
    (Affixes("vitest.config.", ""), RUNNER),
    (Affixes("vitest.workspace.", ""), RUNNER),
    (Affixes("vite.config.", ""), RUNNER),
    (Script(".config."), BUILD),
    (Name(".nvmrc"), TOOLCHAIN),
    (Name(".node-version"), TOOLCHAIN),
    (Affixes("", ".d.ts"), TYPES),
    (Affixes("", ".d.mts"), TYPES),
    (Affixes("", ".d.cts"), TYPES),
    (Affixes("", ".snap"), FileKind::Snapshot),
    (Script(".test."), FileKind::Test),
    (Script(".spec."), FileKind::Test),
    (Script(""), FileKind::Source),
];

impl FileKind {
    /// What the file at `path` is to the tests of `ecosystem`.
    #[must_use]
    pub fn of(ecosystem: Ecosystem, path: &str) -> FileKind {
        let own = match ecosystem {
            Ecosystem::Go => GO,
            Ecosystem::Rust => RUST,
            Ecosystem::Python => PYTHON,
            Ecosystem::JavaScript => JAVASCRIPT,
        };
        let row = own.iter().chain(COMMON).find(|(pattern, _)| pattern.fits(path));
        row.map_or(FileKind::Data, |(_, kind)| *kind)
    }
}

impl Pattern {
    fn fits(self, path: &str) -> bool {
        let name = file_name(path);
        match self {
            Name(whole) => name == whole,
            Affixes(start, end) => {
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            }
            Script(part) => is_script(name) && name.contains(part),
            Below(dir) => path.split('/').rev().skip(1).any(|part| part == dir),
        }
    }
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The end of a file's name from its last dot on.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = file_name(path);
    name.rfind('.').map(|at| &name[at..])
}

/// The directory of a path; empty for the root.
pub(super) fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

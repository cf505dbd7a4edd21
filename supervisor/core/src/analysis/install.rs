//! The command that adds a dependency to a project, with the package manager that the project uses.

use super::WorkspaceFacts;
use super::patterns::Language;

/// Files by which a project shows its package manager, each with the command that adds a package.
const MANAGERS: [(Language, &str, &str); 13] = [
    (Language::Python, "uv.lock", "uv add"),
    (Language::Python, "poetry.lock", "poetry add"),
    (Language::Python, "pdm.lock", "pdm add"),
    (Language::Python, "Pipfile", "pipenv install"),
    (Language::JavaScript, "pnpm-lock.yaml", "pnpm add -D"),
    (Language::JavaScript, "yarn.lock", "yarn add -D"),
    (Language::JavaScript, "bun.lock", "bun add -d"),
    (Language::JavaScript, "bun.lockb", "bun add -d"),
    (Language::Go, "go.mod", "go get"),
    (Language::Rust, "Cargo.toml", "cargo add"),
    (Language::Ruby, "Gemfile", "bundle add"),
    (Language::Ruby, "gems.rb", "bundle add"),
    (Language::Php, "composer.json", "composer require"),
];

impl WorkspaceFacts {
    /// The files in the root of a workspace that tell an analysis something.
    pub const ROOT_FILES: [&str; 13] = {
        let mut names = [""; 13];
        let mut at = 0;
        while at < names.len() {
            names[at] = MANAGERS[at].1;
            at += 1;
        }
        names
    };
}

/// The command in backquotes that adds the package of `module`.
pub(super) fn install_command(language: Language, module: &str, context: &WorkspaceFacts) -> String {
    let has = |file: &str| context.root_files.iter().any(|found| found == file);
    let command = MANAGERS.iter().find(|(of, file, _)| *of == language && has(file)).map(|(.., command)| *command);
    let command = command.unwrap_or(match language {
        Language::Python => "pip install",
        Language::JavaScript => "npm install -D",
        Language::Ruby => "gem install",
        Language::Rust => "cargo add",
        Language::Php => "composer require",
        _ => "go get",
    });
    format!("`{command} {}`", package(language, module))
}

// The package that has a module: `@scope/name` of `@scope/name/file`, `name` of `name/file`, `name` of `name::Item`.
fn package(language: Language, module: &str) -> &str {
    match language {
        Language::JavaScript => {
            let parts = if module.starts_with('@') { 2 } else { 1 };
            module.match_indices('/').nth(parts - 1).map_or(module, |(end, _)| &module[..end])
        }
        Language::Rust => module.split("::").next().unwrap_or(module),
        Language::Python => module.split('.').next().unwrap_or(module),
        _ => module,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_package_manager_of_the_project() {
        for (language, file, module, command) in [
            (Language::Python, "uv.lock", "requests", "`uv add requests`"),
            (Language::Python, "requirements.txt", "a.b", "`pip install a`"),
            (Language::JavaScript, "pnpm-lock.yaml", "@a/b/c.js", "`pnpm add -D @a/b`"),
            (Language::JavaScript, "package-lock.json", "a/b", "`npm install -D a`"),
            (Language::Rust, "Cargo.toml", "serde::Thing", "`cargo add serde`"),
            (Language::Ruby, "Gemfile", "rake", "`bundle add rake`"),
            (Language::Go, "go.mod", "github.com/pkg/errors", "`go get github.com/pkg/errors`"),
        ] {
            let context = WorkspaceFacts { root_files: vec![file.to_owned()] };
            assert_eq!(install_command(language, module, &context), command);
        }
    }
}

//! The command that adds a dependency to a project, with the package manager that the project uses.
//!
//! The name comes from the output of a test, so a tenant chooses it: no command has a name that is not a plain package name. Where the
//! name of a package is known to differ from that of its module, the command has the package's; where several packages have modules of
//! one name, or the language itself has the module, there is no command.

use super::WorkspaceFacts;
use super::package_names::{Distribution, distribution};
use super::patterns::Language;

/// Longest name in a command, in bytes: that of the npm registry, the longest of the languages.
const NAME_BYTES_MAX: usize = 214;

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

/// The command in backquotes that adds the package of `module`; `None` if its name is not known or not plain.
pub(super) fn install_command(language: Language, module: &str, facts: &WorkspaceFacts) -> Option<String> {
    let name = match distribution(language, module) {
        Distribution::Named(name) => name,
        Distribution::OfTheModule => package(language, module),
        Distribution::Unknown => return None,
    };
    if !is_plain(language, name) {
        return None;
    }
    let has = |file: &str| facts.root_files.iter().any(|found| found == file);
    let command = MANAGERS.iter().find(|(of, file, _)| *of == language && has(file)).map(|(.., command)| *command);
    let command = command.or(match language {
        Language::Python => Some("pip install"),
        Language::JavaScript => Some("npm install -D"),
        Language::Ruby => Some("gem install"),
        Language::Rust => Some("cargo add"),
        Language::Php => Some("composer require"),
        Language::Go => Some("go get"),
        Language::Jvm | Language::Cpp | Language::Other => None,
    })?;
    Some(format!("`{command} {name}`"))
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

// Whether a registry of the language can have a package of this name, which a shell and the package manager then read as one word
// and not as an option, address or path.
fn is_plain(language: Language, name: &str) -> bool {
    let is_word = |word: &str, others: &[char]| {
        word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
            && word.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(&c))
    };
    let has_form = match language {
        Language::JavaScript => {
            let (scope, name) = name.strip_prefix('@').map_or((None, name), |scoped| match scoped.split_once('/') {
                Some((scope, name)) => (Some(scope), name),
                None => (Some(""), scoped),
            });
            scope.is_none_or(|scope| is_word(scope, &['-', '_', '.'])) && is_word(name, &['-', '_', '.'])
        }
        Language::Go => {
            let mut parts = name.split('/');
            let host = parts.next().unwrap_or_default();
            let is_host = host.contains('.') && is_word(host, &['-', '.']) && !host.contains("..");
            is_host && parts.clone().count() > 0 && parts.all(|part| is_word(part, &['-', '_', '.', '~']))
        }
        Language::Php => {
            let parts = name.split_once('/');
            parts.is_some_and(|(vendor, name)| is_word(vendor, &['-', '_', '.']) && is_word(name, &['-', '_', '.']))
        }
        Language::Python => is_word(name, &['-', '_', '.']),
        _ => is_word(name, &['-', '_']),
    };
    has_form && name.len() <= NAME_BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_the_package_manager_of_the_project() {
        for (language, file, module, command) in [
            (Language::Python, "uv.lock", "requests", "`uv add requests`"),
            (Language::Python, "requirements.txt", "a.b", "`pip install a`"),
            (Language::Python, "requirements.txt", "yaml", "`pip install PyYAML`"),
            (Language::Python, "poetry.lock", "cv2", "`poetry add opencv-python`"),
            (Language::Python, "poetry.lock", "google.protobuf.message", "`poetry add protobuf`"),
            (Language::JavaScript, "pnpm-lock.yaml", "@a/b/c.js", "`pnpm add -D @a/b`"),
            (Language::JavaScript, "package-lock.json", "a/b", "`npm install -D a`"),
            (Language::Rust, "Cargo.toml", "serde::Thing", "`cargo add serde`"),
            (Language::Ruby, "Gemfile", "rake", "`bundle add rake`"),
            (Language::Ruby, "Gemfile", "active_support/core_ext", "`bundle add activesupport`"),
            (Language::Go, "go.mod", "github.com/pkg/errors", "`go get github.com/pkg/errors`"),
        ] {
            let facts = WorkspaceFacts { root_files: vec![file.to_owned()], ..WorkspaceFacts::default() };
            assert_eq!(install_command(language, module, &facts).unwrap(), command);
        }
    }

    #[test]
    fn suggests_no_command_for_what_is_not_a_plain_package_name() {
        let long = "a".repeat(300);
        for (language, module) in [
            (Language::Python, "x; rm -rf ~"),
            (Language::Python, "--index-url=https://evil.example"),
            (Language::Python, "x`reboot`"),
            (Language::Python, "git+https://evil.example/x"),
            (Language::Python, "größe"),
            (Language::Python, long.as_str()),
            (Language::Python, "distutils"),
            (Language::Python, "tkinter"),
            (Language::Python, "google.cloud.storage"),
            (Language::JavaScript, "-g"),
            (Language::JavaScript, "@/x"),
            (Language::JavaScript, "@scope"),
            (Language::JavaScript, "x && y"),
            (Language::JavaScript, "fs"),
            (Language::JavaScript, "node:sqlite"),
            (Language::JavaScript, "https://evil.example/x.tgz"),
            (Language::Go, "-u"),
            (Language::Go, "shop"),
            (Language::Go, "example.com/../x"),
            (Language::Go, "example.com/$(x)"),
            (Language::Rust, "crate"),
            (Language::Rust, "super::x"),
            (Language::Ruby, "net/unknown"),
            (Language::Jvm, "org.example"),
        ] {
            assert_eq!(install_command(language, module, &WorkspaceFacts::default()), None, "{module}");
        }
    }
}

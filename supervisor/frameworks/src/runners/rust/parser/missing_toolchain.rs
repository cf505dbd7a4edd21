//! Recognises a missing toolchain, component or cargo-nextest in the output of rustup and Cargo.

/// The remedy, if the output says that the runner or the compiler is not installed.
pub(super) fn missing_remedy(output: &str) -> Option<String> {
    if output.contains("no such command: `nextest`") {
        return Some(
            "cargo-nextest is not installed: cargo install cargo-nextest --locked, or pass framework `cargo`"
                .to_owned(),
        );
    }
    not_installed(output).map(|what| {
        format!("{what} is not installed: run `rustup toolchain install` in the workspace as the host's user, a run installs none")
    })
}

/// The toolchain or component that rustup did not find: it either refuses, or tries to download it.
fn not_installed(output: &str) -> Option<String> {
    let quoted = |line: &str| Some(line.split_once('\'')?.1.split_once('\'')?.0.to_owned());
    let refused =
        output.lines().find(|line| line.starts_with("error: toolchain '") && line.contains("is not installed"));
    let part = || output.lines().find(|line| line.starts_with("error: '") && line.contains("for the toolchain '"));
    let tried = || {
        let name = output.lines().find_map(|line| line.strip_prefix("info: syncing channel updates for "))?;
        let failed = output.lines().any(|line| line.starts_with("error: could not "));
        failed.then(|| {
            format!("toolchain {}, or a component of it that rust-toolchain.toml names,", name.trim_matches('\''))
        })
    };
    let refused = refused.and_then(quoted).map(|name| format!("toolchain {name}"));
    refused.or_else(|| part().and_then(quoted)).or_else(tried)
}

#[cfg(test)]
mod tests {
    use super::missing_remedy;

    #[test]
    fn a_missing_toolchain_has_a_remedy() {
        let remedy =
            "is not installed: run `rustup toolchain install` in the workspace as the host's user, a run installs none";
        for (output, what) in [
            (
                "error: toolchain '1.70.0-x86_64-unknown-linux-gnu' is not installed\nhelp: run `rustup toolchain install` to",
                "toolchain 1.70.0-x86_64-unknown-linux-gnu",
            ),
            ("error: 'cargo' is not installed for the toolchain '1.70.0'.\n", "cargo"),
            (
                "info: syncing channel updates for 'stable-x86_64-unknown-linux-gnu'\nerror: could not download file from 'x'",
                "toolchain stable-x86_64-unknown-linux-gnu, or a component of it that rust-toolchain.toml names,",
            ),
        ] {
            assert_eq!(missing_remedy(output), Some(format!("{what} {remedy}")));
        }
        assert_eq!(missing_remedy("error: could not compile `a`"), None);
    }
}

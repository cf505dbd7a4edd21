//! Reads in the words of rustup and Cargo what of a toolchain is not installed. Must not know how a run ends.

/// What to do when the runner or the compiler is not installed, if that is what these words say.
pub(super) fn missing(said: &str) -> Option<String> {
    if said.contains("no such command: `nextest`") {
        return Some(
            "cargo-nextest is not installed: cargo install cargo-nextest --locked, or pass framework `cargo`"
                .to_owned(),
        );
    }
    not_installed(said).map(|what| {
        format!("{what} is not installed: run `rustup toolchain install` in the workspace as the host's user, a run installs none")
    })
}

/// The toolchain, or the part of one, that rustup looked for in vain: it refuses, or it tries to download it.
fn not_installed(said: &str) -> Option<String> {
    let quoted = |line: &str| Some(line.split_once('\'')?.1.split_once('\'')?.0.to_owned());
    let refused = said.lines().find(|line| line.starts_with("error: toolchain '") && line.contains("is not installed"));
    let part = || said.lines().find(|line| line.starts_with("error: '") && line.contains("for the toolchain '"));
    let tried = || {
        let name = said.lines().find_map(|line| line.strip_prefix("info: syncing channel updates for "))?;
        let failed = said.lines().any(|line| line.starts_with("error: could not "));
        failed.then(|| {
            format!("toolchain {}, or a component of it that rust-toolchain.toml names,", name.trim_matches('\''))
        })
    };
    let refused = refused.and_then(quoted).map(|name| format!("toolchain {name}"));
    refused.or_else(|| part().and_then(quoted)).or_else(tried)
}

#[cfg(test)]
mod tests {
    use super::missing;

    #[test]
    fn a_toolchain_that_rustup_looks_for_in_vain_has_its_remedy() {
        let remedy =
            "is not installed: run `rustup toolchain install` in the workspace as the host's user, a run installs none";
        for (said, what) in [
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
            assert_eq!(missing(said), Some(format!("{what} {remedy}")));
        }
        assert_eq!(missing("error: could not compile `a`"), None);
    }
}

//! The command line of `proctor-mcp`.

use crate::answer::budget::{MAX_TOKENS_DEFAULT, MAX_TOKENS_MAX};
use crate::tool_call::AnswerDefaults;
use anyhow::{Context, ensure};
use clap::Parser;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  proctor-mcp --workspace ~/src/shop
      Serves one workspace; a private supervisor is started and ends with it. Nothing else to set up.

  proctor-mcp --workspace ~/src/shop --supervisor unix:/run/proctor/proctor.sock
      Uses the build host's supervisor, which knows you by your user id.

  proctor-mcp --workspace ~/src/shop --supervisor http://127.0.0.1:7878 --token-file ~/.config/proctor/token
      The same over loopback TCP, which knows you by a token.

  proctor-mcp --workspace ~/src/shop --supervisor https://localhost:7878 --ca ca.pem --cert me.pem --key me.key
      The same over TLS, which knows you by a certificate, or by a token as above.

In an MCP client's configuration:
  {\"mcpServers\": {\"proctor\": {\"command\": \"proctor-mcp\", \"args\": [\"--workspace\", \"/home/me/src/shop\"]}}}

Tools: run_tests, run_failing_tests, last_test_failures, tests_covering, list_tests, get_run, get_test_report.
Logs go to stderr; PROCTOR_LOG sets the level (default warn).";

/// MCP server that runs one workspace's tests in a sandbox and answers questions about them.
///
/// Speaks MCP over stdin and stdout, so it is started by an MCP client rather than by hand. It ends when stdin does.
#[derive(Debug, Parser)]
#[command(name = "proctor-mcp", version, after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The workspace whose tests run
    #[arg(long, value_name = "DIR", default_value = ".")]
    workspace: PathBuf,

    /// The supervisor to use; without it a private one is started, which ends with this process
    #[arg(long, value_name = "unix:PATH|https://HOST:PORT|http://127.0.0.1:PORT", value_parser = parse_address)]
    supervisor: Option<Address>,

    /// File with the bearer token that names the tenant
    #[arg(long, value_name = "FILE", requires = "supervisor")]
    token_file: Option<PathBuf>,

    /// Certificates of the authorities of an https:// supervisor, in PEM
    #[arg(long, value_name = "FILE", requires = "supervisor")]
    ca: Option<PathBuf>,

    /// Certificate by which an https:// supervisor knows us, in PEM
    #[arg(long, value_name = "FILE", requires = "ca", requires = "key")]
    cert: Option<PathBuf>,

    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Tokens (4 bytes each) of an answer, text and structured content together, unless a call sets max_tokens
    #[arg(long, value_name = "TOKENS", default_value_t = MAX_TOKENS_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKENS_MAX)))]
    max_tokens: u32,

    /// Answer runs with the runner's own output, ending in `exit: N`, unless a call sets raw to false
    #[arg(long)]
    compat: bool,

    /// The `proctor` program for the private supervisor [default: beside this program, else on PATH]
    #[arg(long, value_name = "FILE", conflicts_with = "supervisor")]
    proctor_binary: Option<PathBuf>,
}

/// Address of a running supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// An `http://` URI on loopback.
    Tcp(String),
    /// An `https://` URI.
    Tls(String),
}

/// PEM files for TLS.
#[derive(Debug, Clone, Default)]
pub(crate) struct TlsFiles {
    /// Certificate authorities of the supervisor.
    pub(crate) ca: Option<PathBuf>,
    /// Client certificate and private key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
}

/// How to obtain a supervisor.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    /// Connect to a running one.
    Running { address: Address, token_file: Option<PathBuf>, tls: TlsFiles },
    /// Start one for `workspace` alone.
    Private { binary: Option<PathBuf>, workspace: PathBuf },
}

impl Args {
    /// The canonical absolute path of the workspace, which must be a directory.
    pub(crate) fn workspace(&self) -> anyhow::Result<PathBuf> {
        let given = &self.workspace;
        let workspace = given.canonicalize().with_context(|| format!("--workspace {}", given.display()))?;
        ensure!(workspace.is_dir(), "--workspace {}: not a directory", given.display());
        ensure!(workspace.to_str().is_some(), "--workspace {}: not UTF-8", given.display());
        Ok(workspace)
    }

    /// How answers look unless a call says otherwise.
    pub(crate) fn answer_defaults(&self) -> AnswerDefaults {
        AnswerDefaults { raw: self.compat, max_tokens: self.max_tokens }
    }

    /// Where the supervisor for `workspace` is, or how to start it.
    pub(crate) fn endpoint(&self, workspace: &Path) -> Endpoint {
        match self.supervisor.clone() {
            Some(address) => {
                let client = self.cert.clone().zip(self.key.clone());
                let tls = TlsFiles { ca: self.ca.clone(), client };
                Endpoint::Running { address, token_file: self.token_file.clone(), tls }
            }
            None => Endpoint::Private { binary: self.proctor_binary.clone(), workspace: workspace.to_owned() },
        }
    }
}

fn parse_address(text: &str) -> anyhow::Result<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        ensure!(!path.is_empty(), "unix: needs a path, as in unix:/run/proctor/proctor.sock");
        return Ok(Address::Unix(path.into()));
    }
    let expected = "expected unix:PATH, https://HOST:PORT or http://127.0.0.1:PORT";
    let uri: tonic::transport::Uri = text.parse().context(expected)?;
    if uri.scheme_str() == Some("https") {
        return Ok(Address::Tls(text.to_owned()));
    }
    ensure!(uri.scheme_str() == Some("http"), expected);
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    ensure!(loopback, "plain http only to loopback: others on the way could read the token and the results");
    Ok(Address::Tcp(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn accepts_unix_sockets_loopback_and_tls_addresses_only() {
        assert_eq!(parse_address("unix:/x.sock").unwrap(), Address::Unix("/x.sock".into()));
        for good in ["http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"] {
            assert_eq!(parse_address(good).unwrap(), Address::Tcp(good.into()), "{good}");
        }
        assert_eq!(parse_address("https://build:1").unwrap(), Address::Tls("https://build:1".into()));
        for bad in ["unix:", "http://10.0.0.1:1", "http://example.com", "ftp://localhost", "x"] {
            assert!(parse_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn credentials_require_a_supervisor_address() {
        assert!(Args::try_parse_from(["proctor-mcp", "--token-file", "t"]).is_err());
        assert!(Args::try_parse_from(["proctor-mcp", "--supervisor", "unix:/s", "--token-file", "t"]).is_ok());
        assert!(Args::try_parse_from(["proctor-mcp", "--supervisor", "unix:/s", "--proctor-binary", "p"]).is_err());
        let tls = |more: &[&str]| {
            let all = ["proctor-mcp", "--supervisor", "https://s:1"].iter().chain(more);
            Args::try_parse_from(all).is_ok()
        };
        assert!(tls(&["--ca", "c"]) && tls(&["--ca", "c", "--cert", "d", "--key", "k"]));
        assert!(!tls(&["--ca", "c", "--cert", "d"]) && !tls(&["--cert", "d", "--key", "k"]), "each needs the others");
    }
}

//! The command line of `proctor-mcp`.

use crate::answer::budget::{MAX_TOKENS_DEFAULT, MAX_TOKENS_MAX};
use crate::call_context::AnswerDefaults;
use anyhow::{Context, ensure};
use clap::{CommandFactory, Parser};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// Longest name of a workspace, in bytes; it is part of a URL.
const NAME_BYTES_MAX: usize = 64;

/// Port of `https://` URLs that name none.
const HTTPS_PORT: u16 = 443;

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

  proctor-mcp --http 127.0.0.1:7900 --http-token-file ~/.config/proctor/http-token --workspace shop=src/shop --workspace api=src/api
      Serves many agents over HTTP, at http://127.0.0.1:7900/mcp/shop and /mcp/api, which know the token.

  proctor-mcp doctor --workspace ~/src/shop
      Checks the set-up: starts as a client would, and says what is wrong.

In an MCP client's configuration:
  {\"mcpServers\": {\"proctor\": {\"command\": \"proctor-mcp\", \"args\": [\"--workspace\", \"/home/me/src/shop\"]}}}

Tools: run_tests, run_failing_tests, last_test_failures, tests_covering, list_tests, get_run, get_test_report.
Logs go to stderr; PROCTOR_LOG sets the level (default warn).";

/// MCP server that runs one workspace's tests in a sandbox and answers questions about them.
///
/// Speaks MCP over stdin and stdout, so it is started by an MCP client rather than by hand, and ends when stdin does. With
/// --http it serves many clients of one tenant over streamable HTTP instead, until it is terminated.
#[derive(Debug, Parser)]
#[command(name = "proctor-mcp", version, after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    /// The workspace whose tests run; with --http, NAME=DIR may be given several times, each served at /mcp/NAME
    #[arg(long = "workspace", global = true, value_name = "[NAME=]DIR", default_value = ".")]
    workspaces: Vec<String>,

    /// The supervisor to use; without it a private one is started, which ends with this process
    #[arg(long, global = true, value_name = "unix:PATH|https://HOST:PORT|http://127.0.0.1:PORT", value_parser = parse_address)]
    supervisor: Option<Address>,

    /// File with the bearer token that names the tenant
    #[arg(long, global = true, value_name = "FILE", requires = "supervisor")]
    token_file: Option<PathBuf>,

    /// Certificates of the authorities of an https:// supervisor, in PEM
    #[arg(long, global = true, value_name = "FILE", requires = "supervisor")]
    ca: Option<PathBuf>,

    /// Certificate by which an https:// supervisor knows us, in PEM
    #[arg(long, global = true, value_name = "FILE", requires = "ca", requires = "key")]
    cert: Option<PathBuf>,

    /// Private key of that certificate, in PEM
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,

    /// Tokens (4 bytes each) of an answer, text and structured content together, unless a call sets max_tokens
    #[arg(long, global = true, value_name = "TOKENS", default_value_t = MAX_TOKENS_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_TOKENS_MAX)))]
    max_tokens: u32,

    /// Answer runs with the runner's own output, ending in `exit: N`, unless a call sets raw to false
    #[arg(long, global = true)]
    compat: bool,

    /// The `proctor` program for the private supervisor [default: beside this program, else on PATH]
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "supervisor")]
    proctor_binary: Option<PathBuf>,

    /// Address for MCP over streamable HTTP, instead of stdin and stdout; beyond loopback it needs --http-url
    #[arg(long, global = true, value_name = "IP:PORT")]
    http: Option<SocketAddr>,

    /// File with the bearer token that HTTP clients have to send; not the supervisor's token
    #[arg(long, global = true, value_name = "FILE", requires = "http")]
    http_token_file: Option<PathBuf>,

    /// Authorization server whose tokens for a URL of --http give access to it: the `iss` of its JSON web tokens
    #[arg(long, global = true, value_name = "URL", requires = "http", requires = "http_issuer_keys")]
    http_issuer: Option<String>,

    /// File with the public keys of --http-issuer, a JSON web key set
    #[arg(long, global = true, value_name = "FILE", requires = "http_issuer")]
    http_issuer_keys: Option<PathBuf>,

    /// Certificate chain of --http, in PEM: it speaks TLS then
    #[arg(long, global = true, value_name = "FILE", requires = "http", requires = "http_key")]
    http_cert: Option<PathBuf>,

    /// Private key of --http-cert, in PEM
    #[arg(long, global = true, value_name = "FILE", requires = "http_cert")]
    http_key: Option<PathBuf>,

    /// Authorities of client certificates, in PEM: such a certificate gives access without a token
    #[arg(long, global = true, value_name = "FILE", requires = "http_cert")]
    http_client_ca: Option<PathBuf>,

    /// URI or DNS name that client certificates need; of several given, one [default: any certificate of --http-client-ca]
    #[arg(long = "http-client-name", global = true, value_name = "NAME", requires = "http_client_ca")]
    http_client_names: Vec<String>,

    /// URL by which clients beyond this host reach --http, itself or a proxy in front of it that ends TLS
    #[arg(long, global = true, value_name = "https://HOST[:PORT]", requires = "http", value_parser = parse_public_url)]
    http_url: Option<PublicUrl>,
}

/// What to do instead of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::Subcommand)]
enum Command {
    /// Start as an MCP client would, with the same options, and say what is wrong; with --http connect to the server there
    Doctor,
    /// Print a shell's completions of this command line
    Completions { shell: clap_complete::Shell },
    /// Print the manual as a man page
    #[command(hide = true)]
    ManPage,
}

/// A workspace to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// Its name in the path of the HTTP endpoint.
    pub(crate) name: Option<String>,
    /// Canonical absolute path of a directory.
    pub(crate) path: PathBuf,
}

/// How to serve MCP over HTTP.
#[derive(Debug, Clone)]
pub(crate) struct HttpSettings {
    pub(crate) address: SocketAddr,
    /// File with the token of the clients, if a token gives access.
    pub(crate) token_file: Option<PathBuf>,
    /// File with the token of this process at the supervisor, which no client may use.
    pub(crate) supervisor_token_file: Option<PathBuf>,
    /// The authorization server, if its tokens give access.
    pub(crate) issuer: Option<HttpIssuer>,
    /// For clients beyond this host.
    pub(crate) url: Option<PublicUrl>,
    /// If the listener speaks TLS.
    pub(crate) tls: Option<HttpTlsFiles>,
}

impl HttpSettings {
    /// The scheme of the listener's own URLs.
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }
}

/// An authorization server.
#[derive(Debug, Clone)]
pub(crate) struct HttpIssuer {
    /// The `iss` of its tokens.
    pub(crate) name: String,
    /// File with its keys.
    pub(crate) keys: PathBuf,
}

/// PEM files for TLS of the listener.
#[derive(Debug, Clone)]
pub(crate) struct HttpTlsFiles {
    /// Its certificate chain.
    pub(crate) cert: PathBuf,
    /// Its private key.
    pub(crate) key: PathBuf,
    /// Authorities of client certificates, if those give access.
    pub(crate) client_ca: Option<PathBuf>,
    /// Names of which a client certificate needs one; any certificate of the authorities will do if there is none.
    pub(crate) client_names: Vec<String>,
}

/// The URL of the server for clients beyond this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PublicUrl {
    /// `https://HOST[:PORT]`, without the usual port.
    pub(crate) origin: String,
    /// The same with a port in any case.
    pub(crate) origin_with_port: String,
    /// The host.
    pub(crate) host: String,
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
    /// The workspaces: one, or several with different names.
    pub(crate) fn workspaces(&self) -> anyhow::Result<Vec<Workspace>> {
        let workspaces =
            self.workspaces.iter().map(|text| parse_workspace(text)).collect::<anyhow::Result<Vec<Workspace>>>()?;
        if workspaces.len() > 1 {
            ensure!(self.http.is_some(), "--workspace: several need --http; over stdin one is served");
            let mut names = HashSet::new();
            for (workspace, text) in workspaces.iter().zip(&self.workspaces) {
                let name = workspace.name.as_ref();
                let name =
                    name.with_context(|| format!("--workspace {text}: one of several needs a name, NAME=DIR"))?;
                ensure!(names.insert(name), "--workspace {text}: another one has this name");
            }
        }
        Ok(workspaces)
    }

    /// How to serve HTTP; `None` to serve stdin and stdout.
    pub(crate) fn http(&self) -> anyhow::Result<Option<HttpSettings>> {
        let Some(address) = self.http else { return Ok(None) };
        ensure!(
            self.http_token_file.is_some() || self.http_client_ca.is_some() || self.http_issuer.is_some(),
            "--http {address}: name what gives access with --http-token-file, --http-client-ca or --http-issuer"
        );
        let tls = self.http_cert.clone().zip(self.http_key.clone()).map(|(cert, key)| HttpTlsFiles {
            cert,
            key,
            client_ca: self.http_client_ca.clone(),
            client_names: self.http_client_names.clone(),
        });
        ensure!(
            address.ip().is_loopback() || self.http_url.is_some() || tls.is_some(),
            "--http {address}: not loopback and not encrypted: others on the way could read the token and the results. Give \
             --http-cert and --http-key, or put a TLS proxy in front, and name the URL of either with --http-url https://HOST"
        );
        ensure!(
            address.ip().is_loopback() || self.http_url.is_some(),
            "--http {address}: name the URL by which clients reach it with --http-url https://HOST; requests for other hosts \
             are refused"
        );
        let issuer = self.http_issuer.clone().zip(self.http_issuer_keys.clone());
        Ok(Some(HttpSettings {
            address,
            token_file: self.http_token_file.clone(),
            supervisor_token_file: self.token_file.clone(),
            issuer: issuer.map(|(name, keys)| HttpIssuer { name, keys }),
            url: self.http_url.clone(),
            tls,
        }))
    }

    /// The path of each workspace over HTTP.
    pub(crate) fn http_paths(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.workspaces()?.iter().map(|workspace| mcp_path(workspace.name.as_deref())).collect())
    }

    /// Whether the set-up is to be checked instead of serving.
    pub(crate) fn is_doctor(&self) -> bool {
        self.command == Some(Command::Doctor)
    }

    /// The file for a shell or for `man` that is to be printed instead of serving.
    pub(crate) fn shell_file(&self) -> Option<std::io::Result<Vec<u8>>> {
        let mut text = Vec::new();
        match self.command? {
            Command::Doctor => None,
            Command::Completions { shell } => {
                clap_complete::generate(shell, &mut Args::command(), "proctor-mcp", &mut text);
                Some(Ok(text))
            }
            Command::ManPage => Some(clap_mangen::Man::new(Args::command()).render(&mut text).map(|()| text)),
        }
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

/// Path of the only workspace; the names of several follow it.
pub(crate) const MCP_PATH: &str = "/mcp";

/// The path of a workspace over HTTP.
pub(crate) fn mcp_path(name: Option<&str>) -> String {
    name.map_or_else(|| MCP_PATH.to_owned(), |name| format!("{MCP_PATH}/{name}"))
}

// The name ends at the first `=`; `./a=b` is a directory without one.
fn parse_workspace(text: &str) -> anyhow::Result<Workspace> {
    let is_name = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
    };
    let (name, given) = match text.split_once('=').filter(|(name, _)| is_name(name)) {
        Some((name, given)) => (Some(name.to_owned()), given),
        None => (None, text),
    };
    let path = Path::new(given).canonicalize().with_context(|| format!("--workspace {text}"))?;
    ensure!(path.is_dir(), "--workspace {text}: not a directory");
    ensure!(path.to_str().is_some(), "--workspace {text}: not UTF-8");
    Ok(Workspace { name, path })
}

fn parse_public_url(text: &str) -> anyhow::Result<PublicUrl> {
    let expected = "expected https://HOST or https://HOST:PORT, without a path";
    let uri: tonic::transport::Uri = text.parse().context(expected)?;
    let authority = uri.authority().context(expected)?;
    let is_bare = matches!(uri.path_and_query().map(|path| path.as_str()), None | Some("" | "/"));
    ensure!(uri.scheme_str() == Some("https") && is_bare && !authority.as_str().contains('@'), expected);
    let (host, port) = (authority.host().to_ascii_lowercase(), authority.port_u16().unwrap_or(HTTPS_PORT));
    let origin_with_port = format!("https://{host}:{port}");
    let origin = if port == HTTPS_PORT { format!("https://{host}") } else { origin_with_port.clone() };
    Ok(PublicUrl { origin, origin_with_port, host })
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

    fn args(more: &[&str]) -> Args {
        Args::try_parse_from(["proctor-mcp"].iter().chain(more)).unwrap()
    }

    #[test]
    fn several_workspaces_need_names_and_http() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let workspace = |name: &str| format!("{name}={}", path.display());
        let (a, b) = (workspace("a"), workspace("b-2"));
        let http = ["--http", "127.0.0.1:0", "--http-token-file", "t"];
        let all = |workspaces: &[&str]| {
            let options = workspaces.iter().flat_map(|workspace| ["--workspace", *workspace]);
            args(&http.into_iter().chain(options).collect::<Vec<_>>()).workspaces()
        };
        let names: Vec<Option<String>> = all(&[&a, &b]).unwrap().into_iter().map(|workspace| workspace.name).collect();
        assert_eq!(names, [Some("a".into()), Some("b-2".into())]);
        assert!(all(&[&a, &a]).unwrap_err().to_string().ends_with("another one has this name"));
        assert!(all(&[&a, path.to_str().unwrap()]).unwrap_err().to_string().ends_with("needs a name, NAME=DIR"));
        let stdio = args(&["--workspace", &a, "--workspace", &b]).workspaces().unwrap_err().to_string();
        assert!(stdio.contains("several need --http"), "{stdio}");
        let odd = path.join("x=y");
        std::fs::create_dir(&odd).unwrap();
        let only = args(&["--workspace", odd.to_str().unwrap()]).workspaces().unwrap();
        assert_eq!(only, [Workspace { name: None, path: odd }], "a path has no name");
    }

    #[test]
    fn http_beyond_loopback_needs_the_url_of_a_tls_proxy() {
        let token = ["--http-token-file", "t"];
        for good in ["127.0.0.1:1", "[::1]:1"] {
            assert!(args(&["--http", good, token[0], token[1]]).http().unwrap().is_some(), "{good}");
        }
        let exposed = ["--http", "0.0.0.0:1", token[0], token[1]];
        assert!(args(&exposed).http().unwrap_err().to_string().contains("--http-url https://HOST"));
        let proxied = [&exposed[..], &["--http-url", "https://Mcp.example.com/"]].concat();
        let url = args(&proxied).http().unwrap().unwrap().url.unwrap();
        assert_eq!((url.origin.as_str(), url.host.as_str()), ("https://mcp.example.com", "mcp.example.com"));
        for bad in ["http://a", "https://a/b", "https://u@a", "a", "https://"] {
            assert!(parse_public_url(bad).is_err(), "{bad}");
        }
        let secured = [&exposed[..], &["--http-cert", "c", "--http-key", "k"]].concat();
        assert!(args(&secured).http().unwrap_err().to_string().contains("name the URL"));
        assert!(args(&["--http", "127.0.0.1:1"]).http().unwrap_err().to_string().contains("name what gives access"));
        for incomplete in [
            &["--http-token-file", "t"][..],
            &["--http-url", "https://a"],
            &["--http", "127.0.0.1:1", "--http-cert", "c"],
            &["--http", "127.0.0.1:1", "--http-client-ca", "c"],
            &["--http", "127.0.0.1:1", "--http-issuer", "https://a"],
        ] {
            assert!(Args::try_parse_from(["proctor-mcp"].iter().chain(incomplete)).is_err(), "{incomplete:?}");
        }
        assert!(args(&[]).http().unwrap().is_none());
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

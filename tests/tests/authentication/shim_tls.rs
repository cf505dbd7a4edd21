//! The shim at a supervisor with TLS: authentication by token or certificate, and clear errors about invalid certificates.

use crate::credentials::{BEFORE, Keys, LATER};
use proctor_tests::mcp_client::Mcp;
use proctor_tests::process::wait_for_exit;
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::json;

/// A supervisor, a workspace of tenant beta, and files with credentials.
struct ShimSetup {
    keys: Keys,
    supervisor: SupervisorProcess,
    workspace: TestWorkspace,
}

impl ShimSetup {
    fn new() -> ShimSetup {
        let keys = Keys::new();
        let supervisor = keys.supervisor();
        let mut workspace = TestWorkspace::empty();
        workspace.path = supervisor.empty_workspace("beta", "own");
        keys.write("token", &token("beta"));
        keys.write("others.pem", &Keys::new().authorities);
        let stranger = Keys::new();
        for (name, (certificate, key)) in [
            ("beta", keys.certificate("spiffe://x/beta", LATER)),
            ("nobody", keys.certificate("spiffe://x/nobody", LATER)),
            ("expired", keys.certificate("spiffe://x/beta", BEFORE)),
            ("forged", stranger.certificate("spiffe://x/beta", LATER)),
        ] {
            keys.write(&format!("{name}.pem"), &certificate);
            keys.write(&format!("{name}.key"), &key);
        }
        ShimSetup { keys, supervisor, workspace }
    }

    /// Starts a shim with these options, pairs of an option and a file name.
    async fn shim(&self, host: &str, options: &[(&str, &str)]) -> Mcp {
        let mut command = self.workspace.command("proctor-mcp");
        command.args(["--supervisor", &format!("https://{host}:{}", self.supervisor.address.port())]);
        for (option, file) in options {
            command.arg(option).arg(self.keys.path(file));
        }
        Mcp::start_with(&mut command, &self.workspace).await
    }

    async fn expect_error(&self, host: &str, options: &[(&str, &str)]) -> String {
        self.shim(host, options).await.expect_error("last_test_failures", json!({})).await
    }
}

const CA: (&str, &str) = ("--ca", "clients.pem");

fn certificate_options(name: &str) -> [(&'static str, String); 2] {
    [("--cert", format!("{name}.pem")), ("--key", format!("{name}.key"))]
}

#[tokio::test]
async fn authenticates_by_token_or_certificate() {
    let setup = ShimSetup::new();
    for options in [&[CA, ("--token-file", "token")][..], &[CA, ("--cert", "beta.pem"), ("--key", "beta.key")]] {
        let shim = setup.shim("localhost", options).await;
        // Only beta can open a workspace below this root.
        let answer = shim.call("run_tests", json!({"command": ["/bin/true"]})).await;
        assert_eq!(answer.structured["outcome"], "passed", "{options:?}: {answer:?}");
        shim.close().await;
    }
    let help = wait_for_exit(setup.workspace.command("proctor-mcp").arg("--help").spawn().unwrap()).stdout;
    // The help is wrapped to the width of a terminal.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for example in ["--token-file <FILE>", "--supervisor https://localhost:7878 --ca ca.pem --cert me.pem --key me.key"]
    {
        assert!(help.contains(example), "{example}: {help}");
    }
}

#[tokio::test]
async fn explains_every_certificate_error_with_a_remedy() {
    let setup = ShimSetup::new();
    let prefix = "last_test_failures: the supervisor's certificate";
    for (host, ca, name, expected, remedy) in [
        (
            "localhost",
            Some("others.pem"),
            "beta",
            format!("{prefix} was not signed by an authority in --ca. "),
            "Give --ca",
        ),
        ("127.0.0.1", Some("clients.pem"), "beta", format!("{prefix} names another host. "), "--supervisor"),
        (
            "localhost",
            Some("gone.pem"),
            "beta",
            format!("last_test_failures: {}: No such file", setup.keys.path("gone.pem").display()),
            "Check --ca",
        ),
        ("localhost", None, "", "last_test_failures: an https:// supervisor needs --ca".to_owned(), "Check --ca"),
        (
            "localhost",
            Some("clients.pem"),
            "expired",
            "last_test_failures: the supervisor refuses our certificate, which has expired. ".to_owned(),
            "Renew --cert",
        ),
        (
            "localhost",
            Some("clients.pem"),
            "forged",
            "last_test_failures: the supervisor refuses our certificate. ".to_owned(),
            "client_ca",
        ),
        (
            "localhost",
            Some("clients.pem"),
            "nobody",
            "last_test_failures: the supervisor does not recognise the caller (the client certificate is not known). "
                .to_owned(),
            "--cert",
        ),
    ] {
        let own = certificate_options(name);
        let own = own.iter().map(|(option, file)| (*option, file.as_str())).filter(|_| !name.is_empty());
        let options: Vec<(&str, &str)> = ca.map(|ca| ("--ca", ca)).into_iter().chain(own).collect();
        let error = setup.expect_error(host, &options).await;
        assert!(error.starts_with(&expected) && error.contains(remedy), "{options:?}: {error}");
    }

    setup.keys.renew(BEFORE);
    assert!(setup.supervisor.reload_host_file(|text| text).contains("was reloaded"));
    let error = setup.expect_error("localhost", &[CA, ("--token-file", "token")]).await;
    assert!(error.starts_with(&format!("{prefix} has expired. ")) && error.contains("SIGHUP"), "{error}");
}

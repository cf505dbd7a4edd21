//! The shim at a supervisor that speaks TLS: known by its token or its certificate, and plain about certificates that do not
//! count. Must not know how a supervisor checks them.

use crate::credentials::{BEFORE, Keys, LATER};
use crate::mcp_client::Mcp;
use proctor_tests::process::wait_for_exit;
use proctor_tests::supervisor_process::{SupervisorProcess, token};
use proctor_tests::test_workspace::TestWorkspace;
use serde_json::json;

/// A supervisor, a workspace of its tenant beta, and the files of those who call it.
struct Scene {
    keys: Keys,
    supervisor: SupervisorProcess,
    place: TestWorkspace,
}

impl Scene {
    fn new() -> Scene {
        let keys = Keys::new();
        let supervisor = keys.supervisor();
        let mut place = TestWorkspace::empty();
        place.workspace = supervisor.empty_workspace("beta", "own");
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
        Scene { keys, supervisor, place }
    }

    /// A shim with these options, each the name of one and of a file.
    async fn shim(&self, host: &str, options: &[(&str, &str)]) -> Mcp {
        let mut command = self.place.command("proctor-mcp");
        command.args(["--supervisor", &format!("https://{host}:{}", self.supervisor.address.port())]);
        for (option, file) in options {
            command.arg(option).arg(self.keys.path(file));
        }
        Mcp::started_by(&mut command, &self.place).await
    }

    async fn refused(&self, host: &str, options: &[(&str, &str)]) -> String {
        self.shim(host, options).await.refused("last_test_failures", json!({})).await
    }
}

const CA: (&str, &str) = ("--ca", "clients.pem");

fn own(name: &str) -> [(&'static str, String); 2] {
    [("--cert", format!("{name}.pem")), ("--key", format!("{name}.key"))]
}

#[tokio::test]
async fn a_shim_is_known_by_its_token_or_by_its_certificate() {
    let scene = Scene::new();
    for options in [&[CA, ("--token-file", "token")][..], &[CA, ("--cert", "beta.pem"), ("--key", "beta.key")]] {
        let shim = scene.shim("localhost", options).await;
        // Only beta can open a workspace there.
        let answer = shim.call("run_tests", json!({"command": ["/bin/true"]})).await;
        assert_eq!(answer.structured["outcome"], "passed", "{options:?}: {answer:?}");
        shim.leave().await;
    }
    let help = wait_for_exit(scene.place.command("proctor-mcp").arg("--help").spawn().unwrap()).stdout;
    // Its lines are as wide as a terminal.
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for taught in ["--token-file <FILE>", "--supervisor https://localhost:7878 --ca ca.pem --cert me.pem --key me.key"]
    {
        assert!(help.contains(taught), "{taught}: {help}");
    }
}

#[tokio::test]
async fn a_certificate_that_does_not_count_is_named_with_a_remedy() {
    let scene = Scene::new();
    let theirs = "last_test_failures: the supervisor's certificate";
    for (host, ca, name, expected, remedy) in [
        (
            "localhost",
            Some("others.pem"),
            "beta",
            format!("{theirs} was not signed by an authority in --ca. "),
            "Give --ca",
        ),
        ("127.0.0.1", Some("clients.pem"), "beta", format!("{theirs} names another host. "), "--supervisor"),
        (
            "localhost",
            Some("gone.pem"),
            "beta",
            format!("last_test_failures: {}: No such file", scene.keys.path("gone.pem").display()),
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
        let own = own(name);
        let own = own.iter().map(|(option, file)| (*option, file.as_str())).filter(|_| !name.is_empty());
        let options: Vec<(&str, &str)> = ca.map(|ca| ("--ca", ca)).into_iter().chain(own).collect();
        let said = scene.refused(host, &options).await;
        assert!(said.starts_with(&expected) && said.contains(remedy), "{options:?}: {said}");
    }

    scene.keys.renew(BEFORE);
    assert!(scene.supervisor.reload(|text| text).contains("was reloaded"));
    let said = scene.refused("localhost", &[CA, ("--token-file", "token")]).await;
    assert!(said.starts_with(&format!("{theirs} has expired. ")) && said.contains("SIGHUP"), "{said}");
}

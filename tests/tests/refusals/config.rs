//! Host files that cannot be used: everything that is wrong is told at once, and nothing is made.

use proctor_tests::place::Place;
use proctor_tests::process::Said;
use proctor_tests::supervisor::{Settings, TENANTS, host_file};
use std::fs;

fn check(place: &Place, text: &str) -> Said {
    fs::write(place.root().join("proctor.toml"), text).unwrap();
    let file = place.root().join("proctor.toml");
    let said = place.proctor(&["serve", "--config", file.to_str().unwrap(), "--check"]);
    Said { stderr: said.stderr.replace(file.to_str().unwrap(), "FILE"), ..said }
}

#[test]
fn every_problem_of_a_host_file_is_listed() {
    let place = Place::empty();
    let state = place.root().join("not-made");
    let text = format!(
        "state_dir = {state:?}\n[listen]\ntcp = \"0.0.0.0:7878\"\nunix_mode = \"rw\"\n[host]\nruns_max = 0\n\
         [[tenant]]\nid = \"a b\"\nroots = [\"relative\", \"/no/such/directory\"]\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\nroots = []\nsessions_max = 0\n\
         [[tenant]]\nid = \"shop\"\nuids = [7]\ntoken_hashes = [\"beef\"]\nroots = [\"/\"]\n"
    );
    let said = check(&place, &text);
    assert_eq!((said.status, said.stdout.as_str()), (2, ""), "{said:?}");
    for problem in [
        "listen.unix_mode: expected octal digits",
        "listen.tcp: 0.0.0.0:7878 is not loopback and not encrypted",
        "host.runs_max: must be at least 1",
        "tenant \"a b\": id must be 1 to 64 letters",
        "tenant \"a b\": root relative is not absolute",
        "tenant \"a b\": root /no/such/directory is not a directory",
        "tenant \"a b\": neither uids nor token_hashes",
        "tenant \"shop\": roots is empty",
        "tenant \"shop\": sessions_max must be at least 1",
        "tenant \"shop\": defined twice",
        "tenant \"shop\": shares a uid or token with tenant \"shop\"",
        "tenant \"shop\": \"beef\" is not 64 hexadecimal digits",
    ] {
        let line = format!("proctor: FILE: {problem}");
        assert!(said.stderr.lines().any(|said| said.starts_with(&line)), "{line} in\n{}", said.stderr);
    }
    assert!(!state.exists(), "checking makes nothing");
}

#[test]
fn a_file_that_cannot_be_read_names_line_and_key() {
    let place = Place::empty();
    for (text, wanted) in [
        ("state_dir = \"/x\"\nstate_dri = 1\n[listen]\n", "state_dri"),
        ("state_dir = \"/x\"\n[listen]\nunix = 7\n", "line 3"),
        ("state_dir = \n", "line 1"),
        ("[defaults]\ntimeout = \"-5s\"\n", "-5s"),
    ] {
        let said = check(&place, text);
        assert_eq!(said.status, 2, "{said:?}");
        assert!(
            said.stderr.starts_with("proctor: FILE: ") && said.stderr.contains(wanted),
            "{wanted}: {}",
            said.stderr
        );
    }
    let missing = place.proctor(&["serve", "--config", "nowhere.toml"]);
    assert_eq!(missing.status, 2);
    assert_eq!(missing.stderr, "proctor: nowhere.toml: No such file or directory (os error 2)\n");
}

#[test]
fn a_good_file_is_called_good() {
    let place = Place::empty();
    for tenant in TENANTS {
        fs::create_dir(place.root().join(tenant)).unwrap();
    }
    let said = check(&place, &host_file(place.root(), &Settings::default()));
    assert_eq!((said.status, said.stderr.as_str()), (0, ""), "{said:?}");
    assert!(said.stdout.ends_with(": ok\n"));
}

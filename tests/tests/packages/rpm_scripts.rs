//! The scripts of the rpm, run by a shell in the order in which rpm runs them, with stand-ins for systemd's programs that record
//! their calls and keep the state of the service.

use crate::deb::run;
use proctor_tests::process::{command, source_root};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// The stand-in of `systemctl`: the file `active` is there while the service runs.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "systemctl $*" >> calls
case "$*" in
  *is-active*) [ -e active ] ;;
  "start "*) touch active ;;
  "stop "*) rm -f active ;;
esac
"#;

/// A host on which scripts run: its `/run` is a directory of its own.
struct Host(TempDir);

impl Host {
    /// A host, with systemd as init or without.
    fn new(with_systemd: bool) -> Host {
        let host = Host(tempfile::tempdir().unwrap());
        fs::create_dir_all(host.path().join("bin")).unwrap();
        fs::create_dir_all(host.path().join(if with_systemd { "run/systemd/system" } else { "run" })).unwrap();
        host.stand_in("systemctl", SYSTEMCTL);
        for name in ["systemd-sysusers", "systemd-tmpfiles"] {
            host.stand_in(name, &format!("#!/bin/sh\necho \"{name} $*\" >> calls\n"));
        }
        host
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn stand_in(&self, name: &str, script: &str) {
        let program = self.path().join("bin").join(name);
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs scripts, each with the number of versions that rpm passes. Returns the calls that they make.
    fn run(&self, scripts: &[(&str, u8)]) -> Vec<String> {
        fs::write(self.path().join("calls"), "").unwrap();
        for (name, versions) in scripts {
            let script = fs::read_to_string(source_root().join("deploy/packages/rpm").join(name)).unwrap();
            let script = script.replace("/run/", &format!("{}/run/", self.path().display()));
            let mut shell = command(Path::new("/bin/sh"));
            shell.env("PATH", format!("{}/bin:/usr/bin:/bin", self.path().display())).current_dir(self.path());
            run(shell.args(["-u", "-c", &script, name, &versions.to_string()]));
        }
        let calls = fs::read_to_string(self.path().join("calls")).unwrap();
        calls.lines().map(str::to_owned).collect()
    }

    fn service_runs(&self) -> bool {
        self.path().join("active").exists()
    }

    fn start_service(&self) {
        fs::write(self.path().join("active"), "").unwrap();
    }

    fn mark(&self) -> std::path::PathBuf {
        self.path().join("run/proctor-was-active")
    }
}

const INSTALL: &[(&str, u8)] = &[("pre", 1), ("post", 1)];
/// The new package's scripts, then the old one's.
const UPGRADE: &[(&str, u8)] = &[("pre", 2), ("post", 2), ("preun", 1), ("postun", 1)];
const REMOVAL: &[(&str, u8)] = &[("preun", 0), ("postun", 0)];

#[test]
fn an_installation_makes_the_group_and_leaves_the_start_to_the_presets() {
    let host = Host::new(true);
    let expected = [
        "systemd-sysusers proctor.conf",
        "systemd-tmpfiles --create proctor.conf",
        "systemctl --no-reload preset proctor.service",
        "systemctl daemon-reload",
    ];
    assert_eq!(host.run(INSTALL), expected);
    assert!(!host.service_runs());
}

#[test]
fn an_upgrade_stops_the_service_before_the_files_change_and_starts_it_after() {
    let host = Host::new(true);
    host.start_service();
    let before = host.run(&UPGRADE[..1]);
    assert_eq!(before, ["systemctl --quiet is-active proctor.service", "systemctl stop proctor.service"]);
    assert!(!host.service_runs());
    let after = host.run(&UPGRADE[1..]);
    assert_eq!(after[2..], ["systemctl daemon-reload", "systemctl start proctor.service"]);
    assert!(host.service_runs() && !host.mark().exists());
}

#[test]
fn an_upgrade_starts_no_service_that_was_stopped() {
    let host = Host::new(true);
    // A transaction failed after its first script, and the operator stopped the service since.
    host.start_service();
    host.run(&UPGRADE[..1]);
    assert!(host.mark().exists());
    let calls = host.run(UPGRADE);
    assert!(!calls.iter().any(|call| call.contains("start")), "{calls:?}");
    assert!(!host.service_runs() && !host.mark().exists());
}

#[test]
fn a_removal_stops_and_disables_the_service() {
    let host = Host::new(true);
    host.start_service();
    let expected =
        ["systemctl --no-reload disable proctor.service", "systemctl stop proctor.service", "systemctl daemon-reload"];
    assert_eq!(host.run(REMOVAL), expected);
    assert!(!host.service_runs());
}

#[test]
fn a_host_without_systemd_as_init_is_only_prepared() {
    let host = Host::new(false);
    for scripts in [INSTALL, UPGRADE, REMOVAL] {
        let calls = host.run(scripts);
        let talks = ["start", "stop", "daemon-reload", "is-active"];
        assert!(!calls.iter().any(|call| talks.iter().any(|word| call.contains(word))), "{calls:?}");
    }
}

//! A guest with systemd as init, in which packages can be installed: the machine of `.ci/tools guest` with the disk of
//! `.ci/tools package-guest`, whose changes go with the guest. `guest.sh` runs in it.

use crate::deb::run;
use proctor_tests::process::{command, ensure_installed, tools};
use proctor_tests::qemu_guest::GuestCommand;
use proctor_tests::qemu_guest::machine::{Disk, Machine, Writes, guest_tool, nonce, parse_output};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Room on the disk of the payload, beside its files: none is written there.
const FREE_BYTES: u64 = 32 << 20;

/// Longest life of a guest, in seconds: more than ten times that on a quiet machine, as every instruction is emulated.
const SECONDS_MAX: u64 = 1_800;

/// Runs the script below systemd.
const INIT: &str = "init=/lib/systemd/systemd \
     systemd.run=\"/bin/sh -c 'mount -o ro /dev/nvme1n1 /mnt && exec sh /mnt/guest.sh'\"";

/// What the script has reported.
pub(crate) struct Report {
    /// The steps that began.
    steps: Vec<GuestCommand>,
    /// Everything, for messages.
    text: String,
}

impl Report {
    /// The output of a step that succeeded.
    pub(crate) fn output(&self, step: &str) -> &str {
        let (status, output) = self.step(step);
        assert_eq!(status, 0, "{step}: {output}\n{}", self.text);
        output
    }

    /// Status and output of a step that ended.
    pub(crate) fn step(&self, step: &str) -> (i32, &str) {
        let found = self.steps.iter().find(|one| one.line == step);
        let Some((status, step)) = found.and_then(|one| one.status.zip(Some(one))) else {
            panic!("{step} did not end: {}", self.text)
        };
        (status, step.output.trim())
    }

    /// Everything that the guest has printed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Boots a guest that runs `guest.sh` with `files`, each with its name there, and waits until it has powered off.
pub(crate) fn boot(files: &[(&str, &Path)]) -> Report {
    ensure_installed("package-guest");
    // Beside the executables of this build, whose disk has room.
    let build_dir = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let dir = tempfile::Builder::new().prefix("package-guest-").tempdir_in(build_dir).unwrap();
    let at = |name: &str| dir.path().join(name);
    let (payload, payload_disk) = (at("payload"), at("disk"));
    fs::create_dir(&payload).unwrap();
    fs::write(payload.join("guest.sh"), include_str!("guest.sh")).unwrap();
    let nonce = nonce();
    fs::write(payload.join("nonce"), &nonce).unwrap();
    let tools_of_guest = ["busybox", "overlay.ko"].map(|name| (name, guest_tool(name)));
    let more = tools_of_guest.iter().map(|(name, path)| (*name, path.as_path()));
    let all = files.iter().copied().chain(more);
    let bytes: u64 = all.map(|(name, path)| fs::copy(path, payload.join(name)).unwrap()).sum();
    fs::File::create(&payload_disk).unwrap().set_len(bytes + bytes / 4 + FREE_BYTES).unwrap();
    run(command(&guest_tool("mke2fs"))
        .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"])
        .arg(&payload)
        .arg(&payload_disk));
    let root_disk = tools().join("package-guest/disk");
    let disks = [
        Disk { name: "root", file: &root_disk, writes: Writes::Discarded },
        Disk { name: "payload", file: &payload_disk, writes: Writes::Refused },
    ];
    let ports = [at("console"), at("output")];
    let timeout = Duration::from_secs(SECONDS_MAX);
    let machine = Machine {
        disks: &disks,
        ports: ports.each_ref().map(|port| port.as_path()),
        init: INIT,
        timeout,
        scratch: dir.path(),
    };
    let timed_out = machine.run();
    let [console, output] = ports.map(|port| String::from_utf8_lossy(&fs::read(port).unwrap()).into_owned());
    let text = format!("console:\n{console}\noutput:\n{output}");
    assert!(!timed_out, "the guest has not powered off within {SECONDS_MAX} s\n{text}");
    Report { steps: parse_output(&output, &nonce).0, text }
}

//! A guest with systemd as init, in which packages can be installed: QEMU with the kernel of `.ci/tools guest` and the disk of
//! `.ci/tools package-guest`, of which each guest changes a copy of its own. `guest.sh` runs in it.

use crate::deb::run;
use proctor_tests::process::{command, ensure_installed, tools};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Room on the disk of the payload, beside its files: none is written there.
const FREE_BYTES: u64 = 32 << 20;

/// Longest life of a guest, in seconds: ten times that on a quiet machine, as every instruction is emulated.
const SECONDS_MAX: &str = "900";

/// Runs the script below systemd.
const COMMAND_LINE: &str = "root=/dev/nvme0n1 rootfstype=ext4 rw console=ttyS0 quiet panic=-1 init=/lib/systemd/systemd \
     systemd.run=\"/bin/sh -c 'mount -o ro /dev/nvme1n1 /mnt && exec sh /mnt/guest.sh'\"";

/// What the script has reported.
pub(crate) struct Report {
    /// Status and output of each step, by its name.
    steps: BTreeMap<String, (i32, String)>,
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

    /// Status and output of a step.
    pub(crate) fn step(&self, step: &str) -> (i32, &str) {
        let Some((status, output)) = self.steps.get(step) else { panic!("{step} did not end: {}", self.text) };
        (*status, output)
    }

    /// Everything that the guest has printed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

/// Boots a guest that runs `guest.sh` with `files`, each with its name there, and waits until it has powered off.
pub(crate) fn boot(files: &[(&str, &Path)]) -> Report {
    ensure_installed("package-guest");
    let guest = tools().join("guest");
    // Beside the executables of this build, whose disk has room.
    let build_dir = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let dir = tempfile::Builder::new().prefix("package-guest-").tempdir_in(build_dir).unwrap();
    let at = |name: &str| dir.path().join(name);
    let payload = at("payload");
    fs::create_dir(&payload).unwrap();
    fs::write(payload.join("guest.sh"), include_str!("guest.sh")).unwrap();
    let nonce = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned();
    fs::write(payload.join("nonce"), &nonce).unwrap();
    let tools = ["busybox", "overlay.ko"].map(|name| (name, guest.join(name)));
    let all =
        files.iter().map(|(name, path)| (*name, *path)).chain(tools.iter().map(|(name, path)| (*name, path.as_path())));
    let bytes: u64 = all.map(|(name, path)| fs::copy(path, payload.join(name)).unwrap()).sum();
    fs::File::create(at("disk")).unwrap().set_len(bytes + bytes / 4 + FREE_BYTES).unwrap();
    run(command(&guest.join("mke2fs"))
        .args(["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d"])
        .arg(&payload)
        .arg(at("disk")));
    // The guest dies with the test's thread, and after its time.
    let mut qemu = command("/usr/bin/setpriv".as_ref());
    qemu.args(["--pdeathsig", "KILL", "timeout", "--signal", "KILL", SECONDS_MAX])
        .arg(guest.join("qemu-system-x86_64"));
    qemu.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TMPDIR", dir.path());
    qemu.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-nic", "none", "-machine", "pc"]);
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max,la57=off", "-smp", "2", "-m", "2048M"]);
    let disks = [("root", "snapshot=on", tools_disk()), ("payload", "readonly=on", at("disk"))];
    for (name, access, file) in disks {
        qemu.arg("-drive").arg(format!("if=none,id={name},format=raw,cache=unsafe,{access},file={}", file.display()));
        qemu.arg("-device").arg(format!("nvme,serial={name},drive={name}"));
    }
    for port in ["console", "output"] {
        qemu.arg("-serial").arg(format!("file:{}", at(port).display()));
    }
    qemu.arg("-kernel").arg(guest.join("kernel")).arg("-append").arg(COMMAND_LINE);
    let ended = qemu.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
    let read = |name: &str| String::from_utf8_lossy(&fs::read(at(name)).unwrap_or_default()).into_owned();
    let (console, output) = (read("console"), read("output"));
    let text = format!("QEMU {ended:?}\nconsole:\n{console}\noutput:\n{output}");
    assert!(ended.status.success(), "{text}");
    Report { steps: parse(&output, &nonce), text }
}

fn tools_disk() -> std::path::PathBuf {
    tools().join("package-guest/disk")
}

/// Parses `NONCE begin STEP`, a step's output, `NONCE end STATUS SECONDS`, repeated.
fn parse(output: &str, nonce: &str) -> BTreeMap<String, (i32, String)> {
    let (mut steps, mut current) = (BTreeMap::new(), None);
    for part in output.split(&format!("\n{nonce} ")).skip(1) {
        let (mark, text) = part.split_once('\n').unwrap_or((part, ""));
        match *mark.split(' ').collect::<Vec<_>>() {
            ["begin", name] => current = Some((name.to_owned(), text.trim().to_owned())),
            ["end", status, _] => {
                let (name, text) = current.take().unwrap();
                steps.insert(name, (status.parse().unwrap(), text));
            }
            _ => panic!("{mark}"),
        }
    }
    steps
}

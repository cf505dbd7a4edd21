//! What the deb contains: programs, unit, settings, manual, completions, licences, SBOM, and no path of this build host.

use crate::deb::{Deb, run};
use proctor_tests::process::{command, source_root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Path and mode of each file that is neither a page of the manual nor a completion.
const FILES: [(&str, &str); 18] = [
    ("/usr/bin/proctor", "-rwxr-xr-x"),
    ("/usr/bin/proctor-worker", "-rwxr-xr-x"),
    ("/usr/bin/proctor-mcp", "-rwxr-xr-x"),
    // Hashes of tokens are in it.
    ("/etc/proctor/proctor.toml", "-rw-------"),
    ("/usr/lib/systemd/system/proctor.service", "-rw-r--r--"),
    ("/usr/lib/systemd/system/proctor.service.d/10-package.conf", "-rw-r--r--"),
    ("/usr/lib/sysusers.d/proctor.conf", "-rw-r--r--"),
    ("/usr/lib/tmpfiles.d/proctor.conf", "-rw-r--r--"),
    ("/usr/share/man/man1/proctor.1", "-rw-r--r--"),
    ("/usr/share/man/man1/proctor-run.1", "-rw-r--r--"),
    ("/usr/share/man/man1/proctor-admin-drain.1", "-rw-r--r--"),
    ("/usr/share/man/man1/proctor-mcp.1", "-rw-r--r--"),
    ("/usr/share/doc/proctor/copyright", "-rw-r--r--"),
    ("/usr/share/doc/proctor/licences.txt", "-rw-r--r--"),
    ("/usr/share/doc/proctor/proctor.cdx.json", "-rw-r--r--"),
    ("/usr/share/doc/proctor/proctor-mcp.cdx.json", "-rw-r--r--"),
    ("/usr/share/doc/proctor/operating.md", "-rw-r--r--"),
    ("/usr/share/doc/proctor/examples/proctor.toml", "-rw-r--r--"),
];

const COMPLETIONS: [(&str, &str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions", ""),
    ("zsh", "usr/share/zsh/vendor-completions", "_"),
    ("fish", "usr/share/fish/vendor_completions.d", ""),
];

#[test]
fn the_deb_has_every_part_and_its_licences() {
    let deb = Deb::build();
    // Pages are compressed unless the deb is made in a hurry, as here.
    let files: Vec<(String, String)> =
        deb.files().into_iter().map(|(path, mode)| (path.trim_end_matches(".gz").to_owned(), mode)).collect();
    for (path, mode) in FILES {
        assert!(files.contains(&(path.to_owned(), mode.to_owned())), "{path} {mode} is not among {files:#?}");
    }
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!((deb.field("Package"), deb.field("Version")), ("proctor".to_owned(), format!("{version}-1")));
    assert!(deb.field("Depends").contains("libc6 (>= "), "{}", deb.field("Depends"));
    let root = deb.unpack();
    let proctor = root.join("usr/bin/proctor");
    assert!(run(command(&proctor).arg("--version")).stdout.starts_with(&format!("proctor {version}")));
    for (shell, dir, prefix) in COMPLETIONS {
        let end = if shell == "fish" { ".fish" } else { "" };
        for name in ["proctor", "proctor-mcp"] {
            let program = root.join("usr/bin").join(name);
            let packed = fs::read_to_string(root.join(dir).join(format!("{prefix}{name}{end}"))).unwrap();
            assert_eq!(packed, run(command(&program).args(["completions", shell])).stdout, "{shell} {name}");
        }
    }
    let check = ["serve", "--check", "--config"];
    run(command(&proctor).args(check).arg(root.join("etc/proctor/proctor.toml")));
    let crates = linked_crates();
    let licences = fs::read_to_string(root.join("usr/share/doc/proctor/licences.txt")).unwrap();
    let boms: Vec<String> = ["proctor", "proctor-mcp"]
        .map(|name| fs::read_to_string(root.join(format!("usr/share/doc/proctor/{name}.cdx.json"))).unwrap())
        .into();
    let components: BTreeSet<String> = boms.iter().flat_map(|bom| components(bom)).collect();
    for (name, version) in &crates {
        assert!(licences.contains(&format!("\n{name} {version}: ")), "{name} {version} has no line of its licence");
        assert!(components.contains(&format!("{name} {version}")), "{name} {version} is not in the SBOM");
    }
    assert!(licences.contains("Permission is hereby granted"), "no texts of licences");
    let build_dir = source_root();
    for text in boms.iter().chain([&licences]) {
        assert!(!text.contains(build_dir.to_str().unwrap()), "a path of this host is in the package");
    }
}

/// Crates of others that the programs link, with versions, as Cargo resolves them.
fn linked_crates() -> BTreeSet<(String, String)> {
    let mut cargo = command(env!("CARGO").as_ref());
    cargo.envs(std::env::vars_os()).current_dir(source_root()).args([
        "tree",
        "--offline",
        "--locked",
        "--package",
        "proctor",
        "--package",
        "proctor-mcp",
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let tree = run(&mut cargo).stdout;
    let crates = tree.lines().filter(|line| !line.contains('/')).filter_map(|line| {
        let (name, version) = line.split_once(" v")?;
        Some((name.to_owned(), version.split(' ').next()?.to_owned()))
    });
    let crates: BTreeSet<(String, String)> = crates.collect();
    assert!(crates.len() > 150, "{crates:?}");
    crates
}

/// Names and versions in an SBOM.
fn components(bom: &str) -> Vec<String> {
    let bom: Value = serde_json::from_str(bom).unwrap();
    assert_eq!(bom["bomFormat"], "CycloneDX");
    let components = bom["components"].as_array().unwrap();
    let text = |component: &Value, key: &str| component[key].as_str().unwrap().to_owned();
    components.iter().map(|one| format!("{} {}", text(one, "name"), text(one, "version"))).collect()
}

//! The deb of this build, as `.ci/package` makes it, and a later version of it.

use proctor_tests::process::{ProcessOutput, command, ensure_installed, program, source_root, wait_for_exit};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A deb and its SBOMs, in a directory that goes with it.
pub(crate) struct Deb {
    dir: TempDir,
    pub(crate) path: PathBuf,
}

impl Deb {
    /// Packs the programs of this build.
    pub(crate) fn build() -> Deb {
        ensure_installed("packaging");
        let programs = program("proctor").parent().unwrap().to_owned();
        // Beside the programs, which are large: `cargo clean` removes what a killed test left.
        let dir = tempfile::Builder::new().prefix("packages-").tempdir_in(&programs).unwrap();
        let mut package = command(&source_root().join(".ci/package"));
        package.envs(std::env::vars_os()).env("PROCTOR_PACKAGES", dir.path()).env("PROCTOR_FAST_PACKAGES", "1");
        run(package.arg("--programs").arg(&programs).arg("deb"));
        let path = find(dir.path(), "deb");
        Deb { dir, path }
    }

    /// A file that was made beside the deb.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The same content as version `version`, not compressed.
    pub(crate) fn repacked(&self, name: &str, version: &str) -> PathBuf {
        let (tree, deb) = (self.beside("unpacked"), self.beside(&format!("{name}.deb")));
        run(dpkg_deb().arg("--raw-extract").arg(&self.path).arg(&tree));
        let control = tree.join("DEBIAN/control");
        let text = fs::read_to_string(&control).unwrap();
        let lines = text.lines().map(|line| match line.strip_prefix("Version: ") {
            Some(_) => format!("Version: {version}\n"),
            None => format!("{line}\n"),
        });
        fs::write(&control, lines.collect::<String>()).unwrap();
        run(dpkg_deb().args(["-Znone", "--root-owner-group", "--build"]).arg(&tree).arg(&deb));
        fs::remove_dir_all(&tree).unwrap();
        deb
    }

    /// Its files: path without the leading dot, with type and mode as `ls` shows them.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let listed = run(dpkg_deb().arg("--contents").arg(&self.path)).stdout;
        let files = listed.lines().map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[1], "0/0", "{line}");
            (words[5].trim_start_matches('.').to_owned(), words[0].to_owned())
        });
        files.collect()
    }

    /// The value of a field of its control file.
    pub(crate) fn field(&self, name: &str) -> String {
        run(dpkg_deb().arg("--field").arg(&self.path).arg(name)).stdout.trim().to_owned()
    }

    /// Unpacks its files into the directory `root` beside it.
    pub(crate) fn unpack(&self) -> PathBuf {
        let root = self.beside("root");
        run(dpkg_deb().arg("--extract").arg(&self.path).arg(&root));
        root
    }
}

fn dpkg_deb() -> Command {
    let mut dpkg_deb = command(Path::new("/usr/bin/dpkg-deb"));
    dpkg_deb.env("PATH", std::env::var_os("PATH").unwrap());
    dpkg_deb
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> ProcessOutput {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait_for_exit(command.spawn().unwrap());
    assert_eq!(output.status, 0, "{command:?}: {output:?}");
    output
}

fn find(dir: &Path, extension: &str) -> PathBuf {
    let mut files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.find(|file| file.extension().is_some_and(|end| end == extension)).unwrap()
}

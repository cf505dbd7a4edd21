//! Writes the golden streams of `supervisor/frameworks/goldens` as inputs, a directory for each target, and prints the names
//! of all targets with their directories. Must not know what the streams say.

use proctor_core::outcome::Exit;
use proctor_core::outcome::Outcome;
use proctor_fuzz::input::Run;
use proctor_fuzz::reading::read;
use proctor_fuzz::subject;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// How files are read by their extension, as sections of an input.
const SECTIONS: [(&str, &str); 6] =
    [("out", "o"), ("err", "e"), ("report", "r"), ("jsonl", "r"), ("tap", "o"), ("xml", "fcustom/junit.xml\n")];

/// The same where a framework looks for a file elsewhere, or its lines come elsewhere: Go writes to stdout what others'
/// reporters write to the report.
const SECTIONS_OF: [(&str, &str, &str); 2] = [("go", "jsonl", "o"), ("maestro", "xml", "fmaestro/report-0.xml\n")];

/// With what a runner exits when tests failed, as an input says it: a digit, or the character of that number. 1 otherwise.
const FAILED: [(&str, u8); 3] = [("cargo", b'e'), ("nextest", b'd'), ("ctest", b'8')];

/// Goldens that are not in a directory called like their framework.
const OTHERWISE: [(&str, &str, &str); 4] =
    [("rust", "cargo-", "cargo"), ("rust", "nextest-", "nextest"), ("junit", "", "custom"), ("tap", "", "custom")];

/// Inputs of the targets that read no golden stream, by target and name.
const WRITTEN: &[(&str, &str, &str)] = &[
    (
        "plan",
        "go",
        "\x1efgo.mod\nmodule example.com/x\n\x1eftests/a_test.go\npackage x\n\x1eqTestA|TestB/x y\x1etexample.com/x\nTestA",
    ),
    (
        "plan",
        "python",
        "\x1efpyproject.toml\n[tool.pytest.ini_options]\naddopts = \"-q\"\n\x1eftests/test_a.py\nimport unittest\n\x1eqa and not b\x1ettests/test_a.py\ntest_a[1-x]\x1entests/test_a.py",
    ),
    (
        "plan",
        "javascript",
        "\x1efpackage.json\n{\"scripts\":{\"test\":\"TZ=UTC npx jest --ci 'a b' && x\"},\"devDependencies\":{\"jest\":\"^29\",\"vitest\":\"1\",\"mocha\":\"10\"}}\n\x1efa.test.js\ntest()\n\x1eqadds (two|three)\x1eta.test.js\nadds > two\x1epa.test.js",
    ),
    (
        "plan",
        "rust",
        "\x1efCargo.toml\n[workspace]\nmembers = [\"a\", \"crates/*\"]\n\x1efa/Cargo.toml\n[package]\nname = \"a\"\n[lib]\nname = \"b\"\n\x1ef.config/nextest.toml\n[profile.default]\nretries = 1\n\x1etb::it\ntests::a\x1eta::doc/lib\nsrc/lib.rs - add (line 5)\x1epa::bin/x",
    ),
    (
        "plan",
        "cmake",
        "\x1efCMakeLists.txt\ncmake_minimum_required(VERSION 3.20)\nproject(x)\nadd_subdirectory(a)\nenable_testing()\n\x1efa/CMakeLists.txt\nproject(y)\ninclude(CTest)\n\x1et.\nSum.IsWrong/1\x1eqSum.*",
    ),
    (
        "plan",
        "maven",
        "\x1efpom.xml\n<project><artifactId>x</artifactId><modules><module>core</module></modules></project>\n\x1efcore/pom.xml\n<project><parent/><artifactId>y</artifactId></project>\n\x1efcore/src/test/java/com/example/ATest.java\n\x1etcore/src/test/java/com/example/ATest.java\ncom.example.ATest.adds\x1eqATest",
    ),
    (
        "profile",
        "go",
        "\x1efgo/1/origin\n/workspace/a\nTestA|^TestB$/x\x1efgo/1/profile\nmode: atomic\nexample.com/x/a/a.go:5.24,7.2 1 2\nexample.com/x/a/a.go:8.2,9.3 1 0\nexample.com/x/b.go:1.1,4.2 3 1\n\x1efgo/2/origin\n/workspace/m\n\x1efgo/2/profile\nmode: atomic\nexample.com/m/a.go:5.24,7.2 1 2\n",
    ),
    ("index", "some", "\u{2}aaaabbbb\u{1}cccc\u{3}ddddeeeeffff"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let to = std::env::args().nth(1).map(PathBuf::from).ok_or("usage: seeds DIRECTORY")?;
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../supervisor/frameworks/goldens");
    for dir in children(&goldens)?.into_iter().filter(|dir| dir.is_dir()) {
        let dir_name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The streams of one run lie beside each other under one name.
        let mut runs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in children(&dir)?.into_iter().filter(|file| file.is_file()) {
            runs.entry(file.file_stem().unwrap_or_default().to_string_lossy().into_owned()).or_default().push(file);
        }
        for (name, files) in runs {
            write(&to, &dir_name, &name, &files)?;
        }
    }
    for (target, name, input) in WRITTEN {
        put(&to.join(target), name, input.as_bytes())?;
    }
    for name in subject::names() {
        fs::create_dir_all(to.join(name))?;
        println!("stream {name}");
    }
    for target in ["listing", "plan", "profile", "index"] {
        println!("{target} {target}");
    }
    Ok(())
}

fn write(to: &Path, dir: &str, name: &str, files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let stem = name.trim_start_matches("list-");
    let otherwise = OTHERWISE.iter().find(|(known, begin, _)| *known == dir && stem.starts_with(begin));
    let framework = otherwise.map_or(dir, |(_, _, framework)| framework);
    if !subject::names().any(|known| known == framework) {
        return Ok(());
    }
    let mut input = Vec::new();
    for file in files {
        let extension = file.extension().unwrap_or_default().to_string_lossy();
        let own = SECTIONS_OF.iter().find(|(of, known, _)| (*of, *known) == (framework, extension.as_ref()));
        let common = || SECTIONS.iter().find(|(known, _)| *known == extension).map(|(_, section)| *section);
        let Some(section) = own.map(|(.., section)| *section).or_else(common) else { continue };
        input.push(b'\x1e');
        input.extend_from_slice(section.as_bytes());
        input.extend_from_slice(&fs::read(file)?);
    }
    if input.is_empty() {
        return Ok(());
    }
    let listing = name.starts_with("list-") || name == "list";
    let before = b"\x1eo\x1ex0".repeat(steps_before(framework, listing));
    let killed = name.contains("killed");
    if listing {
        let ended = if killed { &b"\x1ek"[..] } else { b"\x1ex0" };
        let first = format!("{framework}\n").into_bytes();
        return put(
            &to.join("listing"),
            &format!("{framework}-{name}"),
            &[&first[..], &before, &input, ended].concat(),
        );
    }
    if killed {
        return put(&to.join(framework), name, &[&before[..], &input, b"\x1ek"].concat());
    }
    let well = [&before[..], &input, b"\x1ex0"].concat();
    // Runners exit with 0 when all went well, or nothing was there to go wrong.
    let outcome = read(framework, &Run::of(&well), |piece| piece.len()).verdict.outcome;
    let status = FAILED.iter().find(|(known, _)| *known == framework).map_or(b'1', |(_, status)| *status);
    let ended = if matches!(outcome, Outcome::Passed | Outcome::NoTests) { b'0' } else { status };
    put(&to.join(framework), name, &[&before[..], &input, b"\x1ex", &[ended]].concat())
}

/// How many steps that print nothing come before the one that a golden stream is of.
fn steps_before(framework: &str, listing: bool) -> usize {
    let (_, mut parser) = subject::parser(framework, listing);
    let mut events = Vec::new();
    (0..8)
        .take_while(|step| {
            parser.step_started(*step);
            parser.step_ended(Exit::Code(0), false, &mut events);
            !parser.follow_up().is_empty()
        })
        .count()
}

fn put(dir: &Path, name: &str, input: &[u8]) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(dir)?;
    Ok(fs::write(dir.join(format!("golden-{name}")), input)?)
}

fn children(dir: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut found = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    found.sort();
    Ok(found)
}

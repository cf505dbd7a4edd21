//! Converts the golden streams of `supervisor/frameworks/goldens` to fuzz inputs, one directory for each target, and prints the
//! name and directory of each target.

use proctor_core::outcome::Exit;
use proctor_core::outcome::Outcome;
use proctor_frameworks::checks::CHECKERS;
use proctor_fuzz::input::Run;
use proctor_fuzz::replay::replay;
use proctor_fuzz::subject;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Section of an input for each file extension.
const SECTIONS: [(&str, &str); 6] =
    [("out", "o"), ("err", "e"), ("report", "r"), ("jsonl", "r"), ("tap", "o"), ("xml", "fcustom/junit.xml\n")];

/// Exceptions by framework and extension: Go prints its events to stdout, and Maestro's report has its own path.
const FRAMEWORK_SECTIONS: [(&str, &str, &str); 2] =
    [("go", "jsonl", "o"), ("maestro", "xml", "fmaestro/report-0.xml\n")];

/// Exit status of failed tests, encoded as in an input: a digit, or the character with that number. Default: 1.
const FAILURE_STATUS: [(&str, u8); 3] = [("cargo", b'e'), ("nextest", b'd'), ("ctest", b'8')];

/// Goldens in directories not named after their framework: directory, framework.
const DIRECTORY_EXCEPTIONS: [(&str, &str); 2] = [("junit", "custom"), ("tap", "custom")];

/// Handwritten inputs of the targets that do not use golden streams: target, name, input.
const HANDWRITTEN: &[(&str, &str, &str)] = &[
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
        "plan",
        "ruby",
        "\x1ef.rspec\n--require spec_helper --tag ~slow\n\x1efspec/shout_spec.rb\nRSpec.describe 'shout' do\n  it('a') {}\nend\n\x1efGemfile\ngem 'rspec'\n\x1eqwith a nil\x1etspec/shout_spec.rb\nshout > with a nil > example [1:10:1]\x1enspec/shout_spec.rb",
    ),
    (
        "plan",
        "php",
        "\x1efphpunit.xml\n<phpunit><testsuites><testsuite name='a'><directory suffix='Test.php'>tests</directory></testsuite></testsuites></phpunit>\n\x1eftests/ShoutTest.php\n<?php class ShoutTest extends TestCase {}\n\x1efcomposer.json\n{\"require-dev\":{\"phpunit/phpunit\":\"^11\"}}\n\x1eqShoutTest::testLetters\x1ettests/ShoutTest.php\nShoutTest::testLetters with data set #0\x1eptests/ShoutTest.php",
    ),
    (
        "profile",
        "go",
        "\x1efgo/1/origin\n/workspace/a\nTestA|^TestB$/x\x1efgo/1/profile\nmode: atomic\nexample.com/x/a/a.go:5.24,7.2 1 2\nexample.com/x/a/a.go:8.2,9.3 1 0\nexample.com/x/b.go:1.1,4.2 3 1\n\x1efgo/2/origin\n/workspace/m\n\x1efgo/2/profile\nmode: atomic\nexample.com/m/a.go:5.24,7.2 1 2\n",
    ),
    ("index", "some", "\u{2}aaaabbbb\u{1}cccc\u{3}ddddeeeeffff"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let destination = std::env::args().nth(1).map(PathBuf::from).ok_or("usage: seeds DIRECTORY")?;
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../supervisor/frameworks/goldens");
    for dir in children(&goldens)?.into_iter().filter(|dir| dir.is_dir()) {
        let dir_name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The streams of one run have the same name and different extensions.
        let mut runs: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for file in children(&dir)?.into_iter().filter(|file| file.is_file()) {
            runs.entry(file.file_stem().unwrap_or_default().to_string_lossy().into_owned()).or_default().push(file);
        }
        for (name, files) in runs {
            write(&destination, &dir_name, &name, &files)?;
        }
    }
    for (target, name, input) in HANDWRITTEN {
        put(&destination.join(target), name, input.as_bytes())?;
    }
    for name in subject::names() {
        fs::create_dir_all(destination.join(name))?;
        println!("stream {name}");
    }
    checks(&goldens.join("checks"), &destination.join("checks"))?;
    for target in ["listing", "plan", "checks", "profile", "index"] {
        println!("{target} {target}");
    }
    Ok(())
}

fn write(destination: &Path, dir: &str, name: &str, files: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let exception = DIRECTORY_EXCEPTIONS.iter().find(|(known, _)| *known == dir);
    let framework = exception.map_or(dir, |(_, framework)| framework);
    if !subject::names().any(|known| known == framework) {
        return Ok(());
    }
    let mut input = Vec::new();
    for file in files {
        let extension = file.extension().unwrap_or_default().to_string_lossy();
        let own = FRAMEWORK_SECTIONS.iter().find(|(name, known, _)| (*name, *known) == (framework, extension.as_ref()));
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
            &destination.join("listing"),
            &format!("{framework}-{name}"),
            &[&first[..], &before, &input, ended].concat(),
        );
    }
    if killed {
        return put(&destination.join(framework), name, &[&before[..], &input, b"\x1ek"].concat());
    }
    let successful = [&before[..], &input, b"\x1ex0"].concat();
    // Runners exit with 0 if all tests passed or there were none.
    let outcome = replay(framework, &Run::parse(&successful), |piece| piece.len()).verdict.outcome;
    let status = FAILURE_STATUS.iter().find(|(known, _)| *known == framework).map_or(b'1', |(_, status)| *status);
    let ended = if matches!(outcome, Outcome::Passed | Outcome::NoTests) { b'0' } else { status };
    put(&destination.join(framework), name, &[&before[..], &input, b"\x1ex", &[ended]].concat())
}

/// The recordings of linters and type checkers, in the form of the target `checks`.
fn checks(goldens: &Path, destination: &Path) -> Result<(), Box<dyn Error>> {
    for (number, checker) in (0_u8..).zip(CHECKERS) {
        let name = checker.manifest().name;
        for file in
            children(&goldens.join(name))?.into_iter().filter(|file| file.extension().is_some_and(|end| end == "exit"))
        {
            let status = fs::read(&file)?;
            let (stdout, stderr) = (fs::read(file.with_extension("stdout"))?, fs::read(file.with_extension("stderr"))?);
            let input =
                [&[number, status.first().copied().unwrap_or_default()][..], &stdout, b"\x1e", &stderr].concat();
            put(destination, &format!("{name}-{}", file.file_stem().unwrap_or_default().to_string_lossy()), &input)?;
        }
    }
    Ok(())
}

/// Number of silent steps before the step that printed the golden stream.
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
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>()?;
    paths.sort();
    Ok(paths)
}

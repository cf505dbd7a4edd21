//! The edits, on sources that have no more than they need.

use super::*;

/// Sources with what the edits and the appended functions need, and nothing else.
fn sources() -> ToolchainSources {
    let texts = [
        ("VERSION", "go1.26.8\ntime 2026-11-01T00:00:00Z\n"),
        (
            TESTING,
            "package testing\n\tcoverProfile = flag.String(\"test.coverprofile\")\n\tt.level + 1,\n\tgo tRunner(t, f)\n\n\
             \tt.signal <- true   // Release calling test.\n\t<-t.parent.barrier // Wait for the parent test to complete.\n\
             \tt.tstate.waitParallel()\n\n\t\t\tt.signal <- signal\n",
        ),
        (
            COVER,
            "package testing\n\nimport (\n\t\"os\"\n)\n\nvar cover struct {\n\tmode        string\n}\n\nfunc coverReport() {\n}\n",
        ),
        (FUZZ, "package testing\n\n\t\t\t\tgo fRunner(f, ft.Fn)\n\t\t\t\t<-f.signal\n"),
        (EXAMPLE, "package testing\n\n\t\tif !runExample(eg) {\n\t\t}\n"),
        (COUNTERS, "//go:linkname coverage_getCovCounterList internal/coverage/cfile.getCovCounterList\n"),
        (
            TABLES,
            "\n\tP                  *byte\n\tLen                uint32\n\n\tCounters *uint32\n\tLen      uint64\n\n\
             var Meta struct {\n\tList []CovMetaBlob\n",
        ),
    ];
    let files = texts.map(|(file, text)| (file, text.to_owned())).into();
    ToolchainSources { root: "/opt/go".to_owned(), files }
}

fn edited(file: &'static str, edit: impl Fn(&str) -> String) -> Result<TestingOverlay, OverlayError> {
    let mut sources = sources();
    let text = edit(&sources.files[file]);
    sources.files.insert(file, text);
    testing_overlay(Some(&sources), "/s")
}

#[test]
fn copies_four_files_without_moving_a_line() {
    let sources = sources();
    let overlay = testing_overlay(Some(&sources), "/s").unwrap();
    assert_eq!(overlay.flag, "-overlay=/s/go-testing/overlay.json");
    let text = |name: &str| {
        let file = overlay.files.iter().find(|file| file.path == format!("go-testing/{name}")).unwrap();
        String::from_utf8(file.bytes.clone()).unwrap()
    };
    let replaced: serde_json::Value = serde_json::from_str(&text("overlay.json")).unwrap();
    let replaced = replaced["Replace"].as_object().unwrap();
    assert_eq!(replaced.len(), 4);
    for (file, name) in [(TESTING, "testing.go"), (COVER, "newcover.go"), (FUZZ, "fuzz.go"), (EXAMPLE, "example.go")] {
        assert_eq!(replaced[&format!("/opt/go/{file}")], format!("/s/go-testing/{name}"));
        let (before, after) = (&sources.files[file], text(name));
        for (one, other) in before.lines().zip(after.lines()) {
            assert!(other.contains(one.trim()) || other.contains("proctor"), "{file}: {one:?} is now {other:?}");
        }
        assert!(file == COVER || before.lines().count() == after.lines().count(), "{file}");
        assert!(after.contains("proctor"), "{file}");
    }
    let cover = text("newcover.go");
    assert!(cover.contains("//go:linkname proctorCounters internal/coverage/cfile.getCovCounterList\n"), "{cover}");
    assert!(cover.contains("append(proctor.out, \"proctor-go-tests 1\\n\"...)"), "{cover}");
    assert!(!["COUNTER_LIST", "COVER.", "BYTES_MAX", "MAGIC"].iter().any(|name| cover.contains(name)), "{cover}");
}

#[test]
fn knows_the_names_of_older_versions() {
    let overlay =
        edited(COVER, |text| text.replace("cover struct", "cover2 struct").replace("coverReport", "coverReport2"));
    let files = overlay.unwrap().files;
    let cover = files.iter().find(|file| file.path.ends_with("/newcover.go")).unwrap();
    let cover = String::from_utf8_lossy(&cover.bytes);
    assert!(
        cover.contains("func coverReport2() { if proctorWrite() { return }\n")
            && cover.contains("cover2.mode != \"atomic\"")
    );
}

#[test]
fn copies_nothing_of_a_version_that_was_not_tried() {
    assert_eq!(testing_overlay(None, "/s"), Err(OverlayError::NoSources));
    let refused = |version: &str| edited("VERSION", |_| version.to_owned()).map(|_| ()).map_err(|why| why.to_string());
    for version in ["go1.23", "go1.24.0\n", "go1.26.8\ntime x"] {
        assert_eq!(refused(version), Ok(()), "{version}");
    }
    for version in ["go1.22.12", "go1.27.0", "go1.26rc1", "go2.26.0", "devel go1.26-abc", "go1.26.8-custom", ""] {
        let why = refused(version).unwrap_err();
        assert!(why.ends_with("is not known: only those of Go 1.23 to 1.26 are"), "{why}");
    }
}

#[test]
fn copies_nothing_of_sources_that_differ_from_those_expected() {
    for file in SOURCES.iter().filter(|file| **file != "VERSION") {
        assert_eq!(edited(file, |_| String::new()), Err(OverlayError::Unexpected { file }), "empty");
        let mut sources = sources();
        sources.files.remove(file);
        assert_eq!(testing_overlay(Some(&sources), "/s"), Err(OverlayError::Unreadable { file }));
    }
    for Edit { file, .. } in EDITS {
        assert_eq!(edited(file, |text| format!("{text}{text}")), Err(OverlayError::Unexpected { file }), "twice");
    }
    let other = edited(COUNTERS, |text| text.replace("internal/coverage/cfile.", "os.Exit //"));
    assert_eq!(other, Err(OverlayError::Unexpected { file: COUNTERS }));
}

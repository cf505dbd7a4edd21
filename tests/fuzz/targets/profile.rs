//! Coverage files of a run, read by every framework and ingested into an index.

#![no_main]

use libfuzzer_sys::fuzz_target;
use proctor_core::bounds::{COVERED_FILES_MAX, SPANS_PER_FILE_MAX};
use proctor_core::coverage::CoverageIndex;
use proctor_core::timestamp::Timestamp;
use proctor_frameworks::{FRAMEWORKS, Project};
use proctor_fuzz::input::Run;
use proctor_fuzz::subject::WORKSPACE;
use std::collections::{BTreeMap, BTreeSet};

fuzz_target!(|bytes: &[u8]| {
    let run = Run::parse(bytes);
    let project = |dir: &str, name: &str| Project { dir: dir.to_owned(), name: name.to_owned() };
    let projects = [project("", "example.com/x"), project("m", "example.com/m")];
    let tests: BTreeSet<String> = ["TestA", "TestA/sub", "TestB"].map(str::to_owned).into();
    let packages =
        ["example.com/x", "example.com/x/a", "example.com/m"].map(|package| (package.to_owned(), tests.clone()));
    let finished = BTreeMap::from(packages);
    for framework in FRAMEWORKS {
        let harvest = framework.ingest_coverage(&projects, WORKSPACE, &run.files, &finished);
        for set in &harvest.measured {
            let known = finished.get(&set.package).expect("a package with finished tests");
            assert!(!set.tests.is_empty() && set.tests.iter().all(|test| known.contains(test)), "{set:?}");
            assert!(set.files.len() <= COVERED_FILES_MAX);
            for (file, spans) in &set.files {
                assert!(!file.starts_with('/') && file.split('/').all(|part| part != ".."), "{file}");
                assert!(
                    spans.len() <= SPANS_PER_FILE_MAX && spans.iter().all(|span| span.first <= span.last),
                    "{spans:?}"
                );
            }
        }
        let mut index = CoverageIndex::default();
        let sets = harvest.measured.clone();
        index.ingest(harvest.measured, true, Timestamp(1));
        for set in sets {
            for (file, spans) in &set.files {
                for span in spans {
                    let covering = index.covering(file, Some(span.first));
                    let has =
                        |test: &String| covering.tests.iter().any(|id| id.package == set.package && id.name == *test);
                    assert!(set.tests.iter().all(has), "{file}:{span:?} lost its tests");
                }
            }
        }
    }
});

//! What a person can do about a failure whose cause lies outside of the tests: nothing was downloaded, a download cannot be read,
//! nothing was built. Wraps the parser of any framework. Must not know one.

use crate::contract::{Parser, Step, StreamSummary};
use proctor_core::artifact::ArtifactKind;
use proctor_core::event::RunnerEvent;
use proctor_core::isolation::Network;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, TestCase, TestId};

/// What tools say of what they would have to download, each with the command that downloads it outside of a run.
const OFFLINE: [(&str, Option<&str>); 12] = [
    // Maven, of an artefact and of a plugin.
    ("in offline mode and the artifact", Some("mvn dependency:go-offline")),
    ("has not been downloaded from it before", Some("mvn dependency:go-offline")),
    // Gradle reads no other cache than that of runs.
    ("available for offline mode", None),
    // Cargo, of a package, an index and a repository.
    ("using offline mode (--offline)", Some("cargo fetch")),
    ("--offline was specified", Some("cargo fetch")),
    ("you are in the offline mode", Some("cargo fetch")),
    ("disabled by GOPROXY=off", Some("go mod download")),
    // Resolvers, of whatever was asked for: curl and git, glibc, Node, Go.
    ("Could not resolve host", None),
    ("Temporary failure in name resolution", None),
    ("getaddrinfo EAI_AGAIN", None),
    ("getaddrinfo ENOTFOUND", None),
    ("dial tcp: lookup", None),
];

/// What JavaScript runtimes and bundlers say of a module that is not there.
const MISSED: [&str; 6] = [
    "Cannot find module",
    "Cannot find package",
    "Could not resolve \"",
    "Could not resolve '",
    "Failed to resolve import",
    "Failed to load url",
];

/// Where Cargo keeps what it has downloaded, with the modes that the packages were published with: `fnv` 1.0.7 lets its owner alone
/// read it, who is the host's user and not that of a run.
const CRATES: &str = "/.cargo/registry/";

const UNREADABLE: &str =
    "a download of the host's user that nobody else may read: as that user, chmod -R a+rX ~/.cargo/registry";

/// A parser that says beside a failure what helps.
pub(crate) struct RemedyParser {
    parser: Box<dyn Parser>,
    network: Network,
    /// What the projects lack that a build makes, told where a module is missed.
    unbuilt: Vec<String>,
    misses_a_module: bool,
    misses_the_network: bool,
}

impl RemedyParser {
    pub(crate) fn new(parser: Box<dyn Parser>, network: Network, unbuilt: Vec<String>) -> RemedyParser {
        RemedyParser { parser, network, unbuilt, misses_a_module: false, misses_the_network: false }
    }

    fn hear(&mut self, events: &mut Vec<RunnerEvent>, tell: impl FnOnce(&mut dyn Parser, &mut Vec<RunnerEvent>)) {
        let before = events.len();
        tell(self.parser.as_mut(), events);
        for event in &mut events[before..] {
            match event {
                RunnerEvent::Collector(collector) => self.collector(collector),
                RunnerEvent::TestFinished(case) if case.outcome.is_failure() => self.case(case),
                _ => {}
            }
        }
    }

    fn collector(&mut self, collector: &mut Box<Collector>) {
        let texts = [&collector.message, &collector.output];
        let found = texts.iter().find_map(|text| offline(text)).filter(|_| self.network == Network::None);
        let download = found.map(|fetch| {
            let fetch = fetch.map(|fetch| format!(", or `{fetch}` as the host's user")).unwrap_or_default();
            format!("not downloaded, and the run has no network: run it once with --network host{fetch}")
        });
        let is_shut = texts.iter().any(|text| text.contains(CRATES) && text.contains("Permission denied"));
        let unreadable = is_shut.then(|| UNREADABLE.to_owned());
        let is_missed = texts.iter().any(|text| misses_a_module(text));
        self.misses_a_module |= is_missed;
        let build = self.unbuilt.iter().filter(|_| is_missed).cloned();
        let mut lines: Vec<String> = download.into_iter().chain(unreadable).chain(build).collect();
        if !lines.is_empty() {
            lines.push(std::mem::take(&mut collector.message));
            let told = Collector { message: lines.join("\n"), ..collector.as_ref().clone() };
            **collector = told.bounded();
        }
    }

    fn case(&mut self, case: &TestCase) {
        let Some(message) = case.message.as_deref() else { return };
        self.misses_a_module |= misses_a_module(message);
        self.misses_the_network |= offline(message).is_some();
    }
}

fn misses_a_module(text: &str) -> bool {
    MISSED.iter().any(|words| text.contains(words))
}

/// The command that downloads what a tool says it lacks, if that is what it says.
fn offline(text: &str) -> Option<Option<&'static str>> {
    OFFLINE.iter().find(|(words, _)| text.contains(words)).map(|(_, fetch)| *fetch)
}

impl Parser for RemedyParser {
    fn step_started(&mut self, step: usize) {
        self.parser.step_started(step);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.hear(events, |parser, events| parser.stdout(bytes, events));
    }

    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.hear(events, |parser, events| parser.stderr(bytes, events));
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.hear(events, |parser, events| parser.report(bytes, events));
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        self.hear(events, |parser, events| parser.step_ended(exit, killed, events));
    }

    fn files(&mut self, files: &[(String, Vec<u8>)], events: &mut Vec<RunnerEvent>) {
        self.hear(events, |parser, events| parser.files(files, events));
    }

    fn follow_up(&mut self) -> Vec<Step> {
        self.parser.follow_up()
    }

    fn nothing_selected(&self) -> bool {
        self.parser.nothing_selected()
    }

    fn artifact_source(&self, path: &str) -> Option<(ArtifactKind, TestId)> {
        self.parser.artifact_source(path)
    }

    fn flaky(&self) -> u64 {
        self.parser.flaky()
    }

    fn running(&self) -> Vec<TestId> {
        self.parser.running()
    }

    fn summary(&self) -> StreamSummary {
        let mut summary = self.parser.summary();
        summary.notes.extend(self.unbuilt.iter().filter(|_| self.misses_a_module).cloned());
        if self.misses_the_network && self.network == Network::None {
            summary.notes.push("a test failed for want of a network, which the run has not: --network host".to_owned());
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::{CollectorKind, TestOutcome};

    /// Tells what it is given, when a step ends.
    struct Says(Vec<RunnerEvent>);

    impl Parser for Says {
        fn step_started(&mut self, _: usize) {}

        fn stdout(&mut self, _: &[u8], _: &mut Vec<RunnerEvent>) {}

        fn stderr(&mut self, _: &[u8], _: &mut Vec<RunnerEvent>) {}

        fn step_ended(&mut self, _: Exit, _: bool, events: &mut Vec<RunnerEvent>) {
            events.append(&mut self.0);
        }

        fn running(&self) -> Vec<TestId> {
            Vec::new()
        }

        fn summary(&self) -> StreamSummary {
            StreamSummary::default()
        }
    }

    fn collector(message: &str, output: &str) -> RunnerEvent {
        RunnerEvent::Collector(Box::new(Collector {
            nodeid: "pom.xml".to_owned(),
            kind: CollectorKind::Build,
            file: None,
            line: None,
            message: message.to_owned(),
            output: output.to_owned(),
        }))
    }

    fn failed(message: &str) -> RunnerEvent {
        let id = TestId { package: "a".to_owned(), name: "b".to_owned() };
        let case = TestCase::new(id, "b".to_owned(), TestOutcome::Failed);
        RunnerEvent::TestFinished(Box::new(TestCase { message: Some(message.to_owned()), ..case }))
    }

    /// The message of the collector, if there is one, and the notes.
    fn heard(event: RunnerEvent, network: Network) -> (Option<String>, Vec<String>) {
        let unbuilt = vec!["npm run build".to_owned()];
        let mut parser = RemedyParser::new(Box::new(Says(vec![event])), network, unbuilt);
        let mut events = Vec::new();
        parser.step_ended(Exit::Code(1), false, &mut events);
        let message = events.into_iter().find_map(|event| match event {
            RunnerEvent::Collector(told) => Some(told.message),
            _ => None,
        });
        (message, parser.summary().notes)
    }

    #[test]
    fn what_was_not_downloaded_says_how_to_get_it_before_the_tools_own_words() {
        let maven = "Plugin p:1 or one of its dependencies could not be resolved: Cannot access central in offline mode and \
                     the artifact p:jar:1 has not been downloaded from it before.";
        let gradle = "No cached version of junit:junit:99.0 available for offline mode.";
        let cargo = "no matching package named `zopfli` found";
        let cargo_says = "error: no matching package\nAs a reminder, you're using offline mode (--offline) which can";
        let git = "Failed to clone repository: could not";
        for (message, output, fetch) in [
            (maven, "", ", or `mvn dependency:go-offline` as the host's user"),
            (gradle, "", ""),
            (cargo, cargo_says, ", or `cargo fetch` as the host's user"),
            ("module lookup disabled by GOPROXY=off", "", ", or `go mod download` as the host's user"),
            (git, "fatal: Could not resolve host: x", ""),
        ] {
            let remedy = format!("not downloaded, and the run has no network: run it once with --network host{fetch}");
            let (told, _) = heard(collector(message, output), Network::None);
            assert_eq!(told.unwrap(), format!("{remedy}\n{message}"));
            let (told, _) = heard(collector(message, output), Network::Host);
            assert_eq!(told.unwrap(), message, "a run with a network has another cause");
        }
        let (told, _) = heard(collector("expected `;`", "error: expected `;`"), Network::None);
        assert_eq!(told.unwrap(), "expected `;`");
    }

    #[test]
    fn a_download_that_a_run_may_not_read_says_who_has_to_open_it() {
        let said = "couldn't read `/h/.cargo/registry/src/i-1/fnv-1.0.7/lib.rs`: Permission denied (os error 13)";
        let (told, _) = heard(collector(said, ""), Network::None);
        assert_eq!(told.unwrap(), format!("{UNREADABLE}\n{said}"));
        let own = "couldn't read `src/lib.rs`: Permission denied (os error 13)";
        assert_eq!(heard(collector(own, ""), Network::None).0.unwrap(), own);
    }

    #[test]
    fn a_test_that_finds_no_network_has_a_note() {
        let note = "a test failed for want of a network, which the run has not: --network host";
        let without = |message: &str, network| heard(failed(message), network).1;
        assert_eq!(without("socket.gaierror: Temporary failure in name resolution", Network::None), [note]);
        assert_eq!(without("Temporary failure in name resolution", Network::Host), [""; 0]);
        assert_eq!(without("1 != 2", Network::None), [""; 0]);
    }

    #[test]
    fn a_module_that_is_missing_says_what_builds_it() {
        for event in [
            failed("Cannot find module '../dist/immer.cjs'"),
            collector("Failed to load url /dist/x.mjs", ""),
            collector("x", "Error: Failed to resolve import \"../dist\""),
        ] {
            let (message, notes) = heard(event, Network::None);
            assert_eq!(notes, ["npm run build"]);
            assert!(message.is_none_or(|message| message.starts_with("npm run build\n")), "beside the failure");
        }
        assert_eq!(heard(failed("1 != 2"), Network::None).1, [""; 0]);
    }
}

//! Wraps any parser and adds remedies to failures whose cause lies outside of the tests: a download that is missing or
//! unreadable, a module that was not built.

use crate::contract::{Parser, Step, StreamSummary};
use proctor_core::artifact::ArtifactKind;
use proctor_core::event::RunnerEvent;
use proctor_core::isolation::Network;
use proctor_core::outcome::Exit;
use proctor_core::test_case::{Collector, TestCase, TestId};

/// What tools print when they would have to download something, each with the command that downloads it outside of a run.
const OFFLINE: [(&str, Option<&str>); 12] = [
    // Maven, for an artifact and for a plugin.
    ("in offline mode and the artifact", Some("mvn dependency:go-offline")),
    ("has not been downloaded from it before", Some("mvn dependency:go-offline")),
    // Gradle reads only the cache of runs, so no command of the host's user helps.
    ("available for offline mode", None),
    // Cargo, for a package, an index and a repository.
    ("using offline mode (--offline)", Some("cargo fetch")),
    ("--offline was specified", Some("cargo fetch")),
    ("you are in the offline mode", Some("cargo fetch")),
    ("disabled by GOPROXY=off", Some("go mod download")),
    // Name resolution, for any download: curl and git, glibc, Node, Go.
    ("Could not resolve host", None),
    ("Temporary failure in name resolution", None),
    ("getaddrinfo EAI_AGAIN", None),
    ("getaddrinfo ENOTFOUND", None),
    ("dial tcp: lookup", None),
];

/// What JavaScript runtimes and bundlers print when a module is missing.
const MISSING_MODULE: [&str; 6] = [
    "Cannot find module",
    "Cannot find package",
    "Could not resolve \"",
    "Could not resolve '",
    "Failed to resolve import",
    "Failed to load url",
];

/// Where Cargo keeps its downloads. Files keep the mode they were published with: that of `fnv` 1.0.7 lets only their owner read
/// them, the host's user and not the run's.
const CARGO_REGISTRY: &str = "/.cargo/registry/";

const UNREADABLE: &str =
    "a download of the host's user that nobody else may read: as that user, chmod -R a+rX ~/.cargo/registry";

/// A parser that adds remedies to the failures of another parser.
pub(crate) struct RemedyParser {
    parser: Box<dyn Parser>,
    network: Network,
    /// Build outputs that the projects lack, reported when a module is missing.
    build_outputs: Vec<String>,
    is_module_missing: bool,
    is_network_missing: bool,
}

impl RemedyParser {
    pub(crate) fn new(parser: Box<dyn Parser>, network: Network, build_outputs: Vec<String>) -> RemedyParser {
        RemedyParser { parser, network, build_outputs, is_module_missing: false, is_network_missing: false }
    }

    fn forward(&mut self, events: &mut Vec<RunnerEvent>, call: impl FnOnce(&mut dyn Parser, &mut Vec<RunnerEvent>)) {
        let before = events.len();
        call(self.parser.as_mut(), events);
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
        let found = texts.iter().find_map(|text| download_command(text)).filter(|_| self.network == Network::None);
        let download = found.map(|fetch| {
            let fetch = fetch.map(|fetch| format!(", or `{fetch}` as the host's user")).unwrap_or_default();
            format!("not downloaded, and the run has no network: run it once with --network host{fetch}")
        });
        let is_unreadable =
            texts.iter().any(|text| text.contains(CARGO_REGISTRY) && text.contains("Permission denied"));
        let unreadable = is_unreadable.then(|| UNREADABLE.to_owned());
        let is_missing = texts.iter().any(|text| is_module_missing(text));
        self.is_module_missing |= is_missing;
        let build = self.build_outputs.iter().filter(|_| is_missing).cloned();
        let mut lines: Vec<String> = download.into_iter().chain(unreadable).chain(build).collect();
        if !lines.is_empty() {
            lines.push(std::mem::take(&mut collector.message));
            let extended = Collector { message: lines.join("\n"), ..collector.as_ref().clone() };
            **collector = extended.bounded();
        }
    }

    fn case(&mut self, case: &TestCase) {
        let Some(message) = case.message.as_deref() else { return };
        self.is_module_missing |= is_module_missing(message);
        self.is_network_missing |= download_command(message).is_some();
    }
}

fn is_module_missing(text: &str) -> bool {
    MISSING_MODULE.iter().any(|words| text.contains(words))
}

/// The command that downloads what a tool says it lacks; `None` if the text says no such thing.
fn download_command(text: &str) -> Option<Option<&'static str>> {
    OFFLINE.iter().find(|(words, _)| text.contains(words)).map(|(_, fetch)| *fetch)
}

impl Parser for RemedyParser {
    fn step_started(&mut self, step: usize) {
        self.parser.step_started(step);
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |parser, events| parser.stdout(bytes, events));
    }

    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |parser, events| parser.stderr(bytes, events));
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |parser, events| parser.report(bytes, events));
    }

    fn stacks_requested(&mut self) {
        self.parser.stacks_requested();
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        self.forward(events, |parser, events| parser.step_ended(exit, killed, events));
    }

    fn files(&mut self, files: &[(String, Vec<u8>)], events: &mut Vec<RunnerEvent>) {
        self.forward(events, |parser, events| parser.files(files, events));
    }

    fn total(&self) -> Option<u64> {
        self.parser.total()
    }

    fn declared_at(&self, test: &TestId) -> Option<(String, u32)> {
        self.parser.declared_at(test)
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
        summary.notes.extend(self.build_outputs.iter().filter(|_| self.is_module_missing).cloned());
        if self.is_network_missing && self.network == Network::None {
            summary.notes.push("a test failed because the run has no network: --network host".to_owned());
        }
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::test_case::{CollectorKind, TestOutcome};

    /// Emits its events when a step ends.
    struct EmitsAtStepEnd(Vec<RunnerEvent>);

    impl Parser for EmitsAtStepEnd {
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

    /// The message of the collector, if any, and the notes.
    fn parse_one(event: RunnerEvent, network: Network) -> (Option<String>, Vec<String>) {
        let build_outputs = vec!["npm run build".to_owned()];
        let mut parser = RemedyParser::new(Box::new(EmitsAtStepEnd(vec![event])), network, build_outputs);
        let mut events = Vec::new();
        parser.step_ended(Exit::Code(1), false, &mut events);
        let message = events.into_iter().find_map(|event| match event {
            RunnerEvent::Collector(collector) => Some(collector.message),
            _ => None,
        });
        (message, parser.summary().notes)
    }

    #[test]
    fn a_missing_download_names_its_remedy_before_the_tools_own_text() {
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
            let (text, _) = parse_one(collector(message, output), Network::None);
            assert_eq!(text.unwrap(), format!("{remedy}\n{message}"));
            let (text, _) = parse_one(collector(message, output), Network::Host);
            assert_eq!(text.unwrap(), message, "a run with a network has another cause");
        }
        let (text, _) = parse_one(collector("expected `;`", "error: expected `;`"), Network::None);
        assert_eq!(text.unwrap(), "expected `;`");
    }

    #[test]
    fn an_unreadable_download_names_the_command_that_opens_it() {
        let said = "couldn't read `/h/.cargo/registry/src/i-1/fnv-1.0.7/lib.rs`: Permission denied (os error 13)";
        let (text, _) = parse_one(collector(said, ""), Network::None);
        assert_eq!(text.unwrap(), format!("{UNREADABLE}\n{said}"));
        let own = "couldn't read `src/lib.rs`: Permission denied (os error 13)";
        assert_eq!(parse_one(collector(own, ""), Network::None).0.unwrap(), own);
    }

    #[test]
    fn a_test_that_fails_without_a_network_gets_a_note() {
        let note = "a test failed because the run has no network: --network host";
        let without = |message: &str, network| parse_one(failed(message), network).1;
        assert_eq!(without("socket.gaierror: Temporary failure in name resolution", Network::None), [note]);
        assert_eq!(without("Temporary failure in name resolution", Network::Host), [""; 0]);
        assert_eq!(without("1 != 2", Network::None), [""; 0]);
    }

    #[test]
    fn a_missing_module_names_the_build_command() {
        for event in [
            failed("Cannot find module '../dist/immer.cjs'"),
            collector("Failed to load url /dist/x.mjs", ""),
            collector("x", "Error: Failed to resolve import \"../dist\""),
        ] {
            let (message, notes) = parse_one(event, Network::None);
            assert_eq!(notes, ["npm run build"]);
            assert!(message.is_none_or(|message| message.starts_with("npm run build\n")), "beside the failure");
        }
        assert_eq!(parse_one(failed("1 != 2"), Network::None).1, [""; 0]);
    }
}

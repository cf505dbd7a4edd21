//! Generates a long `go test -json` stream, the same every time: packages interleave; tests run in parallel, have subtests,
//! print, skip and fail in the proportions of a healthy suite. Modelled on the golden streams of the Go adapter.

use crate::seeded_random::SeededRandom;
use std::collections::VecDeque;
use std::fmt::Write as _;

/// Path of the workspace in the stream.
pub(crate) const WORKSPACE: &str = "/workspace";

/// Packages that run in parallel.
const PACKAGES_AT_ONCE: usize = 8;

/// A stream and its counts.
pub(crate) struct GoEventStream {
    pub(crate) text: String,
    pub(crate) lines: usize,
    pub(crate) tests: usize,
}

/// Generates a stream of whole packages with at least `bytes` bytes.
pub(crate) fn generate(bytes: usize) -> GoEventStream {
    let stream = GoEventStream { text: String::new(), lines: 0, tests: 0 };
    let mut writer = Writer { random: SeededRandom::new(), stream, now: 0 };
    let mut packages: Vec<Package> = Vec::new();
    let mut started = 0;
    loop {
        while packages.len() < PACKAGES_AT_ONCE && writer.stream.text.len() < bytes {
            packages.push(Package::generate(started, &mut writer));
            started += 1;
        }
        if packages.is_empty() {
            return writer.stream;
        }
        let chosen = writer.random.below(packages.len());
        for _ in 0..=writer.random.below(6) {
            match packages[chosen].events.pop_front() {
                Some(event) => writer.write_line(&packages[chosen].name, &event),
                None => break,
            }
        }
        if packages[chosen].events.is_empty() {
            packages.swap_remove(chosen);
        }
    }
}

/// One line of the stream without time and package.
struct Event {
    action: &'static str,
    test: String,
    /// Escaped for JSON as Go does.
    output: String,
    elapsed: bool,
}

struct Package {
    name: String,
    events: VecDeque<Event>,
}

impl Package {
    fn generate(number: usize, writer: &mut Writer) -> Package {
        let name = format!("example.com/bench/internal/service{}/handler{number}", number % 17);
        let mut package = Package { name, events: VecDeque::new() };
        package.push("start", "", "");
        let mut failed = false;
        for number in 0..20 + writer.random.below(60) {
            let test = format!("TestHandler_{}_{number}", ["Creates", "Validates", "Rejects", "Renders"][number % 4]);
            failed |= package.add_test(&test, 0, writer);
        }
        let (verdict, word) = if failed { ("fail", "FAIL") } else { ("pass", "ok  ") };
        package.push("output", "", &format!("{}\\n", if failed { "FAIL" } else { "PASS" }));
        package.push("output", "", &format!("{word}\\t{}\\t0.{:03}s\\n", package.name, writer.random.below(1_000)));
        package.push_end(verdict, "");
        package
    }

    /// Adds the events of a test and returns whether it fails.
    fn add_test(&mut self, test: &str, depth: usize, writer: &mut Writer) -> bool {
        writer.stream.tests += 1;
        let indent = "    ".repeat(depth);
        self.push("run", test, "");
        self.push("output", test, &format!("=== RUN   {test}\\n"));
        if writer.random.percent(15) {
            self.push("output", test, &format!("=== PAUSE {test}\\n"));
            self.push("pause", test, "");
            self.push("cont", test, "");
            self.push("output", test, &format!("=== CONT  {test}\\n"));
        }
        for _ in 0..writer.random.below(4) {
            let line = 10 + writer.random.below(400);
            let text = OUTPUT_LINES[writer.random.below(OUTPUT_LINES.len())];
            self.push("output", test, &format!("{indent}    {WORKSPACE}/handler_test.go:{line}: {text}\\n"));
        }
        let mut failed = writer.random.percent(1);
        if depth == 0 && writer.random.percent(15) {
            for number in 0..2 + writer.random.below(4) {
                failed |= self.add_test(&format!("{test}/case_{number}"), depth + 1, writer);
            }
        }
        if failed {
            let line = 10 + writer.random.below(400);
            let text =
                format!("{indent}    {WORKSPACE}/handler_test.go:{line}: got \\\"{line}\\\", want \\\"200\\\"\\n");
            self.push("output", test, &text);
        }
        let (action, word) = match failed {
            true => ("fail", "FAIL"),
            false if writer.random.percent(2) => ("skip", "SKIP"),
            false => ("pass", "PASS"),
        };
        self.push("output", test, &format!("{indent}--- {word}: {test} (0.{:02}s)\\n", writer.random.below(100)));
        self.push_end(action, test);
        failed
    }

    fn push(&mut self, action: &'static str, test: &str, output: &str) {
        self.events.push_back(Event { action, test: test.to_owned(), output: output.to_owned(), elapsed: false });
    }

    fn push_end(&mut self, action: &'static str, test: &str) {
        self.events.push_back(Event { action, test: test.to_owned(), output: String::new(), elapsed: true });
    }
}

/// Lines that tests print: plain text, a structured log, escapes, other scripts.
const OUTPUT_LINES: [&str; 5] = [
    "request took 3 retries before the backend answered",
    "time=2026-11-21T22:41:35Z level=INFO msg=\\\"order created\\\" id=8f14e45f status=201 items=3",
    "body: {\\\"name\\\":\\\"widget\\\",\\\"price\\\":19.99,\\\"tags\\\":[\\\"a\\\",\\\"b\\\"]}",
    "\\u003cp\\u003eHello \\u0026 welcome\\u003c/p\\u003e",
    "größe geprüft: 12 × 7 — 完了",
];

struct Writer {
    random: SeededRandom,
    stream: GoEventStream,
    /// Nanoseconds since the start of the hour.
    now: u64,
}

impl Writer {
    fn write_line(&mut self, package: &str, event: &Event) {
        self.now += 40_000 + self.random.below(90_000) as u64;
        let (minute, second, nanos) =
            (self.now / 60_000_000_000, self.now / 1_000_000_000 % 60, self.now % 1_000_000_000);
        let text = &mut self.stream.text;
        _ = write!(
            text,
            "{{\"Time\":\"2026-11-21T22:{minute:02}:{second:02}.{nanos:09}Z\",\"Action\":\"{}\"",
            event.action
        );
        _ = write!(text, ",\"Package\":\"{package}\"");
        if !event.test.is_empty() {
            _ = write!(text, ",\"Test\":\"{}\"", event.test);
        }
        if !event.output.is_empty() {
            _ = write!(text, ",\"Output\":\"{}\"", event.output);
        }
        if event.elapsed {
            _ = write!(text, ",\"Elapsed\":0.0{}", self.random.below(10));
        }
        text.push_str("}\n");
        self.stream.lines += 1;
    }
}

//! Speed and memory of Go's event-stream parser, compared with plain deserialisation of the same lines. Measured in pairs, so
//! that noise of the machine affects both.

use crate::go_event_stream;
use crate::targets::{Figure, quantile};
use anyhow::{Context as _, Result, ensure};
use criterion::{Criterion, Throughput};
use proctor_core::event::RunnerEvent;
use proctor_core::isolation::Network;
use proctor_core::outcome::Exit;
use proctor_core::request::Selection;
use proctor_frameworks::runners::go::Go;
use proctor_frameworks::{FileTree, Framework, Plan, PlanRequest};
use serde::Deserialize;
use std::borrow::Cow;
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Length of the stream: a run with some 50,000 tests.
const STREAM_BYTES: usize = 40_000_000;

/// Most growth of memory with a stream ten times as long, from pages that the allocator has not returned. Ten streams have a
/// hundred times that size.
const GROWTH_MIB_MAX: f64 = 4.0;

/// Size of the chunks in which the sandbox passes on output.
const CHUNK_BYTES: usize = 64 * 1024;

/// A line of `go test -json`, borrowing whatever can be borrowed.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TestEvent<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow)]
    package: Cow<'a, str>,
    #[serde(borrow, default)]
    test: Cow<'a, str>,
    #[serde(default)]
    elapsed: f64,
    #[serde(borrow, default)]
    output: Cow<'a, str>,
}

/// Deserialises the stream without the parser. Takes bytes, since output from a pipe is not known to be UTF-8.
fn deserialize(stream: &[u8]) -> Result<usize> {
    let mut lines = 0;
    for event in serde_json::Deserializer::from_slice(stream).into_iter() {
        let event: TestEvent<'_> = event?;
        black_box((event.time, event.action, event.package, event.test, event.elapsed, event.output));
        lines += 1;
    }
    Ok(lines)
}

/// Parses `stream` repeated `times` times as one stream, and returns the number of finished tests.
fn parse(stream: &str, times: usize, plan: &Plan, want: &PlanRequest<'_>) -> usize {
    let (mut parser, mut events, mut finished) = (Go.parser(plan, want), Vec::new(), 0);
    let mut take = |events: &mut Vec<RunnerEvent>| {
        let ended = events.iter().filter(|event| matches!(event, RunnerEvent::TestFinished(_)));
        finished += ended.count();
        events.clear();
    };
    parser.step_started(0);
    for chunk in std::iter::repeat_n(stream, times).flat_map(|stream| stream.as_bytes().chunks(CHUNK_BYTES)) {
        parser.stdout(chunk, &mut events);
        take(&mut events);
    }
    parser.step_ended(Exit::Code(1), false, &mut events);
    take(&mut events);
    finished
}

/// Durations of both for the same stream, one directly after the other.
struct Pair {
    plain: Duration,
    parser: Duration,
}

fn measure(stream: &str, plan: &Plan, want: &PlanRequest<'_>) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut criterion = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(15));
    let mut group = criterion.benchmark_group("go-stream");
    group.throughput(Throughput::Bytes(stream.len() as u64));
    group.bench_function("parser", |bencher| {
        bencher.iter_custom(|rounds| {
            let mut sum = Duration::ZERO;
            for _ in 0..rounds {
                let started = Instant::now();
                _ = black_box(deserialize(stream.as_bytes()));
                let plain = started.elapsed();
                let started = Instant::now();
                black_box(parse(stream, 1, plan, want));
                let parser = started.elapsed();
                pairs.push(Pair { plain, parser });
                sum += parser;
            }
            sum
        });
    });
    group.finish();
    criterion.final_summary();
    pairs
}

/// Peak memory of this process in MiB while it parses the stream repeated `times` times.
fn peak_mib(stream: &str, times: usize, plan: &Plan, want: &PlanRequest<'_>) -> Result<f64> {
    // proc(5): writing 5 resets the peak to the current usage.
    fs::write("/proc/self/clear_refs", "5").context("resetting the peak of this process")?;
    black_box(parse(stream, times, plan, want));
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("a status without a peak")?;
    let kib: f64 = peak.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// Measures, prints the speeds and returns the figures with targets.
pub(crate) fn bench() -> Result<Vec<Figure>> {
    let selection = Selection::All;
    let want = PlanRequest {
        selection: &selection,
        scope: &proctor_frameworks::EVERYTHING,
        is_measured: false,
        may_trace: false,
        parallel: None,
        order: proctor_core::test_order::TestOrder::Project,
        stop_at_first_failure: false,
        network: Network::None,
        workspace: go_event_stream::WORKSPACE,
        scratch: "/scratch",
        cache: "/cache",
        toolchain_sources: None,
        nonce: "n",
    };
    let mut tree = FileTree::default();
    tree.add_with_content("go.mod", "module example.com/bench\n");
    let plan = Go.plan(&Go.detect(&tree), &tree, &want).context("planning a run")?;
    let stream = go_event_stream::generate(STREAM_BYTES);
    let (lines, finished) = (deserialize(stream.text.as_bytes())?, parse(&stream.text, 1, &plan, &want));
    ensure!(lines == stream.lines, "{} lines were written, {lines} deserialised", stream.lines);
    ensure!(finished == stream.tests, "{} tests were written, {finished} parsed", stream.tests);
    let pairs = measure(&stream.text, &plan, &want);
    #[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
    let megabytes = stream.text.len() as f64 / 1e6;
    let speed = |time: fn(&Pair) -> Duration| {
        let speeds: Vec<f64> = pairs.iter().map(|pair| megabytes / time(pair).as_secs_f64()).collect();
        quantile(&speeds, 0.5)
    };
    let (parser, plain) = (speed(|pair| pair.parser), speed(|pair| pair.plain));
    let ratios: Vec<f64> = pairs.iter().map(|pair| pair.parser.as_secs_f64() / pair.plain.as_secs_f64()).collect();
    anstream::println!(
        "{megabytes:.0} MB, {lines} lines, {finished} tests; {} pairs: plain {plain:.0} MB/s, parser {parser:.0} MB/s",
        pairs.len()
    );
    let (once, ten_times) = (peak_mib(&stream.text, 1, &plan, &want)?, peak_mib(&stream.text, 10, &plan, &want)?);
    anstream::println!("peak memory: {once:.1} MiB over the stream, {ten_times:.1} MiB over ten of them");
    Ok(vec![
        Figure::at_most("parser memory, ten times the stream - once", "MiB", ten_times - once, GROWTH_MIB_MAX).firm(),
        Figure::at_most("parser time / plain deserialisation", "x", quantile(&ratios, 0.5), 1.5),
        Figure::at_least("parser speed", "MB/s", parser, 300.0).firm(),
    ])
}

//! Tests of the event log: bounds, numbers without gaps, and that nothing outlives it.

use super::*;
use crate::runs::without_running;
use crate::tenants::allowance::{MemoryReservation, RetainedUsage};
use futures_util::FutureExt;
use proctor_core::event::Stream;
use proctor_core::limits::Limits;
use proctor_core::outcome::KillReason;
use proctor_core::quota::Quota;

fn log() -> (LogWriter, RunHandle) {
    open(Clock::new(), &Spools::default(), MemoryReservation::unbounded())
}

fn end() -> RunEnd {
    let report = without_running(Timestamp(0), Limits::DEFAULT, "", KillReason::Cancelled, "");
    RunEnd::Report(Arc::new(report))
}

#[tokio::test]
async fn rejects_one_reader_too_many_while_the_others_wait() {
    let (writer, handle) = log();
    let mut waiting = tokio::task::JoinSet::new();
    // Two of each kind are too many, in any order.
    for _ in 0..WAITING_READERS_MAX + 2 {
        let (reader, waiter) = (handle.clone(), handle.clone());
        waiting.spawn(async move { reader.read(0).await.map(|batch| batch.len()) });
        waiting.spawn(async move { waiter.end().await.map(|_| 1) });
    }
    for _ in 0..4 {
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), Err(TOO_MANY));
    }
    assert!(handle.snapshot().await.is_ok());
    writer.end(end(), None).await;
    while let Some(answer) = waiting.join_next().await {
        assert_eq!(answer.unwrap(), Ok(1));
    }
    drop(writer);
    assert!(handle.read(0).await.is_ok(), "a log that has its end stays readable");
}

#[tokio::test]
async fn wakes_only_the_reader_whose_event_was_stored() {
    let (writer, handle) = log();
    let mut waiting = Vec::new();
    // The highest number registers first, so that order of registration does not decide.
    for from in (0..WAITING_READERS_MAX as u64).rev() {
        let mut reader = Box::pin(handle.read(from));
        assert!(reader.as_mut().now_or_never().is_none());
        handle.snapshot().await.expect("requests are handled in order, so the reader waits now");
        waiting.push(reader);
    }
    for from in 0..WAITING_READERS_MAX as u64 {
        writer.append(vec![RunEvent::Missed { events: 1 }]).await;
        let read = waiting.pop().unwrap().await.unwrap();
        assert_eq!(read.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [from]);
        let next = waiting.last_mut().map(|next| next.as_mut().now_or_never().is_some());
        assert_ne!(next, Some(true), "event {from} does not wake the next reader");
    }
}

fn output(stream: Stream, offset: u64, len: u32) -> RunEvent {
    RunEvent::Output { stream, offset, len }
}

// Number, stream, offset and length of each output event.
async fn output_events(handle: &RunHandle, from: u64) -> Vec<(u64, Stream, u64, u32)> {
    let entries = handle.read(from).await.unwrap().into_iter();
    let seen = entries.filter_map(|entry| match entry.event {
        RunEvent::Output { stream, offset, len } => Some((entry.sequence, stream, offset, len)),
        _ => None,
    });
    seen.collect()
}

#[tokio::test]
async fn merges_adjacent_output_until_a_reader_has_seen_it() {
    use Stream::{Stderr, Stdout};
    let (writer, handle) = log();
    for byte in 0..1_000 {
        writer.append(vec![output(Stdout, byte, 1)]).await;
    }
    assert_eq!(output_events(&handle, 0).await, [(0, Stdout, 0, 1_000)]);
    writer.append(vec![output(Stdout, 1_000, 1)]).await;
    writer.append(vec![output(Stdout, 1_001, 1)]).await;
    assert_eq!(output_events(&handle, 1).await, [(1, Stdout, 1_000, 2)], "a seen event does not grow");
    writer.append(vec![output(Stderr, 0, 5), output(Stdout, 1_002, 1), output(Stdout, 1_004, 1)]).await;
    let next = handle.snapshot().await.unwrap().next_sequence;
    assert_eq!(next, 5, "another stream, and a hole");
    writer.append(vec![output(Stdout, 1_005, 1)]).await;
    assert_eq!(
        output_events(&handle, next).await,
        [(5, Stdout, 1_005, 1)],
        "a reader that resumes from there misses nothing"
    );
    writer.append(vec![output(Stdout, 1_006, EVENT_OUTPUT_BYTES_MAX), output(Stdout, 1_006 + 65_536, 1)]).await;
    let large = [(6, Stdout, 1_006, EVENT_OUTPUT_BYTES_MAX), (7, Stdout, 1_006 + 65_536, 1)];
    assert_eq!(output_events(&handle, 6).await, large);
    writer.end(end(), None).await;
    let numbers: Vec<u64> = handle.read(0).await.unwrap().iter().map(|entry| entry.sequence).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7], "the report is a batch of its own");
    assert!(matches!(handle.read(8).await.unwrap()[..], [LoggedEvent { event: RunEvent::Finished(_), .. }]));
}

#[tokio::test]
async fn single_byte_writes_do_not_fill_the_log_and_events_count_by_memory() {
    let (writer, handle) = log();
    let mut bytes = 0;
    while bytes < 2 * EVENTS_MAX as u64 {
        writer.append((bytes..bytes + 4_096).map(|byte| output(Stream::Stdout, byte, 1)).collect()).await;
        bytes += 4_096;
    }
    assert!(writer.reserve_report(0).await < 2_000, "{}", writer.reserve_report(0).await);
    assert_eq!(handle.snapshot().await.unwrap().next_sequence, 8, "64 KiB each");
    let name = "n".repeat(4_000);
    let test = || RunEvent::TestStarted(TestId { package: "p".to_owned(), name: name.clone() });
    for _ in 0..60 {
        writer.append((0..1_000).map(|_| test()).collect()).await;
    }
    let bytes = usize::try_from(writer.reserve_report(0).await).unwrap();
    assert!((EVENTS_BYTES_MAX..EVENTS_BYTES_MAX + 8_000).contains(&bytes), "{bytes}");
    let batch = handle.read(8).await.unwrap();
    let bytes: usize = batch.iter().map(|entry| entry.event.memory_bytes()).sum();
    assert!(batch.len() > 10 && bytes <= BATCH_BYTES_MAX, "{} events, {bytes} bytes", batch.len());
}

#[tokio::test]
async fn a_log_counts_against_its_quota_until_it_is_forgotten() {
    let count = Arc::new(crate::tenants::allowance::Gauge::default());
    let mut spools = Spools::default();
    spools.stdout.append(&[7; 100]).unwrap();
    for forgotten in [true, false] {
        let (writer, handle) = open(Clock::new(), &spools, MemoryReservation::unbounded());
        writer.append(vec![output(Stream::Stdout, 0, 100)]).await;
        let waiting = tokio::spawn({
            let handle = handle.clone();
            async move { handle.read(1).await.map(|batch| batch.len()) }
        });
        if forgotten {
            writer.forget().await;
            assert_eq!(waiting.await.unwrap(), Err(ReadError::Forgotten), "a waiting reader gets an error");
        } else {
            writer.end(end(), Some(count.add(writer.reserve_report(0).await))).await;
            assert_eq!(waiting.await.unwrap(), Ok(1));
            assert_eq!(handle.files().await.unwrap().read_output(Stream::Stdout, 98, 9).unwrap(), [7; 2]);
            assert!(count.now() > 1_000_000, "a file also counts for its descriptor: {}", count.now());
            writer.forget().await;
        }
        assert_eq!(count.now(), 0);
        assert_eq!(handle.read(0).await.map(|batch| batch.len()), Err(ReadError::Forgotten));
        assert_eq!(handle.snapshot().await.map(|_| ()), Err(ReadError::Forgotten));
        assert_eq!(handle.files().await.map(|_| ()), Err(ReadError::Forgotten));
    }
}

#[tokio::test]
async fn a_full_log_ends_with_the_number_of_missed_events() {
    let (writer, handle) = log();
    let test = |number: usize| RunEvent::TestStarted(TestId { package: "p".to_owned(), name: format!("t{number}") });
    for from in (0..EVENTS_MAX + 1_000).step_by(1_000) {
        writer.append((from..from + 1_000).map(test).collect()).await;
    }
    writer.end(end(), None).await;
    let missed = ((EVENTS_MAX + 1_000).next_multiple_of(1_000) - EVENTS_MAX) as u64;
    let started = handle.tests_started().await.unwrap();
    assert_eq!((started.tests.len(), started.missed), (EVENTS_MAX, missed));
    let mut last = handle.read(EVENTS_MAX as u64).await.unwrap();
    last.extend(handle.read(EVENTS_MAX as u64 + 1).await.unwrap());
    let numbers: Vec<u64> = last.iter().map(|entry| entry.sequence).collect();
    assert_eq!(numbers, [EVENTS_MAX as u64, EVENTS_MAX as u64 + 1]);
    assert!(matches!(last[0].event, RunEvent::Missed { events } if events == missed), "{last:?}");
    assert!(matches!(last[1].event, RunEvent::Finished(_)), "{last:?}");
    assert_eq!(handle.snapshot().await.unwrap().next_sequence, EVENTS_MAX as u64 + 2);

    let (writer, handle) = log();
    writer.append(vec![test(0)]).await;
    writer.end(end(), None).await;
    assert_eq!(handle.snapshot().await.unwrap().next_sequence, 2, "no event was missed, so none says so");
}

#[tokio::test]
async fn runs_of_a_tenant_share_its_memory_quota_and_release_it() {
    let quota = Quota { retained_memory_bytes_max: 100_000, ..Quota::UNBOUNDED };
    let usage = RetainedUsage::default();
    let logs = || open(Clock::new(), &Spools::default(), usage.run_memory(&quota));
    let test = |number: usize| RunEvent::TestStarted(TestId { package: "p".to_owned(), name: format!("t{number}") });
    let (greedy, seen) = logs();
    greedy.append((0..10_000).map(test).collect()).await;
    greedy.end(end(), None).await;
    let started = seen.tests_started().await.unwrap();
    assert!(started.tests.len() > 100 && started.tests.len() as u64 + started.missed == 10_000, "{}", started.missed);
    assert!((90_000..=100_000).contains(&usage.memory.now()), "{}", usage.memory.now());
    let (writer, handle) = logs();
    writer.append((0..100).map(test).collect()).await;
    greedy.forget().await;
    writer.append(vec![test(100)]).await;
    // A report is stored even if the quota is exceeded.
    assert!(writer.reserve_report(200_000).await > 200_000 && usage.exceeded(&quota).is_some());
    writer.end(end(), None).await;
    let started = handle.tests_started().await.unwrap();
    assert!(started.missed > 0 && started.tests.contains(&TestId { package: "p".to_owned(), name: "t100".to_owned() }));
    writer.forget().await;
    assert_eq!((usage.memory.now(), usage.exceeded(&quota)), (0, None));
}

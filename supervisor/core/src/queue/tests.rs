//! Tests with one table or scenario for each rule of the queue. `properties` tests what must hold under any load.

use super::*;
use crate::bounds::{PASSED_OVER_MAX, POSITION_MAX};
use crate::limits::LimitKind;
use crate::quota::{RUN_SLOT_SHARE, WHOLE_SHARE};
use std::num::NonZeroU32;

mod properties;

const BUDGET: Amount = amount(100, 100);

const fn amount(memory_bytes: u64, cpu_millis: u64) -> Amount {
    Amount { memory_bytes, cpu_millis }
}

fn tenant(name: impl ToString) -> TenantId {
    TenantId::new(name.to_string())
}

fn weight(weight: u32) -> Quota {
    Quota { weight: NonZeroU32::new(weight).unwrap(), ..Quota::UNBOUNDED }
}

fn queue(tenants: &[(&str, Quota)]) -> FairQueue {
    let mut queue = FairQueue::new(BUDGET);
    for (name, quota) in tenants {
        assert_eq!(queue.configure(&tenant(name), *quota), Ok(Vec::new()));
    }
    queue
}

fn entry(name: &str, demand: Amount) -> QueueEntry {
    QueueEntry { tenant: tenant(name), demand, priority: Priority::Normal }
}

/// Enqueues a run of `size` hundredths of both resources.
fn enqueue(queue: &mut FairQueue, name: &str, size: u64) -> Ticket {
    queue.enqueue(entry(name, amount(size, size))).unwrap()
}

fn advance(queue: &mut FairQueue, now: u64) -> Vec<Ticket> {
    queue.advance(Timestamp(now))
}

/// Ends one run after another, each after `ms`, and returns the order of their starts.
fn one_by_one(queue: &mut FairQueue, mut now: u64, ms: u64) -> Vec<Ticket> {
    let mut order = advance(queue, now);
    let mut ended = 0;
    while ended < order.len() {
        now += ms;
        assert!(queue.finish(Timestamp(now), order[ended]));
        ended += 1;
        order.extend(advance(queue, now));
    }
    order
}

#[test]
fn equal_tenants_take_turns_in_order_of_arrival() {
    let mut queue = queue(&[("b", weight(1)), ("a", weight(1))]);
    let a: Vec<Ticket> = (0..3).map(|_| enqueue(&mut queue, "a", 100)).collect();
    let b: Vec<Ticket> = (0..3).map(|_| enqueue(&mut queue, "b", 100)).collect();
    assert_eq!(one_by_one(&mut queue, 0, 1_000), [a[0], b[0], a[1], b[1], a[2], b[2]]);
}

#[test]
fn a_tenant_of_three_times_the_weight_starts_three_times_as_often() {
    let mut queue = queue(&[("a", weight(3)), ("b", weight(1))]);
    let a: Vec<Ticket> = (0..40).map(|_| enqueue(&mut queue, "a", 100)).collect();
    let _b: Vec<Ticket> = (0..40).map(|_| enqueue(&mut queue, "b", 100)).collect();
    let order = one_by_one(&mut queue, 0, EXPECTED_MS_FIRST);
    assert_eq!(order[..40].iter().filter(|ticket| a.contains(ticket)).count(), 30);
}

#[test]
fn the_dominant_share_is_the_larger_of_two_shares() {
    let whole = |(memory, cpu), parts| assert_eq!(amount(memory, cpu).dominant_share(BUDGET), parts);
    whole((50, 10), WHOLE_SHARE / 2);
    whole((10, 50), WHOLE_SHARE / 2);
    whole((100, 100), WHOLE_SHARE);
    whole((0, 0), RUN_SLOT_SHARE);
    // Half of the memory for one, half of the processors for the other: each tenant fits twice and uses the same share.
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    for _ in 0..4 {
        queue.enqueue(entry("a", amount(50, 1))).unwrap();
        queue.enqueue(entry("b", amount(1, 50))).unwrap();
    }
    assert_eq!(advance(&mut queue, 0).len(), 2, "51 and 51, and the next needs 50");
    assert_eq!(queue.in_use, amount(51, 51));
}

#[test]
fn tenants_that_fill_one_resource_each_take_turns() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let mut enqueue = |name, memory, cpu| queue.enqueue(entry(name, amount(memory, cpu))).unwrap();
    let a = [(); 3].map(|()| enqueue("a", 100, 10));
    let b = [(); 3].map(|()| enqueue("b", 10, 100));
    assert_eq!(one_by_one(&mut queue, 0, 1_000), [a[0], b[0], a[1], b[1], a[2], b[2]]);
}

#[test]
fn rejects_a_run_that_can_never_start_and_names_the_quota() {
    let quota = Quota { in_use_max: amount(50, 60), ..weight(1) };
    let none = Quota { running_runs_max: 0, ..quota };
    let mut queue = queue(&[("a", quota), ("none", none), ("b", weight(1))]);
    let refused = |queue: &mut FairQueue, name, memory, cpu| {
        let refused = queue.enqueue(entry(name, amount(memory, cpu))).unwrap_err();
        (refused.quota(), refused.is_transient(), refused)
    };
    let above = |limit, demanded, max| QuotaExceeded::AboveTenant { limit, demanded, max };
    assert_eq!(refused(&mut queue, "?", 1, 1), ("tenant", false, QuotaExceeded::UnknownTenant));
    assert_eq!(refused(&mut queue, "none", 1, 1), ("running_runs", false, QuotaExceeded::RunningRuns));
    assert_eq!(refused(&mut queue, "a", 51, 1), ("memory", false, above(LimitKind::Memory, 51, 50)));
    assert_eq!(refused(&mut queue, "a", 1, 61), ("cpus", false, above(LimitKind::Cpu, 61, 60)));
    enqueue(&mut queue, "a", 1);
    assert_eq!(advance(&mut queue, 0).len(), 1);
}

#[test]
fn bounds_waiting_runs_and_tenants_of_the_host() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    for _ in 0..HOST_QUEUED_RUNS_MAX / 2 {
        enqueue(&mut queue, "a", 1);
        enqueue(&mut queue, "b", 1);
    }
    let refused = queue.enqueue(entry("a", amount(1, 1))).unwrap_err();
    assert_eq!(
        (refused.quota(), refused.is_transient(), refused),
        ("host_queued_runs", true, QuotaExceeded::HostQueuedRuns)
    );
    assert_eq!(queue.position_changes().len(), POSITION_MAX as usize);
    for number in 2..TENANTS_MAX {
        assert!(queue.configure(&tenant(number), weight(1)).is_ok());
    }
    assert_eq!(queue.configure(&tenant("a"), weight(2)), Ok(Vec::new()), "the tenant exists already");
}

#[test]
fn bounds_the_number_of_running_runs_however_small_they_are() {
    let mut queue = queue(&[("a", weight(1))]);
    let runs: Vec<Ticket> =
        (0..HOST_RUNNING_RUNS_MAX + 2).map(|_| queue.enqueue(entry("a", amount(0, 0))).unwrap()).collect();
    assert_eq!(advance(&mut queue, 0), runs[..HOST_RUNNING_RUNS_MAX]);
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS), []);
    assert!(queue.finish(Timestamp(RESERVE_AFTER_MS), runs[0]));
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS), [runs[HOST_RUNNING_RUNS_MAX]]);
    assert_eq!(queue.waiting(), 1);
}

#[test]
fn tenants_with_tiny_and_small_runs_take_turns_at_scarce_run_slots() {
    let mut queue = FairQueue::new(amount(1 << 40, 1 << 40));
    for name in ["filler", "tiny", "small"] {
        assert_eq!(queue.configure(&tenant(name), weight(1)), Ok(Vec::new()));
    }
    let demand = |name, size| entry(name, amount(size, size));
    for _ in 1..HOST_RUNNING_RUNS_MAX {
        queue.enqueue(demand("filler", 1)).unwrap();
    }
    assert_eq!(advance(&mut queue, 0).len(), HOST_RUNNING_RUNS_MAX - 1);
    let tiny = [(); 3].map(|()| queue.enqueue(demand("tiny", 1)).unwrap());
    let small = [(); 3].map(|()| queue.enqueue(demand("small", 1 << 30)).unwrap());
    let order = one_by_one(&mut queue, 0, 1_000);
    assert_eq!(order, [tiny[0], small[0], tiny[1], small[1], tiny[2], small[2]]);
}

#[test]
fn an_evicted_idle_tenant_gains_nothing_by_it() {
    let mut queue = queue(&[("heavy", weight(1)), ("light", weight(1)), ("waiting", weight(1))]);
    for (name, ms) in [("heavy", 50_000), ("light", 1_000)] {
        let run = enqueue(&mut queue, name, 100);
        assert_eq!(advance(&mut queue, 0), [run]);
        assert!(queue.finish(Timestamp(ms), run));
    }
    for number in 3..TENANTS_MAX {
        let (name, is_busy) = (tenant(number), number > 3);
        assert!(queue.configure(&name, weight(1)).is_ok());
        if is_busy {
            queue.enqueue(entry(name.as_str(), BUDGET)).unwrap();
        }
    }
    let waiting = enqueue(&mut queue, "waiting", 100);
    let virtual_time = |queue: &FairQueue, name: &str| queue.tenants[queue.names[&tenant(name)]].virtual_time;
    let (light, heavy) = (virtual_time(&queue, "light"), virtual_time(&queue, "heavy"));
    // First the tenant that has used nothing, then the one that has used little, then the one that has used much.
    for (new, begins, known) in
        [("one", 0, vec!["heavy", "light"]), ("two", light, vec!["heavy"]), ("three", heavy, vec![])]
    {
        assert_eq!(queue.configure(&tenant(new), weight(1)), Ok(Vec::new()));
        assert_eq!(virtual_time(&queue, new), begins, "{new}");
        let left: Vec<&str> =
            ["heavy", "light"].into_iter().filter(|name| queue.names.contains_key(&tenant(name))).collect();
        assert_eq!(left, known);
        queue.enqueue(entry(new, BUDGET)).unwrap();
    }
    let refused = queue.configure(&tenant("four"), weight(1)).unwrap_err();
    assert_eq!(
        (refused.quota(), refused.is_transient(), &refused),
        ("host_tenants", true, &QuotaExceeded::HostTenants)
    );
    assert!(queue.withdraw(waiting));
    assert_eq!(queue.configure(&tenant("heavy"), weight(1)), Ok(Vec::new()));
    assert!(virtual_time(&queue, "heavy") >= heavy, "it keeps its virtual time");
    assert_eq!((queue.tenants.len(), queue.names.len()), (TENANTS_MAX, TENANTS_MAX));
}

#[test]
fn a_run_beyond_its_tenants_quota_waits_without_delaying_other_tenants() {
    for bound in [
        Quota { running_runs_max: 1, ..weight(1) },
        Quota { in_use_max: amount(15, 100), ..weight(1) },
        Quota { in_use_max: amount(100, 15), ..weight(1) },
    ] {
        let mut queue = queue(&[("a", bound), ("b", weight(1))]);
        let (first, second) = (enqueue(&mut queue, "a", 10), enqueue(&mut queue, "a", 10));
        let others: Vec<Ticket> = (0..9).map(|_| enqueue(&mut queue, "b", 10)).collect();
        let started = advance(&mut queue, 0);
        assert_eq!(started, [&[first], &others[..]].concat());
        assert!(queue.finish(Timestamp(RESERVE_AFTER_MS * 9), first));
        assert_eq!(advance(&mut queue, RESERVE_AFTER_MS * 9), [second]);
    }
}

#[test]
fn an_idle_tenant_collects_no_credit() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    (0..10).for_each(|_| _ = enqueue(&mut queue, "a", 100));
    one_by_one(&mut queue, 0, 1_000_000);
    // With credit, the first run of b would come before all of a for 10,000 s.
    let a: Vec<Ticket> = (0..2).map(|_| enqueue(&mut queue, "a", 100)).collect();
    let b: Vec<Ticket> = (0..2).map(|_| enqueue(&mut queue, "b", 100)).collect();
    let order = one_by_one(&mut queue, 20_000_000, 1_000_000);
    assert_eq!(order, [a[0], b[0], a[1], b[1]]);
}

#[test]
fn a_tenant_waiting_for_its_own_quota_collects_no_credit() {
    let capped = Quota { running_runs_max: 1, ..weight(1) };
    let mut queue = queue(&[("a", capped), ("b", weight(1))]);
    (0..9).for_each(|_| _ = enqueue(&mut queue, "a", 1));
    let long = advance(&mut queue, 0)[0];
    let b: Vec<Ticket> = (0..60).map(|_| enqueue(&mut queue, "b", 99)).collect();
    let mut now = 0;
    for run in &b[..50] {
        assert_eq!(advance(&mut queue, now), [*run]);
        now += 1_000;
        assert!(queue.finish(Timestamp(now), *run));
    }
    assert!(queue.finish(Timestamp(now), long));
    let behind = queue.tenants[1].virtual_time.abs_diff(queue.tenants[0].virtual_time);
    assert!(queue.tenants[0].key.is_some() && behind == 0, "{behind}");
}

#[test]
fn a_refund_from_before_competing_is_no_credit() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let early = enqueue(&mut queue, "a", 1);
    (0..20).for_each(|_| _ = enqueue(&mut queue, "b", 99));
    assert_eq!(advance(&mut queue, 0).len(), 2, "a's run is charged {EXPECTED_MS_FIRST} ms");
    enqueue(&mut queue, "a", 99);
    let start_time = queue.tenants[0].virtual_time;
    assert!(queue.finish(Timestamp(2), early));
    assert!(queue.tenants[0].virtual_time <= start_time);
    assert!(queue.tenants[0].virtual_time >= queue.tenants[0].floor);
}

#[test]
fn corrects_the_charge_at_the_end_of_a_run() {
    let mut queue = queue(&[("a", weight(2))]);
    for (ms, took) in [(1, 1), (70_000, 70_000), (0, 1)] {
        let before = queue.tenants[0].virtual_time;
        let run = enqueue(&mut queue, "a", 50);
        assert_eq!(advance(&mut queue, 0), [run]);
        let expected = queue.tenants[0].expected_ms;
        assert_eq!(queue.tenants[0].virtual_time - before, u128::from(WHOLE_SHARE / 2 * expected) << 15);
        assert!(queue.finish(Timestamp(ms), run));
        assert_eq!(queue.tenants[0].virtual_time - before, u128::from(WHOLE_SHARE / 2 * took) << 15);
    }
    for _ in 0..200 {
        let run = enqueue(&mut queue, "a", 50);
        assert_eq!(advance(&mut queue, 0), [run]);
        assert!(queue.finish(Timestamp(300), run));
    }
    assert!((280..320).contains(&queue.tenants[0].expected_ms), "{}", queue.tenants[0].expected_ms);
}

#[test]
fn doubles_the_charge_of_a_run_that_takes_longer_than_expected() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let long = enqueue(&mut queue, "a", 50);
    assert_eq!(advance(&mut queue, 0), [long]);
    let charged = queue.tenants[0].virtual_time;
    for (now, times) in [(EXPECTED_MS_FIRST - 1, 1), (EXPECTED_MS_FIRST, 2), (EXPECTED_MS_FIRST * 5, 10)] {
        assert_eq!(advance(&mut queue, now), []);
        assert_eq!(queue.tenants[0].virtual_time, charged * times, "at {now}");
    }
    assert_eq!(advance(&mut queue, u64::MAX), []);
    assert!(queue.finish(Timestamp(u64::MAX), long));
    assert_eq!((queue.overdue.len(), queue.in_use), (0, Amount::default()));
}

#[test]
fn a_due_charge_changes_the_order_without_other_events() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let (a, b) = (enqueue(&mut queue, "a", 40), enqueue(&mut queue, "b", 60));
    assert_eq!((queue.next_charge_due(), advance(&mut queue, 0)), (None, vec![a, b]));
    let (_whole, next) = (enqueue(&mut queue, "a", 100), enqueue(&mut queue, "b", 60));
    assert_eq!(advance(&mut queue, 0), [], "the run of a is the first that does not fit");
    for now in [EXPECTED_MS_FIRST, EXPECTED_MS_FIRST * 2] {
        assert_eq!(queue.next_charge_due(), Some(Timestamp(now)));
        assert_eq!(advance(&mut queue, now), []);
    }
    assert!(queue.finish(Timestamp(35_000), b));
    assert_eq!(advance(&mut queue, 35_000), [], "a is charged 40 s, comes first and has waited for long enough");
    assert_eq!(queue.next_charge_due(), Some(Timestamp(EXPECTED_MS_FIRST * 4)));
    assert_eq!(advance(&mut queue, EXPECTED_MS_FIRST * 4), [next], "a is charged 80 s");
}

#[test]
fn priority_orders_a_tenants_runs_and_passes_a_lower_one_a_bounded_number_of_times() {
    let mut queue = queue(&[("a", weight(1))]);
    let mut enqueue = |priority| queue.enqueue(QueueEntry { priority, ..entry("a", amount(100, 100)) }).unwrap();
    let low: Vec<Ticket> = (0..2).map(|_| enqueue(Priority::Low)).collect();
    let normal: Vec<Ticket> = (0..2).map(|_| enqueue(Priority::Normal)).collect();
    let high: Vec<Ticket> = (0..20).map(|_| enqueue(Priority::High)).collect();
    let order = one_by_one(&mut queue, 0, 1_000);
    let passed = PASSED_OVER_MAX as usize;
    assert_eq!(order[..passed], high[..passed]);
    assert_eq!(order[passed..passed + 2], [low[0], normal[0]]);
    // The low run was passed over by the normal one too.
    assert_eq!(order[passed + 2..passed * 2 + 1], high[passed..passed * 2 - 1]);
    assert_eq!(order[passed * 2 + 1..passed * 2 + 4], [low[1], high[passed * 2 - 1], normal[1]]);
    assert_eq!(order.len(), 24);
}

#[test]
fn priority_has_no_effect_on_other_tenants() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let mut enqueue = |name, priority| queue.enqueue(QueueEntry { priority, ..entry(name, BUDGET) }).unwrap();
    let [a1, a2] = [enqueue("a", Priority::Low), enqueue("a", Priority::Low)];
    let [b1, b2] = [enqueue("b", Priority::High), enqueue("b", Priority::High)];
    assert_eq!(one_by_one(&mut queue, 0, 1_000), [a1, b1, a2, b2]);
}

#[test]
fn drains_the_host_for_a_run_that_has_been_first_for_long_enough() {
    let mut queue = queue(&[("tiny", weight(1)), ("whole", weight(1))]);
    let mut tiny = vec![enqueue(&mut queue, "tiny", 1)];
    assert_eq!(advance(&mut queue, 0), tiny);
    let whole = enqueue(&mut queue, "whole", 100);
    for now in (0..RESERVE_AFTER_MS).step_by(1_000) {
        tiny.push(enqueue(&mut queue, "tiny", 1));
        assert_eq!(advance(&mut queue, now), tiny[tiny.len() - 1..], "passes at {now}");
    }
    tiny.push(enqueue(&mut queue, "tiny", 1));
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS), []);
    let held_back = tiny.pop().unwrap();
    let (last, rest) = tiny.split_last().unwrap();
    for run in rest {
        assert!(queue.finish(Timestamp(RESERVE_AFTER_MS + 1), *run));
        assert_eq!(advance(&mut queue, RESERVE_AFTER_MS + 1), []);
    }
    assert!(queue.finish(Timestamp(RESERVE_AFTER_MS + 2), *last));
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS + 2), [whole]);
    assert!(queue.finish(Timestamp(RESERVE_AFTER_MS + 3), whole));
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS + 3), [held_back]);
}

#[test]
fn a_run_is_passed_only_by_tenants_that_are_not_too_far_ahead() {
    let mut queue = queue(&[("heavy", weight(10)), ("light", weight(1))]);
    let light: Vec<Ticket> = (0..12).map(|_| enqueue(&mut queue, "light", 5)).collect();
    enqueue(&mut queue, "heavy", 100);
    // The heavy run takes 10 s of the whole host and may be left behind for 30, both over weight 10; a light one takes
    // 0.5 s.
    assert_eq!(advance(&mut queue, 0), light[..8]);
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS - 1), []);
}

#[test]
fn withdraws_only_waiting_runs_and_finishes_only_running_ones() {
    let mut queue = queue(&[("a", weight(1))]);
    let (first, second) = (enqueue(&mut queue, "a", 100), enqueue(&mut queue, "a", 100));
    assert_eq!(advance(&mut queue, 0), [first]);
    assert!(!queue.withdraw(first) && !queue.finish(Timestamp(0), second));
    assert_eq!((queue.waiting(), queue.running()), (1, 1));
    assert!(queue.withdraw(second) && !queue.withdraw(second));
    assert!(queue.finish(Timestamp(0), first) && !queue.finish(Timestamp(0), first));
    assert_eq!(
        (queue.waiting(), queue.running(), queue.in_use, queue.next_charge_due()),
        (0, 0, Amount::default(), None)
    );
    assert_eq!(advance(&mut queue, 0), []);
}

#[test]
fn the_next_run_starts_in_place_of_a_withdrawn_one() {
    let mut queue = queue(&[("a", weight(1))]);
    let (running, large, small) =
        (enqueue(&mut queue, "a", 50), enqueue(&mut queue, "a", 100), enqueue(&mut queue, "a", 50));
    assert_eq!(advance(&mut queue, 0), [running]);
    assert!(queue.withdraw(large));
    assert_eq!(advance(&mut queue, 0), [small]);
}

#[test]
fn a_smaller_quota_evicts_waiting_runs_above_it_and_keeps_running_ones() {
    let mut queue = queue(&[("a", weight(1))]);
    let running = enqueue(&mut queue, "a", 80);
    assert_eq!(advance(&mut queue, 0), [running]);
    let (large, small) = (enqueue(&mut queue, "a", 60), enqueue(&mut queue, "a", 10));
    let evicted = queue.configure(&tenant("a"), Quota { in_use_max: amount(50, 50), ..weight(1) });
    let reason = QuotaExceeded::AboveTenant { limit: LimitKind::Memory, demanded: 60, max: 50 };
    assert_eq!(evicted, Ok(vec![EvictedRun { ticket: large, reason }]));
    assert_eq!(advance(&mut queue, 0), []);
    assert!(queue.finish(Timestamp(1), running));
    assert_eq!(advance(&mut queue, 1), [small]);
}

#[test]
fn reports_positions_when_they_change() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let running = enqueue(&mut queue, "a", 100);
    assert_eq!(advance(&mut queue, 0), [running]);
    let (a1, a2) = (enqueue(&mut queue, "a", 100), enqueue(&mut queue, "a", 100));
    let at = |ticket, position| PositionChange { ticket, position };
    assert_eq!(queue.position_changes(), [at(a1, 0), at(a2, 1)]);
    assert_eq!(queue.position_changes(), []);
    let b = enqueue(&mut queue, "b", 100);
    assert_eq!(queue.position_changes(), [at(a2, 2), at(b, 1)], "b starts at the virtual time of a, and arrived later");
    assert!(queue.withdraw(a1));
    assert_eq!(queue.position_changes(), [at(a2, 0)], "it arrived before b, which stays where it was");
}

#[test]
fn reports_the_capped_position_of_a_run_that_had_a_lower_one() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1_000_000))]);
    let running = enqueue(&mut queue, "a", 100);
    assert_eq!(advance(&mut queue, 0), [running]);
    let a: Vec<Ticket> = (0..=POSITION_MAX).map(|_| enqueue(&mut queue, "a", 100)).collect();
    let reported = queue.position_changes();
    assert_eq!(reported.last(), Some(&PositionChange { ticket: a[999], position: 999 }));
    assert_eq!(reported.len(), POSITION_MAX as usize, "the last run has the default position");
    (0..2).for_each(|_| _ = enqueue(&mut queue, "b", 100));
    let back: Vec<PositionChange> =
        queue.position_changes().into_iter().filter(|change| change.position == POSITION_MAX).collect();
    assert_eq!(back, [a[998], a[999]].map(|ticket| PositionChange { ticket, position: POSITION_MAX }));
    assert_eq!(queue.position_changes(), []);
}

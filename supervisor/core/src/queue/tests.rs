//! One table or story for each rule of the queue. What must hold under any load stands in `properties`.

use super::*;
use crate::bound::POSITION_MAX;
use crate::limits::LimitKind;
use crate::quota::{PLACE_SHARE, WHOLE_SHARE};
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

fn entry(name: &str, demand: Amount) -> Entry {
    Entry { tenant: tenant(name), demand, priority: Priority::Normal }
}

/// Enqueues a run of `size` hundredths of both resources.
fn ask(queue: &mut FairQueue, name: &str, size: u64) -> Ticket {
    queue.enqueue(entry(name, amount(size, size))).unwrap()
}

fn advance(queue: &mut FairQueue, now: u64) -> Vec<Ticket> {
    queue.advance(Timestamp(now))
}

/// Ends one run after another, each after `ms`, and says in which order they started.
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
fn equal_tenants_take_turns_and_the_first_to_arrive_is_first() {
    let mut queue = queue(&[("b", weight(1)), ("a", weight(1))]);
    let a: Vec<Ticket> = (0..3).map(|_| ask(&mut queue, "a", 100)).collect();
    let b: Vec<Ticket> = (0..3).map(|_| ask(&mut queue, "b", 100)).collect();
    assert_eq!(one_by_one(&mut queue, 0, 1_000), [a[0], b[0], a[1], b[1], a[2], b[2]]);
}

#[test]
fn a_tenant_of_three_times_the_weight_starts_three_times_as_often() {
    let mut queue = queue(&[("a", weight(3)), ("b", weight(1))]);
    let a: Vec<Ticket> = (0..40).map(|_| ask(&mut queue, "a", 100)).collect();
    let _b: Vec<Ticket> = (0..40).map(|_| ask(&mut queue, "b", 100)).collect();
    let order = one_by_one(&mut queue, 0, EXPECTED_MS_FIRST);
    assert_eq!(order[..40].iter().filter(|ticket| a.contains(ticket)).count(), 30);
}

#[test]
fn the_larger_of_two_shares_is_what_counts() {
    let whole = |(memory, cpu), parts| assert_eq!(amount(memory, cpu).dominant_share(BUDGET), parts);
    whole((50, 10), WHOLE_SHARE / 2);
    whole((10, 50), WHOLE_SHARE / 2);
    whole((100, 100), WHOLE_SHARE);
    whole((0, 0), PLACE_SHARE);
    // Half of the memory for one, half of the processors for the other: both fit twice and take the same.
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
    let mut ask = |name, memory, cpu| queue.enqueue(entry(name, amount(memory, cpu))).unwrap();
    let a = [(); 3].map(|()| ask("a", 100, 10));
    let b = [(); 3].map(|()| ask("b", 10, 100));
    assert_eq!(one_by_one(&mut queue, 0, 1_000), [a[0], b[0], a[1], b[1], a[2], b[2]]);
}

#[test]
fn a_run_that_can_never_start_is_refused_by_name() {
    let quota = Quota { in_use_max: amount(50, 60), ..weight(1) };
    let none = Quota { running_runs_max: 0, ..quota };
    let mut queue = queue(&[("a", quota), ("none", none), ("b", weight(1))]);
    let refused = |queue: &mut FairQueue, name, memory, cpu| {
        let refused = queue.enqueue(entry(name, amount(memory, cpu))).unwrap_err();
        (refused.quota(), refused.is_transient(), refused)
    };
    let above = |limit, asked, max| QuotaExceeded::AboveTenant { limit, asked, max };
    assert_eq!(refused(&mut queue, "?", 1, 1), ("tenant", false, QuotaExceeded::UnknownTenant));
    assert_eq!(refused(&mut queue, "none", 1, 1), ("running_runs", false, QuotaExceeded::RunningRuns));
    assert_eq!(refused(&mut queue, "a", 51, 1), ("memory", false, above(LimitKind::Memory, 51, 50)));
    assert_eq!(refused(&mut queue, "a", 1, 61), ("cpus", false, above(LimitKind::Cpu, 61, 60)));
    ask(&mut queue, "a", 1);
    assert_eq!(advance(&mut queue, 0).len(), 1);
}

#[test]
fn the_host_and_its_tenants_have_bounds() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    for _ in 0..HOST_QUEUED_RUNS_MAX / 2 {
        ask(&mut queue, "a", 1);
        ask(&mut queue, "b", 1);
    }
    let refused = queue.enqueue(entry("a", amount(1, 1))).unwrap_err();
    assert_eq!(
        (refused.quota(), refused.is_transient(), refused),
        ("host_queued_runs", true, QuotaExceeded::HostQueuedRuns)
    );
    assert_eq!(queue.moved().len(), POSITION_MAX as usize);
    for number in 2..TENANTS_MAX {
        assert!(queue.configure(&tenant(number), weight(1)).is_ok());
    }
    assert_eq!(queue.configure(&tenant("a"), weight(2)), Ok(Vec::new()), "known already");
}

#[test]
fn however_small_runs_are_only_so_many_go_on_and_the_rest_waits() {
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
fn where_places_are_scarce_who_has_tiny_runs_takes_turns_with_who_has_small_ones() {
    let mut queue = FairQueue::new(amount(1 << 40, 1 << 40));
    for name in ["in the way", "tiny", "small"] {
        assert_eq!(queue.configure(&tenant(name), weight(1)), Ok(Vec::new()));
    }
    let demand = |name, size| entry(name, amount(size, size));
    for _ in 1..HOST_RUNNING_RUNS_MAX {
        queue.enqueue(demand("in the way", 1)).unwrap();
    }
    assert_eq!(advance(&mut queue, 0).len(), HOST_RUNNING_RUNS_MAX - 1);
    let tiny = [(); 3].map(|()| queue.enqueue(demand("tiny", 1)).unwrap());
    let small = [(); 3].map(|()| queue.enqueue(demand("small", 1 << 30)).unwrap());
    let order = one_by_one(&mut queue, 0, 1_000);
    assert_eq!(order, [tiny[0], small[0], tiny[1], small[1], tiny[2], small[2]]);
}

#[test]
fn who_has_nothing_here_makes_room_for_a_new_tenant_and_gains_nothing_by_it() {
    let mut queue = queue(&[("heavy", weight(1)), ("light", weight(1)), ("waits", weight(1))]);
    for (name, ms) in [("heavy", 50_000), ("light", 1_000)] {
        let run = ask(&mut queue, name, 100);
        assert_eq!(advance(&mut queue, 0), [run]);
        assert!(queue.finish(Timestamp(ms), run));
    }
    for number in 3..TENANTS_MAX {
        let (name, in_the_way) = (tenant(number), number > 3);
        assert!(queue.configure(&name, weight(1)).is_ok());
        if in_the_way {
            queue.enqueue(entry(name.as_str(), BUDGET)).unwrap();
        }
    }
    let waits = ask(&mut queue, "waits", 100);
    let virtual_time = |queue: &FairQueue, name: &str| queue.tenants[queue.names[&tenant(name)]].virtual_time;
    let (light, heavy) = (virtual_time(&queue, "light"), virtual_time(&queue, "heavy"));
    // The one that has had nothing, then the one that has had little, then the one that has had much.
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
    assert!(queue.withdraw(waits));
    assert_eq!(queue.configure(&tenant("heavy"), weight(1)), Ok(Vec::new()));
    assert!(virtual_time(&queue, "heavy") >= heavy, "it comes back with what it has had");
    assert_eq!((queue.tenants.len(), queue.names.len()), (TENANTS_MAX, TENANTS_MAX));
}

#[test]
fn a_run_beyond_a_bound_of_its_tenant_waits_and_holds_up_no_other_tenant() {
    for bound in [
        Quota { running_runs_max: 1, ..weight(1) },
        Quota { in_use_max: amount(15, 100), ..weight(1) },
        Quota { in_use_max: amount(100, 15), ..weight(1) },
    ] {
        let mut queue = queue(&[("a", bound), ("b", weight(1))]);
        let (first, second) = (ask(&mut queue, "a", 10), ask(&mut queue, "a", 10));
        let others: Vec<Ticket> = (0..9).map(|_| ask(&mut queue, "b", 10)).collect();
        let started = advance(&mut queue, 0);
        assert_eq!(started, [&[first], &others[..]].concat());
        assert!(queue.finish(Timestamp(RESERVE_AFTER_MS * 9), first));
        assert_eq!(advance(&mut queue, RESERVE_AFTER_MS * 9), [second]);
    }
}

#[test]
fn an_idle_tenant_collects_nothing() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    (0..10).for_each(|_| _ = ask(&mut queue, "a", 100));
    one_by_one(&mut queue, 0, 1_000_000);
    // The first run of b would be before all of a for 10,000 s if it had collected.
    let a: Vec<Ticket> = (0..2).map(|_| ask(&mut queue, "a", 100)).collect();
    let b: Vec<Ticket> = (0..2).map(|_| ask(&mut queue, "b", 100)).collect();
    let order = one_by_one(&mut queue, 20_000_000, 1_000_000);
    assert_eq!(order, [a[0], b[0], a[1], b[1]]);
}

#[test]
fn a_tenant_that_waited_for_its_own_quota_collects_nothing() {
    let capped = Quota { running_runs_max: 1, ..weight(1) };
    let mut queue = queue(&[("a", capped), ("b", weight(1))]);
    (0..9).for_each(|_| _ = ask(&mut queue, "a", 1));
    let long = advance(&mut queue, 0)[0];
    let b: Vec<Ticket> = (0..60).map(|_| ask(&mut queue, "b", 99)).collect();
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
fn what_was_charged_too_much_before_is_no_credit() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let early = ask(&mut queue, "a", 1);
    (0..20).for_each(|_| _ = ask(&mut queue, "b", 99));
    assert_eq!(advance(&mut queue, 0).len(), 2, "a's run is charged {EXPECTED_MS_FIRST} ms");
    ask(&mut queue, "a", 99);
    let begun = queue.tenants[0].virtual_time;
    assert!(queue.finish(Timestamp(2), early));
    assert!(queue.tenants[0].virtual_time <= begun);
    assert!(queue.tenants[0].virtual_time >= queue.tenants[0].floor);
}

#[test]
fn the_end_of_a_run_corrects_its_charge() {
    let mut queue = queue(&[("a", weight(2))]);
    for (ms, took) in [(1, 1), (70_000, 70_000), (0, 1)] {
        let before = queue.tenants[0].virtual_time;
        let run = ask(&mut queue, "a", 50);
        assert_eq!(advance(&mut queue, 0), [run]);
        let expected = queue.tenants[0].expected_ms;
        assert_eq!(queue.tenants[0].virtual_time - before, u128::from(WHOLE_SHARE / 2 * expected) << 15);
        assert!(queue.finish(Timestamp(ms), run));
        assert_eq!(queue.tenants[0].virtual_time - before, u128::from(WHOLE_SHARE / 2 * took) << 15);
    }
    for _ in 0..200 {
        let run = ask(&mut queue, "a", 50);
        assert_eq!(advance(&mut queue, 0), [run]);
        assert!(queue.finish(Timestamp(300), run));
    }
    assert!((280..320).contains(&queue.tenants[0].expected_ms), "{}", queue.tenants[0].expected_ms);
}

#[test]
fn a_run_that_goes_on_for_longer_than_expected_is_charged_while_it_does() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let long = ask(&mut queue, "a", 50);
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
fn time_alone_changes_the_order_when_a_charge_is_due() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let (a, b) = (ask(&mut queue, "a", 40), ask(&mut queue, "b", 60));
    assert_eq!((queue.due(), advance(&mut queue, 0)), (None, vec![a, b]));
    let (_whole, next) = (ask(&mut queue, "a", 100), ask(&mut queue, "b", 60));
    assert_eq!(advance(&mut queue, 0), [], "the run of a is the first that does not fit");
    for now in [EXPECTED_MS_FIRST, EXPECTED_MS_FIRST * 2] {
        assert_eq!(queue.due(), Some(Timestamp(now)));
        assert_eq!(advance(&mut queue, now), []);
    }
    assert!(queue.finish(Timestamp(35_000), b));
    assert_eq!(advance(&mut queue, 35_000), [], "a is charged 40 s, comes first and has been for long enough");
    assert_eq!(queue.due(), Some(Timestamp(EXPECTED_MS_FIRST * 4)));
    assert_eq!(advance(&mut queue, EXPECTED_MS_FIRST * 4), [next], "a is charged 80 s");
}

#[test]
fn priority_counts_inside_a_tenant_and_passes_a_lower_one_only_so_often() {
    let mut queue = queue(&[("a", weight(1))]);
    let mut ask = |priority| queue.enqueue(Entry { priority, ..entry("a", amount(100, 100)) }).unwrap();
    let low: Vec<Ticket> = (0..2).map(|_| ask(Priority::Low)).collect();
    let normal: Vec<Ticket> = (0..2).map(|_| ask(Priority::Normal)).collect();
    let high: Vec<Ticket> = (0..20).map(|_| ask(Priority::High)).collect();
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
fn priority_counts_for_nothing_against_other_tenants() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let mut ask = |name, priority| queue.enqueue(Entry { priority, ..entry(name, BUDGET) }).unwrap();
    let [a1, a2] = [ask("a", Priority::Low), ask("a", Priority::Low)];
    let [b1, b2] = [ask("b", Priority::High), ask("b", Priority::High)];
    assert_eq!(one_by_one(&mut queue, 0, 1_000), [a1, b1, a2, b2]);
}

#[test]
fn the_host_drains_for_a_run_that_was_first_for_long_enough() {
    let mut queue = queue(&[("tiny", weight(1)), ("whole", weight(1))]);
    let mut tiny = vec![ask(&mut queue, "tiny", 1)];
    assert_eq!(advance(&mut queue, 0), tiny);
    let whole = ask(&mut queue, "whole", 100);
    for now in (0..RESERVE_AFTER_MS).step_by(1_000) {
        tiny.push(ask(&mut queue, "tiny", 1));
        assert_eq!(advance(&mut queue, now), tiny[tiny.len() - 1..], "passes at {now}");
    }
    tiny.push(ask(&mut queue, "tiny", 1));
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
    let light: Vec<Ticket> = (0..12).map(|_| ask(&mut queue, "light", 5)).collect();
    ask(&mut queue, "heavy", 100);
    // Of the whole host, the heavy run takes 10 s and may be left behind for 30, both over 10; a light one takes 0.5 s.
    assert_eq!(advance(&mut queue, 0), light[..8]);
    assert_eq!(advance(&mut queue, RESERVE_AFTER_MS - 1), []);
}

#[test]
fn what_does_not_wait_is_not_withdrawn_and_what_does_not_run_is_not_finished() {
    let mut queue = queue(&[("a", weight(1))]);
    let (first, second) = (ask(&mut queue, "a", 100), ask(&mut queue, "a", 100));
    assert_eq!(advance(&mut queue, 0), [first]);
    assert!(!queue.withdraw(first) && !queue.finish(Timestamp(0), second));
    assert_eq!((queue.waiting(), queue.running()), (1, 1));
    assert!(queue.withdraw(second) && !queue.withdraw(second));
    assert!(queue.finish(Timestamp(0), first) && !queue.finish(Timestamp(0), first));
    assert_eq!((queue.waiting(), queue.running(), queue.in_use, queue.due()), (0, 0, Amount::default(), None));
    assert_eq!(advance(&mut queue, 0), []);
}

#[test]
fn what_comes_after_a_withdrawn_run_starts_in_its_place() {
    let mut queue = queue(&[("a", weight(1))]);
    let (running, large, small) = (ask(&mut queue, "a", 50), ask(&mut queue, "a", 100), ask(&mut queue, "a", 50));
    assert_eq!(advance(&mut queue, 0), [running]);
    assert!(queue.withdraw(large));
    assert_eq!(advance(&mut queue, 0), [small]);
}

#[test]
fn what_can_no_longer_start_is_evicted_by_name_and_what_runs_goes_on() {
    let mut queue = queue(&[("a", weight(1))]);
    let running = ask(&mut queue, "a", 80);
    assert_eq!(advance(&mut queue, 0), [running]);
    let (large, small) = (ask(&mut queue, "a", 60), ask(&mut queue, "a", 10));
    let evicted = queue.configure(&tenant("a"), Quota { in_use_max: amount(50, 50), ..weight(1) });
    let refused = QuotaExceeded::AboveTenant { limit: LimitKind::Memory, asked: 60, max: 50 };
    assert_eq!(evicted, Ok(vec![Evicted { ticket: large, refused }]));
    assert_eq!(advance(&mut queue, 0), []);
    assert!(queue.finish(Timestamp(1), running));
    assert_eq!(advance(&mut queue, 1), [small]);
}

#[test]
fn positions_are_told_when_they_change() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1))]);
    let running = ask(&mut queue, "a", 100);
    assert_eq!(advance(&mut queue, 0), [running]);
    let (a1, a2) = (ask(&mut queue, "a", 100), ask(&mut queue, "a", 100));
    let at = |ticket, position| Moved { ticket, position };
    assert_eq!(queue.moved(), [at(a1, 0), at(a2, 1)]);
    assert_eq!(queue.moved(), []);
    let b = ask(&mut queue, "b", 100);
    assert_eq!(queue.moved(), [at(a2, 2), at(b, 1)], "b begins where a is, and arrived later");
    assert!(queue.withdraw(a1));
    assert_eq!(queue.moved(), [at(a2, 0)], "it arrived before b, which stays where it was");
}

#[test]
fn a_position_beyond_the_last_is_told_once_it_was_less() {
    let mut queue = queue(&[("a", weight(1)), ("b", weight(1_000_000))]);
    let running = ask(&mut queue, "a", 100);
    assert_eq!(advance(&mut queue, 0), [running]);
    let a: Vec<Ticket> = (0..=POSITION_MAX).map(|_| ask(&mut queue, "a", 100)).collect();
    let told = queue.moved();
    assert_eq!(told.last(), Some(&Moved { ticket: a[999], position: 999 }));
    assert_eq!(told.len(), POSITION_MAX as usize, "the last one is where it began");
    (0..2).for_each(|_| _ = ask(&mut queue, "b", 100));
    let back: Vec<Moved> = queue.moved().into_iter().filter(|moved| moved.position == POSITION_MAX).collect();
    assert_eq!(back, [a[998], a[999]].map(|ticket| Moved { ticket, position: POSITION_MAX }));
    assert_eq!(queue.moved(), []);
}

//! Durable quotas, on both databases: what is asked, what is answered, and what stands in the tables afterwards.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::time::Duration;

use common::durable::{
    DAY_US, HOUR_US, NOON_US, account, ask, authority, authority_of, count, give_back, give_back_lease,
    granted, history, key, lease, per_hour, per_month, question, settle, take, used,
};
use common::{NOW_MS, Stand, check_verifies, everything, make, put};
use std::sync::Arc;
use tollgate_control::{Kind, UsageDay, UsageFilter};
use tollgate_core::{Cost, Holder, Outcome, Rate, SharedLimit, Span, TokenBucket};
use tollgate_store::authority::breaker::State;
use tollgate_store::authority::{Act, Failure, OnceAct, OnceId, Question};

crate::on_both! {
    takes_books_and_gives_back,
    looking_writes_nothing,
    leases_come_back_once_and_in_time,
    what_goes_together_is_answered_as_if_alone,
    the_history_is_what_the_counter_says,
    the_history_is_read_page_by_page,
    a_key_over_its_quota_is_not_asked_for_again,
    what_is_not_kept_here_is_refused,
    more_than_may_wait_is_refused_at_once,
    a_crowd_goes_into_few_transactions,
    what_is_over_is_thrown_away,
    a_damaged_counter_costs_nobody_else_an_answer,
    an_older_database_keeps_all_it_has,
    names_of_any_kind_are_kept,
    what_has_an_id_counts_once_in_every_process,
    an_id_is_forgotten_after_ten_minutes,
    a_database_without_request_ids_is_brought_up_to_date,
}

async fn takes_books_and_gives_back(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    authority.make_up_time(Some(NOON_US));
    let limit = per_month(10);
    let first = granted(&authority, take(1, &limit, 4)).await;
    assert_eq!((first.decision.outcome, first.decision.remaining), (Outcome::ALLOWED, 6));
    assert_eq!((first.at.ticks(), first.leased, first.holder), (NOON_US, 0, None));
    // From the fifteenth at noon to the end of November.
    let until_december = Span::from_ticks(15 * DAY_US * 1_000 + 12 * HOUR_US * 1_000);
    assert_eq!(first.decision.reset_after, Some(until_december));
    let denied = granted(&authority, take(1, &limit, 7)).await;
    assert_eq!(denied.decision.outcome, Outcome::NotNow { retry_after: until_december });
    assert_eq!(granted(&authority, take(1, &limit, 11)).await.decision.outcome, Outcome::Never);
    let booked = granted(&authority, question(1, &limit, Act::Book(Cost::new(100)))).await;
    assert!(!booked.decision.is_allowed());
    // The counter has a cap, the bill has none.
    assert_eq!((used(stand, 1), history(&database, "acme").await), (20, 104));
    granted(&authority, give_back(&take(1, &limit, 4), &first, 4)).await;
    assert_eq!((used(stand, 1), history(&database, "acme").await), (16, 100));
    let reset = granted(&authority, question(1, &limit, Act::Reset)).await;
    assert_eq!((reset.decision.outcome, reset.decision.remaining), (Outcome::ALLOWED, 10));
    assert_eq!((used(stand, 1), history(&database, "acme").await), (0, 100));
    // Another key is another counter, and without an account nothing is written down.
    granted(&authority, Question { account: None, ..take(2, &limit, 3) }).await;
    assert_eq!((used(stand, 2), history(&database, "acme").await), (3, 100));
    // In December it begins anew, and what November has counted does not come back.
    authority.make_up_time(Some(NOON_US + 16 * DAY_US));
    assert_eq!(granted(&authority, take(1, &limit, 1)).await.decision.remaining, 9);
    granted(&authority, give_back(&take(1, &limit, 4), &first, 4)).await;
    assert_eq!(used(stand, 1), 1);
}

async fn looking_writes_nothing(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_hour(10);
    let seen = granted(&authority, question(1, &limit, Act::Peek(Cost::ONE))).await;
    assert_eq!((seen.decision.outcome, seen.decision.remaining), (Outcome::ALLOWED, 10));
    assert_eq!((count(stand, "counters"), count(stand, "usage_days")), (0, 0));
    let taken = vec![take(1, &limit, 3), question(1, &limit, Act::Peek(Cost::new(8)))];
    let answers = authority.ask_all(taken, Duration::from_secs(10)).await;
    assert!(!answers[1].unwrap().decision.is_allowed(), "it sees what came before it: {answers:?}");
    // It is the database's own time.
    let now_us = tollgate_store::Clock::new().now().ticks() / 1_000;
    assert!(answers[0].unwrap().at.ticks().abs_diff(now_us) < 60_000_000, "{answers:?}");
}

async fn leases_come_back_once_and_in_time(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    authority.make_up_time(Some(NOON_US));
    let limit = per_hour(100);
    let asked = lease(1, &limit, 40, 1_001);
    let grant = granted(&authority, asked.clone()).await;
    assert_eq!((grant.leased, grant.decision.remaining, used(stand, 1)), (40, 60, 40));
    assert_eq!(stand.sql("SELECT node FROM leases WHERE number = 1001"), "node-1");
    let deadline = NOON_US + 60_000_000;
    assert_eq!(stand.sql("SELECT deadline FROM leases"), deadline.to_string());

    authority.make_up_time(Some(deadline));
    let back = granted(&authority, give_back_lease(&asked, &grant, 30)).await;
    assert_eq!((back.decision.outcome, back.decision.remaining), (Outcome::ALLOWED, 90));
    assert_eq!((count(stand, "leases"), history(&database, "acme").await), (0, 10));
    let again = granted(&authority, give_back_lease(&asked, &grant, 30)).await;
    assert_eq!((again.decision.outcome, used(stand, 1)), (Outcome::Busy, 10));

    // A moment too late, it is gone and nothing comes back.
    authority.make_up_time(Some(NOON_US));
    let grant = granted(&authority, lease(1, &limit, 20, 1_002)).await;
    authority.make_up_time(Some(deadline + 1));
    let late = granted(&authority, give_back_lease(&lease(1, &limit, 20, 1_002), &grant, 20)).await;
    assert_eq!((late.decision.outcome, used(stand, 1)), (Outcome::Busy, 30));
    assert_eq!((count(stand, "leases"), history(&database, "acme").await), (0, 30));

    // What was leased before a reset does not come back after it.
    authority.make_up_time(Some(NOON_US));
    let forgiven = lease(2, &limit, 40, 1_010);
    let grant = granted(&authority, forgiven.clone()).await;
    granted(&authority, question(2, &limit, Act::Reset)).await;
    granted(&authority, take(2, &limit, 50)).await;
    let back = granted(&authority, give_back_lease(&forgiven, &grant, 40)).await;
    assert_eq!((back.decision.outcome, used(stand, 2)), (Outcome::Busy, 50));
    assert_eq!(count(stand, "leases"), 0);

    // No lease lives longer than its window; more comes back of none than was granted.
    authority.make_up_time(Some(NOON_US + HOUR_US - 10));
    let short = lease(1, &limit, 5, 1_003);
    let grant = granted(&authority, short.clone()).await;
    assert_eq!(stand.sql("SELECT deadline FROM leases"), (NOON_US + HOUR_US - 1).to_string());
    granted(&authority, give_back_lease(&short, &grant, 99)).await;
    assert_eq!(used(stand, 1), 30);
    // The last units are leased one by one, and then none are.
    granted(&authority, take(1, &limit, 69)).await;
    assert_eq!(granted(&authority, lease(1, &limit, 5, 1_004)).await.leased, 1);
    let none = granted(&authority, lease(1, &limit, 5, 1_005)).await;
    assert_eq!((none.leased, none.decision.is_allowed(), count(stand, "leases")), (0, false, 1));
}

/// Numbers that look random and are the same each time.
fn draw(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

async fn what_goes_together_is_answered_as_if_alone(stand: &Stand) {
    let database = stand.open().await;
    let (together, alone) = (authority(&database), authority(&database));
    let limit = per_hour(20);
    let mut seed = 1;
    for round in 0..12 {
        let now_us = NOON_US + round * HOUR_US / 5;
        together.make_up_time(Some(now_us));
        alone.make_up_time(Some(now_us));
        let acts: Vec<(u64, Act)> = (0..40)
            .map(|_| {
                let (number, units) = (draw(&mut seed, 3), draw(&mut seed, 6));
                let at = limit.replied_at(i64::try_from(now_us / 1_000_000).unwrap(), 0).unwrap();
                let nth = draw(&mut seed, 12);
                let rest = tollgate_core::LeaseRest { units, counted_at: at, deadline: at, number: nth };
                let act = match draw(&mut seed, 8) {
                    0 | 1 => Act::Take(Cost::new(units)),
                    2 => Act::Peek(Cost::new(units)),
                    3 => Act::Book(Cost::new(units)),
                    4 => Act::GiveBack { units, counted_at: at, undoes: false },
                    5 => {
                        Act::Lease { units, nodes: 2, number: nth, life: Span::from_ticks(3_600_000_000_000) }
                    }
                    6 => Act::Return(rest),
                    _ => Act::Peek(Cost::ZERO),
                };
                (number, act)
            })
            .collect();
        let questions = acts.iter().map(|(number, act)| question(*number, &limit, *act)).collect();
        let answers = together.ask_all(questions, Duration::from_secs(20)).await;
        for ((number, act), answer) in acts.into_iter().zip(answers) {
            let other = Question { account: Some(account("other")), ..question(number + 10, &limit, act) };
            assert_eq!(ask(&alone, other).await, answer, "{act:?} of {number} in round {round}");
        }
    }
    for number in 0..3 {
        assert_eq!(used(stand, number), used(stand, number + 10));
    }
    assert_eq!(history(&database, "acme").await, history(&database, "other").await);
    assert_eq!(together.stats().transactions, 12);
}

async fn the_history_is_what_the_counter_says(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_month(1_000_000);
    let mut seed = 5;
    let (mut taken, mut leased) = (Vec::new(), Vec::new());
    for number in 0..150_u64 {
        let now_us = NOON_US + number * (14 * DAY_US / 150);
        authority.make_up_time(Some(now_us));
        let units = draw(&mut seed, 1_000);
        match draw(&mut seed, 6) {
            0 | 1 => {
                let asked = take(1, &limit, units);
                taken.push((asked.clone(), granted(&authority, asked).await, units));
            }
            2 => drop(granted(&authority, question(1, &limit, Act::Book(Cost::new(units)))).await),
            3 => {
                let asked = lease(1, &limit, units, number);
                leased.push((asked.clone(), granted(&authority, asked).await));
            }
            4 if !taken.is_empty() => {
                let at = draw(&mut seed, taken.len() as u64);
                let (asked, grant, left) = taken.swap_remove(usize::try_from(at).unwrap());
                granted(&authority, give_back(&asked, &grant, left)).await;
            }
            _ => {
                let Some((asked, grant)) = leased.pop() else { continue };
                // Some are too late; that is known to both.
                granted(&authority, give_back_lease(&asked, &grant, grant.leased / 2)).await;
            }
        }
        assert_eq!(history(&database, "acme").await, used(stand, 1), "after step {number}");
    }
    assert!(count(stand, "usage_days") > 10, "it was all on a few days");
}

async fn the_history_is_read_page_by_page(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_hour(1_000);
    let day = NOON_US / DAY_US;
    for number in 0..5 {
        authority.make_up_time(Some(NOON_US + number * DAY_US));
        for rule in ["a", "b"] {
            let who = tollgate_store::authority::Account { subject: "acme".into(), rule: rule.into() };
            let asked = Question { account: Some(Arc::new(who)), ..take(1, &limit, number + 1) };
            granted(&authority, asked).await;
        }
    }
    granted(&authority, Question { account: Some(account("other")), ..take(1, &limit, 7) }).await;
    let all =
        UsageFilter { subject: "acme".to_owned(), to_day: u64::MAX, limit: 100, ..UsageFilter::default() };
    let found = database.usage_days(&all).await.unwrap();
    assert_eq!(found.len(), 10);
    let places: Vec<_> = found.iter().map(|day| (day.day, day.rule.as_str())).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert_eq!(found[9], UsageDay { day: day + 4, rule: "b".to_owned(), units: 5 });
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let page = UsageFilter { limit: 3, after: after.clone(), ..all.clone() };
        let page = database.usage_days(&page).await.unwrap();
        assert!(page.len() <= 3);
        let Some(last) = page.last() else { break };
        after = Some((last.day, last.rule.clone()));
        paged.extend(page);
    }
    assert_eq!(paged, found);
    let some = UsageFilter { from_day: day + 1, to_day: day + 2, rule: Some("a".to_owned()), ..all.clone() };
    let some: Vec<_> = database.usage_days(&some).await.unwrap().iter().map(|day| day.units).collect();
    assert_eq!(some, [2, 3]);
    let nobody = UsageFilter { subject: "nobody".to_owned(), ..all };
    assert_eq!(database.usage_days(&nobody).await, Ok(Vec::new()));
}

async fn a_key_over_its_quota_is_not_asked_for_again(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_month(3);
    let first = granted(&authority, take(1, &limit, 3)).await;
    assert!(!granted(&authority, take(1, &limit, 1)).await.decision.is_allowed());
    let before = authority.stats();
    for _ in 0..100 {
        let denied = granted(&authority, take(1, &limit, 2)).await;
        assert!(!denied.decision.is_allowed());
        assert_eq!(granted(&authority, lease(1, &limit, 2, 9)).await.leased, 0);
    }
    let after = authority.stats();
    // They are remembered for a second at a time.
    assert!(after.transactions - before.transactions < 20, "{before:?} {after:?}");
    assert!(after.denied_at_once > 150, "{after:?}");
    // What comes back is known at once.
    authority.tell(vec![give_back(&take(1, &limit, 3), &first, 3)]);
    settle(&authority).await;
    assert_eq!(granted(&authority, lease(1, &limit, 3, 10)).await.leased, 3);
    assert_eq!(granted(&authority, lease(1, &limit, 1, 11)).await.leased, 0);
    // So it is if the rules change.
    let before = authority.stats().transactions;
    authority.forget_denials();
    assert_eq!(granted(&authority, lease(1, &limit, 1, 12)).await.leased, 0);
    assert_eq!(authority.stats().transactions, before + 1);
}

async fn what_is_not_kept_here_is_refused(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let rate = Rate::new(10, Span::from_ticks(60_000_000_000)).unwrap();
    let bucket = Arc::new(SharedLimit::new(&TokenBucket::new(rate, 10).unwrap().into()).unwrap());
    let limit = per_hour(10);
    let questions = vec![
        take(1, &bucket, 1),
        question(1, &limit, Act::Release(Holder::from_number(7))),
        take(1, &limit, 1),
    ];
    let answers = authority.ask_all(questions, Duration::from_secs(10)).await;
    assert_eq!(answers[0], Err(Failure::Refused));
    assert_eq!(answers[1], Err(Failure::Refused));
    assert!(answers[2].unwrap().decision.is_allowed());
    // What grants something to nobody is not done.
    authority.tell(vec![take(2, &bucket, 1), take(2, &limit, 1)]);
    settle(&authority).await;
    assert_eq!((used(stand, 2), count(stand, "counters")), (0, 1));
    let stats = authority.stats();
    assert_eq!((stats.breaker, stats.forgotten), (State::Closed, 0));
}

async fn more_than_may_wait_is_refused_at_once(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority_of(&database, 30);
    let limit = per_hour(1_000);
    let answers =
        authority.ask_all((0..33).map(|_| take(1, &limit, 1)).collect(), Duration::from_secs(10)).await;
    assert!(answers[..30].iter().all(|answer| answer.is_ok_and(|grant| grant.decision.is_allowed())));
    assert_eq!(answers[30..], [Err(Failure::Crowded); 3]);
    assert_eq!(used(stand, 1), 30);
    let stats = authority.stats();
    assert_eq!((stats.asked, stats.transactions, stats.questions_max), (30, 1, 30));
}

async fn a_crowd_goes_into_few_transactions(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_month(2);
    let asked = (0..3_000).map(|number| take(number % 1_000, &limit, 1)).collect();
    let answers = authority.ask_all(asked, Duration::from_secs(20)).await;
    let taken = answers.iter().filter(|answer| answer.unwrap().decision.is_allowed()).count();
    assert_eq!((taken, count(stand, "counters")), (2_000, 1_000));
    assert_eq!(
        (history(&database, "acme").await, stand.sql("SELECT min(used) FROM counters")),
        (2_000, "2".into())
    );
    let stats = authority.stats();
    assert_eq!((stats.transactions, stats.questions, stats.questions_max), (3, 3_000, 1_024));
}

async fn what_is_over_is_thrown_away(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_hour(1_000_000);
    // More than one portion of each.
    authority.make_up_time(Some(NOON_US));
    for part in 0..6_u64 {
        let asked = (0..100).map(|number| lease(part * 100 + number, &limit, 1, number)).collect();
        let answers = authority.ask_all(asked, Duration::from_secs(20)).await;
        assert!(answers.iter().all(|answer| answer.is_ok_and(|grant| grant.leased == 1)));
    }
    assert_eq!((count(stand, "leases"), count(stand, "counters")), (600, 600));
    let step = |us: u64| {
        authority.make_up_time(Some(us));
        granted(&authority, take(9_999, &limit, 1))
    };
    step(NOON_US + HOUR_US).await;
    settle(&authority).await;
    assert_eq!((count(stand, "leases"), count(stand, "counters")), (600, 601));
    // An hour and a minute after the deadline of the leases; then the rest follows.
    for _ in 0..3 {
        step(NOON_US + HOUR_US + 120_000_000).await;
        settle(&authority).await;
    }
    assert_eq!((count(stand, "leases"), count(stand, "counters")), (0, 601));
    assert_eq!(
        stand.sql("SELECT number FROM commits WHERE writer = 'sweep'"),
        "0",
        "nothing is left to sweep"
    );
    assert_eq!(count(stand, "usage_days"), 1);
    for _ in 0..3 {
        step(NOON_US + 9 * DAY_US).await;
        settle(&authority).await;
    }
    // The one that is in use has begun a new window.
    assert_eq!((count(stand, "counters"), count(stand, "usage_days")), (1, 2));
    for _ in 0..2 {
        step(NOON_US + 401 * DAY_US).await;
        settle(&authority).await;
    }
    assert_eq!(count(stand, "usage_days"), 2, "the first is gone, and there is a new one");
}

async fn a_damaged_counter_costs_nobody_else_an_answer(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_hour(10);
    granted(&authority, take(1, &limit, 1)).await;
    granted(&authority, take(2, &limit, 1)).await;
    stand.sql(&format!("UPDATE counters SET used = -5 WHERE key = '{:032x}'", key(1).0));
    let questions = vec![take(1, &limit, 1), take(2, &limit, 1)];
    let answers = authority.ask_all(questions, Duration::from_secs(10)).await;
    assert_eq!(answers[0], Err(Failure::Refused));
    assert_eq!(answers[1].unwrap().decision.remaining, 8);
    assert_eq!(authority.stats().breaker, State::Closed);
}

async fn an_older_database_keeps_all_it_has(stand: &Stand) {
    let database = stand.open().await;
    for number in 0..20 {
        make(&database, put(Kind::Quota, &number.to_string(), "{}")).await;
    }
    let (fleet, before) = (database.fleet().to_owned(), everything(&database).await);
    drop(database);
    // As the first version left it.
    for table in
        ["counters", "leases", "usage_days", "commits", "past_counters", "settlements", "request_ids"]
    {
        stand.sql(&format!("DROP TABLE {table}"));
    }
    stand.sql("ALTER TABLE repeats DROP COLUMN finished");
    stand.sql("DROP INDEX audit_by_who; DROP INDEX audit_by_id");
    stand.sql("DELETE FROM settings WHERE name = 'fleet_secret'");
    stand.sql("UPDATE settings SET value = '1' WHERE name = 'schema'");
    let database = stand.open().await;
    assert_eq!(stand.sql("SELECT value FROM settings WHERE name = 'schema'"), "6");
    assert_eq!((database.fleet(), everything(&database).await), (&*fleet, before));
    check_verifies(&database, 20).await;
    granted(&authority(&database), take(1, &per_hour(10), 1)).await;
    assert!(database.change(put(Kind::Quota, "new", "{}"), NOW_MS).await.is_ok());
}

async fn names_of_any_kind_are_kept(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_hour(100);
    let long = "ä".repeat(10_000);
    for subject in ["a\0b", "", "'; DROP TABLE usage_days; --", &long] {
        let asked = Question { account: Some(account(subject)), ..take(1, &limit, 1) };
        assert!(granted(&authority, asked).await.decision.is_allowed());
    }
    assert_eq!(history(&database, "a\u{fffd}b").await, 1);
    assert_eq!(history(&database, &long[..512]).await, 1);
    assert_eq!((count(stand, "usage_days"), used(stand, 1)), (4, 4));
}

fn once(number: u64, limit: &Arc<SharedLimit>, id: OnceId, act: OnceAct) -> Question {
    question(number, limit, Act::Once(id, act))
}

async fn what_has_an_id_counts_once_in_every_process(stand: &Stand) {
    let database = stand.open().await;
    let authorities = [authority(&database), authority(&database)];
    let limit = per_month(10);
    let id = OnceId { number: (1 << 63) - 1, fingerprint: (1 << 63) - 2 };
    let take = OnceAct::Take(Cost::new(4));
    for number in 0..6 {
        let grant = granted(&authorities[number % 2], once(1, &limit, id, take)).await;
        assert_eq!((grant.decision.is_allowed(), grant.decision.remaining), (true, 6));
        assert_eq!((grant.is_repeated, grant.is_conflict()), (number > 0, false));
    }
    // Those that arrive together as well.
    let together = vec![once(2, &limit, id, take); 3];
    let answers = authorities[0].ask_all(together, Duration::from_secs(10)).await;
    let repeated: Vec<bool> = answers.iter().map(|answer| answer.unwrap().is_repeated).collect();
    assert_eq!((repeated, used(stand, 2)), (vec![false, true, true], 4));
    let near = OnceId { fingerprint: 1, ..id };
    assert!(granted(&authorities[1], once(1, &limit, near, take)).await.is_conflict());
    assert_eq!((used(stand, 1), history(&database, "acme").await), (4, 8));
    // A denial is not remembered, a booking is, over the limit or not.
    let denied = OnceId { number: 2, fingerprint: 1 };
    for _ in 0..2 {
        let grant = granted(&authorities[0], once(1, &limit, denied, OnceAct::Take(Cost::new(7)))).await;
        assert_eq!((grant.decision.is_allowed(), grant.is_repeated), (false, false));
    }
    let booked = OnceId { number: 3, fingerprint: 1 };
    for is_repeated in [false, true] {
        let grant = granted(&authorities[0], once(1, &limit, booked, OnceAct::Book(Cost::new(8)))).await;
        assert_eq!((grant.decision.is_allowed(), grant.is_repeated), (false, is_repeated));
    }
    assert_eq!(used(stand, 1), 12);
    // Six have the id in common: the last of them that is denied elsewhere gives the units back.
    for number in 1..=7 {
        let undo = OnceAct::Undo { units: 4, undoes: false };
        granted(&authorities[number % 2], once(1, &limit, id, undo)).await;
        assert_eq!(used(stand, 1), if number < 6 { 12 } else { 8 }, "{number}");
    }
    assert!(!granted(&authorities[0], once(1, &per_month(20), id, take)).await.is_repeated);
}

async fn an_id_is_forgotten_after_ten_minutes(stand: &Stand) {
    let database = stand.open().await;
    let authority = authority(&database);
    let limit = per_month(100);
    let id = OnceId { number: 1, fingerprint: 1 };
    for (second, is_repeated) in [(0, false), (599, true), (600, false), (1_199, true)] {
        authority.make_up_time(Some(NOON_US + second * 1_000_000));
        let grant = granted(&authority, once(1, &limit, id, OnceAct::Take(Cost::ONE))).await;
        assert_eq!(grant.is_repeated, is_repeated, "after {second} s");
    }
    assert_eq!((used(stand, 1), count(stand, "request_ids")), (2, 1));
    // Rows that are over are thrown away.
    authority.make_up_time(Some(NOON_US + 2_000_000_000));
    granted(&authority, take(1, &limit, 1)).await;
    settle(&authority).await;
    let mut tries = 0;
    while count(stand, "request_ids") > 0 && tries < 500 {
        tries += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(count(stand, "request_ids"), 0);
}

async fn a_database_without_request_ids_is_brought_up_to_date(stand: &Stand) {
    let database = stand.open().await;
    let limit = per_month(10);
    granted(&authority(&database), take(1, &limit, 3)).await;
    drop(database);
    // As the version before left it.
    stand.sql("DROP TABLE request_ids");
    stand.sql("UPDATE settings SET value = '5' WHERE name = 'schema'");
    let database = stand.open().await;
    assert_eq!(stand.sql("SELECT value FROM settings WHERE name = 'schema'"), "6");
    let id = OnceId { number: 1, fingerprint: 1 };
    for _ in 0..2 {
        granted(&authority(&database), once(1, &limit, id, OnceAct::Take(Cost::new(2)))).await;
    }
    assert_eq!((used(stand, 1), history(&database, "acme").await), (5, 5));
}

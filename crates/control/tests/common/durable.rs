//! What the tests of durable quotas share: limits, keys, and somebody who asks.

use std::sync::Arc;
use std::time::Duration;

use tollgate_control::{Database, DurableAuthority, DurableSettings, UsageFilter};
use tollgate_core::{
    Calendar, CalendarUnit, Cost, FixedWindow, LeaseRest, Rate, SharedLimit, Span, Tick, Windows,
};
use tollgate_store::Clock;
use tollgate_store::authority::{Account, Act, Failure, Grant, Question, SharedKey};

use super::Stand;

/// A Wednesday in November, at noon, in microseconds.
pub(crate) const NOON_US: u64 = 1_700_049_600_000_000;
pub(crate) const HOUR_US: u64 = 3_600_000_000;
pub(crate) const DAY_US: u64 = 24 * HOUR_US;
/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// So many units per calendar month of UTC.
pub(crate) fn per_month(units: u64) -> Arc<SharedLimit> {
    let windows = Windows::Calendar(Calendar::utc(CalendarUnit::Month, Tick::NANOSECOND));
    let limit = FixedWindow::in_windows(units, windows).expect("a limit");
    Arc::new(SharedLimit::new(&limit.into()).expect("a shared limit"))
}

/// So many units per hour.
pub(crate) fn per_hour(units: u64) -> Arc<SharedLimit> {
    let hour = Tick::NANOSECOND.span(Duration::from_hours(1)).expect("an hour");
    let limit = FixedWindow::new(Rate::new(units, hour).expect("a rate"));
    Arc::new(SharedLimit::new(&limit.into()).expect("a shared limit"))
}

/// Keys are hashes: they are anywhere.
pub(crate) fn key(number: u64) -> SharedKey {
    let low = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    SharedKey(u128::from(low) << 64 | u128::from(low.rotate_left(17)))
}

pub(crate) fn account(subject: &str) -> Arc<Account> {
    Arc::new(Account { subject: subject.into(), rule: "quota".into() })
}

pub(crate) fn question(number: u64, limit: &Arc<SharedLimit>, act: Act) -> Question {
    Question { key: key(number), limit: Arc::clone(limit), act, account: Some(account("acme")) }
}

pub(crate) fn take(number: u64, limit: &Arc<SharedLimit>, units: u64) -> Question {
    question(number, limit, Act::Take(Cost::new(units)))
}

/// A block of units under a number, to be spent within a minute.
pub(crate) fn lease(number: u64, limit: &Arc<SharedLimit>, units: u64, lease: u64) -> Question {
    let life = Span::from_ticks(60_000_000_000);
    question(number, limit, Act::Lease { units, nodes: 1, number: lease, life })
}

/// What gives so many units of a lease back.
pub(crate) fn give_back_lease(leased: &Question, grant: &Grant, units: u64) -> Question {
    let Act::Lease { number, .. } = leased.act else { panic!("no lease") };
    let rest = LeaseRest { units, counted_at: grant.at, deadline: grant.at, number };
    Question { act: Act::Return(rest), ..leased.clone() }
}

/// What gives so many units of a take back.
pub(crate) fn give_back(taken: &Question, grant: &Grant, units: u64) -> Question {
    Question { act: Act::GiveBack { units, counted_at: grant.at, undoes: false }, ..taken.clone() }
}

pub(crate) fn authority(database: &Database) -> DurableAuthority {
    authority_of(database, 1 << 14)
}

pub(crate) fn authority_of(database: &Database, queue_max: usize) -> DurableAuthority {
    let settings = DurableSettings { node: "node-1".to_owned(), queue_max, seed: 7, owed_folder: None };
    DurableAuthority::start(database, Arc::new(Clock::new()), settings)
}

pub(crate) async fn ask(authority: &DurableAuthority, question: Question) -> Result<Grant, Failure> {
    authority.ask_all(vec![question], PATIENCE).await.remove(0)
}

pub(crate) async fn granted(authority: &DurableAuthority, question: Question) -> Grant {
    let grant = ask(authority, question.clone()).await;
    grant.unwrap_or_else(|failure| panic!("{question:?}: {failure}"))
}

pub(crate) async fn settle(authority: &DurableAuthority) {
    assert!(authority.settle(PATIENCE).await, "it is not settled: {:?}", authority.stats());
}

/// What a counter says, by the database itself.
pub(crate) fn used(stand: &Stand, number: u64) -> u64 {
    let hex = format!("{:032x}", key(number).0);
    let sql = format!("SELECT COALESCE(SUM(used), 0) FROM counters WHERE key = '{hex}'");
    stand.sql(&sql).parse().expect("a number")
}

pub(crate) fn count(stand: &Stand, table: &str) -> u64 {
    stand.sql(&format!("SELECT count(*) FROM {table}")).parse().expect("a number")
}

/// What a subject has used on all days together.
pub(crate) async fn history(database: &Database, subject: &str) -> u64 {
    let filter =
        UsageFilter { subject: subject.to_owned(), to_day: u64::MAX, limit: 1_000, ..UsageFilter::default() };
    let days = database.usage_days(&filter).await.expect("the history");
    days.iter().map(|day| day.units).sum()
}

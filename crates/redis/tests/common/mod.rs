//! What the driver's tests share: an authority on real servers, and questions for it.
#![allow(dead_code)] // Each test file is a program of its own, and uses a part of this.
#![allow(clippy::panic, clippy::unwrap_used)] // Where a test would.

use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Cost, LeaseRest, Limit, Rate, SharedLimit, Span, TokenBucket};
use tollgate_redis::{Address, Authority, Fleet, Settings};
use tollgate_store::Clock;
use tollgate_store::authority::{Act, Failure, Grant, Question, SharedKey};
use tollgate_testkit::real::redis::{RedisServer, Reply};

/// Longer than any answer takes that comes at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn address(text: &str) -> Address {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(crate) fn fleet(text: &str) -> Arc<Fleet> {
    fleet_with(Settings::new(address(text)))
}

pub(crate) fn fleet_with(settings: Settings) -> Arc<Fleet> {
    Fleet::new(settings, Arc::new(Clock::new())).unwrap_or_else(|error| panic!("{error}"))
}

/// An authority that can be asked.
pub(crate) async fn started(fleet: &Arc<Fleet>) -> Authority {
    let authority = Authority::start(fleet);
    assert!(authority.ready(PATIENCE).await, "not every shard can be reached: {:#?}", fleet.stats());
    authority
}

pub(crate) async fn connect(text: &str) -> Authority {
    started(&fleet(text)).await
}

/// A bucket of so many units, one of which comes back in ten minutes.
pub(crate) fn bucket(units: u64) -> Arc<SharedLimit> {
    let rate = Rate::new(1, Span::from_ticks(600_000_000_000)).unwrap();
    shared(&TokenBucket::new(rate, units).unwrap().into())
}

pub(crate) fn shared(limit: &Limit) -> Arc<SharedLimit> {
    Arc::new(SharedLimit::new(limit).unwrap())
}

/// A key like those that a hash makes.
pub(crate) fn key(number: u64) -> SharedKey {
    let scatter = |number: u64| {
        let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    SharedKey(
        u128::from(scatter(number.wrapping_add(1))) << 64
            | u128::from(scatter(number.wrapping_add(1_000_003))),
    )
}

pub(crate) fn take(number: u64, limit: &Arc<SharedLimit>) -> Question {
    question(number, limit, Act::Take(Cost::ONE))
}

pub(crate) fn question(number: u64, limit: &Arc<SharedLimit>, act: Act) -> Question {
    Question { key: key(number), limit: Arc::clone(limit), act, account: None }
}

pub(crate) async fn ask(authority: &Authority, question: Question) -> Result<Grant, Failure> {
    authority.ask(question, None, PATIENCE).await
}

/// How much remains of a key, by a question that takes nothing.
pub(crate) async fn remaining(authority: &Authority, number: u64, limit: &Arc<SharedLimit>) -> u64 {
    try_remaining(authority, number, limit).await.unwrap_or_else(|failure| panic!("{failure}"))
}

pub(crate) async fn try_remaining(
    authority: &Authority,
    number: u64,
    limit: &Arc<SharedLimit>,
) -> Result<u64, Failure> {
    let peek = question(number, limit, Act::Peek(Cost::ONE));
    ask(authority, peek).await.map(|grant| grant.decision.remaining)
}

/// A block of units of a key, of which half may be had at once: half of the units, and what gives back all but one of them.
pub(crate) async fn lease(authority: &Authority, number: u64, limit: &Arc<SharedLimit>) -> Question {
    let units = remaining(authority, number, limit).await / 2;
    let life = Span::from_ticks(3_600_000_000_000);
    let act = Act::Lease { units: u64::MAX >> 12, nodes: 2, number: 7, life };
    let granted =
        ask(authority, question(number, limit, act)).await.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(granted.leased, units);
    let deadline = limit.lease_deadline(0, granted.at, life);
    let rest = LeaseRest { units: units - 1, counted_at: granted.at, deadline, number: 7 };
    question(number, limit, Act::Return(rest))
}

/// Gives back what is left, which is taken the first time only.
pub(crate) async fn check_returned_once(authority: &Authority, rest: Question) {
    for is_taken in [true, false] {
        let answer = ask(authority, rest.clone()).await.unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(answer.decision.is_allowed(), is_taken);
    }
}

/// The rights that the documents name, as an access list has them: of a user of nodes, and of one of sentinels.
pub(crate) fn documented_rights() -> [String; 2] {
    let text = include_str!("../../../../docs/redis.md");
    let paragraph =
        text.split("\n\n").find(|text| text.starts_with("A user of Redis's access lists")).unwrap();
    let marked: Vec<&str> = paragraph.split('`').skip(1).step_by(2).collect();
    let [keys, commands, sentinel_commands, channel] = marked[..] else { panic!("{marked:?}") };
    [format!("{keys} {commands}"), format!("{sentinel_commands} {channel}")]
}

/// Makes a user who has these rights at a server, and no other.
pub(crate) fn add_user(server: &RedisServer, rights: &str) {
    let made = server.client().run(&format!("ACL SETUSER tollgate reset on >s3cret {rights}"));
    assert_eq!(made, Reply::Simple("OK".to_owned()));
}

/// An address with the name and the password of that user.
pub(crate) fn as_user(address: &str) -> String {
    address.replacen("://", "://tollgate:s3cret@", 1)
}

/// Asks again and again until there is an answer. Panics if there is none for long.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain: {what}");
}

//! Keys that take most of the decisions: they are found, told of, and leased for as long as they do.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use tollgate::core::{Limit, Rate, Span, Time, TokenBucket};
use tollgate::{
    DecidedBy, Descriptor, Engine, EngineSettings, HotKey, HotSettings, Keeper, LedgerSettings, Request,
    ShardId, Source,
};

mod common;
use common::authority::{Authority, decide};

const RULES: &str = "
domain: shop
descriptors:
- key: tenant
  descriptors:
  - {key: path, rate_limit: {requests: 1000, period: 1s, lease_when_hot: true}}
- {key: user, rate_limit: {requests: 100, period: 1s, burst: 50, consistency: local}}
policies:
  exact: {requests: 6000, period: 1m, burst: 10000}
  hot: {requests: 6000, period: 1m, burst: 10000, lease_when_hot: true}
  strict: {requests: 1, period: 1h, burst: 1000, lease_when_hot: true, strict: true}
";

fn at(ms: u64) -> Time {
    Time::from_ticks((1_700_000_000_000 + ms) * 1_000_000)
}

fn settings(hot: HotSettings) -> EngineSettings {
    EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), hot, ..EngineSettings::default() }
}

/// An engine with an authority, and time that goes on by a millisecond with every decision.
struct Scene {
    engine: Engine,
    authority: Authority,
    now_ms: u64,
}

impl Scene {
    fn new(hot: HotSettings) -> Scene {
        let engine = Engine::new(settings(hot)).unwrap().sharing(b"secret");
        engine.set_nodes(1);
        engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
        Scene { engine, authority: Authority::default(), now_ms: 0 }
    }

    /// Decides about a key of a policy, and lets a millisecond pass.
    fn decide(&mut self, policy: &str, key: &str) -> (bool, DecidedBy) {
        let now = at(self.now_ms);
        let request = Request::policy(policy, key.as_bytes());
        let verdict = decide(&self.engine, &mut self.authority, &request, now).unwrap();
        for errand in self.engine.take_errands(Keeper::Store, 100) {
            let grants = self.authority.ask(std::slice::from_ref(&errand.question), now);
            self.engine.settle(errand, grants[0], now);
        }
        self.engine.tend(now);
        self.now_ms += 1;
        (verdict.allowed(), verdict.decided_by())
    }

    /// So many decisions, of which one in so many is about the key and the others about ever new ones. How many of the former were made of leases.
    fn play(&mut self, policy: &str, key: &str, decisions: u64, one_in: u64) -> usize {
        let mut leased = 0;
        for turn in 0..decisions {
            if turn % one_in == 0 {
                leased += usize::from(self.decide(policy, key).1 == DecidedBy::Lease);
            } else {
                let other = format!("other {}", self.now_ms);
                let (_, decided_by) = self.decide(policy, &other);
                assert_eq!(decided_by, DecidedBy::Authority, "{other} is not hot");
            }
        }
        leased
    }

    fn hot_key(&self, key: &str) -> HotKey {
        let keys = self.engine.hot_keys(100, at(self.now_ms));
        keys.into_iter().find(|hot| &*hot.name.key == key).unwrap_or_else(|| panic!("{key} is not shown"))
    }
}

#[test]
fn a_hot_key_is_leased_and_exact_again_when_traffic_moves_on() {
    let mut scene = Scene::new(HotSettings::default());
    let leased = scene.play("hot", "key", 5_000, 5);
    assert!((600..1_000).contains(&leased), "of a thousand decisions, {leased}");
    let hot = scene.hot_key("key");
    assert!(hot.is_hot && hot.is_leased, "{hot:?}");
    assert!((190.0..210.0).contains(&hot.per_second) && (0.19..0.21).contains(&hot.share), "{hot:?}");
    let changes = scene.engine.take_hot_changes();
    assert_eq!(changes.iter().map(|hot| (&*hot.name.key, hot.is_hot)).collect::<Vec<_>>(), [("key", true)]);

    // Another one takes its place.
    let leased = scene.play("hot", "other key", 40_000, 3);
    assert!(leased > 10_000, "{leased}");
    let cold = scene.hot_key("key");
    assert!(!cold.is_hot && !cold.is_leased, "{cold:?}");
    assert_eq!(scene.decide("hot", "key").1, DecidedBy::Authority);
    let changes = scene.engine.take_hot_changes();
    let changes: Vec<_> = changes.iter().map(|hot| (&*hot.name.key, hot.is_hot)).collect();
    assert_eq!(changes, [("other key", true), ("key", false)]);
}

#[test]
fn only_what_its_rule_allows_is_leased() {
    let mut scene = Scene::new(HotSettings::default());
    assert_eq!(scene.play("exact", "key", 3_000, 2), 0);
    let hot = scene.hot_key("key");
    assert!(hot.is_hot && !hot.is_leased, "{hot:?}");

    let mut never = Scene::new(HotSettings { share: 0.0, ..HotSettings::default() });
    assert_eq!(never.play("hot", "key", 3_000, 2), 0);
    assert!(!never.hot_key("key").is_hot);
}

#[test]
fn what_is_strict_is_so_before_and_after() {
    let mut scene = Scene::new(HotSettings::default());
    let mut passed = 0;
    for _ in 0..3_000 {
        passed += u64::from(scene.decide("strict", "key").0);
    }
    assert!(scene.hot_key("key").is_leased);
    assert!((700..=1_000).contains(&passed), "{passed} of a burst of 1000");
}

#[test]
fn every_limit_is_counted_and_called_by_its_name() {
    let engine = Engine::new(settings(HotSettings::default())).unwrap();
    engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
    let (path, user) = ([("tenant", "acme"), ("path", "/a")], [("user", "alice")]);
    let both = [Descriptor::new(&path), Descriptor::new(&user)];
    let limit = Limit::from(TokenBucket::new(Rate::new(1, Span::from_ticks(1 << 40)).unwrap(), 50).unwrap());
    for ms in 0..200 {
        engine.decide(&Request::new("shop", &both), at(ms)).unwrap();
        engine.decide(&Request::policy("exact", b"key").peek(), at(ms)).unwrap();
        engine.throttle(b"caller", &limit, 1, at(ms));
        engine.throttle(b"who looks", &limit, 0, at(ms));
    }
    let keys = engine.hot_keys(100, at(1_000));
    let mut told: Vec<String> = keys
        .iter()
        .map(|hot| {
            let name = &hot.name;
            let (denied, share) = (hot.denied_ratio, hot.share);
            format!(
                "{:?} {:?} {:?} {:?} {denied:.2} {share:.2}",
                name.domain, name.rule, name.limit, name.key
            )
        })
        .collect();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            r#""" "(cl.throttle)" "" "caller" 0.75 0.33"#,
            r#""shop" "tenant > path" "tenant > path" "tenant=acme, path=/a" 0.00 0.33"#,
            r#""shop" "user" "user" "user=alice" 0.66 0.33"#,
        ]
    );
}

#[test]
fn a_key_is_hot_by_its_part_of_its_own_shard() {
    let engine = Engine::new(settings(HotSettings::default())).unwrap().sharing(b"secret");
    // Of the first half of all names nobody knows who keeps them.
    let engine = engine.sharded(|key, _| (key.0 >> 127 == 1).then_some(ShardId(5)));
    engine.load(&[Source::new("rules", RULES)], at(0)).unwrap();
    let mut authority = Authority::default();
    for turn in 0..64_000 {
        let key = [b'a' + u8::try_from(turn % 16).unwrap()];
        decide(&engine, &mut authority, &Request::policy("exact", &key), at(turn)).unwrap();
    }
    let keys = engine.hot_keys(100, at(64_000));
    assert!((1..16).contains(&keys.len()), "{}", keys.len());
    let shares: f64 = keys.iter().map(|hot| hot.share).sum();
    assert!((0.99..1.01).contains(&shares), "{shares}");
    let each = 1_000.0 / 16.0;
    assert!(keys.iter().all(|hot| (each * 0.98..each * 1.02).contains(&hot.per_second)), "{keys:?}");
}

//! The suite that every implementation agrees with, asked through the whole driver, on every kind of set-up.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tollgate_core::{Ask, Decision, Intent, Limit, Outcome, Refund, SharedLimit, Span, Tick, Time};
use tollgate_redis::Authority;
use tollgate_store::authority::{Act, Question};
use tollgate_testkit::real::redis::{RedisCluster, RedisLaunch, RedisSentinel, RedisServer};
use tollgate_testkit::{Spec, Subject, Timeline, run_suite_on};

const CASES: u64 = 20;

struct Driver {
    runtime: Runtime,
    authority: Authority,
}

/// One limit, on keys that nobody has used.
struct Played {
    driver: Rc<Driver>,
    limit: Arc<SharedLimit>,
    namespace: u64,
}

impl Played {
    fn act(&self, key: &[u8], act: Act, now: Time) -> Decision {
        let tick = self.limit.tick();
        self.driver.authority.fleet().make_up_time(Some(now.ticks() * tick.length_us()));
        let name = key.iter().fold(self.namespace, |name, byte| name.wrapping_mul(31) ^ u64::from(*byte));
        let question =
            Question { key: common::key(name), limit: Arc::clone(&self.limit), act, account: None };
        let answer = self.driver.runtime.block_on(common::ask(&self.driver.authority, question.clone()));
        let grant = answer.unwrap_or_else(|failure| panic!("{question:?}: {failure}"));
        if self.limit.script().is_some() {
            assert_eq!(grant.at, now, "{question:?}");
        }
        in_ticks(grant.decision, tick)
    }
}

impl Subject for Played {
    fn decide(&mut self, key: &[u8], _limit: &Limit, ask: Ask) -> Decision {
        let act = match ask.intent {
            Intent::Peek => Act::Peek(ask.cost),
            Intent::Take => Act::Take(ask.cost),
            Intent::Book => Act::Book(ask.cost),
        };
        self.act(key, act, ask.now)
    }

    fn give_back(&mut self, key: &[u8], _limit: &Limit, refund: Refund) {
        self.act(
            key,
            Act::GiveBack { units: refund.units, counted_at: refund.counted_at, undoes: refund.undoes },
            refund.now,
        );
    }
}

fn in_ticks(decision: Decision, tick: Tick) -> Decision {
    let ticks = |span: Span| Span::from_ticks(span.ticks() / tick.length_ns());
    let outcome = match decision.outcome {
        Outcome::Allowed { wait } => Outcome::Allowed { wait: ticks(wait) },
        Outcome::NotNow { retry_after } => Outcome::NotNow { retry_after: ticks(retry_after) },
        other => other,
    };
    Decision { outcome, reset_after: decision.reset_after.map(ticks), ..decision }
}

/// Plays the suite, and makes sure that each algorithm had a good share.
fn check(address: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let authority = runtime.block_on(common::connect(address));
    let driver = Rc::new(Driver { runtime, authority });
    let mut namespace = 0;
    for tick in [Tick::MICROSECOND, Tick::MILLISECOND] {
        let mut played: HashMap<&str, u64> = HashMap::new();
        let make = |spec: &Spec| {
            let limit = SharedLimit::in_ticks(spec.try_limit().ok()?, tick).ok()?;
            *played.entry(limit.limit().algorithm()).or_default() += 1;
            namespace += 1;
            Some(Played { driver: Rc::clone(&driver), limit: Arc::new(limit), namespace: namespace << 32 })
        };
        let divergence = run_suite_on(Timeline::shared(tick), make, CASES);
        divergence.unwrap_or_else(|divergence| panic!("at {tick:?}: {divergence}"));
        for algorithm in Limit::ALGORITHMS {
            let traces = played.get(algorithm).copied().unwrap_or(0);
            assert!(traces >= CASES / 2, "only {traces} traces of {algorithm} were played at {tick:?}");
        }
    }
}

#[test]
fn one_node() {
    let server = RedisServer::start();
    check(&format!("redis://{}/3", server.address()));
}

#[test]
fn one_node_as_a_user_with_the_rights_that_the_documents_name() {
    let server = RedisServer::start();
    common::add_user(&server, &common::documented_rights()[0]);
    check(&common::as_user(&format!("redis://{}/3", server.address())));
}

#[test]
fn valkey() {
    let server = RedisLaunch::valkey().start();
    check(&format!("redis://{}", server.address()));
}

#[test]
fn ring() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let nodes: Vec<String> = servers.iter().map(|server| server.address().to_string()).collect();
    check(&format!("redis+ring://{}", nodes.join(",")));
    for server in &servers {
        assert!(server.client().run("DBSIZE").integer() > 0, "a node of the ring keeps nothing");
    }
}

#[test]
fn cluster() {
    let cluster = RedisCluster::start(3);
    check(&cluster.address());
    for server in &cluster.masters {
        assert!(server.client().run("DBSIZE").integer() > 0, "a node of the cluster keeps nothing");
    }
}

#[test]
fn valkey_cluster() {
    let cluster = RedisCluster::of(&RedisLaunch::valkey(), 3, false);
    check(&cluster.address());
}

#[test]
fn sentinel() {
    let servers = RedisSentinel::start();
    check(&servers.address());
}

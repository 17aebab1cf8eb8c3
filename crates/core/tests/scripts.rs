//! The twins in Lua against the naive oracles, on real servers.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use tollgate_core::{Limit, SharedLimit, Tick};
use tollgate_testkit::real::redis::{RedisLaunch, ScriptCaller, Scripts};
use tollgate_testkit::{Spec, Timeline, run_suite_on};

const TICKS: [Tick; 3] = [Tick::MICROSECOND, Tick::MILLISECOND, Tick::SECOND];
const CASES: u64 = 60;

/// Plays the suite at every tick, and makes sure that each algorithm had a good share.
fn check(launch: RedisLaunch) {
    let server = launch.start();
    let caller = Rc::new(RefCell::new(ScriptCaller::new(server.client())));
    for tick in TICKS {
        let mut played: HashMap<&str, u64> = HashMap::new();
        let make = |spec: &Spec| {
            let limit = SharedLimit::in_ticks(spec.try_limit().ok()?, tick).ok()?;
            *played.entry(limit.limit().algorithm()).or_default() += 1;
            Some(Scripts::new(&caller, tick))
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
fn redis_answers_like_the_oracle() {
    check(RedisLaunch::redis());
}

#[test]
fn valkey_answers_like_the_oracle() {
    check(RedisLaunch::valkey());
}

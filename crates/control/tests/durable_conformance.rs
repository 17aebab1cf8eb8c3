//! The suite that every implementation agrees with, asked of counters in a database: windows by the clock and by the calendar.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // A test stops at the first surprise.

mod common;

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use common::Stand;
use common::durable::{ask, authority, key};
use tokio::runtime::Runtime;
use tollgate_control::DurableAuthority;
use tollgate_core::{
    Ask, CalendarUnit, Decision, Intent, Limit, Outcome, Refund, SharedLimit, Span, Tick, Time,
};
use tollgate_store::authority::{Act, Question};
use tollgate_testkit::{Spec, Subject, Timeline, run_suite_on};

const CASES: u64 = 20;

struct Asker {
    runtime: Runtime,
    authority: DurableAuthority,
}

/// One limit, on keys that nobody has used.
struct Played {
    asker: Rc<Asker>,
    limit: Arc<SharedLimit>,
    namespace: u64,
}

impl Played {
    fn act(&self, name: &[u8], act: Act, now: Time) -> Decision {
        let tick = self.limit.tick();
        self.asker.authority.make_up_time(Some(now.ticks() * tick.length_us()));
        let name = name.iter().fold(self.namespace, |name, byte| name.wrapping_mul(31) ^ u64::from(*byte));
        let question = Question { key: key(name), limit: Arc::clone(&self.limit), act, account: None };
        let answer = self.asker.runtime.block_on(ask(&self.asker.authority, question.clone()));
        let grant = answer.unwrap_or_else(|failure| panic!("{question:?}: {failure}"));
        assert_eq!(grant.at, now, "{question:?}");
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
        let Refund { units, counted_at, undoes, now } = refund;
        self.act(key, Act::GiveBack { units, counted_at, undoes }, now);
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

/// Plays the suite, and makes sure that each kind of window had a good share.
fn check(stand: &Stand) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let authority = runtime.block_on(async { authority(&stand.open().await) });
    let asker = Rc::new(Asker { runtime, authority });
    let mut namespace = 0;
    for tick in [Tick::MICROSECOND, Tick::MILLISECOND] {
        let mut played: HashMap<&str, u64> = HashMap::new();
        let make = |spec: &Spec| {
            let kind = match spec {
                Spec::FixedWindow { .. } => "fixed",
                Spec::CalendarWindow { unit: CalendarUnit::Month, anchor_day: 2.., .. } => "anchored",
                Spec::CalendarWindow { .. } => "calendar",
                _ => return None,
            };
            let limit = SharedLimit::in_ticks(spec.try_limit().ok()?, tick).ok()?;
            *played.entry(kind).or_default() += 1;
            namespace += 1;
            Some(Played { asker: Rc::clone(&asker), limit: Arc::new(limit), namespace: namespace << 32 })
        };
        let divergence = run_suite_on(Timeline::shared(tick), make, CASES);
        divergence.unwrap_or_else(|divergence| panic!("at {tick:?}: {divergence}"));
        for (kind, least) in [("fixed", CASES / 2), ("calendar", CASES / 4), ("anchored", 2)] {
            let traces = played.get(kind).copied().unwrap_or(0);
            assert!(traces >= least, "only {traces} traces of {kind} windows were played at {tick:?}");
        }
    }
}

#[test]
fn sqlite() {
    check(&Stand::sqlite());
}

#[test]
fn postgres() {
    check(&Stand::postgres());
}

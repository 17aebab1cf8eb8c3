//! A gate with a few policies, and a client that talks to it without a network.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate::core::{Concurrency, LeakyQueue, Limit, Rate, Span, Tick, TokenBucket};
use tollgate::policy::{
    Allowance, Counting, FailMode, FileSpec, Overshoot, Period, PolicySpec, Quota, Rule, RuleLimit,
};

use super::connection;
use crate::access::{Access, TEST_CLIENT, TokenSettings, TokenSource};
use crate::drain::Stopper;
use crate::gate::{Gate, GateSettings};
use crate::room::Room;

/// How much the pipe between client and server holds.
const PIPE_BYTES: usize = 4 << 10;

/// Tests last much less, so that what has come back by then does not show.
pub(super) const PERIOD: Duration = Duration::from_hours(1_000);

pub(super) fn gate() -> Gate {
    let period = Tick::NANOSECOND.span(PERIOD).unwrap();
    let bucket = |burst| Limit::from(TokenBucket::new(Rate::new(10, period).unwrap(), burst).unwrap());
    let queue = LeakyQueue::new(Rate::new(10, period).unwrap(), period).unwrap();
    let one_at_a_time = Concurrency::new(1, Span::MAX).unwrap();
    let gate = Gate::new(GateSettings::default()).unwrap();
    let mut tiered = policy("tiered", Some(bucket(2)));
    tiered.rule.limits[0].tiers = vec![("gold".to_owned(), allowance(Some(bucket(5))))];
    let policies = vec![
        policy("small", Some(bucket(3))),
        policy("queue", Some(queue.into())),
        policy("jobs", Some(one_at_a_time.into())),
        policy("open", None),
        tiered,
    ];
    gate.install(vec![FileSpec { domain: None, policies }]);
    gate
}

/// The same gate for those only who show a token.
pub(super) fn guarded() -> Gate {
    let tokens = "0123456789abcdef,fedcba9876543210";
    let tokens =
        TokenSettings { resp: Some(TokenSource::parse(tokens).unwrap()), ..TokenSettings::default() };
    gate().with_access(Access::load(&tokens).unwrap().0)
}

/// A gate with a policy of one unit that is in shadow mode.
pub(super) fn shadow_gate() -> Gate {
    let rate = Rate::new(1, Tick::NANOSECOND.span(PERIOD).unwrap()).unwrap();
    let mut trial = policy("trial", Some(TokenBucket::new(rate, 1).unwrap().into()));
    trial.rule.shadow_mode = true;
    let gate = Gate::new(GateSettings::default()).unwrap();
    gate.install(vec![FileSpec { domain: None, policies: vec![trial] }]);
    gate
}

fn policy(name: &str, limit: Option<Limit>) -> PolicySpec {
    let limit = RuleLimit {
        name: None,
        replaces: vec![],
        allowance: allowance(limit),
        tiers: vec![],
        overshoot: Overshoot::default(),
        enforce_percent: 100,
        consistency: None,
        fail_mode: FailMode::default(),
        local_percent: None,
        strict: false,
        counting: Counting::default(),
    };
    let rule = Rule {
        enabled: true,
        shadow_mode: false,
        quota_mode: false,
        detailed_metric: false,
        metadata: None,
        limits: vec![limit],
    };
    PolicySpec { name: name.to_owned(), rule }
}

fn allowance(limit: Option<Limit>) -> Allowance {
    match limit {
        Some(limit) => Allowance::Quota(Quota::new(limit, 10, Period::Length(PERIOD))),
        None => Allowance::Unlimited,
    }
}

/// A room that is never crowded, and has memory for everything.
pub(super) fn room() -> &'static Arc<Room> {
    static ROOM: LazyLock<Arc<Room>> = LazyLock::new(|| Arc::new(Room::unbounded()));
    &ROOM
}

/// Everything that a client gets that sends this and nothing more.
pub(super) async fn talk(gate: &Gate, sent: &[u8]) -> Vec<u8> {
    let (client, server) = tokio::io::duplex(PIPE_BYTES);
    let (mut answers, mut commands) = tokio::io::split(client);
    let (stopper, mut received) = (Stopper::new(), Vec::new());
    let client = async {
        tokio::join!(
            async {
                // A server that has closed does not listen any more.
                let _ = commands.write_all(sent).await;
                let _ = commands.shutdown().await;
            },
            async { answers.read_to_end(&mut received).await.unwrap() },
        );
    };
    tokio::join!(client, connection::run(server, (gate, TEST_CLIENT), room(), stopper.drain()));
    received
}

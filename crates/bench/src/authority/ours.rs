//! The engine with rules, and its authority, as a service embeds them.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate::{Clock, DecidedBy, Engine, EngineSettings, Keeper, Request, Source, Step};
use tollgate_redis::{Authority, Fleet, Settings};

use super::Bucket;
use super::drive::{Answer, Decides};

/// Longer than in production, since the machine may be shared: what is measured is the usual way, not the fail mode.
const DEADLINE: Duration = Duration::from_millis(50);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// The most errands that are carried together, and how often it is looked whether there are any.
const ERRANDS_MAX: usize = 1_024;
const ERRANDS_INTERVAL: Duration = Duration::from_millis(1);

/// An engine whose counters are in Redis.
pub(super) struct Ours {
    engine: Engine,
    clock: Arc<Clock>,
    authority: Authority,
    /// The names of policies, and which of them each key has; the first, where none is said.
    names: Vec<String>,
    classes: Vec<u16>,
    bursts: Vec<u64>,
}

/// Rules with a policy `class-N` for each class of keys, the class of each key, and the burst of each class.
pub(super) struct Policies {
    pub(super) rules: String,
    pub(super) classes: Vec<u16>,
    pub(super) bursts: Vec<u64>,
}

/// Somebody who takes all that the bucket of a key holds.
pub(super) struct Emptied(pub(super) Arc<Ours>);

impl Ours {
    pub(super) async fn connect(address: SocketAddr, bucket: Bucket) -> Result<Ours, Box<dyn Error>> {
        Ours::connect_as(address, bucket, false).await
    }

    /// The same, by leases if so.
    pub(super) async fn connect_as(
        address: SocketAddr,
        bucket: Bucket,
        is_leased: bool,
    ) -> Result<Ours, Box<dyn Error>> {
        let consistency = if is_leased { "leased" } else { "exact" };
        let Bucket { units, period_us, burst } = bucket;
        let rules = format!(
            "policies:\n  class-0: {{requests: {units}, period: {period_us}us, burst: {burst}, \
             algorithm: token_bucket, fail_mode: closed, consistency: {consistency}}}\n"
        );
        Ours::with_policies(address, Policies { rules, classes: Vec::new(), bursts: Vec::new() }).await
    }

    /// The same, with policies that differ from key to key.
    pub(super) async fn with_policies(
        address: SocketAddr,
        policies: Policies,
    ) -> Result<Ours, Box<dyn Error>> {
        let Policies { rules, classes, bursts } = policies;
        let clock = Arc::new(Clock::new());
        let engine = Engine::new(EngineSettings::default())?.sharing(b"benchmark");
        engine.set_nodes(1);
        engine.load(&[Source::new("bench", &rules)], clock.now())?;
        let names =
            (0..=classes.iter().copied().max().unwrap_or(0)).map(|class| format!("class-{class}")).collect();
        let settings = Settings::new(format!("redis://{address}").parse()?);
        let authority = Authority::start(&Fleet::new(settings, Arc::clone(&clock))?);
        if !authority.ready(CONNECT_PATIENCE).await {
            return Err("our own redis-server cannot be reached".into());
        }
        Ok(Ours { engine, clock, authority, names, classes, bursts })
    }
}

impl Ours {
    /// Carries the engine's errands, for as long as somebody lets it.
    pub(super) async fn run_errands(self: Arc<Ours>) {
        loop {
            let errands = self.engine.take_errands(Keeper::Store, ERRANDS_MAX);
            if errands.is_empty() {
                self.engine.tend(self.clock.now());
                sleep(ERRANDS_INTERVAL).await;
                continue;
            }
            let questions: Vec<_> = errands.iter().map(|errand| errand.question.clone()).collect();
            let answers = self.authority.ask_all(questions, DEADLINE).await;
            for (errand, answer) in errands.into_iter().zip(answers) {
                self.engine.settle(errand, answer, self.clock.now());
            }
        }
    }
}

impl Ours {
    /// The class of a key, whose number is at its end.
    fn class(&self, key: &str) -> usize {
        let number = if self.classes.is_empty() { None } else { key.get(5..) };
        let number: Option<usize> = number.and_then(|digits| digits.parse().ok());
        number.and_then(|number| self.classes.get(number)).copied().unwrap_or(0).into()
    }

    async fn take(&self, key: &str, units: u64) -> Result<Answer, String> {
        let policy = self.names.get(self.class(key)).map_or("", String::as_str);
        let request = Request::policy(policy, key.as_bytes()).cost(units);
        let step = self.engine.begin(&request, self.clock.now()).map_err(|error| error.to_string())?;
        let verdict = match step {
            Step::Ready(verdict) => verdict,
            Step::Pending(pending) => {
                let questions = pending.questions().to_vec();
                let grants = self.authority.ask_all(questions, DEADLINE).await;
                let resumed = self.engine.resume(pending, &grants, self.clock.now());
                self.authority.send_back(resumed.tell);
                resumed.verdict
            }
        };
        Ok(match verdict.decided_by() {
            DecidedBy::Authority | DecidedBy::Lease if verdict.allowed() => Answer::Admitted,
            DecidedBy::Authority => Answer::Denied,
            _ => Answer::Failed,
        })
    }
}

impl Decides for Ours {
    async fn decide(&self, key: &str) -> Result<Answer, String> {
        self.take(key, 1).await
    }
}

impl Decides for Emptied {
    async fn decide(&self, key: &str) -> Result<Answer, String> {
        let burst = self.0.bursts.get(self.0.class(key)).copied().unwrap_or(1);
        self.0.take(key, burst).await
    }
}

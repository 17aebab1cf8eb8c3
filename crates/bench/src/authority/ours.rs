//! The engine with rules, and its authority, as a service embeds them.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate::{Clock, DecidedBy, Engine, EngineSettings, Request, Source, Step};
use tollgate_redis::{Authority, Fleet, Settings};

use super::Bucket;
use super::drive::{Answer, Decides};

/// Longer than in production, since the machine may be shared: what is measured is the usual way, not the fail mode.
const DEADLINE: Duration = Duration::from_millis(50);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const POLICY: &str = "bench";
/// The most errands that are carried together, and how often it is looked whether there are any.
const ERRANDS_MAX: usize = 1_024;
const ERRANDS_INTERVAL: Duration = Duration::from_millis(1);

/// An engine whose counters are in Redis.
pub(super) struct Ours {
    engine: Engine,
    clock: Arc<Clock>,
    authority: Authority,
}

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
        let clock = Arc::new(Clock::new());
        let engine = Engine::new(EngineSettings::default())?.sharing(b"benchmark");
        let Bucket { units, period_us, burst } = bucket;
        let rules = format!(
            "policies:\n  {POLICY}: {{requests: {units}, period: {period_us}us, burst: {burst}, \
             algorithm: token_bucket, fail_mode: closed, consistency: {consistency}}}\n"
        );
        engine.load(&[Source::new("bench", &rules)], clock.now())?;
        let settings = Settings::new(format!("redis://{address}").parse()?);
        let authority = Authority::start(&Fleet::new(settings, Arc::clone(&clock))?);
        if !authority.ready(CONNECT_PATIENCE).await {
            return Err("our own redis-server cannot be reached".into());
        }
        Ok(Ours { engine, clock, authority })
    }
}

impl Ours {
    /// Carries the engine's errands, for as long as somebody lets it.
    pub(super) async fn run_errands(self: Arc<Ours>) {
        loop {
            let errands = self.engine.take_errands(ERRANDS_MAX);
            if errands.is_empty() {
                self.engine.tend(self.clock.now());
                sleep(ERRANDS_INTERVAL).await;
                continue;
            }
            let questions: Vec<_> = errands.iter().map(|errand| errand.question.clone()).collect();
            let answers = self.authority.ask_all(questions, DEADLINE).await;
            for (errand, answer) in errands.iter().zip(answers) {
                self.engine.settle(errand, answer, self.clock.now());
            }
        }
    }
}

impl Decides for Ours {
    async fn decide(&self, key: &str) -> Result<Answer, String> {
        let request = Request::policy(POLICY, key.as_bytes());
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

//! The load that goes on whatever happens to Redis, and what is made of its answers.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::runtime::Handle;
use tollgate::{Clock, DecidedBy, Engine, EngineSettings, Request, Source, Step};
use tollgate_redis::{Authority, Fleet, Settings};

use crate::timer::Stopwatch;

/// Requests a second: a few every millisecond.
pub(super) const RATE: u64 = 5_000;
const BEAT: Duration = Duration::from_millis(1);
const PER_BEAT: u64 = RATE / 1_000;
/// The longest that a decision may wait for Redis: the default of the server.
pub(super) const DEADLINE: Duration = Duration::from_millis(2);
/// How long it goes well before the fault.
const SETTLING: Duration = Duration::from_secs(1);
/// How long it goes on after the fault, if exact decisions have not come back before.
const AFTERMATH: Duration = Duration::from_secs(3);
/// So many decisions in a row by Redis: it is back.
const BACK: usize = 50;
/// How long requests that are under way at the end have to finish.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
/// Whatever takes longer counts as this.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
const KEYS: u64 = 1_000;
const POLICY: &str = "bench";
const RULES: &str = "policies: {bench: {requests: 1000, period: 1s, burst: 1000, fail_mode: open}}";

/// One request that was answered.
#[derive(Clone, Copy, Debug)]
struct Answer {
    planned_ns: u64,
    took_ns: u64,
    is_exact: bool,
}

/// What all see who take part.
struct Stage {
    watch: Stopwatch,
    engine: Engine,
    clock: Arc<Clock>,
    authority: Authority,
    answers: Mutex<Vec<Answer>>,
    sent: AtomicU64,
    is_over: AtomicBool,
}

/// A load under way.
pub(super) struct Load {
    stage: Arc<Stage>,
    began_ns: u64,
    openings_before: u64,
    opened_after_ns: Arc<Mutex<Option<u64>>>,
    ended_ns: Option<u64>,
    generator: JoinHandle<()>,
    stop: tokio::sync::oneshot::Sender<()>,
    runtime: JoinHandle<()>,
}

/// What came of it.
pub(super) struct Seen {
    pub(super) lasted_ns: u64,
    pub(super) latencies_ns: Histogram<u64>,
    pub(super) opened_after_ns: Option<u64>,
    pub(super) resumed_after_ns: Option<u64>,
    pub(super) by_authority: usize,
    pub(super) by_fail_mode: usize,
    pub(super) unanswered: u64,
}

impl Load {
    /// Begins to ask whatever is at this address. It goes well when this comes back.
    pub(super) fn start(address: &str) -> Result<Load, Box<dyn Error>> {
        let settings = Settings::new(address.parse()?);
        let (ready, is_ready) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let runtime = thread::spawn(move || {
            runtime.block_on(async {
                // Nobody is told where whoever wanted to know is gone.
                let _ = ready.send(Stage::connect(settings).await.map_err(|error| error.to_string()));
                let _ = stopped.await;
            });
        });
        let stage = Arc::new(is_ready.recv()??);
        let generator = {
            let stage = Arc::clone(&stage);
            thread::spawn(move || stage.generate(&handle))
        };
        thread::sleep(SETTLING);
        let opened_after_ns = Arc::default();
        Ok(Load {
            stage,
            began_ns: 0,
            openings_before: 0,
            opened_after_ns,
            ended_ns: None,
            generator,
            stop,
            runtime,
        })
    }

    /// The fault begins now.
    pub(super) fn begin(&mut self) {
        self.began_ns = self.stage.watch.elapsed_ns();
        self.openings_before = self.stage.openings();
        let (stage, opened, before) =
            (Arc::clone(&self.stage), Arc::clone(&self.opened_after_ns), self.openings_before);
        let began_ns = self.began_ns;
        thread::spawn(move || {
            while !stage.is_over.load(Ordering::Relaxed) {
                if stage.openings() > before {
                    let after_ns = stage.watch.elapsed_ns() - began_ns;
                    *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some(after_ns);
                    return;
                }
                thread::sleep(BEAT);
            }
        });
    }

    /// The fault is over now.
    pub(super) fn end(&mut self) {
        self.ended_ns = Some(self.stage.watch.elapsed_ns());
    }

    /// Waits for exact decisions, ends the load, and tells what came of it.
    pub(super) fn finish(self) -> Result<Seen, Box<dyn Error>> {
        let ended_ns = self.ended_ns.unwrap_or_else(|| self.stage.watch.elapsed_ns());
        thread::sleep(AFTERMATH);
        self.stage.is_over.store(true, Ordering::Relaxed);
        thread::sleep(LAST_ANSWERS);
        self.generator.join().map_err(|_| "the generator panicked")?;
        // Nobody waits any more if it has ended by itself.
        let _ = self.stop.send(());
        self.runtime.join().map_err(|_| "the runtime panicked")?;
        let answers = self.stage.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let unanswered = self.stage.sent.load(Ordering::Relaxed) - answers.len() as u64;
        let opened_after_ns = *self.opened_after_ns.lock().unwrap_or_else(PoisonError::into_inner);
        let mut seen = weigh(&answers, self.began_ns, ended_ns)?;
        (seen.opened_after_ns, seen.unanswered) = (opened_after_ns, unanswered);
        Ok(seen)
    }
}

/// The answers of a fault that lasted so long, and when exact ones came back.
fn weigh(answers: &[Answer], began_ns: u64, ended_ns: u64) -> Result<Seen, Box<dyn Error>> {
    let mut sorted = answers.to_vec();
    sorted.sort_unstable_by_key(|answer| answer.planned_ns);
    let first_after = sorted.partition_point(|answer| answer.planned_ns < ended_ns);
    let first_during = sorted.partition_point(|answer| answer.planned_ns < began_ns);
    let (during, after) = (&sorted[first_during..first_after], &sorted[first_after..]);
    let mut latencies_ns = Histogram::new_with_max(LATENCY_NS_MAX, 3)?;
    for answer in during {
        latencies_ns.saturating_record(answer.took_ns);
    }
    let back = after.windows(BACK).find(|row| row.iter().all(|answer| answer.is_exact));
    let by_authority = during.iter().filter(|answer| answer.is_exact).count();
    Ok(Seen {
        lasted_ns: ended_ns - began_ns,
        latencies_ns,
        opened_after_ns: None,
        resumed_after_ns: back.map(|row| row[0].planned_ns + row[0].took_ns - ended_ns),
        by_authority,
        by_fail_mode: during.len() - by_authority,
        unanswered: 0,
    })
}

impl Stage {
    async fn connect(settings: Settings) -> Result<Stage, Box<dyn Error>> {
        let clock = Arc::new(Clock::new());
        let engine = Engine::new(EngineSettings::default())?.sharing(b"benchmark");
        engine.load(&[Source::new("bench", RULES)], clock.now())?;
        let authority = Authority::start(&Fleet::new(settings, Arc::clone(&clock))?);
        if !authority.ready(CONNECT_PATIENCE).await {
            return Err("our own Redis cannot be reached".into());
        }
        Ok(Stage {
            watch: Stopwatch::start(),
            engine,
            clock,
            authority,
            answers: Mutex::default(),
            sent: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        })
    }

    /// How often breakers have opened.
    fn openings(&self) -> u64 {
        self.authority.fleet().stats().iter().map(|shard| shard.openings).sum()
    }

    /// Sends what is due, every millisecond, whatever became of what was sent before.
    fn generate(self: &Arc<Stage>, handle: &Handle) {
        let mut due = BEAT;
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(due.saturating_sub(Duration::from_nanos(self.watch.elapsed_ns())));
            for _ in 0..PER_BEAT {
                let number = self.sent.fetch_add(1, Ordering::Relaxed);
                let (stage, planned_ns) = (Arc::clone(self), due.as_nanos() as u64);
                handle.spawn(async move { stage.request(number, planned_ns).await });
            }
            due += BEAT;
        }
    }

    async fn request(&self, number: u64, planned_ns: u64) {
        let key = (number % KEYS).to_le_bytes();
        let Ok(step) = self.engine.begin(&Request::policy(POLICY, &key), self.clock.now()) else { return };
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
        let is_exact = verdict.decided_by() == DecidedBy::Authority;
        let took_ns = self.watch.elapsed_ns().saturating_sub(planned_ns);
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push(Answer { planned_ns, took_ns, is_exact });
    }
}

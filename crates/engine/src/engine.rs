//! The engine: rules and counters in, verdicts out.

mod batch;

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::{mem, slice};

use arc_swap::{ArcSwapOption, Guard};
use thiserror::Error;
use tollgate_core::{Cost, Decision, Holder, Intent, Limit, LimitError, Outcome, Time};
use tollgate_policy::{DefaultAlgorithm, FileSpec, Problems, Snapshot, Source, read_all};
use tollgate_store::{Charge, Key, Ledger, LedgerError, LedgerSettings, Stats};

use crate::key::KeyBuffer;
use crate::lease::{Lease, LeaseIssuer};
use crate::meeting::Meeting;
use crate::request::{Request, RequestError, Subject};
use crate::switches::{Switched, Switches};
use crate::verdict::{Answer, DecidedBy, Status, Verdict};

/// What an engine is made of.
#[derive(Clone, Copy, Debug, Default)]
pub struct EngineSettings {
    /// The table of counters.
    pub ledger: LedgerSettings,
    /// The algorithm of limits that name none: those of rules without a burst, and those that requests bring along.
    pub default_algorithm: DefaultAlgorithm,
    /// Whether every request passes, whatever its limits say: they count and report only.
    pub shadow_mode: bool,
}

/// Why an engine cannot be made.
#[derive(Debug, Error)]
pub enum EngineError {
    /// No table.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// No randomness for the names of leases.
    #[error("no random name for this process: {0}")]
    Random(#[from] getrandom::Error),
    /// Cannot happen as long as a limit of one unit can be built.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// How far a question has come.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // The large one is the common one, and lives for a moment.
pub enum Step {
    /// It is answered.
    Ready(Verdict),
    /// An authority has to be asked first.
    Pending(Asks),
}

/// What has to be asked of authorities. There are none yet, so there is no such value.
#[derive(Debug)]
pub enum Asks {}

impl Step {
    /// The verdict.
    pub fn ready(self) -> Verdict {
        let Step::Ready(verdict) = self;
        verdict
    }
}

/// Decides requests by rules. Shared by reference between threads; does no I/O and never waits for anybody.
pub struct Engine {
    pub(crate) ledger: Ledger,
    pub(crate) settings: EngineSettings,
    pub(crate) switches: Switches,
    snapshot: ArcSwapOption<Snapshot>,
    installing: Mutex<()>,
    leases: LeaseIssuer,
}

/// What a thread uses for one request after the other.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) key: KeyBuffer,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) holders: Vec<Option<Holder>>,
}

thread_local! {
    static SCRATCH: Cell<Scratch> = Cell::default();
}

/// The thread's scratch, until it is dropped.
#[derive(Default)]
struct Borrowed(Scratch);

impl Borrowed {
    fn take() -> Borrowed {
        Borrowed(SCRATCH.take())
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        SCRATCH.set(mem::take(&mut self.0));
    }
}

impl Engine {
    /// An engine without rules.
    pub fn new(settings: EngineSettings) -> Result<Engine, EngineError> {
        Ok(Engine {
            ledger: Ledger::new(settings.ledger)?,
            settings,
            switches: Switches::default(),
            snapshot: ArcSwapOption::empty(),
            installing: Mutex::new(()),
            leases: LeaseIssuer::new(getrandom::u64()?)?,
        })
    }

    /// Reads rules and puts them in the place of those before. If anything is wrong with them, those before stay in force.
    pub fn load(&self, sources: &[Source], now: Time) -> Result<(), Problems> {
        self.install(read_all(sources, self.settings.default_algorithm)?, now);
        Ok(())
    }

    /// Puts rules in the place of those before. What those have counted is kept wherever a rule keeps its place.
    pub fn install(&self, rules: Vec<FileSpec>, now: Time) {
        // One after the other: each continues what the one before has counted.
        let _turn = self.installing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.snapshot.load();
        self.snapshot.store(Some(Snapshot::compile(rules, before.as_deref(), now).into()));
    }

    /// The rules in force.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// Decides a request: it passes only if all limits that it meets admit it; then all are charged, otherwise none is.
    pub fn decide(&self, request: &Request<'_>, now: Time) -> Result<Step, RequestError> {
        let snapshot = self.snapshot.load();
        let question = Question { request, purpose: Purpose::Pass, now };
        let found = self.answer(&question, snapshot.as_deref())?;
        Ok(Step::Ready(found.into_verdict(now, snapshot)))
    }

    /// Decides requests that have arrived together. The answers are those of [`Engine::decide`] one after the other, and `each` is shown
    /// every one as soon as it is there; the rules are looked up once, and the waiting for memory overlaps.
    pub fn decide_batch(
        &self,
        requests: &[Request<'_>],
        now: Time,
        each: impl FnMut(usize, Result<&Verdict, &RequestError>),
    ) {
        batch::decide(self, requests, now, each);
    }

    /// Decides a request that holds what it is given until it is released, or until a deadline: at least one of its limits must be
    /// one on how many may be at it at the same time.
    pub fn acquire(&self, request: &Request<'_>, now: Time) -> Result<(Step, Option<Lease>), RequestError> {
        let snapshot = self.snapshot.load();
        let question = Question { request, purpose: Purpose::Hold, now };
        let found = self.answer(&question, snapshot.as_deref())?;
        let verdict = found.into_verdict(now, snapshot);
        let lease = self.lease(request, &verdict);
        Ok((Step::Ready(verdict), lease))
    }

    /// Ends what a lease holds. False if it held nothing any more: released before, past its deadline, or given out by
    /// another process.
    pub fn release(&self, lease: &Lease, now: Time) -> bool {
        let release =
            |(key, holder)| self.ledger.release(self.ledger.key(key), self.leases.any_limit(), holder, now);
        self.leases.holds(lease).map(release).fold(false, |any, released| any | released)
    }

    /// Decides for a caller that brings its own limit with every call.
    pub fn throttle(&self, key: &[u8], limit: &Limit, cost: u64, now: Time) -> Decision {
        self.decide_throttle(&self.prepare_throttle(key, limit, cost), now)
    }

    /// Has the memory fetched that a caller's counter is in. Whoever prepares several calls before the first is decided waits for
    /// memory once.
    pub fn prepare_throttle(&self, key: &[u8], limit: &Limit, cost: u64) -> Throttle {
        let key = self.ledger.key(Borrowed::take().0.key.of_throttle(key));
        let throttle = Throttle { key, limit: limit.clone(), cost };
        self.ledger.prefetch(slice::from_ref(&throttle.charge()));
        throttle
    }

    /// Decides a call that was prepared.
    pub fn decide_throttle(&self, throttle: &Throttle, now: Time) -> Decision {
        let charge = throttle.charge();
        if self.switches.spares_domain("") {
            let looked_at = self.ledger.decide(&Charge { intent: Intent::Peek, ..charge }, now);
            return Decision { outcome: Outcome::ALLOWED, ..looked_at };
        }
        let decision = self.ledger.decide(&charge, now);
        let outcome = if self.settings.shadow_mode { Outcome::ALLOWED } else { decision.outcome };
        Decision { outcome, ..decision }
    }

    /// What is switched off.
    pub fn switched(&self) -> Switched {
        self.switches.get()
    }

    /// Switches off (and on) the whole, domains, or rules.
    pub fn switch(&self, switched: Switched) {
        self.switches.set(switched);
    }

    /// Does ahead of time what decisions would otherwise wait for. Meant for a background thread, every millisecond or so.
    pub fn tend(&self, now: Time) {
        self.ledger.tend(now);
    }

    /// Numbers about the counters, for metrics.
    pub fn stats(&self) -> Stats {
        self.ledger.stats()
    }

    /// Answers a question by the rules of a snapshot.
    fn answer(&self, question: &Question<'_>, snapshot: Option<&Snapshot>) -> Result<Found, RequestError> {
        let snapshot = question.request.answerable_by(snapshot)?;
        if self.switches.spares_domain(question.request.domain()) {
            return Ok(Found::spared(question.request));
        }
        let mut scratch = Borrowed::take();
        let own = question.request.own_limits(snapshot, self.settings.default_algorithm)?;
        let mut meeting = Meeting::new(self, question);
        meeting.arrange(snapshot, &own, &mut scratch.0.key)?;
        if question.purpose == Purpose::Hold && !meeting.has_something_to_hold() {
            return Err(RequestError::NothingToHold);
        }
        Ok(self.conclude(meeting, &mut scratch.0))
    }

    /// Asks the limits that a request meets.
    fn conclude(&self, mut meeting: Meeting<'_>, scratch: &mut Scratch) -> Found {
        let allowed = meeting.decide(scratch) || self.settings.shadow_mode;
        Found { allowed, decided_by: DecidedBy::Ledger, answer: meeting.into_answer() }
    }

    /// The lease on what was just given to be held.
    fn lease(&self, request: &Request<'_>, verdict: &Verdict) -> Option<Lease> {
        let mut scratch = Borrowed::take();
        let mut lease = None;
        for &(index, holder) in &verdict.answer.holders {
            let ruling = &verdict.rulings()[index];
            let (Some(place), Some(limit)) = (verdict.place(ruling), verdict.limit(ruling)) else { continue };
            let key = match request.subject {
                Subject::Policy { key, .. } => scratch.0.key.of_policy(limit, key),
                Subject::Descriptors { descriptors, .. } => {
                    let meets =
                        |status: &Status| matches!(status, Status::Limited(range) if range.contains(&index));
                    let Some(at) = verdict.statuses().iter().position(meets) else { continue };
                    scratch.0.key.of_descriptor(place, limit, descriptors[at].entries)
                }
            };
            lease.get_or_insert_with(|| self.leases.start()).add(key, holder);
        }
        lease
    }
}

/// A call of somebody who brings the limit along, on its way to the counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    key: Key,
    limit: Limit,
    cost: u64,
}

impl Throttle {
    /// How much is asked for.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&self) -> Charge<'_> {
        Charge::take(self.key, &self.limit, Cost::new(self.cost))
    }
}

/// What was found out about a request.
struct Found {
    allowed: bool,
    decided_by: DecidedBy,
    answer: Answer,
}

impl Found {
    /// Nobody asked the counters.
    fn spared(request: &Request<'_>) -> Found {
        let mut answer = Answer::default();
        answer.statuses.resize(request.subjects(), Status::NoLimit);
        Found { allowed: true, decided_by: DecidedBy::KillSwitch, answer }
    }

    fn into_verdict(self, now: Time, snapshot: Guard<Option<Arc<Snapshot>>>) -> Verdict {
        let Found { allowed, decided_by, answer } = self;
        Verdict { allowed, decided_by, now, answer, snapshot }
    }
}

/// What is asked, what for, and when.
pub(crate) struct Question<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) purpose: Purpose,
    pub(crate) now: Time,
}

/// What an admitted request does with its units.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Pass,
    Hold,
}

//! The engine: rules and counters in, verdicts out.

mod batch;

use std::cell::Cell;
use std::sync::{Arc, Mutex, PoisonError};
use std::{iter, mem, slice};

use arc_swap::{ArcSwapOption, Guard};
use thiserror::Error;
use tollgate_core::{Cost, Decision, Holder, Intent, Limit, LimitError, Outcome, SharedLimit, Time};
use tollgate_policy::{Consistency, DefaultAlgorithm, FileSpec, Problems, Quota, Snapshot, Source, read_all};
use tollgate_store::authority::{Act, Directed, Failure, Grant, Pin, Question};
use tollgate_store::{Charge, Key, Ledger, LedgerError, LedgerSettings, Stats};

use crate::fleet::{Fleet, SharedCounter};
use crate::key::KeyBuffer;
use crate::lease::{Hold, Lease, LeaseIssuer};
use crate::meeting::Meeting;
use crate::pending::{self, Pending};
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
    /// An authority has to be asked first: see [`Engine::resume`].
    Pending(Pending),
}

/// The answer to a request that had to wait.
#[derive(Debug)]
pub struct Resumed {
    /// The answer.
    pub verdict: Verdict,
    /// What is held now, if the request asked for something to hold.
    pub lease: Option<Lease>,
    /// What the authority is to be told, such as units that are given back. Nobody waits for it.
    pub tell: Vec<Directed>,
}

/// What became of a lease that was released.
#[derive(Debug, Default)]
pub struct Released {
    /// Whether it held anything in this process.
    pub here: bool,
    /// What the authority is to be told: whether it held anything there, it will answer.
    pub questions: Vec<Directed>,
}

/// Decides requests by rules. Shared by reference between threads; does no I/O and never waits for anybody.
pub struct Engine {
    pub(crate) ledger: Ledger,
    pub(crate) settings: EngineSettings,
    pub(crate) switches: Switches,
    snapshot: ArcSwapOption<Snapshot>,
    installing: Mutex<()>,
    leases: LeaseIssuer,
    fleet: Option<Fleet>,
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
            fleet: None,
        })
    }

    /// An engine that shares its counters with all who know the same secret, but for limits whose rules say otherwise. Whoever runs it
    /// carries its questions to an authority: see [`Engine::begin`].
    #[must_use]
    pub fn sharing(self, secret: &[u8]) -> Engine {
        Engine { fleet: Some(Fleet::new(secret)), ..self }
    }

    /// An engine that has the shared counters of some names kept at places of their own. A name is the key of a policy or of a throttle, or a value
    /// of a descriptor that all who share its counter have in common, such as a tenant; of several, the first in the descriptor counts.
    #[must_use]
    pub fn pinning(mut self, pins: impl IntoIterator<Item = (String, Pin)>) -> Engine {
        if let Some(fleet) = &mut self.fleet {
            fleet.set_pins(pins);
        }
        self
    }

    /// Whether counters are shared, so that answers may have to be waited for.
    pub fn is_sharing(&self) -> bool {
        self.fleet.is_some()
    }

    /// How many processes share the counters: while the authority is away, each spends its part.
    pub fn set_nodes(&self, nodes: u32) {
        if let Some(fleet) = &self.fleet {
            fleet.set_nodes(nodes);
        }
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
    ///
    /// Nobody else is asked. Where counters are shared, this is for callers that cannot wait: each shared limit then answers as its rule
    /// says for when the authority is away.
    pub fn decide(&self, request: &Request<'_>, now: Time) -> Result<Verdict, RequestError> {
        match self.begin(request, now)? {
            Step::Ready(verdict) => Ok(verdict),
            Step::Pending(pending) => Ok(self.resume(pending, &[], now).verdict),
        }
    }

    /// As [`Engine::decide`], but says what has to be asked of an authority where counters are shared.
    pub fn begin(&self, request: &Request<'_>, now: Time) -> Result<Step, RequestError> {
        self.step(&Inquiry { request, purpose: Purpose::Pass, now })
    }

    /// As [`Engine::begin`], for a request that holds what it is given: see [`Engine::acquire`].
    pub fn begin_hold(
        &self,
        request: &Request<'_>,
        now: Time,
    ) -> Result<(Step, Option<Lease>), RequestError> {
        let step = self.step(&Inquiry { request, purpose: Purpose::Hold, now })?;
        let lease = match &step {
            Step::Ready(verdict) => self.lease(request, verdict),
            Step::Pending(_) => None,
        };
        Ok((step, lease))
    }

    /// Goes on with what the authority has said, one for each of [`Pending::questions`]. Where there is no grant, the rule decides.
    pub fn resume(&self, mut pending: Pending, grants: &[Result<Grant, Failure>], now: Time) -> Resumed {
        let (passes, settled) = pending.settle(self, grants, now);
        let allowed = passes || self.settings.shadow_mode;
        let Pending { answer, snapshot, hold_keys, .. } = pending;
        let decided_by = answer.decided_by(passes);
        let verdict = Verdict { allowed, decided_by, now, answer, snapshot: Guard::from_inner(snapshot) };
        let mut lease = None;
        for &(index, holder) in &verdict.answer.holders {
            if let Some((_, key)) = hold_keys.iter().find(|(at, _)| *at == index) {
                lease.get_or_insert_with(|| self.leases.start()).add(key, holder);
            }
        }
        for held in &settled.held {
            let pinned = held.pin.and_then(|pin| self.fleet.as_ref()?.pinned_at(pin));
            lease.get_or_insert_with(|| self.leases.start()).add_shared(held, pinned.unwrap_or_default());
        }
        Resumed { verdict, lease: self.sealed(lease), tell: settled.tell }
    }

    /// Nobody waits for the answer any more: gives back what was taken on the way.
    pub fn abandon(&self, pending: Pending, now: Time) {
        pending.abandon(self, now);
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
    pub fn acquire(
        &self,
        request: &Request<'_>,
        now: Time,
    ) -> Result<(Verdict, Option<Lease>), RequestError> {
        match self.begin_hold(request, now)? {
            (Step::Ready(verdict), lease) => Ok((verdict, lease)),
            (Step::Pending(pending), _) => {
                let Resumed { verdict, lease, .. } = self.resume(pending, &[], now);
                Ok((verdict, lease))
            }
        }
    }

    /// Ends what a lease holds. It holds nothing here any more if it was released before, is past its deadline, or was given out by
    /// another process.
    pub fn release(&self, lease: &Lease, now: Time) -> Released {
        let mut released = Released::default();
        for hold in self.leases.holds(lease, self.fleet.as_ref()) {
            match hold {
                Hold::Here { key, holder } => {
                    let key = self.ledger.key(key);
                    released.here |= self.ledger.release(key, self.leases.any_limit(), holder, now);
                }
                Hold::Shared { name, holder, pinned } => {
                    let limit = Arc::clone(self.leases.any_shared_limit());
                    let question = Question { key: name, limit, act: Act::Release(holder) };
                    released.questions.push((question, self.pin_of(iter::once(pinned))));
                }
            }
        }
        released
    }

    /// Decides for a caller that brings its own limit with every call.
    pub fn throttle(&self, key: &[u8], limit: &Limit, cost: u64, now: Time) -> Decision {
        self.decide_throttle(&self.prepare_throttle(key, limit, cost), now)
    }

    /// Has the memory fetched that a caller's counter is in. Whoever prepares several calls before the first is decided waits for
    /// memory once.
    pub fn prepare_throttle(&self, key: &[u8], limit: &Limit, cost: u64) -> Throttle {
        let mut scratch = Borrowed::take();
        let bytes = scratch.0.key.of_throttle(key);
        let question = self.fleet.as_ref().and_then(|fleet| {
            let counter = fleet.counter(bytes, SharedLimit::new(limit).ok()?.into());
            let intent = if self.switches.spares_domain("") { Intent::Peek } else { Intent::Take };
            let act = pending::act(intent, Cost::new(cost));
            let question = Question { key: counter.name, limit: counter.limit, act };
            Some((question, fleet.pin_of(iter::once(key))))
        });
        let throttle = Throttle { key: self.ledger.key(bytes), limit: limit.clone(), cost, question };
        self.ledger.prefetch(slice::from_ref(&throttle.charge()));
        throttle
    }

    /// Goes on with a call that the authority was asked about: see [`Throttle::question`]. Without a grant, this process's share decides.
    pub fn resume_throttle(&self, throttle: &Throttle, grant: Result<Grant, Failure>, now: Time) -> Decision {
        let Ok(Grant { decision, .. }) = grant else {
            let share = Throttle { limit: self.share_of(&throttle.limit, None), ..throttle.clone() };
            return self.decide_throttle(&share, now);
        };
        let is_free = self.settings.shadow_mode || self.switches.spares_domain("");
        let outcome = if is_free { Outcome::ALLOWED } else { decision.outcome };
        Decision { outcome, ..decision }
    }

    /// Decides a call that was prepared, without asking anybody else.
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

    /// Answers a question by the rules in force, as far as this process can.
    fn step(&self, inquiry: &Inquiry<'_>) -> Result<Step, RequestError> {
        let Inquiry { request, purpose, now } = *inquiry;
        let guard = self.snapshot.load();
        let snapshot = request.answerable_by(guard.as_deref())?;
        if self.switches.spares_domain(request.domain()) {
            return Ok(Step::Ready(Found::spared(request).into_verdict(now, guard)));
        }
        let mut scratch = Borrowed::take();
        let own = request.own_limits(snapshot, self.settings.default_algorithm)?;
        let mut meeting = Meeting::new(self, inquiry);
        meeting.arrange(snapshot, &own, &mut scratch.0.key)?;
        if purpose == Purpose::Hold && !meeting.has_something_to_hold() {
            return Err(RequestError::NothingToHold);
        }
        if !meeting.has_shared() {
            let found = self.conclude(meeting, &mut scratch.0);
            return Ok(Step::Ready(found.into_verdict(now, guard)));
        }
        let mut pending = meeting.part(&mut scratch.0, Option::clone(&guard));
        if pending.questions().is_empty() {
            return Ok(Step::Ready(self.resume(pending, &[], now).verdict));
        }
        if purpose == Purpose::Hold {
            for index in pending.held_here() {
                let key = hold_key(request, &pending.answer, Some(snapshot), index, &mut scratch.0.key);
                pending.hold_keys.extend(key.map(|key| (index, key.to_vec())));
            }
        }
        Ok(Step::Pending(pending))
    }

    /// The counter of a key that others share, if they do.
    pub(crate) fn shared_counter(
        &self,
        key: &[u8],
        quota: &Quota,
        consistency: Option<Consistency>,
    ) -> Option<SharedCounter> {
        let fleet = self.fleet.as_ref()?;
        if consistency == Some(Consistency::Local) || matches!(quota.limit, Limit::Blocked(_)) {
            return None;
        }
        let build = || SharedLimit::new(&quota.limit).ok().map(Arc::new);
        let limit = quota.shared.clone().or_else(build)?;
        Some(fleet.counter(key, limit))
    }

    /// Where the shared counters of these names are kept, if at a place of their own.
    pub(crate) fn pin_of<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Option<Pin> {
        self.fleet.as_ref()?.pin_of(names)
    }

    /// What this process may spend of a limit on its own.
    pub(crate) fn share_of(&self, limit: &Limit, percent: Option<u8>) -> Limit {
        self.fleet.as_ref().map_or_else(|| limit.clone(), |fleet| fleet.share_of(limit, percent))
    }

    /// Asks the limits that a request meets. Those that others share answer as if the authority were away.
    fn conclude(&self, mut meeting: Meeting<'_>, scratch: &mut Scratch) -> Found {
        if meeting.has_shared() {
            let mut pending = meeting.part(scratch, None);
            let now = pending.now;
            let (passes, _) = pending.settle(self, &[], now);
            let allowed = passes || self.settings.shadow_mode;
            return Found { allowed, decided_by: pending.answer.decided_by(passes), answer: pending.answer };
        }
        let allowed = meeting.decide(scratch) || self.settings.shadow_mode;
        Found { allowed, decided_by: DecidedBy::Ledger, answer: meeting.into_answer() }
    }

    /// The lease on what was just given to be held.
    fn lease(&self, request: &Request<'_>, verdict: &Verdict) -> Option<Lease> {
        let (mut scratch, mut lease) = (Borrowed::take(), None);
        for &(index, holder) in &verdict.answer.holders {
            let snapshot = verdict.snapshot.as_deref();
            if let Some(key) = hold_key(request, &verdict.answer, snapshot, index, &mut scratch.0.key) {
                lease.get_or_insert_with(|| self.leases.start()).add(key, holder);
            }
        }
        self.sealed(lease)
    }

    /// A lease as it is given out: where counters are shared, nobody else can make one.
    fn sealed(&self, lease: Option<Lease>) -> Option<Lease> {
        match &self.fleet {
            Some(fleet) => lease.map(|lease| lease.sealed(fleet)),
            None => lease,
        }
    }
}

/// The key of the counter that a ruling is about.
fn hold_key<'s>(
    request: &Request<'_>,
    answer: &Answer,
    snapshot: Option<&Snapshot>,
    index: usize,
    key_buffer: &'s mut KeyBuffer,
) -> Option<&'s [u8]> {
    let ruling = answer.rulings.get(index)?;
    let place = snapshot?.place(ruling.place?);
    let limit = place.limits().get(ruling.limit_index)?;
    match request.subject {
        Subject::Policy { key, .. } => Some(key_buffer.of_policy(limit, key)),
        Subject::Descriptors { descriptors, .. } => {
            let meets = |status: &Status| matches!(status, Status::Limited(range) if range.contains(&index));
            let at = answer.statuses.iter().position(meets)?;
            Some(key_buffer.of_descriptor(place, limit, descriptors.get(at)?.entries))
        }
    }
}

/// A call of somebody who brings the limit along, on its way to the counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttle {
    key: Key,
    limit: Limit,
    cost: u64,
    question: Option<Directed>,
}

impl Throttle {
    /// What an authority has to be asked, where counters are shared.
    pub fn question(&self) -> Option<&Directed> {
        self.question.as_ref()
    }

    /// The limit that was brought along.
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

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
pub(crate) struct Inquiry<'a> {
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

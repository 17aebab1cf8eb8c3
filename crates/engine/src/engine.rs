//! The engine: rules and counters in, verdicts out.

use std::cell::RefCell;

use arc_swap::ArcSwapOption;
use smallvec::SmallVec;
use thiserror::Error;
use tollgate_core::{Cost, Decision, Holder, Limit, LimitError, Time};
use tollgate_policy::{DefaultAlgorithm, FileSpec, Problems, Snapshot, Source, read_all};
use tollgate_store::{Charge, Ledger, LedgerError, LedgerSettings, Stats};

use crate::key::KeyBuffer;
use crate::lease::{Lease, LeaseIssuer};
use crate::meeting::{Meeting, RulingHolders};
use crate::request::{Request, RequestError, Subject};
use crate::switches::{Switched, Switches};
use crate::verdict::{DecidedBy, Status, Verdict};

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
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Engine {
    /// An engine without rules.
    pub fn new(settings: EngineSettings) -> Result<Engine, EngineError> {
        Ok(Engine {
            ledger: Ledger::new(settings.ledger)?,
            settings,
            switches: Switches::default(),
            snapshot: ArcSwapOption::empty(),
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
        let before = self.snapshot.load();
        self.snapshot.store(Some(Snapshot::compile(rules, before.as_deref(), now).into()));
    }

    /// The rules in force.
    pub fn snapshot(&self) -> Option<std::sync::Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// Decides a request: it passes only if all limits that it meets admit it; then all are charged, otherwise none is.
    pub fn decide(&self, request: &Request<'_>, now: Time) -> Result<Step, RequestError> {
        let answer =
            SCRATCH.with_borrow_mut(|scratch| self.decide_with(scratch, request, Purpose::Pass, now));
        answer.map(|(verdict, _)| Step::Ready(verdict))
    }

    /// Decides a request that holds what it is given until it is released, or until a deadline: at least one of its limits must be
    /// one on how many may be at it at the same time.
    pub fn acquire(&self, request: &Request<'_>, now: Time) -> Result<(Step, Option<Lease>), RequestError> {
        let answer = SCRATCH.with_borrow_mut(|scratch| {
            let (verdict, holders) = self.decide_with(scratch, request, Purpose::Hold, now)?;
            let lease = self.lease(scratch, request, &verdict, &holders);
            Ok((verdict, lease))
        });
        answer.map(|(verdict, lease)| (Step::Ready(verdict), lease))
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
        SCRATCH.with_borrow_mut(|scratch| {
            let key = self.ledger.key(scratch.key.of_throttle(key));
            self.ledger.decide(&Charge::take(key, limit, Cost::new(cost)), now)
        })
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

    fn decide_with(
        &self,
        scratch: &mut Scratch,
        request: &Request<'_>,
        purpose: Purpose,
        now: Time,
    ) -> Result<(Verdict, RulingHolders), RequestError> {
        request.check()?;
        let guard = self.snapshot.load();
        let snapshot = guard.as_deref().ok_or(RequestError::NotLoaded)?;
        if self.switches.spares_domain(request.domain()) {
            let (statuses, rulings) = (request.statuses_without_limit(), SmallVec::new());
            let decided_by = DecidedBy::KillSwitch;
            let verdict = Verdict { allowed: true, decided_by, now, statuses, rulings, snapshot: guard };
            return Ok((verdict, SmallVec::new()));
        }
        let own = request.own_limits(self.settings.default_algorithm)?;
        let mut meeting = Meeting::arrange(self, snapshot, request, &own, scratch, now)?;
        if purpose == Purpose::Hold && !meeting.has_something_to_hold() {
            return Err(RequestError::NothingToHold);
        }
        let allowed = meeting.decide(scratch) || self.settings.shadow_mode;
        let (statuses, rulings, holders) = meeting.conclude();
        let decided_by = DecidedBy::Ledger;
        Ok((Verdict { allowed, decided_by, now, statuses, rulings, snapshot: guard }, holders))
    }

    /// The lease on what was just given to be held.
    fn lease(
        &self,
        scratch: &mut Scratch,
        request: &Request<'_>,
        verdict: &Verdict,
        holders: &RulingHolders,
    ) -> Option<Lease> {
        let mut lease = None;
        for &(index, holder) in holders {
            let ruling = &verdict.rulings()[index];
            let (Some(place), Some(limit)) = (verdict.place(ruling), verdict.limit(ruling)) else { continue };
            let key = match request.subject {
                Subject::Policy { key, .. } => scratch.key.of_policy(limit, key),
                Subject::Descriptors { descriptors, .. } => {
                    let meets =
                        |status: &Status| matches!(status, Status::Limited(range) if range.contains(&index));
                    let Some(at) = verdict.statuses().iter().position(meets) else { continue };
                    scratch.key.of_descriptor(place, limit, descriptors[at].entries)
                }
            };
            lease.get_or_insert_with(|| self.leases.start()).add(key, holder);
        }
        lease
    }
}

/// What an admitted request does with its units.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Pass,
    Hold,
}

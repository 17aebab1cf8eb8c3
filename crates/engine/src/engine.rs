//! The engine: rules and counters in, verdicts out.

mod batch;
mod hold;
mod reserve;
mod tenants;
mod throttle;

use std::cell::{Cell, RefCell};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use thiserror::Error;
use tollgate_core::{Decision, Holder, Limit, LimitError, SharedLimit, Time};
use tollgate_policy::{
    Consistency, DefaultAlgorithm, FileSpec, Problems, Quota, Snapshot, Source, Tenants, read_all,
};
use tollgate_store::authority::{Directed, Failure, Grant, Pin, SharedKey};
use tollgate_store::hot::{ShardId, SwitchSettings};
use tollgate_store::lease::Purses;
use tollgate_store::{Ledger, LedgerError, LedgerSettings, Stats};

pub use self::hold::Released;
pub(crate) use self::hold::hold_key;
pub use self::throttle::Throttle;
use crate::fleet::{Fleet, Keeper, SharedCounter};
use crate::hot::Hot;
use crate::ids::{Ids, RequestIdSettings, RequestIdStats};
use crate::key::{KeyBuffer, Rollout};
use crate::key_acts::KeyActs;
use crate::lease::{Lease, LeaseIssuer};
use crate::meeting::{Meeting, Stash};
use crate::pending::{Pending, Settled};
use crate::request::{Request, RequestError};
use crate::reservation::{
    Claim, Dues, ReservationClient, ReservationSettings, Reservations, Reserved, SettleError,
};
use crate::seal::Sealer;
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
    /// From when on a key is hot.
    pub hot: SwitchSettings,
    /// How many reservations may be open.
    pub reservations: ReservationSettings,
    /// How many request ids are remembered.
    pub request_ids: RequestIdSettings,
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
    /// What is reserved now, if the request asked for that.
    pub reserved: Option<Reserved>,
    /// Why a reservation that was to be settled was not: then nothing has changed.
    pub settle_error: Option<SettleError>,
    /// Why the request has no answer: its id belongs to another request. Nothing was charged.
    pub error: Option<RequestError>,
    /// What the authority is to be told, such as units that are given back. Nobody waits for it.
    pub tell: Vec<Directed>,
}

/// Decides requests by rules. Shared by reference between threads; does no I/O and never waits for anybody.
pub struct Engine {
    pub(crate) ledger: Ledger,
    pub(crate) settings: EngineSettings,
    pub(crate) switches: Switches,
    pub(crate) hot: Hot,
    pub(crate) key_acts: KeyActs,
    snapshot: ArcSwapOption<Snapshot>,
    /// Whoever puts a snapshot in the place of another holds this: each continues what the one before has counted, and what tenants may.
    tenants: Mutex<Tenants>,
    leases: LeaseIssuer,
    /// Seals what callers carry away: leases and reservations.
    sealer: Arc<Sealer>,
    pub(crate) reservations: Reservations,
    pub(crate) ids: Ids,
    /// The choice of keys for which limits with `enforce_percent` are enforced.
    rollout: ArcSwap<Rollout>,
    fleet: Option<Fleet>,
    /// Those who count in the same database, if there is one.
    durable: Option<Fleet>,
    /// Whether any rule has its counts kept there, or had: requests that began with other rules may still be under way.
    has_durable_limits: AtomicBool,
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
        let process = getrandom::u64()?;
        let sealer = Arc::new(Sealer::new()?);
        Ok(Engine {
            ledger: Ledger::new(settings.ledger)?,
            settings,
            switches: Switches::default(),
            hot: Hot::new(settings.hot),
            key_acts: KeyActs::default(),
            snapshot: ArcSwapOption::empty(),
            tenants: Mutex::default(),
            leases: LeaseIssuer::new(process)?,
            reservations: Reservations::new(settings.reservations, process, Arc::clone(&sealer))?,
            ids: Ids::new(settings.request_ids)?,
            sealer,
            rollout: ArcSwap::from_pointee(Rollout::of_process()?),
            fleet: None,
            durable: None,
            has_durable_limits: AtomicBool::new(false),
        })
    }

    /// An engine whose durable limits are counted in a database. Whoever runs it carries the questions there that are pinned to it
    /// ([`Pin::DATABASE`]). Without, they count in this process alone.
    #[must_use]
    pub fn with_database(self) -> Engine {
        let cap_bytes = self.settings.ledger.cap_bytes;
        Engine { durable: Some(Fleet::durable(self.leases.seed(), cap_bytes)), ..self }
    }

    /// Whether durable limits are counted in a database.
    pub fn has_database(&self) -> bool {
        self.durable.is_some()
    }

    /// An engine that shares its counters with all who know the same secret, but for limits whose rules say otherwise. Whoever runs it
    /// carries its questions to an authority: see [`Engine::begin`].
    #[must_use]
    pub fn sharing(self, secret: &[u8]) -> Engine {
        self.tenants().set_shared(true);
        self.set_fleet_secret(secret);
        let cap_bytes = self.settings.ledger.cap_bytes;
        Engine { fleet: Some(Fleet::new(secret, self.leases.seed(), cap_bytes)), ..self }
    }

    /// Seals leases and reservations with a secret of the fleet from now on, so that its other processes can check them. The first
    /// secret counts, be it that of [`Engine::sharing`]; an empty one is none. Without any, only this process can check them.
    pub fn set_fleet_secret(&self, secret: &[u8]) {
        self.sealer.set_fleet_secret(secret);
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

    /// An engine that knows which shard keeps a key, by a number for each: a key is hot by its part of what its own shard decides. Nothing is said where that
    /// is not known at the moment. Whoever says nothing has one shard.
    #[must_use]
    pub fn sharded(
        mut self,
        shard_of: impl Fn(SharedKey, Option<Pin>) -> Option<ShardId> + Send + Sync + 'static,
    ) -> Engine {
        if let Some(fleet) = &mut self.fleet {
            fleet.set_sharding(Box::new(shard_of));
        }
        self
    }

    /// Makes limits with `enforce_percent` choose the same keys as all other processes with this secret. Until it is called, the
    /// choice is this process's own.
    pub fn set_rollout_secret(&self, secret: &[u8]) {
        self.rollout.store(Arc::new(Rollout::new(secret)));
    }

    pub(crate) fn rollout(&self) -> Guard<Arc<Rollout>> {
        self.rollout.load()
    }

    /// Whether any counters are shared or kept in a database, so that answers may have to be waited for.
    pub fn is_sharing(&self) -> bool {
        self.fleet.is_some() || self.durable.is_some() && self.has_durable_limits()
    }

    /// Whether any rule has, or had, its counts kept in a database.
    pub fn has_durable_limits(&self) -> bool {
        self.has_durable_limits.load(Ordering::Relaxed) // orders nothing else
    }

    /// How many processes share the counters: while the authority is away, each spends its part.
    pub fn set_nodes(&self, nodes: u32) {
        if let Some(fleet) = &self.fleet {
            fleet.set_nodes(nodes);
        }
    }

    /// How many processes count in the same database. Until that is known, each unit is asked for.
    pub fn set_database_nodes(&self, nodes: u32) {
        if let Some(durable) = &self.durable {
            durable.set_nodes(nodes);
        }
    }

    /// Reads rules and puts them in the place of those before. If anything is wrong with them, those before stay in force.
    pub fn load(&self, sources: &[Source], now: Time) -> Result<(), Problems> {
        self.install(read_all(sources, self.settings.default_algorithm)?, now);
        Ok(())
    }

    /// Puts rules in the place of those before. What those have counted is kept wherever a rule keeps its place.
    pub fn install(&self, rules: Vec<FileSpec>, now: Time) {
        let mut tenants = self.tenants();
        let before = self.snapshot.load();
        let snapshot = Snapshot::compile(rules, before.as_deref(), now);
        tenants.introduce(&snapshot, before.as_deref());
        // First: whoever sees the rules may wait for an answer.
        self.has_durable_limits.fetch_or(snapshot.has_durable_limits(), Ordering::Relaxed);
        self.snapshot.store(Some(snapshot.into()));
    }

    fn tenants(&self) -> MutexGuard<'_, Tenants> {
        self.tenants.lock().unwrap_or_else(PoisonError::into_inner)
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
            Step::Pending(pending) => {
                let Resumed { verdict, error, .. } = self.resume(pending, &[], now);
                error.map_or(Ok(verdict), Err)
            }
        }
    }

    /// As [`Engine::decide`], but says what has to be asked of an authority where counters are shared.
    pub fn begin(&self, request: &Request<'_>, now: Time) -> Result<Step, RequestError> {
        self.step(&Inquiry { request, purpose: Purpose::Pass, now })
    }

    /// Goes on with what the authority has said, one for each of [`Pending::questions`]. Where there is no grant, the rule decides.
    pub fn resume(&self, mut pending: Pending, grants: &[Result<Grant, Failure>], now: Time) -> Resumed {
        let (passes, settled) = pending.settle(self, grants, now);
        let allowed = passes || self.settings.shadow_mode;
        let Pending { mut answer, snapshot, hold_keys, claim, settles, .. } = pending;
        let settle_error = settles.and_then(|settles| self.end_settlement(*settles, &settled, &answer, now));
        let charged = mem::take(&mut answer.charged);
        let reserved = claim.filter(|_| allowed).map(|claim| self.reservations.open(claim, charged));
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
        let error = self.count_repeat(&verdict, settled.is_conflict);
        Resumed { verdict, lease: self.sealed(lease), reserved, settle_error, error, tell: settled.tell }
    }

    /// Counts repeats, and says what is wrong with the id of a request, if anything is.
    fn count_repeat(&self, verdict: &Verdict, is_conflict: bool) -> Option<RequestError> {
        if verdict.is_repeated() && !is_conflict {
            self.ids.count_repeat();
        }
        is_conflict.then(|| self.ids.conflict())
    }

    /// Numbers about request ids, for metrics.
    pub fn request_id_stats(&self) -> RequestIdStats {
        self.ids.stats()
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
        self.hot.tend(now);
        self.reservations.tend(now);
        self.ids.tend(now);
        for keeper in Keeper::ALL {
            if let Some(purses) = self.purses(keeper) {
                purses.tend(now);
            }
        }
    }

    /// What this process may spend without asking of limits that are counted elsewhere.
    pub(crate) fn purses(&self, keeper: Keeper) -> Option<&Purses> {
        self.fleet_of(keeper).map(|fleet| &fleet.purses)
    }

    /// Who counts at the same place.
    pub(crate) fn fleet_of(&self, keeper: Keeper) -> Option<&Fleet> {
        match keeper {
            Keeper::Store => self.fleet.as_ref(),
            Keeper::Database => self.durable.as_ref(),
        }
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
        if !matches!(purpose, Purpose::Settle(_)) && self.switches.bypasses_domain(request.domain(), now) {
            return Ok(Step::Ready(Found::bypassed(request).into_verdict(now, guard)));
        }
        if request.id.is_some() && matches!(purpose, Purpose::Hold | Purpose::Reserve { .. }) {
            return Err(RequestError::IdNotTaken);
        }
        let mut scratch = Borrowed::take();
        let own = request.own_limits(snapshot, self.settings.default_algorithm)?;
        let stash = Stash::default();
        let mut meeting = Meeting::new(self, inquiry);
        meeting.arrange(snapshot, &own, &stash, &mut scratch.0.key)?;
        if matches!(purpose, Purpose::Hold) && !meeting.has_something_to_hold() && !meeting.is_banned() {
            return Err(RequestError::NothingToHold);
        }
        if let Purpose::Reserve { claim, client } = purpose {
            if meeting.has_something_to_hold() {
                return Err(RequestError::HeldNotReserved);
            }
            let (scopes, charges) = meeting.reservation_scopes(client);
            claim.borrow_mut().take_parts(scopes, charges)?;
        }
        if !meeting.has_shared() {
            let found = self.conclude(meeting, &mut scratch.0)?;
            return Ok(Step::Ready(found.into_verdict(now, guard)));
        }
        if meeting.spend_alone() {
            meeting.observe();
            let found = Found { allowed: true, decided_by: DecidedBy::Lease, answer: meeting.into_answer() };
            return Ok(Step::Ready(found.into_verdict(now, guard)));
        }
        let mut pending = meeting.part(&mut scratch.0, Option::clone(&guard))?;
        if pending.questions().is_empty() {
            return Ok(Step::Ready(self.resume_here(pending, now)));
        }
        if matches!(purpose, Purpose::Hold) {
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
        if consistency == Some(Consistency::Local) || matches!(quota.limit, Limit::Blocked(_)) {
            return None;
        }
        let fleet = self.fleet_of(Keeper::of(consistency))?;
        let build = || SharedLimit::new(&quota.limit).ok().map(Arc::new);
        let limit = quota.shared.clone().or_else(build)?;
        if quota.leased.is_some() {
            // Who has a purse has a name, and to make one takes longer than to look.
            let purse = self.ledger.key(key).number(quota.limit.shape());
            if let Some(name) = fleet.purses.counter(purse, &limit) {
                return Some(SharedCounter { name, limit });
            }
        }
        Some(fleet.counter(key, limit))
    }

    /// Whether a limit that says so is counted elsewhere.
    pub(crate) fn shares(&self, consistency: Option<Consistency>) -> bool {
        consistency != Some(Consistency::Local) && self.fleet_of(Keeper::of(consistency)).is_some()
    }

    /// Where the shared counters of these names are kept, if at a place of their own.
    pub(crate) fn pin_of<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Option<Pin> {
        self.fleet.as_ref()?.pin_of(names)
    }

    /// Who keeps a counter that is shared, if that is known.
    pub(crate) fn shard_of(&self, name: SharedKey, pin: Option<Pin>) -> Option<ShardId> {
        self.fleet.as_ref().filter(|_| Keeper::at(pin) == Keeper::Store)?.shard_of(name, pin)
    }

    /// What this process may spend on its own of a limit that is counted elsewhere.
    pub(crate) fn share_of(&self, keeper: Keeper, limit: &Limit, percent: Option<u8>) -> Limit {
        self.fleet_of(keeper).map_or_else(|| limit.clone(), |fleet| fleet.share_of(limit, percent))
    }

    /// Asks the limits that a request meets. Those that others share answer as if the authority were away.
    fn conclude(&self, mut meeting: Meeting<'_>, scratch: &mut Scratch) -> Result<Found, RequestError> {
        if meeting.is_banned() {
            let (allowed, answer) = (self.settings.shadow_mode, meeting.into_answer());
            return Ok(Found { allowed, decided_by: DecidedBy::Ban, answer });
        }
        if meeting.has_shared() {
            let mut pending = meeting.part(scratch, None)?;
            let now = pending.now;
            let (passes, _) = pending.settle(self, &[], now);
            let (allowed, decided_by) =
                (passes || self.settings.shadow_mode, pending.answer.decided_by(passes));
            return Ok(Found { allowed, decided_by, answer: pending.answer });
        }
        let passes = match meeting.memory() {
            None => meeting.decide(scratch),
            Some(mut memory) => {
                meeting.recall(&memory)?;
                let passes = meeting.decide(scratch);
                meeting.remember(&mut memory, passes);
                passes
            }
        };
        meeting.note_charged(passes);
        let allowed = passes || self.settings.shadow_mode;
        meeting.observe();
        let answer = meeting.into_answer();
        if answer.is_repeated {
            self.ids.count_repeat();
        }
        Ok(Found { allowed, decided_by: answer.decided_here(), answer })
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
    fn bypassed(request: &Request<'_>) -> Found {
        let mut answer = Answer::default();
        answer.statuses.resize(request.subjects(), Status::SwitchedOff);
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
    pub(crate) purpose: Purpose<'a>,
    pub(crate) now: Time,
}

/// What an admitted request does with its units.
#[derive(Clone, Copy)]
pub(crate) enum Purpose<'a> {
    Pass,
    Hold,
    /// What is taken may come back, or turn out to be too little. The place for the reservation is claimed.
    Reserve {
        claim: &'a RefCell<Claim>,
        /// Whose part of the reservations it takes, if the caller says so.
        client: Option<ReservationClient>,
    },
    /// It does so now.
    Settle(Dues<'a>),
}

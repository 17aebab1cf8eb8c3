//! What every protocol asks: the engine, the clock that times it, and the metrics that its verdicts are counted in.

mod begun;
mod clock;
mod durable;
mod errands;
mod hot_keys;
mod rules;
mod switches;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use tollgate::core::{Decision, Limit, Time};
use tollgate::policy::{Consistency, FileSpec, PlacedLimit, Snapshot};
use tollgate::{
    Clock, Engine, EngineError, EngineSettings, Keeper, Request, RequestError, Throttle, Verdict,
};
use tollgate_control::FleetSecret;

pub(crate) use self::begun::{Begun, Granted, has_held};
pub(crate) use self::durable::Durable;
use self::errands::Carriers;
use self::hot_keys::Told;
use self::rules::Sources;
use self::switches::Switches;
pub(crate) use self::switches::{SwitchTarget, SwitchedOff};
use crate::access::{Access, Admitted, Attempts, Failure, Failures, Forbidden, Refused, Scope};
use crate::client_address::AddressSettings;
use crate::memory::MemoryAccount;
use crate::metrics::{ConnectionStats, EngineStats, Metrics, Outcomes, Protocol, StoreStats};
use crate::protocol::http::WebHosts;
use crate::room::ConnectionLimit;
use crate::rulebook::Origins;
use crate::seldom::Seldom;
use crate::store::Store;

/// How the gate answers.
#[derive(Clone, Debug)]
pub struct GateSettings {
    /// The engine behind it.
    pub engine: EngineSettings,
    /// From which part of a limit on a key counts as near it.
    pub near_limit_ratio: f64,
    /// Whether Envoy is given X-RateLimit-Limit, -Remaining and -Reset too, which it can make itself.
    pub rls_x_ratelimit_headers: bool,
    /// Whether Envoy is given the older RateLimit-Limit, -Remaining and -Reset too.
    pub rls_older_headers: bool,
    /// Whether Envoy is given the domain, the descriptors and the metadata of rules as dynamic metadata.
    pub rls_dynamic_metadata: bool,
    /// How clients are found behind proxies that ask `/v1/auth`.
    pub addresses: AddressSettings,
    /// The form in which `/v1/auth` makes descriptors of a request's path.
    pub path_form: PathForm,
}

/// The form of a path in descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathForm {
    /// As the proxy hands it over.
    #[default]
    AsSent,
    /// Its normal form.
    Normalized,
}

impl Default for GateSettings {
    fn default() -> GateSettings {
        GateSettings {
            engine: EngineSettings::default(),
            near_limit_ratio: 0.8,
            rls_x_ratelimit_headers: false,
            rls_older_headers: false,
            rls_dynamic_metadata: false,
            addresses: AddressSettings::default(),
            path_form: PathForm::default(),
        }
    }
}

/// What protocols ask. Shared by all threads.
pub struct Gate {
    engine: Engine,
    clock: Arc<Clock>,
    settings: GateSettings,
    metrics: Metrics,
    access: Access,
    web_hosts: WebHosts,
    failures: Failures,
    /// Where counters are shared, if they are.
    store: Option<Store>,
    /// Where counts are kept that are durable, if there is a database.
    durable: Option<Durable>,
    has_fleet_secret: AtomicBool,
    readiness: AtomicU8,
    sources: Mutex<Sources>,
    switches: Switches,
    origins: ArcSwap<Origins>,
    /// Calls whose numbers cannot be shared.
    unshared_throttles: Seldom,
    /// What was said of hot keys.
    told: Told,
    /// Those who carry errands.
    carriers: Carriers,
    /// The listeners and the memory account that they share, once the server listens.
    connections: OnceLock<(Arc<MemoryAccount>, Vec<Arc<ConnectionLimit>>)>,
}

/// How far a gate is, as [`Gate::readiness`] has it.
const STARTING: u8 = 0;
const READY: u8 = 1;
const STOPPING: u8 = 2;

impl Gate {
    /// A gate without rules, which is not ready.
    pub fn new(settings: GateSettings) -> Result<Gate, EngineError> {
        Ok(Gate {
            engine: Engine::new(settings.engine)?,
            clock: Arc::new(Clock::new()),
            metrics: Metrics::new(settings.near_limit_ratio),
            settings,
            access: Access::default(),
            web_hosts: WebHosts::default(),
            failures: Failures::default(),
            store: None,
            durable: None,
            has_fleet_secret: AtomicBool::new(false),
            readiness: AtomicU8::new(STARTING),
            sources: Mutex::default(),
            switches: Switches::default(),
            origins: ArcSwap::default(),
            unshared_throttles: Seldom::default(),
            told: Told::default(),
            carriers: Carriers::default(),
            connections: OnceLock::new(),
        })
    }

    /// A gate that answers those only who have access.
    #[must_use]
    pub(crate) fn with_access(self, access: Access) -> Gate {
        Gate { access, ..self }
    }

    /// A gate whose HTTP listener answers to these names and pages only.
    #[must_use]
    pub(crate) fn with_web_hosts(self, web_hosts: WebHosts) -> Gate {
        Gate { web_hosts, ..self }
    }

    pub(crate) fn web_hosts(&self) -> &WebHosts {
        &self.web_hosts
    }

    /// A gate that shares its counters with others.
    #[must_use]
    pub(crate) fn with_store(self, store: Store) -> Gate {
        let engine = self.engine.sharing(store.secret()).pinning(store.pins()).sharded(store.sharding());
        let fleet_secret = FleetSecret::of_store_secret(store.secret());
        let gate = Gate { engine, store: Some(store), ..self };
        if let Some(secret) = fleet_secret {
            gate.set_fleet_secret(&secret);
        }
        gate.count_nodes();
        gate
    }

    /// Makes the keys that the processes of a fleet have in common from its secret: that of `store_secret`, else that of the database. The
    /// first secret counts.
    pub(crate) fn set_fleet_secret(&self, secret: &FleetSecret) {
        if self.has_fleet_secret.swap(true, Ordering::Relaxed) {
            return;
        }
        self.engine.set_rollout_secret(&secret.derive("tollgate: keys chosen by enforce_percent, layout 1"));
        self.engine.set_fleet_secret(&secret.derive("tollgate: seals of leases and reservations, layout 1"));
    }

    /// A gate that keeps durable counts in a database, as soon as that is reached.
    #[must_use]
    pub(crate) fn with_database(self, deadline: Duration) -> Gate {
        Gate { engine: self.engine.with_database(), durable: Some(Durable::new(deadline)), ..self }
    }

    /// Whether any counters are shared or durable, so that an answer may have to be waited for. That may change with the rules.
    pub(crate) fn is_sharing(&self) -> bool {
        self.engine.is_sharing()
    }

    pub(crate) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Puts rules in the place of those before.
    pub fn install(&self, rules: Vec<FileSpec>) {
        self.engine.install(rules, self.clock.now());
        self.share_anew();
    }

    /// What was denied by the rules before need not be by these. And those among them that cannot be shared are named.
    fn share_anew(&self) {
        if let Some(durable) = &self.durable {
            durable.forget_denials();
        }
        let (Some(store), Some(snapshot)) = (&self.store, self.engine.snapshot()) else { return };
        store.forget_denials();
        for place in snapshot.places() {
            let is_local = |limit: &PlacedLimit| limit.consistency() == Some(Consistency::Local);
            let cannot = |limit: &&PlacedLimit| !is_local(limit) && limit.is_too_large_to_share();
            for limit in place.limits().iter().filter(cannot) {
                let title = limit.title();
                tracing::warn!(rule = %place, limit = title, "its numbers are too large for a count that is shared: each process counts by itself");
            }
        }
    }

    /// Lets the engine know how many processes share its counters, as they were last counted, and whether the others know of this one.
    pub(crate) fn count_nodes(&self) {
        if let Some(store) = &self.store {
            // In this order: as long as their number is not known, nothing is leased.
            self.engine.set_leasing_until(self.clock.from_steady(store.counted_until()));
            self.engine.set_nodes(store.nodes());
        }
    }

    /// The rules in force.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.engine.snapshot()
    }

    /// This moment, on the timeline of all decisions.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Decides a request, and counts what was decided. A peek is counted too, but as no decision. For callers that cannot wait: where
    /// counters are shared, the rules answer as if those were out of reach.
    pub(crate) fn decide(&self, request: &Request<'_>, protocol: Protocol) -> Result<Verdict, RequestError> {
        let now = self.clock.now();
        let answer = self.engine.decide(request, now);
        match &answer {
            Ok(verdict) => self.observe(verdict, request.peek, protocol, now),
            Err(_) => self.metrics.observe_bad_request(protocol),
        }
        answer
    }

    /// Decides requests that have arrived together, all at one moment, and shows each verdict as soon as it is there.
    pub(crate) fn decide_batch(
        &self,
        requests: &[Request<'_>],
        protocol: Protocol,
        mut each: impl FnMut(usize, Result<&Verdict, &RequestError>),
    ) {
        let (now, mut outcomes) = (self.clock.now(), Outcomes::default());
        self.engine.decide_batch(requests, now, |index, answer| {
            match answer {
                Ok(_) if requests.get(index).is_some_and(|request| request.peek) => {
                    self.metrics.observe_peek(protocol);
                }
                Ok(verdict) => {
                    outcomes.count(verdict.allowed());
                    self.metrics.observe_rules(verdict, protocol);
                }
                Err(_) => self.metrics.observe_bad_request(protocol),
            }
            each(index, answer);
        });
        self.metrics.observe(protocol, outcomes, self.clock.now().since(now));
    }

    /// What a client may do that shows this token, or none. Failures are counted and logged, and may end the connection that the
    /// attempts belong to. Nothing is looked at on a connection that is about to be closed.
    pub(crate) fn admit(
        &self,
        protocol: Protocol,
        shown: Option<&[u8]>,
        attempts: Option<&Attempts>,
    ) -> Result<Admitted, Refused> {
        let admitted = match attempts {
            Some(attempts) if attempts.is_over() => Err(Refused::NotLookedAt),
            _ => self.access.admit(protocol, shown, || self.clock.now()),
        };
        admitted.inspect_err(|&reason| self.refuse(protocol, reason, attempts))
    }

    /// Counts and logs a client that is not let in.
    pub(crate) fn refuse(&self, protocol: Protocol, reason: Refused, attempts: Option<&Attempts>) {
        self.metrics.observe_unauthorized(protocol);
        let Some(attempts) = attempts.filter(|_| reason != Refused::NotLookedAt) else { return };
        let failure = Failure { protocol, address: attempts.address(), reason };
        if self.failures.record(failure, self.clock.steady()) {
            attempts.end();
        }
    }

    /// Whether a client may do something by the scope of its token. Refusals are counted.
    pub(crate) fn permit(
        &self,
        protocol: Protocol,
        scope: Option<&Scope>,
        permit: impl FnOnce(&Scope) -> Result<(), Forbidden>,
    ) -> Result<(), Forbidden> {
        let Some(scope) = scope else { return Ok(()) };
        permit(scope).inspect_err(|forbidden| {
            self.metrics.observe_unauthorized(protocol);
            tracing::debug!(token = scope.name(), protocol = protocol.name(), %forbidden, "token lacks a scope");
        })
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Gets ready to decide for a caller that brings its own limit with every call.
    pub(crate) fn prepare_throttle(&self, key: &[u8], limit: &Limit, cost: u64) -> Throttle {
        self.engine.prepare_throttle(key, limit, cost)
    }

    /// Decides calls that have arrived together, all at one moment. A cost of zero only asks, and is counted as a peek.
    pub(crate) fn decide_throttles(&self, throttles: &[Throttle], decisions: &mut Vec<Decision>) {
        let now = self.clock.now();
        decisions.clear();
        decisions.extend(throttles.iter().map(|throttle| self.engine.decide_throttle(throttle, now)));
        self.observe_throttles(throttles, decisions, now);
    }

    fn observe_throttles(&self, throttles: &[Throttle], decisions: &[Decision], since: Time) {
        let took = self.clock.now().since(since);
        let is_peek = |throttle: &Throttle| throttle.cost() == 0;
        for _ in throttles.iter().filter(|throttle| is_peek(throttle)) {
            self.metrics.observe_peek(Protocol::Resp);
        }
        let taken = throttles.iter().zip(decisions).filter(|(throttle, _)| !is_peek(throttle));
        self.metrics.observe_throttles(taken.map(|(_, decision)| decision), took);
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn clock(&self) -> &Arc<Clock> {
        &self.clock
    }

    pub(crate) fn settings(&self) -> &GateSettings {
        &self.settings
    }

    /// All numbers, for Prometheus.
    pub(crate) fn metrics_text(&self) -> Result<String, fmt::Error> {
        let shards = self.store.as_ref().map(Store::stats).unwrap_or_default();
        let now = self.now();
        let durable = self.durable.as_ref().filter(|_| self.engine.has_durable_limits());
        let durable = durable.and_then(Durable::stats);
        let durable = durable.map(|stats| (stats, self.engine.lease_stats(Keeper::Database, now)));
        let store = StoreStats { shards, leases: self.engine.lease_stats(Keeper::Store, now), durable };
        let engine = EngineStats {
            ledger: self.engine.stats(),
            hot: self.engine.hot_stats(now),
            reservations: self.engine.reservation_stats(),
            request_ids: self.engine.request_id_stats(),
            switched_off: self.switched_off_by_scope(),
        };
        let connections =
            self.connections.get().map(|(account, limits)| ConnectionStats::new(account, limits));
        self.metrics.encode(engine, store, connections.unwrap_or_default())
    }

    /// Shows these listeners and their memory account in the metrics.
    pub(crate) fn watch_connections(&self, account: Arc<MemoryAccount>, limits: Vec<Arc<ConnectionLimit>>) {
        // Set once, when the server starts to listen.
        let _ = self.connections.set((account, limits));
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether it wants requests: rules are loaded, and it is not about to stop.
    pub fn is_ready(&self) -> bool {
        self.readiness.load(Ordering::Relaxed) == READY // orders nothing else
    }

    /// Whether it was ready and is not any more: it is about to stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.readiness.load(Ordering::Relaxed) == STOPPING
    }

    pub(crate) fn set_ready(&self, ready: bool) {
        if ready {
            self.readiness.store(READY, Ordering::Relaxed);
        } else {
            // One that was never ready is still starting.
            let _ = self.readiness.compare_exchange(READY, STOPPING, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    fn observe(&self, verdict: &Verdict, is_peek: bool, protocol: Protocol, since: Time) {
        if is_peek {
            self.metrics.observe_peek(protocol);
            return;
        }
        let mut outcomes = Outcomes::default();
        outcomes.count(verdict.allowed());
        self.metrics.observe_rules(verdict, protocol);
        self.metrics.observe(protocol, outcomes, self.clock.now().since(since));
    }
}

//! The counters of all threads, summed up, named and written down for Prometheus.

mod connections;
mod request_ids;
mod reservations;
mod unlimited;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use tollgate::authority::breaker::State as BreakerState;
use tollgate::{DecidedBy, HotStats, LeaseStats, RequestIdStats, ReservationStats, Stats};
use tollgate_control::DurableStats;
use tollgate_control::durable::FAILURES as DURABLE_FAILURES;
use tollgate_redis::{FAILURES, ShardStats};

pub(crate) use self::connections::ConnectionStats;
use super::shard::{BUCKET_ENDS_NS, ProtocolTotals, RuleTotals, Special, UNMATCHED};
use super::{Metrics, Protocol, RuleName, SHARED_BY};
use crate::tls::{Expiries, Expiry};

/// All numbers of one moment.
#[derive(Debug)]
pub(super) struct Exposition {
    /// By name, because several rules may be called the same: no series may appear twice.
    rules: BTreeMap<RuleName, RuleTotals>,
    protocols: [ProtocolTotals; Protocol::ALL.len()],
    /// Requests that met no rule, by [`UNMATCHED`].
    unmatched: [u64; UNMATCHED.len()],
    /// How many reloads failed and succeeded.
    reloads: [u64; 2],
    last_reload_good: u64,
    /// The version that is in force, the one that is saved here, how often nothing could be learned, and how much there was no room for.
    config: [u64; 4],
    unauthorized: [u64; Protocol::ALL.len()],
    admin: Vec<([(&'static str, &'static str); 2], u64)>,
    /// Events by name, and how far wall time is from the timeline.
    clock: ([(&'static str, u64); 4], i64),
    shared: [u64; SHARED_BY.len()],
    certificates: Vec<Expiry>,
    engine: EngineStats,
    store: StoreStats,
    connections: ConnectionStats,
}

/// Numbers about the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineStats {
    pub(crate) ledger: Stats,
    pub(crate) hot: HotStats,
    pub(crate) reservations: ReservationStats,
    pub(crate) request_ids: RequestIdStats,
    /// How much is switched off: everything, domains, rules.
    pub(crate) switched_off: [u64; 3],
}

/// Numbers about counters that are shared.
#[derive(Debug, Default)]
pub(crate) struct StoreStats {
    /// What each shard has done.
    pub(crate) shards: Vec<ShardStats>,
    pub(crate) leases: LeaseStats,
    /// How the database is asked for durable counts, and what this process has in hand of them; nothing before it is reached.
    pub(crate) durable: Option<(DurableStats, LeaseStats)>,
}

type PerRule = fn(&RuleTotals) -> u64;

/// Families with a counter per rule.
const RULE_COUNTERS: [(&str, &str, PerRule); 4] = [
    ("ratelimit_denied", "Decisions of a rule that denied a request.", |totals| totals.denied),
    ("ratelimit_shadow_denied", "Decisions of a rule over its limit that denied nothing.", |totals| {
        totals.shadow_denied
    }),
    ("ratelimit_near_limit", "Decisions of a rule that allowed, near its limit.", |totals| totals.near_limit),
    (
        "ratelimit_shadow_near_limit",
        "Decisions of a rule in shadow mode that allowed, near its limit.",
        |totals| totals.shadow_near_limit,
    ),
];

/// What became of a decision.
const OUTCOMES: [(&str, PerRule); 3] = [
    ("allowed", |totals| totals.allowed),
    ("denied", |totals| totals.denied),
    ("shadow_denied", |totals| totals.shadow_denied),
];

impl Exposition {
    pub(super) fn of(
        metrics: &Metrics,
        engine: EngineStats,
        store: StoreStats,
        connections: ConnectionStats,
    ) -> Exposition {
        let mut rules: BTreeMap<RuleName, RuleTotals> = BTreeMap::new();
        let mut protocols = [ProtocolTotals::default(); Protocol::ALL.len()];
        let mut unmatched = [0; UNMATCHED.len()];
        for shard in metrics.shards() {
            for (index, totals) in shard.rules() {
                // A rule that was met this very moment may not have its name yet: it is there the next time.
                let name = metrics.names.at(index).and_then(OnceLock::get);
                if let Some(name) = name {
                    rules.entry(name.clone()).or_default().add(&totals);
                }
            }
            for special in Special::ALL {
                let totals = shard.special(special).read();
                if !totals.is_unused() {
                    let name = RuleName { domain: "".into(), rule: special.name().into(), tier: "".into() };
                    rules.entry(name).or_default().add(&totals);
                }
            }
            for (totals, protocol) in protocols.iter_mut().zip(Protocol::ALL) {
                shard.protocol(protocol).add_to(totals);
            }
            for (total, count) in unmatched.iter_mut().zip(shard.unmatched()) {
                *total += count;
            }
        }
        let reloads = &metrics.reloads;
        Exposition {
            rules,
            protocols,
            unmatched,
            reloads: [&reloads.bad, &reloads.good].map(|counter| counter.load(Ordering::Relaxed)),
            last_reload_good: reloads.last_good.load(Ordering::Relaxed),
            config: [
                &metrics.config.applied,
                &metrics.config.saved,
                &metrics.config.failures,
                &metrics.config.unheld,
            ]
            .map(|number| number.load(Ordering::Relaxed)),
            unauthorized: Protocol::ALL
                .map(|protocol| metrics.unauthorized[protocol as usize].load(Ordering::Relaxed)),
            admin: metrics.admin.series(),
            clock: (metrics.clock.events(), metrics.clock.unconfirmed_s()),
            shared: std::array::from_fn(|at| metrics.shared[at].load(Ordering::Relaxed)),
            certificates: metrics.certificates().map(Expiries::all).unwrap_or_default(),
            engine,
            store,
            connections,
        }
    }

    pub(super) fn encode(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }

    fn failopen(&self) -> u64 {
        let open = SHARED_BY.iter().position(|by| *by == DecidedBy::FailOpen);
        open.map_or(0, |at| self.shared[at])
    }

    fn encode_rules(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = counters(encoder, "ratelimit_decisions", "Decisions, by rule and outcome.")?;
        for (name, totals) in &self.rules {
            for (outcome, value) in OUTCOMES {
                let mut labels = labels(name);
                labels.push(("outcome", outcome));
                put(&mut family, &labels, value(totals))?;
            }
        }
        for (family, help, value) in RULE_COUNTERS {
            let mut family = counters(encoder, family, help)?;
            for (name, totals) in &self.rules {
                put(&mut family, &labels(name), value(totals))?;
            }
        }
        let help = "Units left to the key that the rule has met last.";
        let mut family = encoder.encode_descriptor("ratelimit_remaining", help, None, MetricType::Gauge)?;
        for (name, totals) in &self.rules {
            family.encode_family(&labels(name))?.encode_gauge(&totals.remaining)?;
        }
        Ok(())
    }

    fn encode_protocols(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let by_protocol = || Protocol::ALL.map(Protocol::name).into_iter().zip(&self.protocols);
        let mut family = counters(encoder, "ratelimit_requests", "Requests, by protocol and outcome.")?;
        for (protocol, totals) in by_protocol() {
            let [denied, allowed] = totals.took.map(|buckets| buckets.iter().sum());
            for (outcome, value) in [("allowed", allowed), ("denied", denied), ("peek", totals.peeks)] {
                put(&mut family, &[("protocol", protocol), ("outcome", outcome)], value)?;
            }
        }
        let mut family =
            counters(encoder, "ratelimit_bad_requests", "Requests without an answer, by protocol.")?;
        for (protocol, totals) in by_protocol() {
            put(&mut family, &[("protocol", protocol)], totals.bad_requests)?;
        }
        let help = "Requests without the token that they need, by protocol.";
        let mut family = counters(encoder, "ratelimit_unauthorized", help)?;
        for (protocol, value) in Protocol::ALL.into_iter().zip(self.unauthorized) {
            put(&mut family, &[("protocol", protocol.name())], value)?;
        }
        let help = "Requests to the admin API, by the role of their token and by outcome.";
        let mut family = counters(encoder, "ratelimit_admin_requests", help)?;
        for (labels, value) in &self.admin {
            put(&mut family, labels, *value)?;
        }
        let help = "Time that decisions took, the mean of those decided together, without reading requests and writing to connections.";
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Histogram);
        let mut family = encoder.encode_descriptor("ratelimit_check_duration", help, unit, kind)?;
        for (protocol, totals) in by_protocol() {
            let (sum_s, count, buckets) = histogram(totals);
            let labels = [("protocol", protocol)];
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum_s, count, &buckets, None)?;
        }
        Ok(())
    }

    fn encode_process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family =
            counters(encoder, "ratelimit_config_reloads", "Attempts to load the rules, by result.")?;
        for (result, value) in ["failure", "success"].into_iter().zip(self.reloads) {
            put(&mut family, &[("result", result)], value)?;
        }
        let help = "1 if the rules in the files are those in force, 0 if they could not be loaded.";
        gauge(encoder, "ratelimit_config_last_load_success", help, &self.last_reload_good)?;
        let [applied, saved, failures, unheld] = self.config;
        let help = "The version of what operators have decided that is in force here.";
        gauge(encoder, "ratelimit_config_version", help, &applied)?;
        let help = "The version that this server would start with if its database were away.";
        gauge(encoder, "ratelimit_config_saved_version", help, &saved)?;
        gauge(encoder, "ratelimit_ledger_keys", "Keys in the table of counters.", &self.engine.ledger.keys)?;
        gauge(
            encoder,
            "ratelimit_ledger_bytes",
            "Memory of the table of counters.",
            &self.engine.ledger.bytes,
        )?;
        let help = "Keys that take more than their part of the decisions of this process.";
        gauge(encoder, "ratelimit_hot_keys", help, &(self.engine.hot.hot as u64))?;
        let help = "Hot keys that are leased because they are hot.";
        gauge(encoder, "ratelimit_hot_keys_leased", help, &(self.engine.hot.leased as u64))?;
        let alone = [
            ("ratelimit_config_failures", "Times that nothing could be learned from the database.", failures),
            ("ratelimit_config_unheld", "Quotas, bans and boosts that there was no room for.", unheld),
            ("ratelimit_ledger_reclaimed", "Idle keys forgotten, at no loss.", self.engine.ledger.reclaimed),
            (
                "ratelimit_ledger_evicted",
                "Keys forgotten in use, for lack of memory.",
                self.engine.ledger.evicted,
            ),
            (
                "ratelimit_ledger_coarse",
                "Decisions on new keys by a counter that they share, for lack of memory.",
                self.engine.ledger.coarse,
            ),
            (
                "ratelimit_ledger_refused",
                "Denials because there was no memory to count.",
                self.engine.ledger.refused,
            ),
            ("ratelimit_failopen", "Decisions to let pass because nobody could be asked.", self.failopen()),
        ];
        for (name, help, value) in alone {
            counters(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
        }
        self.encode_certificates(encoder)?;
        self.encode_clock(encoder)?;
        let mut family =
            encoder.encode_descriptor("tollgate_build_info", "What is running.", None, MetricType::Gauge)?;
        family.encode_family(&[("version", env!("CARGO_PKG_VERSION"))])?.encode_gauge(&1_u64)
    }
}

impl Exposition {
    fn encode_clock(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (events, unconfirmed_s) = &self.clock;
        let mut family =
            counters(encoder, "ratelimit_clock_events", "Jumps of wall time, by what became of them.")?;
        for (event, value) in events {
            put(&mut family, &[("event", *event)], *value)?;
        }
        let help = "How far wall time is from the time that decides, while a jump is not confirmed.";
        let mut family = encoder.encode_descriptor(
            "ratelimit_clock_unconfirmed",
            help,
            Some(&Unit::Seconds),
            MetricType::Gauge,
        )?;
        family.encode_gauge(unconfirmed_s)
    }

    fn encode_certificates(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.certificates.is_empty() {
            return Ok(());
        }
        let (name, help) =
            ("ratelimit_tls_not_after_timestamp", "When the first certificate of a file ends, since 1970.");
        let mut family = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for Expiry { file, not_after_s } in &self.certificates {
            family.encode_family(&[("file", *file)])?.encode_gauge(not_after_s)?;
        }
        Ok(())
    }

    fn encode_store(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let StoreStats { shards, leases, durable } = &self.store;
        if let Some((durable, leases)) = durable {
            encode_durable(durable, leases, encoder)?;
        }
        if shards.is_empty() && durable.is_none() {
            return Ok(()); // Nothing is shared.
        }
        let help = "Decisions on limits that are shared or durable, by who made them.";
        let mut family = counters(encoder, "ratelimit_shared_decisions", help)?;
        for (decided_by, value) in SHARED_BY.into_iter().zip(self.shared) {
            put(&mut family, &[("decided_by", decided_by.name())], value)?;
        }
        let of_database = durable.as_ref().map(|(_, leases)| leases.unconfirmed).unwrap_or_default();
        let unconfirmed = reservations::both(&leases.unconfirmed, &of_database);
        if shards.is_empty() {
            reservations::encode_unconfirmed(&unconfirmed, encoder)?;
            return Ok(());
        }
        let help = "Questions to a shard of the store without an answer, by kind.";
        let mut family = counters(encoder, "ratelimit_redis_errors", help)?;
        for shard in shards {
            for (kind, value) in FAILURES.into_iter().zip(shard.failures) {
                put(&mut family, &[("shard", &*shard.name), ("kind", kind.name())], value)?;
            }
        }
        let families: [(&str, &str, PerShard); 7] = [
            ("ratelimit_redis_asks", "Questions to a shard of the store.", |shard| shard.asks),
            ("ratelimit_redis_calls", "Scripts that a shard of the store was asked to run.", |shard| {
                shard.calls
            }),
            ("ratelimit_redis_flights", "Pipelines sent to a shard of the store.", |shard| shard.flights),
            (
                "ratelimit_redis_late_grants",
                "Answers of a shard of the store that came too late, and were given back.",
                |shard| shard.late_grants,
            ),
            (
                "ratelimit_redis_lost_bookings",
                "Bookings of which it is not known whether a shard of the store has counted them, because the connection broke.",
                |shard| shard.lost_bookings,
            ),
            (
                "ratelimit_redis_breaks",
                "Connections to a shard of the store that broke or could not be made.",
                |shard| shard.breaks,
            ),
            (
                "ratelimit_circuit_openings",
                "Times that a shard of the store was given up for a while.",
                |shard| shard.openings,
            ),
        ];
        for (name, help, value) in families {
            let mut family = counters(encoder, name, help)?;
            for shard in shards {
                put(&mut family, &[("shard", &*shard.name)], value(shard))?;
            }
        }
        let help =
            "Threads that do not ask a shard of the store at the moment, because it has failed too often.";
        let mut family =
            encoder.encode_descriptor("ratelimit_circuit_state", help, None, MetricType::Gauge)?;
        for shard in shards {
            family.encode_family(&[("shard", &*shard.name)])?.encode_gauge(&shard.breakers_open)?;
        }
        reservations::encode_unconfirmed(&unconfirmed, encoder)?;
        encode_leases(leases, encoder)
    }
}

/// What is kept in the database.
fn encode_durable(
    durable: &DurableStats,
    leases: &LeaseStats,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let help = "Questions to the database about durable counts without an answer, by kind.";
    let mut family = counters(encoder, "ratelimit_durable_errors", help)?;
    for (kind, value) in DURABLE_FAILURES.into_iter().zip(durable.failures) {
        put(&mut family, &[("kind", kind.name())], value)?;
    }
    let totals = [
        ("ratelimit_durable_asks", "Questions to the database about durable counts.", durable.asked),
        (
            "ratelimit_durable_denied_at_once",
            "Denials without asking, because the same was denied a moment before.",
            durable.denied_at_once,
        ),
        ("ratelimit_durable_transactions", "Transactions about durable counts.", durable.transactions),
        (
            "ratelimit_durable_transactions_failed",
            "Those that failed, or of which it was not known at first whether they did.",
            durable.transactions_failed,
        ),
        ("ratelimit_durable_openings", "Times that the database was given up for a while.", durable.openings),
        (
            "ratelimit_durable_undone",
            "What was granted to nobody, for an answer came too late or a connection broke, and was given back.",
            durable.undone,
        ),
        (
            "ratelimit_durable_forgotten",
            "What could not be given back or booked, for want of room or because the database refused it.",
            durable.forgotten,
        ),
        (
            "ratelimit_durable_granted_units",
            "Units that the database has granted in blocks.",
            leases.granted_units,
        ),
        (
            "ratelimit_durable_returned_units",
            "Units of blocks that were given back unspent.",
            leases.returned_units,
        ),
        (
            "ratelimit_durable_dropped",
            "Times that something of a block could not be given back, for want of room or because it did not arrive in time.",
            leases.dropped,
        ),
    ];
    for (name, help, value) in totals {
        counters(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    let is_closed = durable.breaker == BreakerState::Closed;
    let gauges = [
        (
            "ratelimit_durable_units",
            "Units in hand, that can be spent without asking the database.",
            leases.units,
        ),
        ("ratelimit_durable_keys", "Keys of which units are in hand, or were of late.", leases.keys as u64),
        ("ratelimit_durable_waiting", "Questions that wait for the database.", durable.waiting as u64),
        (
            "ratelimit_durable_owed",
            "What is still to be told to the database, though nobody waits for it.",
            durable.owed as u64,
        ),
        (
            "ratelimit_durable_away",
            "1 while the database is not asked, because it has failed too often.",
            u64::from(!is_closed),
        ),
    ];
    for (name, help, value) in gauges {
        gauge(encoder, name, help, &i64::try_from(value).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

fn encode_leases(leases: &LeaseStats, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let LeaseStats { keys, units, granted_units, returned_units, dropped, .. } = *leases;
    let gauges = [
        ("ratelimit_lease_keys", "Keys of which units are leased, or were of late.", keys as u64),
        ("ratelimit_lease_units", "Units that can be spent without asking the store.", units),
    ];
    for (name, help, value) in gauges {
        encoder
            .encode_descriptor(name, help, None, MetricType::Gauge)?
            .encode_gauge(&i64::try_from(value).unwrap_or(i64::MAX))?;
    }
    let totals = [
        ("ratelimit_lease_granted_units", "Units that the store has leased to this process.", granted_units),
        ("ratelimit_lease_returned_units", "Units that were given back unspent.", returned_units),
        (
            "ratelimit_lease_dropped",
            "Times that something could not be given back, for want of room or because it did not arrive in time.",
            dropped,
        ),
    ];
    for (name, help, value) in totals {
        encoder
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, u64>(&value, None)?;
    }
    Ok(())
}

type PerShard = fn(&ShardStats) -> u64;

impl Collector for Exposition {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_rules(&mut encoder)?;
        self.encode_protocols(&mut encoder)?;
        unlimited::encode(self, &mut encoder)?;
        self.encode_process(&mut encoder)?;
        self.connections.encode(&mut encoder)?;
        reservations::encode(&self.engine.reservations, &mut encoder)?;
        request_ids::encode(&self.engine.request_ids, &mut encoder)?;
        self.encode_store(&mut encoder)
    }
}

/// The labels of a rule's series. Those of callers without a tier have no label for it, which is the same as an empty one.
fn labels(name: &RuleName) -> Vec<(&'static str, &str)> {
    let tier = (!name.tier.is_empty()).then_some(("tier", &*name.tier));
    [("domain", &*name.domain), ("rule", &*name.rule)].into_iter().chain(tier).collect()
}

/// A family of counters. `name` is without `_total`, which the encoder adds.
fn counters<'e>(
    encoder: &'e mut DescriptorEncoder<'_>,
    name: &'e str,
    help: &str,
) -> Result<MetricEncoder<'e>, fmt::Error> {
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}

fn put(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: u64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, _, u64>(&value, None)
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(value)
}

/// Sum in seconds, count, and buckets that do not include each other.
fn histogram(totals: &ProtocolTotals) -> (f64, u64, Vec<(f64, u64)>) {
    #[allow(clippy::cast_precision_loss)] // an error of 1 in 2^53
    let seconds = |ns: u64| ns as f64 / 1e9;
    let ends_s = BUCKET_ENDS_NS.into_iter().map(seconds).chain([f64::INFINITY]);
    let [denied, allowed] = totals.took;
    let buckets: Vec<_> =
        ends_s.zip(denied.iter().zip(allowed).map(|(denied, allowed)| denied + allowed)).collect();
    (seconds(totals.took_ns), buckets.iter().map(|(_, count)| count).sum(), buckets)
}

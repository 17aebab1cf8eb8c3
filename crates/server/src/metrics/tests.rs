//! Counting verdicts: what is told, that nothing is lost between threads, and what there are bounds for.
#![allow(clippy::unwrap_used, clippy::panic)]

mod decisions;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use insta::assert_snapshot;
use tollgate::core::{Span, TokenBucket};
use tollgate::policy::{FileSpec, Unit};
use tollgate::{
    DecidedBy, Descriptor, Engine, HotStats, LeaseStats, OwnLimit, Request, RequestIdStats, ReservationStats,
    Source, Stats, UnconfirmedStats, Verdict,
};
use tollgate_redis::ShardStats;

use super::chunked::Chunked;
use super::{ConnectionStats, EngineStats, Metrics, Outcomes, Protocol, StoreStats, classic};
use crate::headers::samples::{
    NOW, ask, domain, engine, engine_settings, per_minute, policy, rate, rule, shadow,
};
use crate::tls::{Expiries, Expiry};

const TOOK: Span = Span::from_ticks(700);

fn text(metrics: &Metrics) -> String {
    let ledger = Stats { keys: 3, bytes: 4_096, reclaimed: 2, evicted: 1, coarse: 6, refused: 5 };
    let hot = HotStats { hot: 3, leased: 2 };
    let reservations = ReservationStats {
        open: 2,
        bytes: 600,
        made: 9,
        settled: 6,
        settled_elsewhere: 3,
        expired: 1,
        refused: 4,
        returned_units: 70,
        booked_units: 8,
    };
    metrics
        .encode(
            EngineStats {
                ledger,
                hot,
                reservations,
                request_ids: RequestIdStats::default(),
                switched_off: [0; 3],
            },
            StoreStats::default(),
            ConnectionStats::default(),
        )
        .unwrap()
}

/// Those lines of the text that are of interest.
fn lines(metrics: &Metrics, of_interest: impl Fn(&str) -> bool) -> String {
    let text = text(metrics);
    text.lines().filter(|line| of_interest(line)).fold(String::new(), |lines, line| lines + line + "\n")
}

fn rules(metrics: &Metrics) -> String {
    lines(metrics, |line| line.contains("rule=\""))
}

fn observe(metrics: &Metrics, verdict: &Verdict) {
    observe_took(metrics, verdict, TOOK);
}

fn observe_took(metrics: &Metrics, verdict: &Verdict, took: Span) {
    let mut outcomes = Outcomes::default();
    outcomes.count(verdict.allowed());
    metrics.observe_rules(verdict, Protocol::Http);
    metrics.observe(Protocol::Http, outcomes, took);
}

fn decide(engine: &Engine, domain: &str, descriptors: &[Descriptor<'_>]) -> Verdict {
    engine.decide(&Request::new(domain, descriptors), NOW).unwrap()
}

#[test]
fn what_rules_have_decided() {
    let metrics = Metrics::new(0.8);
    let mut trial = policy("trial", vec![per_minute(1)]);
    trial.rule = shadow(trial.rule);
    let engine = engine(vec![policy("search", vec![per_minute(5)]), trial]);
    for _ in 0..7 {
        observe(&metrics, &ask(&engine, "search"));
    }
    for _ in 0..3 {
        observe(&metrics, &ask(&engine, "trial"));
    }
    let throttle = TokenBucket::new(rate(1, Duration::from_secs(1)), 1).unwrap().into();
    for _ in 0..2 {
        metrics.observe_throttles([engine.throttle(b"k", &throttle, 1, NOW)].iter(), TOOK);
    }
    assert_snapshot!(lines(&metrics, |line| line.contains("rule") && !line.contains("config")), @r#"
    # HELP ratelimit_decisions Decisions, by rule and outcome.
    ratelimit_decisions_total{domain="",rule="(cl.throttle)",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="(cl.throttle)",outcome="denied"} 1
    ratelimit_decisions_total{domain="",rule="(cl.throttle)",outcome="shadow_denied"} 0
    ratelimit_decisions_total{domain="",rule="search",outcome="allowed"} 5
    ratelimit_decisions_total{domain="",rule="search",outcome="denied"} 2
    ratelimit_decisions_total{domain="",rule="search",outcome="shadow_denied"} 0
    ratelimit_decisions_total{domain="",rule="trial",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="trial",outcome="denied"} 0
    ratelimit_decisions_total{domain="",rule="trial",outcome="shadow_denied"} 2
    # HELP ratelimit_denied Decisions of a rule that denied a request.
    ratelimit_denied_total{domain="",rule="(cl.throttle)"} 1
    ratelimit_denied_total{domain="",rule="search"} 2
    ratelimit_denied_total{domain="",rule="trial"} 0
    # HELP ratelimit_shadow_denied Decisions of a rule over its limit that denied nothing.
    ratelimit_shadow_denied_total{domain="",rule="(cl.throttle)"} 0
    ratelimit_shadow_denied_total{domain="",rule="search"} 0
    ratelimit_shadow_denied_total{domain="",rule="trial"} 2
    # HELP ratelimit_near_limit Decisions of a rule that allowed, near its limit.
    ratelimit_near_limit_total{domain="",rule="(cl.throttle)"} 1
    ratelimit_near_limit_total{domain="",rule="search"} 1
    ratelimit_near_limit_total{domain="",rule="trial"} 0
    # HELP ratelimit_shadow_near_limit Decisions of a rule in shadow mode that allowed, near its limit.
    ratelimit_shadow_near_limit_total{domain="",rule="(cl.throttle)"} 0
    ratelimit_shadow_near_limit_total{domain="",rule="search"} 0
    ratelimit_shadow_near_limit_total{domain="",rule="trial"} 1
    # HELP ratelimit_remaining Units left to the key that the rule has met last.
    ratelimit_remaining{domain="",rule="(cl.throttle)"} 0
    ratelimit_remaining{domain="",rule="search"} 0
    ratelimit_remaining{domain="",rule="trial"} 0
    ratelimit_kill_switch{scope="rule"} 0
    # HELP ratelimit_unmatched Requests that passed because there is no such domain, or no rule of it matches, by reason.
    ratelimit_unmatched_total{reason="rule"} 0
    "#);
}

#[test]
fn what_came_in() {
    let metrics = Metrics::new(0.8);
    let engine = engine(vec![policy("search", vec![per_minute(1)])]);
    for took_ns in [1, 250, 251, 1_000_000_000] {
        observe_took(&metrics, &ask(&engine, "search"), Span::from_ticks(took_ns));
    }
    metrics.observe_bad_request(Protocol::Resp);
    metrics.observe_peek(Protocol::Http);
    metrics.observe_unauthorized(Protocol::Rls);
    let others = |line: &str| line.contains("_duration") && (line.contains("rls") || line.contains("resp"));
    assert_snapshot!(lines(&metrics, |line| !others(line) && (line.contains("protocol") || line.contains("_duration"))), @r#"
    # HELP ratelimit_requests Requests, by protocol and outcome.
    ratelimit_requests_total{protocol="rls",outcome="allowed"} 0
    ratelimit_requests_total{protocol="rls",outcome="denied"} 0
    ratelimit_requests_total{protocol="rls",outcome="peek"} 0
    ratelimit_requests_total{protocol="http",outcome="allowed"} 1
    ratelimit_requests_total{protocol="http",outcome="denied"} 3
    ratelimit_requests_total{protocol="http",outcome="peek"} 1
    ratelimit_requests_total{protocol="resp",outcome="allowed"} 0
    ratelimit_requests_total{protocol="resp",outcome="denied"} 0
    ratelimit_requests_total{protocol="resp",outcome="peek"} 0
    # HELP ratelimit_bad_requests Requests without an answer, by protocol.
    ratelimit_bad_requests_total{protocol="rls"} 0
    ratelimit_bad_requests_total{protocol="http"} 0
    ratelimit_bad_requests_total{protocol="resp"} 1
    # HELP ratelimit_unauthorized Requests without the token that they need, by protocol.
    ratelimit_unauthorized_total{protocol="rls"} 1
    ratelimit_unauthorized_total{protocol="http"} 0
    ratelimit_unauthorized_total{protocol="resp"} 0
    # HELP ratelimit_check_duration_seconds Time that decisions took, the mean of those decided together, without reading requests and writing to connections.
    # TYPE ratelimit_check_duration_seconds histogram
    # UNIT ratelimit_check_duration_seconds seconds
    ratelimit_check_duration_seconds_sum{protocol="http"} 1.000000502
    ratelimit_check_duration_seconds_count{protocol="http"} 4
    ratelimit_check_duration_seconds_bucket{le="2.5e-7",protocol="http"} 2
    ratelimit_check_duration_seconds_bucket{le="5e-7",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.000001",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.0000025",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.000005",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.00001",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.000025",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.00005",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.0001",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.00025",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.001",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.0025",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.01",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="0.1",protocol="http"} 3
    ratelimit_check_duration_seconds_bucket{le="+Inf",protocol="http"} 4
    # HELP ratelimit_banned Requests denied because an operator has banned their key, by protocol.
    ratelimit_banned_total{protocol="rls"} 0
    ratelimit_banned_total{protocol="http"} 0
    ratelimit_banned_total{protocol="resp"} 0
    # HELP ratelimit_kill_switch_passed Requests that passed uncounted because of the kill switch, by protocol.
    ratelimit_kill_switch_passed_total{protocol="rls"} 0
    ratelimit_kill_switch_passed_total{protocol="http"} 0
    ratelimit_kill_switch_passed_total{protocol="resp"} 0
    "#);
}

#[test]
fn the_process() {
    let metrics = Metrics::new(0.8);
    metrics.observe_reload(true);
    metrics.observe_config(7);
    metrics.observe_saved_config(6);
    metrics.observe_config_failure();
    metrics.observe_config_unheld(2);
    let others = [
        "protocol",
        "rule",
        "_duration",
        "_admin_",
        "_kill_switch",
        "_banned",
        "_unmatched",
        "_clock_",
        "_request_ids_",
        "_reservation",
    ];
    let unlabelled = |line: &str| !others.iter().any(|part| line.contains(part));
    assert_snapshot!(lines(&metrics, unlabelled), @r#"
    # TYPE ratelimit_decisions counter
    # TYPE ratelimit_denied counter
    # TYPE ratelimit_shadow_denied counter
    # TYPE ratelimit_near_limit counter
    # TYPE ratelimit_shadow_near_limit counter
    # TYPE ratelimit_remaining gauge
    # TYPE ratelimit_requests counter
    # TYPE ratelimit_bad_requests counter
    # TYPE ratelimit_unauthorized counter
    # TYPE ratelimit_config_reloads counter
    ratelimit_config_reloads_total{result="failure"} 0
    ratelimit_config_reloads_total{result="success"} 1
    # TYPE ratelimit_config_last_load_success gauge
    ratelimit_config_last_load_success 1
    # HELP ratelimit_config_version The version of what operators have decided that is in force here.
    # TYPE ratelimit_config_version gauge
    ratelimit_config_version 7
    # HELP ratelimit_config_saved_version The version that this server would start with if its database were away.
    # TYPE ratelimit_config_saved_version gauge
    ratelimit_config_saved_version 6
    # HELP ratelimit_ledger_keys Keys in the table of counters.
    # TYPE ratelimit_ledger_keys gauge
    ratelimit_ledger_keys 3
    # HELP ratelimit_ledger_bytes Memory of the table of counters.
    # TYPE ratelimit_ledger_bytes gauge
    ratelimit_ledger_bytes 4096
    # HELP ratelimit_hot_keys Keys that take more than their part of the decisions of this process.
    # TYPE ratelimit_hot_keys gauge
    ratelimit_hot_keys 3
    # HELP ratelimit_hot_keys_leased Hot keys that are leased because they are hot.
    # TYPE ratelimit_hot_keys_leased gauge
    ratelimit_hot_keys_leased 2
    # HELP ratelimit_config_failures Times that nothing could be learned from the database.
    # TYPE ratelimit_config_failures counter
    ratelimit_config_failures_total 1
    # HELP ratelimit_config_unheld Quotas, bans and boosts that there was no room for.
    # TYPE ratelimit_config_unheld counter
    ratelimit_config_unheld_total 2
    # HELP ratelimit_ledger_reclaimed Idle keys forgotten, at no loss.
    # TYPE ratelimit_ledger_reclaimed counter
    ratelimit_ledger_reclaimed_total 2
    # HELP ratelimit_ledger_evicted Keys forgotten in use, for lack of memory.
    # TYPE ratelimit_ledger_evicted counter
    ratelimit_ledger_evicted_total 1
    # HELP ratelimit_ledger_coarse Decisions on new keys by a counter that they share, for lack of memory.
    # TYPE ratelimit_ledger_coarse counter
    ratelimit_ledger_coarse_total 6
    # HELP ratelimit_ledger_refused Denials because there was no memory to count.
    # TYPE ratelimit_ledger_refused counter
    ratelimit_ledger_refused_total 5
    # HELP ratelimit_failopen Decisions to let pass because nobody could be asked.
    # TYPE ratelimit_failopen counter
    ratelimit_failopen_total 0
    # HELP tollgate_build_info What is running.
    # TYPE tollgate_build_info gauge
    tollgate_build_info{version="0.1.0"} 1
    # EOF
    "#);
    metrics.observe_reload(false);
    assert!(text(&metrics).contains("ratelimit_config_last_load_success 0\n"));
}

#[test]
fn reservations_and_request_ids() {
    let metrics = Metrics::new(0.8);
    let is_meant = |line: &str| line.contains("_reservation") || line.contains("_request_ids_");
    assert_snapshot!(lines(&metrics, is_meant), @r#"
    # HELP ratelimit_reservations_open Reservations that are not settled yet.
    # TYPE ratelimit_reservations_open gauge
    ratelimit_reservations_open 2
    # HELP ratelimit_reservations_bytes Memory of open reservations.
    # TYPE ratelimit_reservations_bytes gauge
    ratelimit_reservations_bytes 600
    # HELP ratelimit_reservations_made Estimates that were reserved.
    # TYPE ratelimit_reservations_made counter
    ratelimit_reservations_made_total 9
    # HELP ratelimit_reservations_settled Reservations of this process that were settled.
    # TYPE ratelimit_reservations_settled counter
    ratelimit_reservations_settled_total 6
    # HELP ratelimit_reservations_settled_elsewhere Reservations of other processes that were settled by this one.
    # TYPE ratelimit_reservations_settled_elsewhere counter
    ratelimit_reservations_settled_elsewhere_total 3
    # HELP ratelimit_reservations_expired Reservations that nobody settled in time, and whose estimates stay charged.
    # TYPE ratelimit_reservations_expired counter
    ratelimit_reservations_expired_total 1
    # HELP ratelimit_reservations_refused Reservations that were not made because too many were open.
    # TYPE ratelimit_reservations_refused counter
    ratelimit_reservations_refused_total 4
    # HELP ratelimit_reservation_returned_units Units of estimates that were given back.
    # TYPE ratelimit_reservation_returned_units counter
    ratelimit_reservation_returned_units_total 70
    # HELP ratelimit_reservation_booked_units Units that were booked beyond estimates.
    # TYPE ratelimit_reservation_booked_units counter
    ratelimit_reservation_booked_units_total 8
    # HELP ratelimit_request_ids_held Request ids that this process remembers, one for each counter that was charged.
    # TYPE ratelimit_request_ids_held gauge
    ratelimit_request_ids_held 0
    # HELP ratelimit_request_ids_bytes Memory of remembered request ids.
    # TYPE ratelimit_request_ids_bytes gauge
    ratelimit_request_ids_bytes 0
    # HELP ratelimit_request_ids_repeated Requests that were charged before under their id.
    # TYPE ratelimit_request_ids_repeated counter
    ratelimit_request_ids_repeated_total 0
    # HELP ratelimit_request_ids_conflicts Requests that came with the id of another request.
    # TYPE ratelimit_request_ids_conflicts counter
    ratelimit_request_ids_conflicts_total 0
    # HELP ratelimit_request_ids_refused Requests that were refused because too many request ids were remembered.
    # TYPE ratelimit_request_ids_refused counter
    ratelimit_request_ids_refused_total 0
    "#);
}

#[test]
fn domains_and_limits_of_requests() {
    let engine = Engine::new(engine_settings()).unwrap();
    // Text that would break out of a label if it were not escaped.
    let name = "a\"b\\c\nd";
    let spec = domain(name, vec![("path", Some("/\"x\"\n"), rule(vec![per_minute(9)]))]);
    engine.install(vec![FileSpec { domain: Some(spec), policies: vec![] }], NOW);
    let metrics = Metrics::new(0.8);
    let entries = [("path", "/\"x\"\n")];
    let own = OwnLimit { requests_per_unit: 3, unit: Some(Unit::Day) };
    let descriptors =
        [Descriptor::new(&entries), Descriptor { limit: Some(own), ..Descriptor::new(&entries) }];
    observe(&metrics, &decide(&engine, name, &descriptors));
    assert_snapshot!(rules(&metrics), @r#"
    ratelimit_decisions_total{domain="",rule="(override)",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="(override)",outcome="denied"} 0
    ratelimit_decisions_total{domain="",rule="(override)",outcome="shadow_denied"} 0
    ratelimit_decisions_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n",outcome="allowed"} 1
    ratelimit_decisions_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n",outcome="denied"} 0
    ratelimit_decisions_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n",outcome="shadow_denied"} 0
    ratelimit_denied_total{domain="",rule="(override)"} 0
    ratelimit_denied_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n"} 0
    ratelimit_shadow_denied_total{domain="",rule="(override)"} 0
    ratelimit_shadow_denied_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n"} 0
    ratelimit_near_limit_total{domain="",rule="(override)"} 0
    ratelimit_near_limit_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n"} 0
    ratelimit_shadow_near_limit_total{domain="",rule="(override)"} 0
    ratelimit_shadow_near_limit_total{domain="a\"b\\c\nd",rule="path=/\"x\"\n"} 0
    ratelimit_remaining{domain="",rule="(override)"} 2
    ratelimit_remaining{domain="a\"b\\c\nd",rule="path=/\"x\"\n"} 8
    "#);
}

#[test]
fn rules_beyond_the_table_are_counted_together() {
    let count = Chunked::<u8>::LEN_MAX + 2;
    let policies = (0..count).map(|at| policy(&format!("p{at}"), vec![per_minute(9)])).collect();
    let engine = engine(policies);
    let metrics = Metrics::new(0.8);
    for at in [0, count - 3, count - 2, count - 1] {
        observe(&metrics, &ask(&engine, &format!("p{at}")));
    }
    assert_snapshot!(lines(&metrics, |line| line.contains("rule=") && line.contains("\"allowed\"")), @r#"
    ratelimit_decisions_total{domain="",rule="(other)",outcome="allowed"} 2
    ratelimit_decisions_total{domain="",rule="p0",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="p65535",outcome="allowed"} 1
    "#);
}

#[test]
fn no_count_is_lost_between_threads() {
    const THREADS: usize = 8;
    const TIMES: usize = 10_000;
    let metrics = Metrics::new(0.8);
    let engine = engine(vec![policy("search", vec![per_minute(1_000_000)])]);
    let verdict = ask(&engine, "search");
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let verdict = ask(&engine, "search");
                (0..TIMES).for_each(|_| observe(&metrics, &verdict));
            });
        }
    });
    observe(&metrics, &verdict);
    let total = THREADS * TIMES + 1;
    assert!(rules(&metrics).contains(&format!("outcome=\"allowed\"}} {total}\n")), "{}", rules(&metrics));
    let count = format!("ratelimit_check_duration_seconds_count{{protocol=\"http\"}} {total}\n");
    assert!(text(&metrics).contains(&count), "{}", text(&metrics));
}

#[test]
fn shared_limits_count_whoever_decides_about_the_request() {
    let metrics = Metrics::new(0.8);
    let rules = "
domain: d
descriptors:
- {key: here, rate_limit: {unit: hour, requests_per_unit: 1, consistency: local}}
- {key: there, rate_limit: {unit: hour, requests_per_unit: 9}}
";
    let engine = Engine::new(engine_settings()).unwrap().sharing(b"");
    engine.load(&[Source::new("rules.yaml", rules)], NOW).unwrap();
    let (here, there) = ([("here", "1")], [("there", "1")]);
    let counted = || {
        let store = StoreStats { shards: vec![ShardStats::default()], ..StoreStats::default() };
        let text = metrics.encode(EngineStats::default(), store, ConnectionStats::default()).unwrap();
        let is_of_interest =
            |line: &&str| line.starts_with("ratelimit_shared_decisions_total") && !line.ends_with(" 0");
        text.lines().filter(is_of_interest).collect::<Vec<_>>().join("\n")
    };
    for (refund, by, times) in [
        (false, DecidedBy::FailLocal, 1), // Both admit.
        (true, DecidedBy::Ledger, 2),     // Units come back whoever denies.
        (false, DecidedBy::Ledger, 2),    // Nobody is asked.
    ] {
        let there = Descriptor { refund, cost: refund.then_some(1), ..Descriptor::new(&there) };
        let verdict = decide(&engine, "d", &[Descriptor::new(&here), there]);
        observe(&metrics, &verdict);
        assert_eq!(verdict.decided_by(), by);
        assert_eq!(
            counted(),
            format!("ratelimit_shared_decisions_total{{decided_by=\"fail_local\"}} {times}")
        );
    }
}

#[test]
fn the_store() {
    let metrics = Metrics::new(0.8);
    metrics.observe_shared(DecidedBy::Authority);
    metrics.observe_shared(DecidedBy::FailOpen);
    let shard = ShardStats {
        name: "192.0.2.1:6379".to_owned(),
        breakers_open: 2,
        asks: 5,
        failures: [1, 2, 3, 4, 0, 0, 6],
        ..ShardStats::default()
    };
    let unconfirmed = UnconfirmedStats { waiting: 1, kept: 9, refused: 3, ..UnconfirmedStats::default() };
    let leases =
        LeaseStats { keys: 7, units: 20, granted_units: 400, returned_units: 30, dropped: 2, unconfirmed };
    let store = StoreStats { shards: vec![shard], leases, durable: None };
    let text = metrics.encode(EngineStats::default(), store, ConnectionStats::default()).unwrap();
    let is_of_store = |line: &&str| {
        !line.starts_with('#')
            && ["_redis_", "_circuit_", "_shared_", "_failopen", "_lease_", "ratelimit_unconfirmed"]
                .iter()
                .any(|part| line.contains(part))
    };
    let lines: Vec<&str> = text.lines().filter(is_of_store).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    ratelimit_failopen_total 1
    ratelimit_shared_decisions_total{decided_by="lease"} 0
    ratelimit_shared_decisions_total{decided_by="authority"} 1
    ratelimit_shared_decisions_total{decided_by="fail_local"} 0
    ratelimit_shared_decisions_total{decided_by="fail_open"} 1
    ratelimit_shared_decisions_total{decided_by="fail_closed"} 0
    ratelimit_shared_decisions_total{decided_by="pending"} 0
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="timed_out"} 1
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="unreachable"} 2
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="not_asked"} 3
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="refused"} 4
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="crowded"} 0
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="not_now"} 0
    ratelimit_redis_errors_total{shard="192.0.2.1:6379",kind="lost"} 6
    ratelimit_redis_asks_total{shard="192.0.2.1:6379"} 5
    ratelimit_redis_calls_total{shard="192.0.2.1:6379"} 0
    ratelimit_redis_flights_total{shard="192.0.2.1:6379"} 0
    ratelimit_redis_late_grants_total{shard="192.0.2.1:6379"} 0
    ratelimit_redis_lost_bookings_total{shard="192.0.2.1:6379"} 0
    ratelimit_redis_breaks_total{shard="192.0.2.1:6379"} 0
    ratelimit_circuit_openings_total{shard="192.0.2.1:6379"} 0
    ratelimit_circuit_state{shard="192.0.2.1:6379"} 2
    ratelimit_unconfirmed_waiting 1
    ratelimit_unconfirmed_total 9
    ratelimit_unconfirmed_refused_total 3
    ratelimit_unconfirmed_lost_total 0
    ratelimit_unconfirmed_lost_units_total{kind="book"} 0
    ratelimit_unconfirmed_lost_units_total{kind="return"} 0
    ratelimit_lease_keys 7
    ratelimit_lease_units 20
    ratelimit_lease_granted_units_total 400
    ratelimit_lease_returned_units_total 30
    ratelimit_lease_dropped_total 2
    "#);
}

#[test]
fn in_the_older_format_counters_are_described_by_the_name_that_they_have() {
    let metrics = Metrics::new(0.8);
    observe(&metrics, &ask(&engine(vec![policy("search", vec![per_minute(5)])]), "search"));
    let older = classic(&text(&metrics));
    let described: Vec<&str> = older
        .lines()
        .filter(|line| line.contains("_decisions") || line.contains("_keys") || line.contains("_seconds_sum"))
        .collect();
    assert_snapshot!(described.join("\n"), @r#"
    # HELP ratelimit_decisions_total Decisions, by rule and outcome.
    # TYPE ratelimit_decisions_total counter
    ratelimit_decisions_total{domain="",rule="search",outcome="allowed"} 1
    ratelimit_decisions_total{domain="",rule="search",outcome="denied"} 0
    ratelimit_decisions_total{domain="",rule="search",outcome="shadow_denied"} 0
    ratelimit_check_duration_seconds_sum{protocol="rls"} 0.0
    ratelimit_check_duration_seconds_sum{protocol="http"} 7e-7
    ratelimit_check_duration_seconds_sum{protocol="resp"} 0.0
    # HELP ratelimit_ledger_keys Keys in the table of counters.
    # TYPE ratelimit_ledger_keys gauge
    ratelimit_ledger_keys 3
    # HELP ratelimit_hot_keys Keys that take more than their part of the decisions of this process.
    # TYPE ratelimit_hot_keys gauge
    ratelimit_hot_keys 3
    # HELP ratelimit_hot_keys_leased Hot keys that are leased because they are hot.
    # TYPE ratelimit_hot_keys_leased gauge
    ratelimit_hot_keys_leased 2
    "#);
    check_classic(&older);
}

/// Every sample must belong to the family that was described last, and nothing else may be there.
fn check_classic(text: &str) {
    let (mut family, mut kind, mut samples) = (String::new(), String::new(), 0);
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, _] => family = name.to_owned(),
            ["#", "TYPE", name, of] => {
                assert_eq!(name, family);
                of.clone_into(&mut kind);
            }
            ["#", ..] => panic!("{line}"),
            _ => {
                let name = line.split(['{', ' ']).next().unwrap();
                let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} of {family}"));
                let is_known = match kind.as_str() {
                    "histogram" => ["_sum", "_count", "_bucket"].contains(&suffix),
                    "counter" => suffix.is_empty() && name.ends_with("_total"),
                    _ => suffix.is_empty(),
                };
                assert!(is_known, "{line} of the {kind} {family}");
                samples += 1;
            }
        }
    }
    assert!(samples > 20, "{text}");
}

#[test]
fn the_end_of_each_certificate_file_is_shown_as_it_is_in_force() {
    let metrics = Metrics::new(0.8);
    let ends = |metrics: &Metrics| lines(metrics, |line| line.starts_with("ratelimit_tls_"));
    assert_eq!(ends(&metrics), "", "there are none");
    let expiries = Arc::new(Expiries::default());
    metrics.set_certificates(Arc::clone(&expiries));
    assert_eq!(ends(&metrics), "");
    for (not_after_s, shown) in [(1_800_000_000, "1800000000"), (1_900_000_000, "1900000000")] {
        expiries.replace(vec![Expiry { file: "tls_certificate", not_after_s }]);
        let expected =
            format!("ratelimit_tls_not_after_timestamp_seconds{{file=\"tls_certificate\"}} {shown}\n");
        assert_eq!(ends(&metrics), expected);
    }
}

//! Requests that no limit has decided: operators have banned a key or switched limits off, or there is no rule.

use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;

use super::super::Protocol;
use super::super::shard::{ProtocolTotals, UNMATCHED};
use super::{Exposition, counters, put};

/// What can be switched off, as labels name it.
const SCOPES: [&str; 3] = ["all", "domain", "rule"];

type PerProtocol = fn(&ProtocolTotals) -> u64;

/// Families with a counter per protocol.
const FAMILIES: [(&str, &str, PerProtocol); 2] = [
    (
        "ratelimit_banned",
        "Requests denied because an operator has banned their key, by protocol.",
        |totals| totals.banned,
    ),
    (
        "ratelimit_kill_switch_passed",
        "Requests that passed uncounted because of the kill switch, by protocol.",
        |totals| totals.bypassed,
    ),
];

pub(super) fn encode(exposition: &Exposition, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "What operators have switched off at present, by scope; requests pass it uncounted.";
    let mut family = encoder.encode_descriptor("ratelimit_kill_switch", help, None, MetricType::Gauge)?;
    for (scope, value) in SCOPES.into_iter().zip(exposition.engine.switched_off) {
        family.encode_family(&[("scope", scope)])?.encode_gauge(&value)?;
    }
    for (name, help, value) in FAMILIES {
        let mut family = counters(encoder, name, help)?;
        for (protocol, totals) in Protocol::ALL.into_iter().zip(&exposition.protocols) {
            put(&mut family, &[("protocol", protocol.name())], value(totals))?;
        }
    }
    let help = "Requests that passed because there is no such domain, or no rule of it matches, by reason.";
    let mut family = counters(encoder, "ratelimit_unmatched", help)?;
    for ((reason, _), value) in UNMATCHED.into_iter().zip(exposition.unmatched) {
        put(&mut family, &[("reason", reason)], value)?;
    }
    Ok(())
}

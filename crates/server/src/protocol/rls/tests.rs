//! The protocol from message to message, at a moment that the tests choose.
#![allow(clippy::unwrap_used, clippy::panic)]

mod answers;
mod grpc;
mod manners;
mod other_calls;
mod repeats;
mod requests;
mod rough;
mod served;
mod tokens;
mod told;

use std::sync::Arc;

use tollgate::core::Time;
use tollgate::policy::{DefaultAlgorithm, Source, read_all};
use tollgate::{EngineSettings, LedgerSettings};

use super::wire::{
    DescriptorStatus, Entry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
};
use super::{Refusal, decode, encode, metadata};
use crate::gate::{Gate, GateSettings};

/// A little less than 30 seconds before the end of a minute, 2790 before that of an hour.
const NOW: Time = Time::from_ticks(1_700_000_010_000_000_001);

pub(super) fn gate(rules: &str) -> Arc<Gate> {
    gate_with(rules, settings())
}

pub(super) fn gate_with(rules: &str, settings: GateSettings) -> Arc<Gate> {
    let gate = Gate::new(settings).unwrap();
    let files = read_all(&[Source::new("rules.yaml", rules)], DefaultAlgorithm::SlidingWindow);
    gate.install(files.unwrap_or_else(|problems| panic!("{problems}")));
    Arc::new(gate)
}

pub(super) fn settings() -> GateSettings {
    let engine = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    GateSettings { engine, ..GateSettings::default() }
}

pub(super) fn message(descriptors: &[RateLimitDescriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "d".to_owned(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

pub(super) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry =
        |&(key, value): &(&str, &str)| Entry { key: key.to_owned(), value: value.as_bytes().to_vec() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

/// A descriptor of one entry with this key.
fn of(key: &str) -> RateLimitDescriptor {
    descriptor(&[(key, "x")])
}

fn costing(key: &str, hits: u64) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..of(key) }
}

fn giving_back(key: &str, hits: Option<u64>) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: hits, is_negative_hits: true, ..of(key) }
}

fn limited(key: &str, requests_per_unit: u32, unit: i32) -> RateLimitDescriptor {
    RateLimitDescriptor { limit: Some(RateLimitOverride { requests_per_unit, unit }), ..of(key) }
}

/// What the service does, but at [`NOW`].
fn answer(gate: &Gate, message: &RateLimitRequest) -> Result<RateLimitResponse, Refusal> {
    let verdict = decode::with_request(message, |request| gate.engine().decide(request, NOW))??;
    let mut response = encode::response(&verdict, gate.settings());
    if !verdict.allowed() {
        encode::tell_denied(&mut response, &verdict);
    }
    if gate.settings().rls_dynamic_metadata {
        response.dynamic_metadata = Some(metadata::dynamic_metadata(message, &verdict));
    }
    Ok(response)
}

/// Asks, and compares the answer in short: the overall code, then each status.
fn check(gate: &Gate, message: &RateLimitRequest, expected: &str) {
    let response = answer(gate, message).unwrap();
    assert_eq!(brief(&response), expected, "{message:?}");
}

fn brief(response: &RateLimitResponse) -> String {
    let statuses = response.statuses.iter().map(brief_status);
    let overall = response.overall_code().as_str_name().to_owned();
    std::iter::once(overall).chain(statuses).collect::<Vec<_>>().join(" | ")
}

/// `OK 9 of 10/MINUTE "name" 30s`, and only what is set of it.
fn brief_status(status: &DescriptorStatus) -> String {
    let mut words = vec![status.code().as_str_name().to_owned(), status.limit_remaining.to_string()];
    if let Some(limit) = &status.current_limit {
        words.push(format!("of {}/{}", limit.requests_per_unit, limit.unit().as_str_name()));
        if !limit.name.is_empty() {
            words.push(format!("{:?}", limit.name));
        }
    }
    if let Some(duration) = &status.duration_until_reset {
        assert_eq!(duration.nanos, 0, "only whole seconds are sent");
        words.push(format!("{}s", duration.seconds));
    }
    words.join(" ")
}

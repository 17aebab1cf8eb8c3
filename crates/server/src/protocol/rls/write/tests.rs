//! What is written is what prost reads as the message of the same verdict.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use prost::Message;
use tollgate::core::Time;
use tollgate::{KeyAct, KeyActKind, KeySubject};

use super::super::tests::{descriptor, gate_with, settings};
use super::super::wire::{RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse};
use super::super::{decode, encode};
use super::*;
use crate::gate::Gate;

/// Rules of every kind. Some names are so long that lengths take more than one byte.
fn rules() -> String {
    let (long, longer) = ("n".repeat(100), "m".repeat(128));
    format!(
        r"
domain: d
descriptors:
- key: few
  rate_limit: {{unit: minute, requests_per_unit: 3}}
- key: named
  rate_limit: {{unit: day, requests_per_unit: 400000, name: {long}}}
- key: longer
  rate_limit: {{unit: month, requests_per_unit: 2, name: {longer}}}
- key: shadowed
  shadow_mode: true
  rate_limit: {{unit: hour, requests_per_unit: 1}}
- key: blocked
  rate_limit: {{unit: minute, requests_per_unit: 0}}
- key: free
  rate_limit: {{unlimited: true}}
- key: quota
  quota_mode: true
  rate_limit: {{unit: second, requests_per_unit: 1}}
- key: vast
  rate_limit: {{requests: 18446744073709551615, period: 90s, algorithm: fixed_window}}
- key: held
  rate_limit: {{algorithm: concurrency, requests: 2, period: 1h}}
"
    )
}

const KEYS: [&str; 10] =
    ["few", "named", "longer", "shadowed", "blocked", "free", "quota", "vast", "held", "unknown"];

fn sent_descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let limit = (0..5_u32, 1..7_i32)
        .prop_map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit });
    let cost = prop_oneof![0..4_u64, any::<u64>()];
    let parts = (
        prop::sample::select(&KEYS),
        0..3_u8,
        proptest::option::weighted(0.1, limit),
        proptest::option::weighted(0.2, cost),
        proptest::bool::weighted(0.1),
    );
    parts.prop_map(|(key, value, limit, hits_addend, is_negative_hits)| RateLimitDescriptor {
        limit,
        hits_addend,
        is_negative_hits,
        ..descriptor(&[(key, &value.to_string())])
    })
}

/// A ban of `few=1`.
fn ban() -> KeyAct {
    let entries = vec![("few".into(), "1".into())];
    let subject = KeySubject::Descriptor { domain: "d".into(), entries };
    KeyAct { subject, until: Time::from_ticks(1_700_000_020_000_000_000), what: KeyActKind::Ban }
}

fn check(gate: &Gate, writer: &mut Writer, message: &RateLimitRequest, now: Time) {
    let decided = decode::with_request(message, |request| gate.engine().decide(request, now)).unwrap();
    let verdict = decided.unwrap();
    let written = writer.answer(&verdict, gate.settings());
    let mut expected = encode::response(&verdict, gate.settings());
    if !verdict.allowed() {
        encode::tell_denied(&mut expected, &verdict);
    }
    let (prefix, rest) = written.split_at(PREFIX_BYTES);
    assert_eq!(prefix[0], 0);
    assert_eq!(u32::from_be_bytes(prefix[1..].try_into().unwrap()) as usize, rest.len());
    assert_eq!(RateLimitResponse::decode(rest).unwrap(), expected);
    assert_eq!(rest, expected.encode_to_vec(), "as short as can be, and in order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn verdicts_of_every_kind(
        asked in proptest::collection::vec((proptest::collection::vec(sent_descriptor(), 1..5), 0..5_u32), 1..20),
        rls_x_ratelimit_headers: bool,
        rls_older_headers: bool,
    ) {
        let gate = gate_with(&rules(), GateSettings { rls_x_ratelimit_headers, rls_older_headers, ..settings() });
        gate.engine().set_key_acts(vec![ban()]).unwrap();
        let mut writer = Writer::default();
        let start_ns = 1_700_000_010_000_000_001;
        for (at, (descriptors, hits_addend)) in asked.into_iter().enumerate() {
            let message = RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend };
            check(&gate, &mut writer, &message, Time::from_ticks(start_ns + at as u64 * 400_000_000));
        }
    }
}

#[test]
fn as_many_descriptors_as_may_be() {
    let gate = gate_with(&rules(), settings());
    let descriptors =
        (0..decode::DESCRIPTORS_MAX).map(|at| descriptor(&[(KEYS[at % KEYS.len()], "v")])).collect();
    let message = RateLimitRequest { domain: "d".to_owned(), descriptors, hits_addend: 1 };
    check(&gate, &mut Writer::default(), &message, Time::from_ticks(1_700_000_010_000_000_001));
}

#[test]
fn lengths_of_every_size() {
    for length in [0, 1, 126, 127, 128, 129, 16_383, 16_384, 70_000] {
        let mut out = b"before".to_vec();
        put_message(&mut out, 2, |out| out.put_bytes(7, length));
        let mut expected = b"before\x12".to_vec();
        prost::encoding::encode_varint(length as u64, &mut expected);
        expected.resize(expected.len() + length, 7);
        assert_eq!(out, expected, "{length}");
    }
}

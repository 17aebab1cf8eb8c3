//! One key or one tenant that never settles does not keep others from reserving.
#![allow(clippy::unwrap_used)]

mod common;

use common::{START, engine_with};
use tollgate::{
    Descriptor, Engine, EngineSettings, Request, RequestError, Reservation, ReservationScope,
    ReservationSettings, Reserved, Settlement,
};

const RULES: &str = "
domain: d
tenant_key: tenant
descriptors:
- key: tenant
  descriptors:
  - {key: user, rate_limit: {requests: 1000000, period: 1d, algorithm: fixed_window}}
- {key: user, rate_limit: {requests: 1000000, period: 1d, algorithm: fixed_window}}
policies: {tokens: {requests: 1000000, period: 1d, algorithm: fixed_window}}
";
const LIFE: tollgate::core::Span = Reservation::LIFE_USUAL;

/// 64 places: 8 for a key, 4 for a tenant.
fn small() -> Engine {
    let reservations = ReservationSettings { open_max: 64, ..ReservationSettings::default() };
    engine_with(RULES, EngineSettings { reservations, ..EngineSettings::default() })
}

fn reserve(engine: &Engine, request: &Request<'_>) -> Result<Reserved, RequestError> {
    engine.reserve(request, LIFE, START).map(|(verdict, reserved)| {
        assert!(verdict.allowed());
        reserved.unwrap()
    })
}

/// How many can be reserved, and why no more can.
fn fill(engine: &Engine, request: &Request<'_>) -> (Vec<Reserved>, RequestError) {
    let mut opened = Vec::new();
    loop {
        match reserve(engine, request) {
            Ok(reserved) => opened.push(reserved),
            Err(error) => return (opened, error),
        }
    }
}

fn with_entries<R>(entries: &[(&str, &str)], ask: impl FnOnce(&Request<'_>) -> R) -> R {
    ask(&Request::new("d", &[Descriptor::new(entries)]))
}

#[test]
fn one_key_at_its_bound_does_not_keep_another_key_from_reserving() {
    let engine = small();
    let [one, other] = [&b"one"[..], b"other"].map(|key| Request::policy("tokens", key));
    let (opened, refused) = fill(&engine, &one);
    assert_eq!((opened.len(), refused), (8, RequestError::TooManyReservationsOf(ReservationScope::Key)));
    assert_eq!(fill(&engine, &other).0.len(), 8);
    // What was refused has taken nothing, and what is settled makes room for that key.
    let used =
        1_000_000 - engine.decide(&one.cost(0).peek(), START).unwrap().tightest().unwrap().decision.remaining;
    assert_eq!(used, 8);
    engine.settle_reservation(&opened[0].reservation, 1, START).unwrap();
    reserve(&engine, &one).unwrap();
    reserve(&engine, &one).unwrap_err();
    // What has expired does too.
    engine.tend(opened[1].expires_at);
    assert_eq!(engine.reservation_stats().bytes, 0);
    assert_eq!(fill(&engine, &one).0.len(), 8);
}

#[test]
fn one_tenant_at_its_bound_does_not_keep_another_tenant_from_reserving() {
    let engine = small();
    let mut opened = 0;
    for user in ["1", "2", "3"] {
        let (of_user, refused) =
            with_entries(&[("tenant", "greedy"), ("user", user)], |request| fill(&engine, request));
        opened += of_user.len();
        assert_eq!(refused, RequestError::TooManyReservationsOf(ReservationScope::Tenant));
    }
    assert_eq!(opened, 4);
    let others =
        with_entries(&[("tenant", "modest"), ("user", "1")], |request| fill(&engine, request).0.len());
    assert_eq!(others, 4);
    let without = with_entries(&[("user", "1")], |request| fill(&engine, request));
    assert_eq!((without.0.len(), without.1), (8, RequestError::TooManyReservationsOf(ReservationScope::Key)));
}

#[test]
fn a_key_of_long_requests_is_bounded_in_bytes() {
    let reservations = ReservationSettings { bytes_max: 64 << 10, ..ReservationSettings::default() };
    let engine = engine_with(RULES, EngineSettings { reservations, ..EngineSettings::default() });
    let long = "x".repeat(4_000);
    let entries = [("user", "1"), ("unused", long.as_str())];
    // The rule counts the user alone; the rest of the descriptor is kept all the same.
    let descriptors = [Descriptor::new(&entries[..1]), Descriptor::new(&entries[1..])];
    let (opened, refused) = fill(&engine, &Request::new("d", &descriptors));
    assert_eq!((opened.len(), refused), (1, RequestError::TooManyReservationsOf(ReservationScope::Key)));
    with_entries(&[("user", "2")], |request| reserve(&engine, request)).unwrap();
}

#[test]
fn a_counter_that_two_descriptors_meet_takes_one_of_its_parts() {
    let engine = small();
    let entries = [("user", "1")];
    let descriptors = [Descriptor::new(&entries); 3];
    assert_eq!(fill(&engine, &Request::new("d", &descriptors)).0.len(), 8);
}

#[test]
fn half_a_million_estimates_of_nothing_fill_no_table() {
    let engine = small();
    let nothing = Request::policy("tokens", b"one").cost(0);
    let mut last = None;
    for _ in 0..524_288 {
        last = Some(reserve(&engine, &nothing).unwrap());
    }
    let stats = engine.reservation_stats();
    assert_eq!((stats.open, stats.bytes, stats.refused), (0, 0, 0));
    reserve(&engine, &Request::policy("tokens", b"one")).unwrap();
    for _ in 0..2 {
        let (verdict, settlement) =
            engine.settle_reservation(&last.as_ref().unwrap().reservation, 7, START).unwrap();
        assert_eq!(settlement, Settlement { reserved: 0, charged: 7, returned: 0, booked: 0 });
        assert!(verdict.rulings().is_empty());
    }
}

#[test]
fn the_table_takes_no_more_memory_than_its_cap() {
    let bytes_max = 128 << 10;
    let reservations = ReservationSettings { bytes_max, key_parts: 1, ..ReservationSettings::default() };
    let engine = engine_with(RULES, EngineSettings { reservations, ..EngineSettings::default() });
    let (opened, refused) = fill(&engine, &Request::policy("tokens", b"one"));
    assert!(opened.len() > 100 && refused != RequestError::NotLoaded);
    let bytes = engine.reservation_stats().bytes;
    assert!(bytes <= bytes_max && bytes > bytes_max * 9 / 10, "{bytes}");
}

//! One key, tenant or client that never settles does not keep others from reserving.
#![allow(clippy::unwrap_used)]

mod common;

use common::{START, engine_with};
use tollgate::{
    Descriptor, Engine, EngineSettings, Request, RequestError, Reservation, ReservationClient,
    ReservationScope, ReservationSettings, Reserved, Settlement, Step,
};

const RULES: &str = "
domain: d
tenant_key: tenant
descriptors:
- key: tenant
  descriptors:
  - {key: user, rate_limit: {requests: 1000000, period: 1d, algorithm: fixed_window}}
- {key: user, rate_limit: {requests: 1000000, period: 1d, algorithm: fixed_window}}
- {key: all, rate_limit: {requests: 1000000, period: 1d, algorithm: fixed_window}}
policies:
  tokens: {requests: 1000000, period: 1d, algorithm: fixed_window}
  images: {requests: 1000000, period: 1d, algorithm: fixed_window}
";
const LIFE: tollgate::core::Span = Reservation::LIFE_USUAL;

/// 64 places: 8 for a key, 4 for a tenant, 32 for a client.
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
    let entries = [[("user", "one")], [("user", "other")]];
    let descriptors = [[Descriptor::new(&entries[0])], [Descriptor::new(&entries[1])]];
    let [one, other] = [Request::new("d", &descriptors[0]), Request::new("d", &descriptors[1])];
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
fn the_key_of_a_policy_is_a_tenant_under_all_policies_and_domains() {
    let engine = small();
    let full = RequestError::TooManyReservationsOf(ReservationScope::Tenant);
    let tokens = Request::policy("tokens", b"acme");
    let (opened, refused) = fill(&engine, &tokens);
    assert_eq!((opened.len(), &refused), (4, &full));
    assert_eq!(reserve(&engine, &Request::policy("images", b"acme")).unwrap_err(), full);
    let in_domain = with_entries(&[("tenant", "acme"), ("user", "1")], |request| reserve(&engine, request));
    assert_eq!(in_domain.unwrap_err(), full);
    assert_eq!(fill(&engine, &Request::policy("tokens", b"other")).0.len(), 4);
    engine.settle_reservation(&opened[0].reservation, 1, START).unwrap();
    reserve(&engine, &Request::policy("images", b"acme")).unwrap();
}

#[test]
fn a_user_that_fills_a_counter_of_all_users_does_not_keep_the_others_from_reserving() {
    let engine = small();
    let full = RequestError::TooManyReservationsOf(ReservationScope::Key);
    let fill_as = |user: &str| {
        let (all, user) = ([("all", "")], [("user", user)]);
        let descriptors = [Descriptor::new(&user), Descriptor::new(&all)];
        fill(&engine, &Request::new("d", &descriptors))
    };
    let (greedy, refused) = fill_as("greedy");
    assert_eq!((greedy.len(), &refused), (8, &full));
    let (modest, refused) = fill_as("modest");
    assert_eq!((modest.len(), &refused), (8, &full));
    // The counter of all is far beyond its part: requests that meet no other wait until it is below
    // again.
    let all = || with_entries(&[("all", "")], |request| reserve(&engine, request));
    for reserved in &greedy {
        assert_eq!(all().unwrap_err(), full);
        engine.settle_reservation(&reserved.reservation, 1, START).unwrap();
    }
    assert_eq!(all().unwrap_err(), full);
    engine.settle_reservation(&modest[0].reservation, 1, START).unwrap();
    all().unwrap();
}

/// Reserves under one invented key after another until that is refused.
fn fill_as(engine: &Engine, client: Option<ReservationClient>) -> (Vec<Reserved>, RequestError) {
    let mut opened = Vec::new();
    loop {
        let key = format!("{client:?} {}", opened.len());
        let request = Request::policy("tokens", key.as_bytes());
        match engine.begin_reserve_for(client, &request, LIFE, START) {
            Ok((Step::Ready(_), reserved)) => opened.push(reserved.unwrap()),
            Ok((Step::Pending(_), _)) => unreachable!("no counter is shared"),
            Err(error) => return (opened, error),
        }
    }
}

#[test]
fn one_client_takes_half_of_the_table_whatever_keys_it_invents() {
    let engine = small();
    let (of_client, full) =
        (RequestError::TooManyReservationsOf(ReservationScope::Client), RequestError::TooManyReservations);
    let [one, other] = [1, 2].map(|number| Some(ReservationClient(number)));
    let (opened, refused) = fill_as(&engine, one);
    assert_eq!((opened.len(), &refused), (32, &of_client));
    let (others, refused) = fill_as(&engine, other);
    assert!(others.len() == 32 && [&of_client, &full].contains(&&refused), "{refused}");
    // What one client settles or lets expire is its own again, and no other client's.
    for reserved in &opened[..3] {
        engine.settle_reservation(&reserved.reservation, 1, START).unwrap();
    }
    assert_eq!(fill_as(&engine, other).1, of_client);
    assert_eq!(fill_as(&engine, one).0.len(), 3);
    engine.tend(opened[3].expires_at);
    assert_eq!(engine.reservation_stats().bytes, 0);
    assert_eq!(fill_as(&engine, one).0.len(), 32);
}

#[test]
fn a_caller_that_names_no_client_has_the_whole_table() {
    let (opened, refused) = fill_as(&small(), None);
    assert_eq!((opened.len(), refused), (64, RequestError::TooManyReservations));
}

#[test]
fn one_client_takes_half_of_the_bytes() {
    let bytes_max = 128 << 10;
    let reservations = ReservationSettings { bytes_max, ..ReservationSettings::default() };
    let engine = engine_with(RULES, EngineSettings { reservations, ..EngineSettings::default() });
    let (opened, refused) = fill_as(&engine, Some(ReservationClient(1)));
    assert_eq!(refused, RequestError::TooManyReservationsOf(ReservationScope::Client));
    let bytes = engine.reservation_stats().bytes;
    assert!(bytes <= bytes_max / 2 && bytes > bytes_max * 4 / 10, "{bytes} in {}", opened.len());
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
    let reservations =
        ReservationSettings { bytes_max, key_parts: 1, tenant_parts: 1, ..ReservationSettings::default() };
    let engine = engine_with(RULES, EngineSettings { reservations, ..EngineSettings::default() });
    let (opened, refused) = fill(&engine, &Request::policy("tokens", b"one"));
    assert!(opened.len() > 100 && refused != RequestError::NotLoaded);
    let bytes = engine.reservation_stats().bytes;
    assert!(bytes <= bytes_max && bytes > bytes_max * 9 / 10, "{bytes}");
}

#[test]
fn a_reservation_takes_more_of_the_table_the_more_limits_it_charges() {
    let engine = small();
    let bytes_of = |users: &[&str]| {
        let entries: Vec<_> = users.iter().map(|user| [("user", *user)]).collect();
        let descriptors: Vec<_> = entries.iter().map(|entry| Descriptor::new(entry)).collect();
        let before = engine.reservation_stats().bytes;
        reserve(&engine, &Request::new("d", &descriptors)).unwrap();
        engine.reservation_stats().bytes - before
    };
    let (one, two, three) = (bytes_of(&["1"]), bytes_of(&["1", "2"]), bytes_of(&["1", "2", "3"]));
    // Each keeps what it has charged and whose part it takes, besides the text of its descriptor.
    assert!(two - one > 100 && three - two > 100, "{one}, {two} and {three} bytes");
}

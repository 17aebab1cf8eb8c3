//! Names, bounds, and what is kept of a request.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tollgate_policy::Unit;

use std::sync::Arc;

use super::*;
use crate::request::{Descriptor, OwnLimit, RequestError, Subject};
use crate::seal::{Sealed, Sealer};

const NOW: Time = Time::from_ticks(1_800_000_000_000_000_000);
const MINUTE: Span = Span::from_ticks(60_000_000_000);

/// What a limit took that others share.
fn charged_there(number: u128) -> Charged {
    let (name, keeper) = (SharedKey(number), Keeper::Store);
    Charged::There(TakenThere { name, keeper, counted_at: NOW, number: 0 })
}

fn reservations(open_max: usize, bytes_max: usize) -> Reservations {
    let settings = ReservationSettings { open_max, bytes_max, ..ReservationSettings::default() };
    Reservations::new(settings, 7, Sealer::new().unwrap().into()).unwrap()
}

fn estimate(subject_bytes: usize) -> Estimate {
    Estimate { subject: vec![0; subject_bytes].into(), cost: 5, life: MINUTE }
}

fn open(reservations: &Reservations) -> Reserved {
    reservations.open(reservations.claim(estimate(8), NOW).unwrap(), vec![charged_there(5)])
}

#[test]
fn so_many_are_open_at_most() {
    let reservations = reservations(3, 1 << 20);
    let opened: Vec<Reserved> = (0..3).map(|_| open(&reservations)).collect();
    let refused = reservations.claim(estimate(8), NOW).unwrap_err();
    assert_eq!(refused, RequestError::TooManyReservations);
    assert_eq!((reservations.stats().open, reservations.stats().refused), (3, 1));
    reservations.close(&opened[1].reservation, NOW).unwrap();
    open(&reservations);
    reservations.claim(estimate(8), NOW).unwrap_err();
}

#[test]
fn so_many_bytes_are_open_at_most() {
    let all = reservations(1_000, 1 << 20);
    let one = open(&all);
    let bytes = all.stats().bytes;
    let reservations = reservations(1_000, 10 * bytes);
    for _ in 0..10 {
        open(&reservations);
    }
    assert_eq!(reservations.stats().bytes, 10 * bytes);
    reservations.claim(estimate(0), NOW).unwrap_err();
    drop(all.close(&one.reservation, NOW).unwrap());
    assert_eq!(all.stats().bytes, 0);
    assert_eq!(all.claim(estimate(1 << 20), NOW).unwrap_err(), RequestError::TooManyReservations);
    assert_eq!(all.stats().bytes, 0, "what is refused takes nothing");
}

#[test]
fn room_that_was_not_needed_is_free_again() {
    let reservations = reservations(1, 1 << 20);
    for _ in 0..3 {
        drop(reservations.claim(estimate(8), NOW).unwrap());
    }
    open(&reservations);
}

#[test]
fn each_is_closed_once_and_in_time() {
    let reservations = reservations(9, 1 << 20);
    let (first, second) = (open(&reservations), open(&reservations));
    assert_ne!(first.reservation, second.reservation);
    let close = |reserved: &Reserved, now| {
        reservations.close(&reserved.reservation, now).map(|closed| closed.open.cost)
    };
    assert_eq!(close(&first, NOW), Ok(5));
    assert_eq!(close(&first, NOW), Err(SettleError::Settled));
    assert_eq!(first.expires_at, NOW.plus(MINUTE));
    let last = Time::from_ticks(first.expires_at.ticks() - 1);
    assert_eq!(close(&first, last), Err(SettleError::Settled));
    assert_eq!(close(&first, first.expires_at), Err(SettleError::Expired));
    assert_eq!(close(&second, second.expires_at), Err(SettleError::Expired), "though nobody has noticed");
    reservations.tend(last);
    assert_eq!((reservations.stats().open, reservations.stats().expired), (1, 0));
    reservations.tend(second.expires_at);
    assert_eq!((reservations.stats().open, reservations.stats().expired), (0, 1));
    assert_eq!(close(&second, second.expires_at), Err(SettleError::Expired));
    assert_eq!(reservations.stats().bytes, 0);
}

#[test]
fn a_thousand_ends_are_noticed_at_once_and_the_rest_next_time() {
    let reservations = reservations(3_000, 64 << 20);
    for _ in 0..2_500 {
        open(&reservations);
    }
    for left in [1_476, 452, 0, 0] {
        reservations.tend(NOW.plus(MINUTE));
        assert_eq!(reservations.stats().open, left);
    }
    assert_eq!(reservations.stats().expired, 2_500);
}

#[test]
fn another_process_does_not_know_it() {
    let reserved = open(&reservations(9, 1 << 20));
    let settings = ReservationSettings::default();
    let other = Reservations::new(settings, 8, Sealer::new().unwrap().into()).unwrap();
    assert_eq!(
        other.close(&reserved.reservation, NOW).map(|closed| closed.open.cost),
        Err(SettleError::Unknown)
    );
}

#[test]
fn names_are_texts() {
    let Reserved { reservation, .. } = open(&reservations(9, 1 << 20));
    let text = reservation.to_string();
    assert_eq!(text.parse(), Ok(reservation));
    assert!(text.len() <= 64, "{text}");
    for wrong in ["", "0", "xy", "0x00", "äö", &format!("{text}0")] {
        assert_eq!(wrong.parse::<Reservation>(), Err(NotAReservation), "{wrong}");
    }
    // What has been cut or made longer is nobody's.
    let reservations = reservations(9, 1 << 20);
    for text in [&text[..62], &format!("{text}00"), "00"] {
        let reservation = text.parse().unwrap();
        assert_eq!(
            reservations.close(&reservation, NOW).map(|closed| closed.open.cost),
            Err(SettleError::Unknown)
        );
    }
}

fn check_subject(subject: &Subject<'_>) {
    let mut bytes = Vec::new();
    put_subject(&mut bytes, subject);
    assert_eq!(with_request(&bytes, |request| assert_eq!(request.subject, *subject)), Some(()));
    for length in 0..bytes.len() {
        assert_eq!(with_request(&bytes[..length], |_| ()), None, "{length} of {bytes:?}");
    }
}

#[test]
fn what_it_is_about_is_kept() {
    for tier in [None, Some("gold")] {
        check_subject(&Subject::Policy { name: "tokens", key: b"\xff\x00", tier });
    }
    let long = "x".repeat(300);
    let entries = [("user", long.as_str()), ("", "")];
    let plain = Descriptor::new(&entries);
    let limit = Some(OwnLimit { requests_per_unit: u64::MAX, unit: Some(Unit::Year) });
    let own = Descriptor { limit, ..Descriptor::new(&[]) };
    check_subject(&Subject::Descriptors { domain: "d", descriptors: &[plain, own, plain] });
}

proptest! {
    #[test]
    fn any_bytes_are_a_subject_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        with_request(&bytes, |_| ());
    }
}

fn fleet(process: u64, secret: &[u8]) -> Reservations {
    let sealer = Arc::new(Sealer::new().unwrap());
    sealer.set_fleet_secret(secret);
    Reservations::new(ReservationSettings::default(), process, sealer).unwrap()
}

#[test]
fn others_of_the_fleet_know_what_was_charged_of_what_they_share() {
    let (maker, other) = (fleet(1, b"secret"), fleet(2, b"secret"));
    let claim = maker.claim(estimate(8), NOW).unwrap();
    let Reserved { reservation, expires_at } = maker.open(claim, vec![charged_there(5), charged_there(5)]);
    let closed = other.close(&reservation, NOW).unwrap();
    assert_eq!((closed.open.cost, closed.open.life, closed.is_foreign), (5, MINUTE, true));
    assert_eq!(*closed.open.subject, [0; 8]);
    let numbers = closed.open.charged.iter().map(|charged| match charged {
        Charged::There(there) => (there.name, there.counted_at, there.number),
        _ => unreachable!(),
    });
    let numbers: Vec<_> = numbers.collect();
    assert!(numbers.iter().all(|&(name, at, number)| (name, at) == (SharedKey(5), NOW) && number < 1 << 53));
    assert_ne!(numbers[0].2, numbers[1].2, "each comes back by itself");
    assert_eq!(other.close(&reservation, expires_at).map(|_| ()), Err(SettleError::Expired));
    assert_eq!(fleet(3, b"another").close(&reservation, NOW).map(|_| ()), Err(SettleError::Unknown));
    for changed in 0..reservation.0.len() {
        let mut forged = reservation.clone();
        forged.0[changed] ^= 1;
        assert!(other.close(&forged, NOW).is_err(), "byte {changed}");
    }
    assert!(!maker.close(&reservation, NOW).unwrap().is_foreign);
}

#[test]
fn what_is_too_long_to_carry_is_settled_where_it_was_made() {
    let (maker, other) = (fleet(1, b"secret"), fleet(2, b"secret"));
    for (subject_bytes, is_known) in [(1_900, true), (2_048, false)] {
        let claim = maker.claim(estimate(subject_bytes), NOW).unwrap();
        let Reserved { reservation, .. } = maker.open(claim, vec![charged_there(5)]);
        assert!(reservation.0.len() <= 2_048 + 16);
        assert_eq!(other.close(&reservation, NOW).is_ok(), is_known, "{subject_bytes}");
        maker.close(&reservation, NOW).unwrap();
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_name_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let reservations = fleet(1, b"secret");
        prop_assert!(reservations.close(&Reservation(bytes.clone()), NOW).is_err());
        // Sealed by a process of the fleet that has a defect.
        let sealer = Sealer::new().unwrap();
        sealer.set_fleet_secret(b"secret");
        sealer.seal(Sealed::Reservation, &mut bytes);
        let _ = reservations.close(&Reservation(bytes), NOW);
    }
}

#[test]
fn what_has_charged_nothing_takes_no_place_and_changes_nothing_however_often_it_is_settled() {
    let (maker, other, stranger) = (fleet(1, b"secret"), fleet(2, b"secret"), fleet(3, b"another"));
    for cost in [0, 5] {
        let claim = maker.claim(Estimate { cost, ..estimate(8) }, NOW).unwrap();
        let Reserved { reservation, expires_at } = maker.open(claim, Vec::new());
        assert_eq!((maker.stats().open, maker.stats().bytes), (0, 0));
        for reservations in [&maker, &other, &maker] {
            let closed = reservations.close(&reservation, NOW).unwrap();
            assert_eq!((closed.open.cost, closed.open.charged.len(), closed.is_foreign), (cost, 0, false));
            assert_eq!(reservations.close(&reservation, expires_at).map(drop), Err(SettleError::Expired));
        }
        assert_eq!(stranger.close(&reservation, NOW).map(drop), Err(SettleError::Unknown));
        for changed in 0..reservation.0.len() {
            let mut forged = reservation.clone();
            forged.0[changed] ^= 1;
            assert!(maker.close(&forged, NOW).is_err(), "byte {changed}");
        }
    }
}

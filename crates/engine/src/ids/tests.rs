//! What is remembered, for how long, and by how many.
#![allow(clippy::unwrap_used)]

use super::*;

const NOW: Time = Time::from_ticks(1_800_000_000_000_000_000);
const HERE: What = What::Here { at: NOW, is_allowed: true };

fn ids(ids_max: usize) -> Ids {
    let bytes_max = ids_max * RequestIdSettings::ID_BYTES;
    Ids::new(RequestIdSettings { bytes_max, tenant_parts: 1 }).unwrap()
}

fn mark(name: u128, tenant: u64) -> Mark {
    Mark { name, fingerprint: 1, tenant }
}

#[test]
fn the_last_of_those_who_are_denied_undoes_the_charge() {
    let ids = ids(10);
    for _ in 0..3 {
        ids.memory(NOW).share(mark(1, 1), HERE);
    }
    assert_eq!([(); 4].map(|()| ids.let_go(1, NOW)), [None, None, Some(NOW), None]);
    assert_eq!(ids.stats().held, 0);
}

#[test]
fn what_one_has_confirmed_is_never_undone() {
    let ids = ids(10);
    for _ in 0..3 {
        ids.memory(NOW).share(mark(1, 1), HERE);
    }
    assert_eq!(ids.let_go(1, NOW), None);
    ids.confirm(1, NOW);
    assert_eq!([(); 2].map(|()| ids.let_go(1, NOW)), [None, None]);
    assert_eq!(ids.memory(NOW).recall(mark(1, 1)), Ok(Some(HERE)));
}

#[test]
fn another_request_under_the_same_name_is_an_error() {
    let ids = ids(10);
    ids.memory(NOW).remember(mark(1, 1), HERE);
    let other = Mark { fingerprint: 2, ..mark(1, 1) };
    assert_eq!(ids.memory(NOW).recall(other), Err(RequestError::IdConflict));
    assert_eq!(ids.memory(NOW.plus(RequestId::LIFE)).recall(other), Ok(None), "it is over");
}

#[test]
fn room_comes_back_when_an_id_is_over_or_forgotten() {
    let ids = ids(2);
    for name in 1..=2 {
        ids.memory(NOW).check_room(1, 1).unwrap();
        ids.memory(NOW).remember(mark(name, 1), HERE);
    }
    assert_eq!(ids.memory(NOW).check_room(1, 1), Err(RequestError::TooManyIds));
    assert_eq!(ids.memory(NOW).check_room(1, 0), Ok(()), "a repeat needs none");
    ids.forget(1, NOW);
    assert_eq!(ids.memory(NOW).check_room(1, 1), Ok(()));
    let later = NOW.plus(RequestId::LIFE);
    ids.tend(later);
    assert_eq!(ids.memory(later).check_room(1, 2), Ok(()));
    assert_eq!(ids.stats().held, 0);
    assert!(ids.memory(later).table.tenants.is_empty());
}

#[test]
fn what_an_id_takes_is_what_the_documents_say() {
    let text = include_str!("../../../../docs/http.md");
    assert!(text.contains(&format!("{} bytes each", RequestIdSettings::ID_BYTES)));
}

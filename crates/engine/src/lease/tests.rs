//! What a lease holds, and for whom.
#![allow(clippy::unwrap_used)]

use super::*;

/// A lease on so many holds elsewhere.
fn lease(issuer: &LeaseIssuer, holds: u64) -> Lease {
    let mut lease = issuer.start();
    for number in 0..holds {
        let (name, holder) = (SharedKey(number.into()), Holder::from_number(number));
        lease.add_shared(&HeldThere { name, holder, pin: None }, b"");
    }
    lease
}

fn sealer(secret: &[u8]) -> Sealer {
    let sealer = Sealer::new().unwrap();
    sealer.set_fleet_secret(secret);
    sealer
}

fn count(issuer: &LeaseIssuer, lease: &Lease, sealer: &Sealer) -> Result<usize, ReleaseError> {
    issuer.holds(lease, sealer, true).map(|holds| holds.len())
}

#[test]
fn one_lease_asks_for_so_much_at_most() {
    let (issuer, sealer) = (LeaseIssuer::new(1).unwrap(), sealer(b""));
    for (holds, expected) in [(1, 1), (128, 128), (10_000, 128)] {
        assert_eq!(count(&issuer, &lease(&issuer, holds).sealed(&sealer), &sealer), Ok(expected));
    }
}

#[test]
fn only_the_fleet_that_sealed_a_lease_takes_it_back() {
    let issuer = LeaseIssuer::new(1).unwrap();
    let [fleet, other] = [sealer(b"secret"), sealer(b"another")];
    let mut given = lease(&issuer, 2);
    given.add(b"key", Holder::from_number(3));
    assert_eq!(count(&issuer, &given, &fleet), Err(ReleaseError::Unsealed), "it has no seal");
    let given = given.sealed(&fleet);
    assert_eq!(count(&issuer, &given, &fleet), Ok(3));
    assert_eq!(count(&LeaseIssuer::new(2).unwrap(), &given, &fleet), Ok(2), "what the fleet shares");
    assert_eq!(count(&issuer, &given, &other), Err(ReleaseError::Unsealed));
    let here = issuer.holds(&given, &fleet, false).unwrap();
    assert_eq!(here.len(), 1, "a process that shares nothing releases its own holds only");
    for at in 0..given.0.len() {
        let mut changed = given.clone();
        changed.0[at] ^= 1;
        assert_eq!(count(&issuer, &changed, &fleet), Err(ReleaseError::Unsealed), "byte {at} was changed");
        changed.0.truncate(at);
        assert_eq!(count(&issuer, &changed, &fleet), Err(ReleaseError::Unsealed), "cut off at {at}");
    }
}

#[test]
fn a_lease_on_the_memory_of_another_process_is_refused() {
    let [given_by, released_at] = [1, 2].map(|process| LeaseIssuer::new(process).unwrap());
    let fleet = sealer(b"secret");
    let mut given = given_by.start();
    given.add(b"key", Holder::from_number(3));
    let given = given.sealed(&fleet);
    assert_eq!(count(&released_at, &given, &fleet), Err(ReleaseError::Elsewhere));
    assert_eq!(count(&given_by, &given, &fleet), Ok(1));
}

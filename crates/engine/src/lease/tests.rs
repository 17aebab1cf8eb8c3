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

fn count(issuer: &LeaseIssuer, lease: &Lease, fleet: Option<&Fleet>) -> usize {
    issuer.holds(lease, fleet).count()
}

#[test]
fn one_lease_asks_for_so_much_at_most() {
    let (issuer, fleet) = (LeaseIssuer::new(1).unwrap(), Fleet::new(b"", 1));
    for (holds, expected) in [(1, 1), (128, 128), (10_000, 128)] {
        assert_eq!(count(&issuer, &lease(&issuer, holds).sealed(&fleet), Some(&fleet)), expected);
    }
}

#[test]
fn only_the_fleet_that_sealed_a_lease_takes_it_back() {
    let issuer = LeaseIssuer::new(1).unwrap();
    let [fleet, other] = [&b"secret"[..], b"another"].map(|secret| Fleet::new(secret, 1));
    let mut given = lease(&issuer, 2);
    given.add(b"key", Holder::from_number(3));
    assert_eq!(count(&issuer, &given, Some(&fleet)), 0, "it has no seal");
    assert_eq!(
        count(&issuer, &given, None),
        1,
        "what others share is no business of a process that shares nothing"
    );
    let given = given.sealed(&fleet);
    assert_eq!(count(&issuer, &given, Some(&fleet)), 3);
    assert_eq!(count(&LeaseIssuer::new(2).unwrap(), &given, Some(&fleet)), 2);
    assert_eq!(count(&issuer, &given, Some(&other)), 0);
    for at in 0..given.0.len() {
        let mut changed = given.clone();
        changed.0[at] ^= 1;
        assert_eq!(count(&issuer, &changed, Some(&fleet)), 0, "byte {at} was changed");
        changed.0.truncate(at);
        assert_eq!(count(&issuer, &changed, Some(&fleet)), 0, "cut off at {at}");
    }
}

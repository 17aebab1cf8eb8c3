//! Each class at its cap, and what is shed first.
#![allow(clippy::unwrap_used)]

use super::*;

const HALF: usize = 1 << 20;

fn account() -> MemoryAccount {
    MemoryAccount::new(2 * HALF)
}

/// Charges as a caller does that drops what was refused.
fn try_charge(account: &MemoryAccount, class: Class, bytes: usize) -> bool {
    let charged = account.charge(class, bytes).is_ok();
    if !charged {
        account.release(class, bytes);
    }
    charged
}

#[test]
fn what_is_held_already_stays_charged_until_it_is_released() {
    let account = account();
    assert_eq!(account.charge(Class::Request, 2 * HALF), Err(AccountFull));
    assert_eq!(account.held_bytes(Class::Request), 2 * HALF);
    assert_eq!(account.shed_count(Class::Request), 1);
    account.release(Class::Request, 2 * HALF);
    assert_eq!(account.held_bytes(Class::Request), 0);
}

#[test]
fn calls_are_shed_before_requests() {
    let account = account();
    assert!(try_charge(&account, Class::Request, HALF / 2));
    assert!(try_charge(&account, Class::Call, HALF / 4));
    assert!(!try_charge(&account, Class::Call, 1));
    assert!(try_charge(&account, Class::Request, HALF / 4));
    assert!(!try_charge(&account, Class::Request, 1));
    assert_eq!(Class::ALL.map(|class| account.shed_count(class)), [1, 1, 0]);
}

#[test]
fn new_connections_are_refused_before_the_first_buffers_of_open_ones() {
    let account = account();
    while account.charge_connection(CONNECTION_BYTES).is_ok() {}
    account.release(Class::Connection, CONNECTION_BYTES);
    assert_eq!(account.held_bytes(Class::Connection), HALF / 4 * 3);
    assert!(account.is_under_pressure());
    assert!(try_charge(&account, Class::Connection, HALF / 4));
    assert!(!try_charge(&account, Class::Connection, 1));
}

#[test]
fn full_connections_leave_requests_their_half_and_full_requests_connections_theirs() {
    let account = account();
    while try_charge(&account, Class::Connection, CONNECTION_BYTES) {}
    assert!(try_charge(&account, Class::Request, HALF));
    account.release(Class::Connection, HALF);
    assert!(account.charge_connection(CONNECTION_BYTES).is_ok());
}

#[test]
fn pressure_begins_before_anything_but_calls_is_refused() {
    let account = account();
    assert!(try_charge(&account, Class::Request, HALF / 4 * 3));
    assert!(!account.is_under_pressure());
    assert!(try_charge(&account, Class::Request, 1));
    assert!(account.is_under_pressure());
}

#[test]
fn one_client_takes_at_most_half_of_each_class() {
    assert_eq!(Class::ALL.map(|class| account().client_max_bytes(class)), [HALF / 2; 3]);
}

#[test]
fn what_must_not_be_refused_counts_against_what_comes_later() {
    let account = account();
    account.hold(Class::Request, 2 * HALF);
    assert_eq!(account.shed_count(Class::Request), 0);
    assert!(!try_charge(&account, Class::Request, 1));
    account.release(Class::Request, 2 * HALF);
    assert!(try_charge(&account, Class::Request, HALF));
}

#[test]
fn calls_and_requests_are_told_apart() {
    let account = account();
    assert!(try_charge(&account, Class::Call, 3));
    assert!(try_charge(&account, Class::Request, 5));
    assert!(try_charge(&account, Class::Connection, 7));
    assert_eq!(Class::ALL.map(|class| account.held_bytes(class)), [3, 5, 7]);
    account.release(Class::Call, 3);
    assert_eq!(Class::ALL.map(|class| account.held_bytes(class)), [0, 5, 7]);
}

#[test]
fn calls_and_requests_at_the_same_moment_never_exceed_their_half() {
    const THREADS: usize = 4;
    // One charge fits, and no second one.
    let (account, admitted) = (account(), AtomicUsize::new(0));
    let barrier = std::sync::Barrier::new(THREADS);
    for _ in 0..1_000 {
        std::thread::scope(|scope| {
            for class in [Class::Call, Class::Request].into_iter().cycle().take(THREADS) {
                let (account, admitted, barrier) = (&account, &admitted, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    if account.charge(class, HALF / 4 * 3).is_ok() {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    barrier.wait();
                    account.release(class, HALF / 4 * 3);
                });
            }
        });
        assert_eq!(admitted.swap(0, Ordering::Relaxed), 1);
    }
}

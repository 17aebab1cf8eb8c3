//! A permit that was guessed, altered or replayed elsewhere is refused, and ends no other caller's hold.
#![allow(clippy::unwrap_used)]

mod common;

use common::authority::{Authority, acquire};
use common::{START, engine, install};
use tollgate::{Engine, EngineSettings, Lease, LedgerSettings, ReleaseError, Request};

const RULES: &str = "policies: {p: {requests: 1, period: 30s, algorithm: concurrency}}";
const VICTIM: Request<'static> = Request::policy("p", b"victim");
/// Where the number of the holder stands that an attacker has to guess: right before the seal.
const SEAL_DIGITS: usize = 32;

fn is_held(engine: &Engine) -> bool {
    !engine.decide(&VICTIM.peek(), START).unwrap().allowed()
}

fn permit(engine: &Engine, request: &Request<'_>) -> String {
    let (verdict, lease) = engine.acquire(request, START).unwrap();
    assert!(verdict.allowed());
    lease.unwrap().to_string()
}

fn release(engine: &Engine, permit: &str) -> Result<bool, ReleaseError> {
    let permit: Lease = permit.parse().unwrap();
    engine.release(&permit, START).map(|released| released.here)
}

fn shared() -> Engine {
    let settings = EngineSettings { ledger: LedgerSettings::with_cap(8 << 20), ..EngineSettings::default() };
    let engine = Engine::new(settings).unwrap().sharing(b"");
    install(&engine, RULES, START);
    engine
}

#[test]
fn a_permit_made_from_an_own_one_by_guessing_ends_no_other_callers_hold() {
    let engine = engine(RULES);
    let victims = permit(&engine, &VICTIM);
    let own = permit(&engine, &Request::policy("p", b"attack"));
    // Everything but the holder's number is known: the name of the process, and the key. Holder numbers are times in
    // nanoseconds, so an attacker who knows about when the victim came guesses them one after the other. Here the attacker
    // even knows the very number.
    let (content, seal) = victims.split_at(victims.len() - SEAL_DIGITS);
    let own_seal = &own[own.len() - SEAL_DIGITS..];
    for forged in
        [content.to_owned(), format!("{content}{own_seal}"), format!("{content}{}", "0".repeat(SEAL_DIGITS))]
    {
        assert_eq!(release(&engine, &forged), Err(ReleaseError::Unsealed), "{forged}");
        assert!(is_held(&engine));
    }
    for digit in 0..victims.len() {
        let mut altered = victims.clone().into_bytes();
        altered[digit] = if altered[digit] == b'0' { b'1' } else { b'0' };
        let altered = String::from_utf8(altered).unwrap();
        assert_eq!(release(&engine, &altered), Err(ReleaseError::Unsealed), "digit {digit}");
        assert!(is_held(&engine));
    }
    assert_eq!(release(&engine, &format!("{content}{seal}")), Ok(true));
    assert!(!is_held(&engine));
}

#[test]
fn a_permit_of_a_process_key_is_void_in_the_next_process() {
    let permit = permit(&engine(RULES), &VICTIM);
    let restarted = engine(RULES);
    self::permit(&restarted, &VICTIM);
    let refused = release(&restarted, &permit).unwrap_err();
    assert_eq!(refused, ReleaseError::Unsealed);
    let text = refused.to_string();
    assert!(text.contains("before a restart") && text.contains("`store_secret`"), "{text}");
    assert!(is_held(&restarted), "nothing was released");
}

#[test]
fn a_permit_of_shared_units_is_released_by_every_process_with_the_secret_of_the_database() {
    let authority = &mut Authority::default();
    let [given_by, restarted, stranger] = [(); 3].map(|()| shared());
    for engine in [&given_by, &restarted] {
        engine.set_fleet_secret(b"from the database");
    }
    stranger.set_fleet_secret(b"from another database");
    let (verdict, permit) = acquire(&given_by, authority, &VICTIM, START);
    assert!(verdict.allowed());
    let permit = permit.unwrap();
    assert_eq!(stranger.release(&permit, START).unwrap_err(), ReleaseError::Unsealed);
    let released = restarted.release(&permit, START).unwrap();
    let granted = authority.ask(&released.questions, START);
    assert!(granted[0].unwrap().decision.is_allowed(), "it held something");
    assert!(acquire(&restarted, authority, &VICTIM, START).0.allowed());
}

#[test]
fn without_any_secret_no_other_process_takes_a_permit_of_shared_units() {
    let authority = &mut Authority::default();
    let [given_by, other] = [(); 2].map(|()| shared());
    let permit = acquire(&given_by, authority, &VICTIM, START).1.unwrap();
    assert_eq!(other.release(&permit, START).unwrap_err(), ReleaseError::Unsealed);
    assert_eq!(given_by.release(&permit, START).unwrap().questions.len(), 1);
}

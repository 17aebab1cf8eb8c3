//! What is derived from a fleet's secret, and where its text shows.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn keys_differ_by_purpose_and_by_secret() {
    let [one, other] = [FleetSecret::random().unwrap(), FleetSecret::random().unwrap()];
    assert_eq!(one.derive("a"), one.derive("a"));
    assert_ne!(one.derive("a"), one.derive("b"));
    assert_ne!(one.derive("a"), other.derive("a"));
    assert_eq!(FleetSecret::of_store_secret(b""), None);
}

#[test]
fn a_secret_is_read_back_from_its_text_and_shown_nowhere_else() {
    let secret = FleetSecret::random().unwrap();
    assert_eq!(FleetSecret::from_text(&secret.to_text()).unwrap(), secret);
    assert!(!format!("{secret:?}").contains(&secret.to_text()[..8]));
    for damaged in ["0", "xy", &secret.to_text()[1..]] {
        let error = FleetSecret::from_text(damaged).unwrap_err().to_string();
        assert!(!error.contains(&secret.to_text()[1..9]), "{error}");
    }
}

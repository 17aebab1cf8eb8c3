//! Responses that a client does not take, each attack against a server of its own: the allocator keeps what one attack took, which would
//! hide what the next one takes.

use tollgate_testkit::real::Launch;
use tollgate_testkit::real::hostile::{Attack, Listener, Pace, attacks};

use super::{Watched, launch};

/// The attacks, as their table says what must come of them.
const EXPECTED: &str = "bounded, or GOAWAY";

fn check(listener: Listener) {
    check_with(launch, |attack| is_untaken(attack, listener));
}

fn check_with(launch: impl Fn() -> Launch, is_chosen: impl Fn(&Attack) -> bool) {
    let mut failures = Vec::new();
    for attack in attacks().into_iter().filter(is_chosen) {
        let listener = attack.on;
        let watched = Watched::start(launch().flag("memory", "256MiB"));
        let tally = attack.run(&watched.tollgate, 1);
        let peak_bytes = watched.vitals.peak_growth_bytes();
        println!("{listener:?}: {}: {tally}; {} KiB", attack.name, peak_bytes >> 10);
        failures.extend(tally.wrong().iter().map(|wrong| format!("{}: {wrong}", attack.name)));
        if peak_bytes > attack.peak_bytes_max {
            failures.push(format!("{}: {} MiB", attack.name, peak_bytes >> 20));
        }
        watched.finish();
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

fn is_untaken(attack: &Attack, listener: Listener) -> bool {
    attack.expected == EXPECTED && attack.on == listener && attack.pace == Pace::Quick
}

#[test]
fn http_holds_a_bounded_part_of_responses_that_are_not_taken() {
    check(Listener::Http);
}

#[test]
fn admin_holds_a_bounded_part_of_responses_that_are_not_taken() {
    check(Listener::Admin);
}

/// A configuration of 10,000 policies is 800 KB of text, and no token is needed to ask for it.
#[test]
fn all_clients_that_wait_for_the_configuration_share_one_rendering() {
    let policies: Vec<String> =
        (0..10_000).map(|number| format!("  policy-{number}: {{requests: 1, period: 1m}}")).collect();
    let rules = format!("policies:\n{}\n", policies.join("\n"));
    let launch = || launch().rules("many.yaml", &rules);
    check_with(launch, |attack| attack.name.starts_with("the configuration"));
}

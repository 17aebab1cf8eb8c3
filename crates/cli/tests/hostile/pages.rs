//! Operators, or tokens that were stolen: pages and exports of the admin API that a client asks for and does not take.

use serde_json::json;
use tollgate_testkit::real::hostile::{Vitals, ask_admin_without_reading};

use super::{Watched, launch};

/// A policy that is changed so often makes an audit of some megabytes.
const CHANGES: usize = 24;
/// Rules of that policy.
const RULES: usize = 2_000;
/// What pages may take that are not read: what one client may hold, and those that are being made.
const PEAK_BYTES_MAX: u64 = 96 << 20;

#[test]
fn pages_and_exports_that_a_client_does_not_take_are_bounded() {
    let watched = Watched::start(launch().flag("memory", "256MiB"));
    for change in 1..=CHANGES {
        let rule = |index| json!({ "key": "user", "value": format!("{index}"), "rate_limit": { "requests": change, "period": "1h" } });
        let body = json!({ "domain": "audited", "descriptors": (0..RULES).map(rule).collect::<Vec<_>>() });
        let reply = watched.tollgate.ask_admin("PUT", "/admin/v1/policies/audited", Some(&body));
        assert!(reply.status < 300, "{} {}", reply.status, reply.body);
    }
    for path in ["/admin/v1/audit?limit=1000", "/admin/v1/audit/export"] {
        let vitals = Vitals::watch(&watched.tollgate);
        let tally = ask_admin_without_reading(&watched.tollgate, path);
        let peak_bytes = vitals.peak_growth_bytes();
        println!("{path}: {tally}; {} KiB", peak_bytes >> 10);
        assert!(tally.wrong().is_empty(), "{path}: {:#?}", tally.wrong());
        assert!(peak_bytes <= PEAK_BYTES_MAX, "{path}: {} MiB", peak_bytes >> 20);
    }
    watched.finish();
}

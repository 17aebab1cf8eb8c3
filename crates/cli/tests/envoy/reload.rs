//! New rules while requests come in.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tollgate_testkit::real::{Gateway, holds_within, until};

use super::{Tally, by_header, tollgate};

fn rules(limit: u32) -> String {
    format!(
        "
domain: envoy
descriptors:
  - key: user
    rate_limit: {{unit: hour, requests_per_unit: {limit}}}
"
    )
}

#[test]
fn a_limit_changes_under_traffic_and_keeps_its_count() {
    let tollgate = tollgate(&rules(50));
    let envoy = Gateway::new(tollgate.grpc(), json!([{"actions": [by_header("user", "x-user")]}])).start();
    let (done, tally) = (AtomicBool::new(false), Mutex::new(Tally::default()));
    let send = || {
        let mut client = envoy.client();
        while !done.load(Ordering::Relaxed) {
            let status = client.get("/", &[("x-user", "ann")]).status;
            tally.lock().unwrap().add(status);
        }
    };
    let so_far = || *tally.lock().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(send);
        }
        // Whatever fails below, the senders must end.
        let steps = thread::scope(|scope| {
            scope
                .spawn(|| {
                    until("the old limit is used up", || (so_far().limited > 100).then_some(()));
                    assert_eq!(so_far().passed, 50);

                    tollgate.write_rules("envoy.yaml", &rules(80));
                    assert!(holds_within(Duration::from_secs(1), || so_far().passed > 50), "{:?}", so_far());
                    let limited = so_far().limited;
                    until("the new limit is used up", || (so_far().limited > limited + 100).then_some(()));
                    assert_eq!(so_far().passed, 80, "what was used before still counts");

                    tollgate.write_rules("envoy.yaml", &rules(60));
                    let mut client = envoy.client();
                    let told =
                        || client.get("/", &[("x-user", "ann")]).the("x-ratelimit-limit") == "60, 60;w=3600";
                    assert!(holds_within(Duration::from_secs(1), told));
                })
                .join()
        });
        done.store(true, Ordering::Relaxed);
        steps.unwrap();
    });
    assert_eq!((so_far().passed, so_far().other), (80, 0));
    assert_eq!(envoy.counter("cluster.upstream.ratelimit.error"), 0);
}

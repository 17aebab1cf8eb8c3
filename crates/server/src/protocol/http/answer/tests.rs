//! What a verdict looks like as JSON, where counters are shared.
use tollgate::authority::{Failure, Grant};
use tollgate::core::{Decision, Outcome, Time};
use tollgate::{Clock, Engine, EngineSettings, Request, Source, Step};

/// The first of the limits in the answer to a request about which shared counters say this.
fn limit_answer(granted: Result<Grant, Failure>) -> serde_json::Value {
    let engine = Engine::new(EngineSettings::default()).unwrap().sharing(b"");
    let now = Clock::new().now();
    engine.load(&[Source::new("rules", "policies: {search: {requests: 5, period: 1m}}")], now).unwrap();
    let step = engine.begin(&Request::policy("search", b"alice"), now).unwrap();
    let Step::Pending(pending) = step else { panic!("nobody is asked") };
    let verdict = engine.resume(pending, &[granted], now).verdict;
    let body: serde_json::Value = serde_json::from_str(&super::body(&verdict)).unwrap();
    body["decisions"][0].clone()
}

#[test]
fn tells_when_the_shared_count_decided() {
    let decision = Decision { outcome: Outcome::ALLOWED, limit: 5, remaining: 4, reset_after: None };
    let check = |at_us: u64, expected: &str| {
        let answer = limit_answer(Ok(Grant {
            decision,
            at: Time::from_ticks(at_us),
            holder: None,
            leased: 0,
            is_repeated: false,
        }));
        assert_eq!(
            (&answer["decided_by"], answer["decided_at"].to_string().as_str()),
            (&"authority".into(), expected)
        );
    };
    check(1_763_298_000_123_457, "1763298000.123457");
    check(1_763_298_000_000_001, "1763298000.000001");
    check(1_763_298_000_000_000, "1763298000");
    assert_eq!(limit_answer(Err(Failure::TimedOut)).get("decided_at"), None);
}

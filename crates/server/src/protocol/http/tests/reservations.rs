//! `/v1/reserve` and `/v1/settle`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use insta::assert_snapshot;
use serde_json::{Value, json};
use tollgate::policy::FileSpec;
use tollgate::{EngineSettings, ReservationSettings};

use super::{ask, gate, post, send, without_times};
use crate::gate::{Gate, GateSettings};
use crate::headers::samples::{engine_settings, per_age, policy};

fn tokens(cost: u64) -> Value {
    json!({"policy": "tokens", "key": "alice", "cost": cost})
}

/// Reserves, and says by which name it is settled.
async fn reserve(gate: &Arc<Gate>, question: Value) -> String {
    let (status, answer) = ask(gate, "/v1/reserve", question).await;
    assert_eq!(status, 200, "{answer}");
    answer["reservation"].as_str().unwrap().to_owned()
}

/// The time of the gate, in seconds.
fn now_s(gate: &Arc<Gate>) -> f64 {
    Duration::from_nanos(gate.now().ticks()).as_secs_f64()
}

async fn left(gate: &Arc<Gate>) -> Value {
    ask(gate, "/v1/peek", tokens(0)).await.1["remaining"].clone()
}

#[tokio::test]
async fn an_estimate_is_taken_and_the_real_cost_takes_its_place() {
    let gate = gate();
    let (status, mut answer) = ask(&gate, "/v1/reserve", tokens(100)).await;
    assert_eq!(status, 200);
    let reservation = answer["reservation"].as_str().unwrap().to_owned();
    let expires_at = answer["expires_at"].as_f64().unwrap();
    let now_s = now_s(&gate);
    assert!((now_s + 590.0..=now_s + 600.0).contains(&expires_at), "{expires_at}");
    answer["reservation"] = json!("NAME");
    answer["expires_at"] = json!("TIME");
    assert_snapshot!(without_times(answer), @r#"
    {"allowed":true,"limit":1000,"remaining":900,"retry_after":null,"reset_at":"TIME","quota":1000,"window":864000000,"scope":"tokens","reservation":"NAME","expires_at":"TIME","decisions":[
    {"policy":"tokens","rule":"tokens","title":"tokens","enforcement":"enforced","allowed":true,"cost":100,"limit":1000,"remaining":900,"quota":1000,"window":864000000,"retry_after":null,"reset_after":"TIME"}]}
    "#);
    let settle = json!({"reservation": reservation, "cost": 40});
    let (status, answer) = ask(&gate, "/v1/settle", settle.clone()).await;
    assert_eq!(status, 200);
    assert_snapshot!(without_times(answer), @r#"
    {"reserved":100,"charged":40,"returned":60,"booked":0,"pending":false,"decisions":[
    {"policy":"tokens","rule":"tokens","title":"tokens","enforcement":"refund","allowed":true,"cost":60,"limit":1000,"remaining":960,"quota":1000,"window":864000000,"retry_after":null,"reset_after":"TIME"}]}
    "#);
    assert_eq!(left(&gate).await, json!(960));
    let (status, answer) = ask(&gate, "/v1/settle", settle).await;
    assert_eq!(status, 409);
    assert_snapshot!(answer.to_string(), @r#"
    {"error":{"code":"already_settled","message":"this reservation is settled already: nothing was changed"}}
    "#);
    assert_eq!(left(&gate).await, json!(960));
}

#[tokio::test]
async fn an_excess_is_booked() {
    let gate = gate();
    let reservation = reserve(&gate, tokens(100)).await;
    let (status, answer) = ask(&gate, "/v1/settle", json!({"reservation": reservation, "cost": 1200})).await;
    assert_eq!(
        (status, &answer["booked"], &answer["decisions"][0]["allowed"]),
        (200, &json!(1100), &json!(false))
    );
    assert_eq!(ask(&gate, "/v1/check", tokens(1)).await.0, 429);
    let text = gate.metrics_text().unwrap();
    for line in [
        "ratelimit_reservations_made_total 1",
        "ratelimit_reservations_settled_total 1",
        "ratelimit_reservations_open 0",
        "ratelimit_reservation_booked_units_total 1100",
        "ratelimit_requests_total{protocol=\"http\",outcome=\"allowed\"} 1",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[tokio::test]
async fn whoever_is_denied_has_no_reservation() {
    let gate = gate();
    reserve(&gate, tokens(1000)).await;
    let (status, answer) = ask(&gate, "/v1/reserve", tokens(1)).await;
    assert_eq!((status, answer.get("reservation"), answer.get("expires_at")), (429, None, None));
    assert_eq!(answer["code"], json!("rate_limited"));
}

#[tokio::test]
async fn descriptors_can_be_reserved_too() {
    let gate = gate();
    let entries = json!([{"entries": [{"key": "user", "value": "bob"}]}]);
    let question = json!({"domain": "web", "descriptors": entries, "hits_addend": 2, "expires_in": "1h30m"});
    let reservation = reserve(&gate, question).await;
    let (_, answer) = ask(&gate, "/v1/settle", json!({"reservation": reservation, "cost": 1})).await;
    assert_eq!((&answer["returned"], &answer["decisions"][0]["remaining"]), (&json!(1), &json!(1)));
}

#[tokio::test]
async fn how_long_it_is_open() {
    let gate = gate();
    for (expires_in, seconds) in [
        (json!(1), 1.0),
        (json!(0.5), 0.5),
        (json!("90s"), 90.0),
        (json!("1d"), 86_400.0),
        (json!(null), 600.0),
    ] {
        let now_s = now_s(&gate);
        let question = json!({"policy": "tokens", "key": "a", "cost": 1, "expires_in": expires_in});
        let (_, answer) = ask(&gate, "/v1/reserve", question).await;
        let after_s = answer["expires_at"].as_f64().unwrap() - now_s;
        assert!((seconds - 0.001..seconds + 5.0).contains(&after_s), "{expires_in}: {after_s}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let gate = gate();
    let name = reserve(&gate, tokens(1)).await;
    let first = if name.starts_with('0') { '1' } else { '0' };
    let unknown = format!("{first}{}", &name[1..]);
    let settle = |reservation: &str| format!(r#"{{"reservation": "{reservation}", "cost": 1}}"#);
    let cases = [
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "expires_in": "soon"}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "expires_in": "25h"}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "expires_in": "99999999999999999999d"}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "expires_in": 0}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "expires_in": -1}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "cost": 1e30}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "tokens", "key": "a", "estimate": 1}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "uploads", "key": "a"}"#.to_owned()),
        ("/v1/reserve", r#"{"policy": "none", "key": "a"}"#.to_owned()),
        ("/v1/reserve", r#"{"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "x"}], "hits_addend": 2}]}"#.to_owned()),
        ("/v1/check", r#"{"policy": "tokens", "key": "a", "expires_in": 1}"#.to_owned()),
        ("/v1/settle", String::new()),
        ("/v1/settle", "[]".to_owned()),
        ("/v1/settle", "{}".to_owned()),
        ("/v1/settle", r#"{"reservation": 7, "cost": 1}"#.to_owned()),
        ("/v1/settle", format!(r#"{{"reservation": "{name}"}}"#)),
        ("/v1/settle", format!(r#"{{"reservation": "{name}", "cost": -1}}"#)),
        ("/v1/settle", format!(r#"{{"reservation": "{name}", "cost": 1, "more": 1}}"#)),
        ("/v1/settle", settle("garbage")),
        ("/v1/settle", settle(&unknown)),
        ("/v1/settle", settle(&"ab".repeat(100_000))),
    ];
    let mut told = String::new();
    for (path, body) in cases {
        let (status, answer) = post(&gate, path, body.clone()).await;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let (code, message) = (&answer["error"]["code"], &answer["error"]["message"]);
        let shown: String = body.replace(&name, "NAME").replace(&unknown, "OTHER").chars().take(90).collect();
        let (status, code, message) = (status.as_u16(), code.as_str().unwrap(), message.as_str().unwrap());
        writeln!(told, "{path} {shown}\n  {status} {code}: {message}").unwrap();
    }
    assert_snapshot!(told, @r#"
    /v1/reserve {"policy": "tokens", "key": "a", "expires_in": "soon"}
      400 bad_request: expires_in: invalid value: string "soon", expected a number of seconds, or a length of time such as "90s", "10m" or "1h30m" at line 1 column 53
    /v1/reserve {"policy": "tokens", "key": "a", "expires_in": "25h"}
      400 bad_request: `expires_in` must be from 1ms to 24h
    /v1/reserve {"policy": "tokens", "key": "a", "expires_in": "99999999999999999999d"}
      400 bad_request: `expires_in` must be from 1ms to 24h
    /v1/reserve {"policy": "tokens", "key": "a", "expires_in": 0}
      400 bad_request: `expires_in` must be from 1ms to 24h
    /v1/reserve {"policy": "tokens", "key": "a", "expires_in": -1}
      400 bad_request: expires_in: invalid type: integer `-1`, expected a number of seconds, or a length of time such as "90s", "10m" or "1h30m" at line 1 column 49
    /v1/reserve {"policy": "tokens", "key": "a", "cost": 1e30}
      400 bad_request: cost: invalid type: floating point `1e+30`, expected a whole number from 0 to 18446744073709551615 at line 1 column 45
    /v1/reserve {"policy": "tokens", "key": "a", "estimate": 1}
      400 bad_request: estimate: unknown field `estimate`, expected one of `domain`, `descriptors`, `hits_addend`, `policy`, `key`, `cost`, `tier`, `expires_in` at line 1 column 43
    /v1/reserve {"policy": "uploads", "key": "a"}
      400 bad_request: a concurrency limit applies to this request: places in it are held with /v1/acquire, not reserved
    /v1/reserve {"policy": "none", "key": "a"}
      404 unknown_policy: unknown policy "none"; it could be closed, mail, search, tiered, tokens, uploads
    /v1/reserve {"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "x"}], "hits_adden
      400 bad_request: descriptors[0] has `hits_addend` or `is_negative_hits`: a reservation has one estimate, the `hits_addend` of the request
    /v1/check {"policy": "tokens", "key": "a", "expires_in": 1}
      400 bad_request: expires_in: unknown field `expires_in`, expected one of `domain`, `descriptors`, `hits_addend`, `policy`, `key`, `cost`, `tier`, `request_id` at line 1 column 45
    /v1/settle 
      400 bad_request: the body is empty: send {"reservation": "...", "cost": 123} with the `reservation` that /v1/reserve gave
    /v1/settle []
      400 bad_request: the body is not a JSON object: send {"reservation": "...", "cost": 123} with the `reservation` that /v1/reserve gave
    /v1/settle {}
      400 bad_request: `reservation` is missing: add the one that /v1/reserve gave
    /v1/settle {"reservation": 7, "cost": 1}
      400 bad_request: reservation: invalid type: integer `7`, expected a string at line 1 column 17
    /v1/settle {"reservation": "NAME"}
      400 bad_request: `cost` is missing: add the real cost; 0 gives all back
    /v1/settle {"reservation": "NAME", "cost": -1}
      400 bad_request: cost: invalid type: integer `-1`, expected a whole number from 0 to 18446744073709551615 at line 1 column 94
    /v1/settle {"reservation": "NAME", "cost": 1, "more": 1}
      400 bad_request: more: unknown field `more`, expected one of `reservation`, `cost`, `request_id` at line 1 column 101
    /v1/settle {"reservation": "garbage", "cost": 1}
      400 bad_request: `reservation`: this is not a reservation: send back the `reservation` that was given, as it is
    /v1/settle {"reservation": "OTHER", "cost": 1}
      404 unknown_reservation: this reservation is not known here: only the server that made it can settle it, until it stops, or one that shares its count
    /v1/settle {"reservation": "ababababababababababababababababababababababababababababababababababababa
      404 unknown_reservation: this reservation is not known here: only the server that made it can settle it, until it stops, or one that shares its count
    "#);
    assert_eq!(left(&gate).await, json!(999), "nothing was taken, and nothing given back");
    let (status, _) =
        post(&gate, "/v1/reserve", format!(r#"{{"policy": "tokens", "key": "{}"}}"#, "k".repeat(65_536)))
            .await;
    assert_eq!(status, 413);
}

/// A gate with bounds of its own.
fn bounded(reservations: ReservationSettings) -> Arc<Gate> {
    let engine = EngineSettings { reservations, ..engine_settings() };
    let gate = Arc::new(Gate::new(GateSettings { engine, ..GateSettings::default() }).unwrap());
    gate.install(vec![FileSpec { domain: None, policies: vec![policy("tokens", vec![per_age(1_000)])] }]);
    gate
}

#[tokio::test]
async fn a_key_at_its_bound_is_told_so_and_others_still_reserve() {
    let gate = bounded(ReservationSettings {
        open_max: 8,
        key_parts: 4,
        tenant_parts: 1,
        ..ReservationSettings::default()
    });
    for _ in 0..2 {
        reserve(&gate, tokens(10)).await;
    }
    let (response, body) =
        send(&gate, Request::post("/v1/reserve").body(tokens(10).to_string().into()).unwrap()).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["retry-after"]),
        (429, &"1".parse().unwrap())
    );
    assert_snapshot!(body, @r#"{"error":{"code":"too_many_reservations_of_key","message":"too many reservations of this key are open: settle some of them, or try again when some have expired"}}"#);
    assert_eq!(left(&gate).await, json!(980));
    reserve(&gate, json!({"policy": "tokens", "key": "bob", "cost": 1})).await;
    for _ in 0..20 {
        reserve(&gate, tokens(0)).await;
    }
}

#[tokio::test]
async fn beyond_the_bound_nothing_is_taken() {
    let gate = bounded(ReservationSettings {
        open_max: 2,
        key_parts: 1,
        tenant_parts: 1,
        ..ReservationSettings::default()
    });
    for _ in 0..2 {
        reserve(&gate, tokens(10)).await;
    }
    let (status, answer) = ask(&gate, "/v1/reserve", tokens(10)).await;
    assert_eq!(status, 503);
    assert_snapshot!(answer.to_string(), @r#"
    {"error":{"code":"too_many_reservations","message":"too many reservations are open on this server: settle some, or try again when some have expired"}}
    "#);
    assert_eq!(left(&gate).await, json!(980));
    assert_eq!(ask(&gate, "/v1/check", tokens(10)).await.0, 200, "others pass");
}

#[tokio::test]
async fn what_nobody_settles_expires() {
    let gate = gate();
    let name = reserve(&gate, tokens(100)).await;
    let end = tollgate::core::Time::from_ticks(gate.now().ticks() + 600_000_000_000);
    gate.engine().tend(end);
    assert!(gate.metrics_text().unwrap().contains("ratelimit_reservations_expired_total 1\n"));
    assert_eq!(left(&gate).await, json!(900));
    // By its own clock the gate is not there yet.
    let (status, _) = ask(&gate, "/v1/settle", json!({"reservation": name, "cost": 0})).await;
    assert_eq!(status, 409);
    let brief = json!({"policy": "tokens", "key": "alice", "cost": 1, "expires_in": "1ms"});
    let name = reserve(&gate, brief).await;
    let made = gate.now();
    while gate.now().since(made).ticks() < 1_000_000 {}
    let (status, answer) = ask(&gate, "/v1/settle", json!({"reservation": name, "cost": 0})).await;
    assert_eq!(status, 410);
    assert_snapshot!(answer.to_string(), @r#"
    {"error":{"code":"reservation_expired","message":"this reservation has expired, or was settled before it did: what is charged for it stays charged"}}
    "#);
}

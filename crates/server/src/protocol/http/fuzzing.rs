//! Any bytes as a body: an answer, or an error that says what is wrong. Never a failure of the server's own.

#![allow(clippy::expect_used, clippy::panic)] // That is how a target says that it has found something.

mod answers;
mod auth;
mod quick;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::Service;

pub use self::auth::http_auth;
pub use self::quick::quick;
use crate::fuzzing::{block_on, check_field, with_router};

/// The first byte says where the body is sent: `c`heck, `p`eek, `a`cquire, `r`elease, reserve (`e`), `s`ettle or `j`son. Any other byte is a `c`.
pub fn json(bytes: &[u8]) {
    let Some((path, body)) = bytes.split_first() else { return };
    with_router(|_, mut router| match path {
        b'p' => check_peek(&mut router, body),
        b'a' => check_acquire(&mut router, body),
        b'r' => check_release(&mut router, body),
        b'e' => check_reserve(&mut router, body),
        b's' => check_settle(&mut router, body),
        b'j' => check_json(&mut router, body),
        _ => check_decided(&post(&mut router, "/v1/check", body)),
    });
}

struct Answered {
    status: StatusCode,
    body: Vec<u8>,
}

impl Answered {
    fn of(response: Response) -> Answered {
        let (head, body) = response.into_parts();
        for (name, value) in &head.headers {
            check_field(name.as_str(), value.to_str().expect("a field of text"));
        }
        let body = block_on(body.collect()).expect("a body").to_bytes().to_vec();
        Answered { status: head.status, body }
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    fn is_decided(&self) -> bool {
        matches!(self.status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS)
    }
}

fn post(router: &mut Router, path: &str, body: &[u8]) -> Answered {
    let request = Request::post(path).body(Body::from(body.to_vec())).expect("a request");
    let Ok(response) = block_on(router.call(request));
    Answered::of(response)
}

/// Yes or no, and the body says the same; or an error.
fn check_decided(answered: &Answered) {
    let body = answered.json();
    if answered.is_decided() {
        assert_eq!(body["allowed"], json!(answered.status == StatusCode::OK), "{body}");
        assert!(body["decisions"].is_array(), "{body}");
    } else {
        check_problem(answered);
    }
}

fn check_problem(answered: &Answered) {
    assert!(answered.status.is_client_error(), "{}", answered.status);
    let body = answered.json();
    for part in ["code", "message"] {
        assert!(body["error"][part].as_str().is_some_and(|text| !text.is_empty()), "{body}");
    }
}

/// However often somebody looks, the answer stays the same.
fn check_peek(router: &mut Router, body: &[u8]) {
    let [first, second] = [(); 2].map(|()| post(router, "/v1/peek", body));
    check_decided(&first);
    assert_eq!(first.status, second.status);
}

/// What is held can be given back, once.
fn check_acquire(router: &mut Router, body: &[u8]) {
    let answered = post(router, "/v1/acquire", body);
    check_decided(&answered);
    let answer = answered.json();
    if let Some(lease) = answer["lease"].as_str() {
        let lease = json!({ "lease": lease }).to_string();
        for expected in [true, false] {
            let released = post(router, "/v1/release", lease.as_bytes()).json();
            assert_eq!(released, json!({ "released": expected }));
        }
    }
}

/// Nothing was acquired, so that there is nothing to release.
fn check_release(router: &mut Router, body: &[u8]) {
    let answered = post(router, "/v1/release", body);
    if answered.status == StatusCode::OK {
        assert_eq!(answered.json(), json!({ "released": false }));
    } else {
        check_problem(&answered);
    }
}

/// What is reserved can be settled, once.
fn check_reserve(router: &mut Router, body: &[u8]) {
    let answered = post(router, "/v1/reserve", body);
    check_decided(&answered);
    let answer = answered.json();
    assert_eq!(answer["reservation"].is_string(), answered.status == StatusCode::OK, "{answer}");
    if let Some(reservation) = answer["reservation"].as_str() {
        let settle = json!({ "reservation": reservation, "cost": 0 }).to_string();
        let settled = post(router, "/v1/settle", settle.as_bytes());
        assert_eq!((settled.status, &settled.json()["charged"]), (StatusCode::OK, &json!(0)));
        // What has charged nothing is settled as often as is asked for: that changes nothing.
        let has_charged = settled.json()["decisions"] != json!([]);
        let again = if has_charged { StatusCode::CONFLICT } else { StatusCode::OK };
        assert_eq!(post(router, "/v1/settle", settle.as_bytes()).status, again);
    }
}

/// Nothing was reserved, so that there is nothing to settle.
fn check_settle(router: &mut Router, body: &[u8]) {
    check_problem(&post(router, "/v1/settle", body));
}

/// As envoyproxy/ratelimit: what is wrong is said in plain text.
fn check_json(router: &mut Router, body: &[u8]) {
    let answered = post(router, "/json", body);
    if answered.is_decided() {
        let is_over = answered.status == StatusCode::TOO_MANY_REQUESTS;
        let code = if is_over { "OVER_LIMIT" } else { "OK" };
        assert_eq!(answered.json()["overallCode"], code);
    } else {
        assert_eq!(answered.status, StatusCode::BAD_REQUEST);
        assert!(std::str::from_utf8(&answered.body).is_ok_and(|why| !why.is_empty()));
    }
}

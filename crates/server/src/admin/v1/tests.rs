//! The admin API without a database: who gets in, what is said of requests that are wrong, and that everything is described.
#![allow(clippy::unwrap_used, clippy::panic)]

mod described;
mod listed;
mod repeats;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use http::Request;
use http::request::Builder;
use http_body_util::BodyExt;
use insta::assert_snapshot;
use serde_json::Value;
use tollgate_control::DatabaseAddress;
use tower::ServiceExt;

use super::super::testing::{ADMIN, OPERATOR, READER, api, limited};
use super::super::{AdminRate, Role, router};
use super::operation::Verb;
use super::*;
use crate::control::Bounds;
use crate::gate::GateSettings;
use crate::headers::samples::{engine_settings, per_minute, policy};

/// An answer: its status, its fields and its body.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) fields: http::HeaderMap,
    pub(super) body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// The name of its problem, and what is said about it.
    fn problem(&self) -> String {
        assert_eq!(self.fields["content-type"], "application/problem+json", "{}", self.body);
        assert_eq!(self.json()["status"], self.status);
        let (kind, detail) = (self.json()["type"].clone(), self.json()["detail"].clone());
        let kind = kind.as_str().unwrap().strip_prefix("urn:tollgate:").unwrap().to_owned();
        format!("{} {kind}: {}", self.status, detail.as_str().unwrap())
    }
}

pub(super) fn gate() -> Arc<Gate> {
    let gate = Gate::new(GateSettings { engine: engine_settings(), ..GateSettings::default() }).unwrap();
    let policies = vec![policy("search", vec![per_minute(2)])];
    gate.install(vec![tollgate::policy::FileSpec { domain: None, policies }]);
    Arc::new(gate)
}

pub(super) fn request(method: &str, path: &str, token: &str) -> Builder {
    let builder =
        Request::builder().method(method).uri(format!("{PREFIX}{path}")).header("host", "localhost:9090");
    if token.is_empty() { builder } else { builder.header("authorization", format!("Bearer {token}")) }
}

pub(super) async fn send(router: &Router, request: Request<Body>) -> Answer {
    let (head, body) = router.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let answer = Answer {
        status: head.status.as_u16(),
        fields: head.headers,
        body: String::from_utf8(body.to_vec()).unwrap(),
    };
    assert!(!answer.body.contains("0123456789abcdef"), "a token: {}", answer.body);
    answer
}

/// Asks without a body.
async fn ask(method: &str, path: &str, token: &str) -> Answer {
    send(&router(api(&gate())), request(method, path, token).body(Body::empty()).unwrap()).await
}

/// Sends JSON.
async fn tell(method: &str, path: &str, body: &str) -> Answer {
    let request = request(method, path, ADMIN).header("content-type", "application/json");
    send(&router(api(&gate())), request.body(Body::from(body.to_owned())).unwrap()).await
}

/// A path with something in the place of its parameters.
fn filled(operation: &Operation) -> String {
    operation.path.replace("{id}", "some").replace("{api_key}", "some")
}

#[tokio::test]
async fn without_a_token_there_is_nothing_but_the_description() {
    for operation in operations() {
        let method = operation.method.name().to_uppercase();
        for token in ["", "wrong-0123456789abcde"] {
            let answer = ask(&method, &filled(operation), token).await;
            if operation.role.is_none() {
                assert_eq!(answer.status, 200, "{}", operation.path);
                continue;
            }
            assert_eq!(answer.status, 401, "{method} {}", operation.path);
            assert_eq!(answer.fields["www-authenticate"], "Bearer realm=\"tollgate\"");
            assert!(answer.problem().starts_with("401 unauthorized: "));
        }
    }
    for path in ["", "/", "/nowhere", "/quotas/a/b", "//quotas"] {
        assert_eq!(ask("GET", path, "").await.status, 401, "{path}");
    }
    assert_eq!(ask("PATCH", "/quotas/a", "").await.status, 401);
    assert_eq!(ask("OPTIONS", "/quotas", "").await.status, 401);
}

#[tokio::test]
async fn a_role_does_what_it_may_and_nothing_more() {
    let tokens = [(Role::Reader, READER), (Role::Operator, OPERATOR), (Role::Admin, ADMIN)];
    for operation in operations() {
        let Some(needed) = operation.role else { continue };
        for (role, token) in tokens {
            let answer = ask(&operation.method.name().to_uppercase(), &filled(operation), token).await;
            let is_refused = answer.status == 403;
            assert_eq!(is_refused, role < needed, "{role} {:?} {}", operation.method, operation.path);
            if is_refused {
                let told =
                    format!("403 role: this needs the role {needed}, and the token has the role {role}");
                assert_eq!(answer.problem(), told);
            }
        }
    }
}

#[tokio::test]
async fn nobody_changes_anything_as_a_reader() {
    let asking = ["/keys/inspect", "/explain"];
    let changing =
        |operation: &&Operation| operation.method != Verb::Get && !asking.contains(&operation.path);
    for operation in operations().filter(changing) {
        assert!(operation.role.unwrap() > Role::Reader, "{}", operation.path);
    }
    let of_policies = |operation: &&Operation| operation.path.starts_with("/policies");
    for operation in operations().filter(changing).filter(of_policies) {
        assert_eq!(operation.role, Some(Role::Admin));
    }
}

#[tokio::test]
async fn names_of_others_are_not_answered() {
    let router = router(api(&gate()));
    let with = |name: &'static str, value: &str| {
        let mut request = request("GET", "/hotkeys", READER).body(Body::empty()).unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
        send(&router, request)
    };
    assert_eq!(with("host", "127.0.0.1:9090").await.status, 200);
    assert_eq!(with("origin", "http://localhost:9090").await.status, 200);
    let foreign = with("host", "rebound.example:9090").await.problem();
    assert_snapshot!(foreign, @"403 host: the header Host names neither this listener nor this machine: add the name to `admin_hosts`");
    let foreign = with("origin", "https://evil.example").await.problem();
    assert_snapshot!(foreign, @"403 origin: the header Origin is not that of this listener: add its host to `admin_hosts`");
    // Not even the description; but what everybody may see anyway, as before.
    let described = Request::get(OPENAPI_PATH).header("host", "evil.example").body(Body::empty()).unwrap();
    assert_eq!(send(&router, described).await.status, 403);
    for path in ["/metrics", "/healthz", "/readyz", "/config", "/"] {
        let request = Request::get(path).header("host", "evil.example").body(Body::empty()).unwrap();
        assert_ne!(send(&router, request).await.status, 403, "{path}");
    }
}

#[tokio::test]
async fn whoever_asks_too_often_has_to_wait() {
    let router = router(limited(&gate(), Some(AdminRate { per_second: 1, burst: 2 })));
    let ask =
        |token: &'static str| send(&router, request("GET", "/hotkeys", token).body(Body::empty()).unwrap());
    assert_eq!((ask(READER).await.status, ask(READER).await.status), (200, 200));
    let denied = ask(READER).await;
    assert_eq!(denied.problem(), "429 too-many: the header Retry-After says when to come back");
    assert_eq!(denied.fields["retry-after"], "1");
    assert_eq!(ask(ADMIN).await.status, 200, "others are not concerned");
    let mut statuses = HashSet::new();
    for _ in 0..100 {
        statuses.insert(ask("guess-0123456789abcde").await.status);
    }
    assert_eq!(statuses, HashSet::from([401, 429]), "wrong tokens have a limit of their own");
    assert_eq!(ask(OPERATOR).await.status, 200, "which is nothing to those who have one");
}

#[tokio::test]
async fn requests_are_counted_by_role_and_outcome() {
    let gate = gate();
    let router = router(limited(&gate, Some(AdminRate { per_second: 1, burst: 3 })));
    for (method, path, token, status) in [
        ("GET", "/hotkeys", READER, 200),
        ("GET", "/nowhere", READER, 404),
        ("PUT", "/quotas/some", READER, 403),
        ("GET", "/hotkeys", READER, 429),
        ("GET", "/hotkeys", OPERATOR, 200),
        ("GET", "/quotas/some", ADMIN, 503),
        ("GET", "/openapi.json", "", 200),
        ("GET", "/hotkeys", "", 401),
        ("GET", "/nowhere", "wrong-0123456789abcde", 401),
    ] {
        let answer = send(&router, request(method, path, token).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status, status, "{method} {path}");
    }
    let scraped = Request::get("/metrics").body(Body::empty()).unwrap();
    let metrics = send(&router, scraped).await.body;
    let lines: Vec<_> = metrics.lines().filter(|line| line.starts_with("ratelimit_admin_requests")).collect();
    assert_snapshot!(lines.join("\n"), @r#"
    ratelimit_admin_requests_total{role="none",outcome="ok"} 1
    ratelimit_admin_requests_total{role="none",outcome="refused"} 2
    ratelimit_admin_requests_total{role="none",outcome="error"} 0
    ratelimit_admin_requests_total{role="reader",outcome="ok"} 1
    ratelimit_admin_requests_total{role="reader",outcome="refused"} 2
    ratelimit_admin_requests_total{role="reader",outcome="error"} 1
    ratelimit_admin_requests_total{role="operator",outcome="ok"} 1
    ratelimit_admin_requests_total{role="operator",outcome="refused"} 0
    ratelimit_admin_requests_total{role="operator",outcome="error"} 0
    ratelimit_admin_requests_total{role="admin",outcome="ok"} 0
    ratelimit_admin_requests_total{role="admin",outcome="refused"} 0
    ratelimit_admin_requests_total{role="admin",outcome="error"} 1
    "#);
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said() {
    let mut told = String::new();
    for path in [
        "/quotas?limit=0",
        "/quotas?limit=1001",
        "/quotas?limit=+1",
        "/quotas?limt=1",
        "/quotas?limit=1&limit=2",
        "/nodes?limit=1",
        "/audit?from=yesterday",
        "/audit?from=2026-02-01T00:00:00",
        "/audit?kind=other",
        "/audit?after=-1",
        "/audit?who=a%00b",
        "/audit?who=%ff",
        "/quotas/%ff",
        "/quotas/a%0Ab",
        &format!("/quotas/{}", "k".repeat(513)),
        "/quotas/some",
        "/nowhere",
    ] {
        let shown = if path.len() > 40 { "/quotas/(513)" } else { path };
        writeln!(told, "{shown}: {}", ask("GET", path, READER).await.problem()).unwrap();
    }
    assert_snapshot!(told, @r#"
    /quotas?limit=0: 400 bad-request: `limit` has to be a whole number from 1 to 1000
    /quotas?limit=1001: 400 bad-request: `limit` has to be a whole number from 1 to 1000
    /quotas?limit=+1: 400 bad-request: `limit` has to be a whole number from 1 to 1000
    /quotas?limt=1: 400 bad-request: unknown parameter "limt": this path takes limit, after
    /quotas?limit=1&limit=2: 400 bad-request: the parameter `limit` is given twice
    /nodes?limit=1: 400 bad-request: unknown parameter "limit": this path takes none
    /audit?from=yesterday: 400 bad-request: `from` has to be a moment such as 2026-02-01T00:00:00Z
    /audit?from=2026-02-01T00:00:00: 400 bad-request: `from` has to be a moment such as 2026-02-01T00:00:00Z
    /audit?kind=other: 400 bad-request: `kind` has to be one of policy, quota, key, switch, usage, rules
    /audit?after=-1: 400 bad-request: `after` has to be a whole number from 0 to 9007199254740991
    /audit?who=a%00b: 400 bad-request: `who` has to be a text without control characters
    /audit?who=%ff: 400 bad-request: the query is not UTF-8
    /quotas/%ff: 400 bad-request: the path is not UTF-8
    /quotas/a%0Ab: 400 bad-request: an id has no control characters
    /quotas/(513): 400 bad-request: an id has 1 to 512 bytes
    /quotas/some: 503 no-database: it was started with `database: off`
    /nowhere: 404 not-found: there is nothing at this path; see /admin/v1/openapi.json
    "#);
    let wrong = ask("PATCH", "/quotas/some", READER).await;
    assert_eq!(wrong.problem(), "405 method: the header Allow says which methods there are");
    let mut allowed: Vec<&str> = wrong.fields["allow"].to_str().unwrap().split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["DELETE", "GET", "HEAD", "PUT"]);
}

#[tokio::test]
async fn bodies_are_json_and_not_long() {
    let gate = gate();
    let router = router(api(&gate));
    let put = |kind: Option<&'static str>, body: String| {
        let request = request("PUT", "/switches", OPERATOR);
        let request = kind.into_iter().fold(request, |request, kind| request.header("content-type", kind));
        send(&router, request.body(Body::from(body)).unwrap())
    };
    let long = format!("\"{}\"", "x".repeat(256 << 10));
    let mut told = String::new();
    for (kind, body) in [
        (None, "{}".to_owned()),
        (Some("application/x-www-form-urlencoded"), "{}".to_owned()),
        (Some("text/plain"), "{}".to_owned()),
        (Some("application/json"), String::new()),
        (Some("application/json"), "{\"all\": tru}".to_owned()),
        (Some("Application/JSON; charset=utf-8"), "[1]".to_owned()),
        (Some("application/json"), "{\"all\": 1}".to_owned()),
        (Some("application/json"), "{\n  \"al\": true}".to_owned()),
        (Some("application/json"), long),
    ] {
        let answer = put(kind, body).await;
        writeln!(told, "{} {}", answer.problem(), answer.json()["errors"]).unwrap();
    }
    assert_snapshot!(told, @r#"
    415 media-type: send the header `Content-Type: application/json` null
    415 media-type: send the header `Content-Type: application/json` null
    415 media-type: send the header `Content-Type: application/json` null
    400 not-json: EOF while parsing a value [{"line":1,"message":"EOF while parsing a value"}]
    400 not-json: expected ident [{"line":1,"column":12,"message":"expected ident"}]
    422 invalid: invalid type: sequence, expected an object [{"line":1,"message":"invalid type: sequence, expected an object"}]
    422 invalid: invalid type: integer `1`, expected a boolean [{"line":1,"column":9,"message":"invalid type: integer `1`, expected a boolean"}]
    422 invalid: unknown field `al`, expected one of `all`, `domains`, `rules`, `details` [{"line":2,"column":6,"message":"unknown field `al`, expected one of `all`, `domains`, `rules`, `details`"}]
    413 large-body: the body is larger than 262144 bytes: ask about less at once null
    "#);
}

#[tokio::test]
async fn a_key_that_stands_twice_is_refused_on_every_level() {
    for (method, path, body, twice) in [
        ("PUT", "/switches", r#"{"all": true, "all": false}"#, "all"),
        ("PUT", "/policies/search", r#"{"requests": 1, "period": "1m", "requests": 1000000}"#, "requests"),
        (
            "PUT",
            "/quotas/acme",
            r#"{"overrides": [{"policy": "search", "requests": 1, "requests": 9, "period": "1m"}]}"#,
            "requests",
        ),
        ("POST", "/keys/inspect", r#"{"policy": "search", "key": "a", "key": "b"}"#, "key"),
    ] {
        let told = tell(method, path, body).await.problem();
        assert!(
            told.starts_with("422 invalid: ") && told.contains(&format!("duplicate field `{twice}`")),
            "{told}"
        );
    }
}

#[tokio::test]
async fn mistakes_in_rules_have_a_place() {
    let mut told = String::new();
    for (path, body) in [
        ("/policies/search", "{\n  \"requests\": 100,\n  \"perod\": \"1m\"\n}"),
        ("/policies/search", "{\"requests\": -1, \"period\": \"1m\"}"),
        ("/policies/shop", "{\n\"domain\": \"shop\",\n\"descriptors\": [{\"kye\": \"a\"}]}"),
        ("/policies/shop", "{\"domain\": \"other\", \"descriptors\": []}"),
        ("/policies/shop", "{\"domain\": \"shop\", \"policies\": {}}"),
        ("/quotas/acme", "{\n\t\"teir\": \"gold\"}"),
        ("/quotas/acme", "{\"overrides\": [{\"descriptor\": \"a:b\"}]}"),
        ("/quotas/acme", "{\"before\": {}}"),
        ("/quotas/acme", "{\"expires_at\": \"soon\"}"),
    ] {
        let answer = tell("PUT", path, body).await;
        writeln!(told, "{path}: {}", answer.problem()).unwrap();
        for error in answer.json()["errors"].as_array().unwrap() {
            writeln!(told, "    {error}").unwrap();
        }
    }
    assert_snapshot!(told, @r#"
    /policies/search: 422 invalid: unknown key `perod`
        {"line":3,"column":3,"message":"unknown key `perod`","hint":"did you mean `period`?"}
    /policies/search: 422 invalid: `requests` cannot be negative: `-1`
        {"line":1,"column":14,"message":"`requests` cannot be negative: `-1`","hint":"write a number from 0 to 18446744073709551615"}
    /policies/shop: 422 invalid: unknown key `kye`
        {"line":3,"column":18,"message":"unknown key `kye`","hint":"did you mean `key`?"}
    /policies/shop: 422 invalid: the domain is named "other", and the path names "shop"
        {"message":"the domain is named \"other\", and the path names \"shop\"","hint":"write the domain to /policies/other, or name it \"shop\" in the body"}
    /policies/shop: 422 invalid: `policies` have no place in the document of a domain
        {"message":"`policies` have no place in the document of a domain","hint":"write each policy to /policies/NAME"}
    /quotas/acme: 422 invalid: unknown key `teir`
        {"line":2,"column":2,"message":"unknown key `teir`","hint":"did you mean `tier`?"}
    /quotas/acme: 422 invalid: the override lacks `requests_per_unit`
        {"line":1,"column":16,"message":"the override lacks `requests_per_unit`","hint":"write `\"requests_per_unit\": 500` and `\"unit\": \"minute\"`; or `\"unlimited\": true`"}
    /quotas/acme: 422 invalid: `before` cannot be written
        {"message":"`before` cannot be written","hint":"what is in force now stays so until `effective_at`, without being named"}
    /quotas/acme: 422 invalid: `expires_at` must be a moment, not `soon`
        {"line":1,"column":16,"message":"`expires_at` must be a moment, not `soon`","hint":"write it as `2026-02-01T00:00:00Z`"}
    "#);
}

#[tokio::test]
async fn without_a_database_nothing_is_changed_and_keys_can_still_be_looked_at() {
    let answer = tell("PUT", "/policies/search", "{\"requests\": 100, \"period\": \"1m\"}").await;
    assert_eq!(answer.problem(), "503 no-database: it was started with `database: off`");
    assert!(!answer.fields.contains_key("retry-after"), "waiting does not help");
    let answer = tell("POST", "/keys/inspect", "{\"policy\": \"search\", \"key\": \"ann\"}").await;
    assert_eq!((answer.status, &answer.json()["limit"]), (200, &2.into()));
    let answer = tell("POST", "/keys/inspect", "{\"policy\": \"serach\", \"key\": \"ann\"}").await;
    assert_eq!(answer.problem(), "404 not-found: unknown policy \"serach\"; it could be search");
    let answer = tell("POST", "/keys/inspect", "{\"policy\": \"search\"}").await;
    assert_eq!(answer.status, 422);
}

/// A server that has never reached its database, and has nothing but its copy.
#[tokio::test]
async fn while_the_database_is_away_keys_can_be_looked_at_and_nothing_false_is_said() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), gate());
    let rules = "policies: {search: {requests: 2, period: 1m}}";
    gate.load(&[tollgate::policy::Source::new("rules.yaml", rules)]).unwrap();
    let address = "postgres://nobody:nothing@127.0.0.1:1/nowhere".parse().unwrap();
    let control = Control::open(address, folder.path().join("copy.db"), &gate).await.unwrap();
    let router = router(Api { control: Some(Arc::new(control)), ..api(&gate) });
    let mut told = String::new();
    for (method, path, body) in [
        ("POST", "/keys/inspect", r#"{"policy": "search", "key": "ann"}"#),
        ("GET", "/quotas/acme", ""),
        ("GET", "/audit", ""),
        ("PUT", "/quotas/acme", r#"{"tier": "gold"}"#),
    ] {
        let request = request(method, path, ADMIN).header("content-type", "application/json");
        let answer = send(&router, request.body(Body::from(body.to_owned())).unwrap()).await;
        let shown = if answer.status == 200 {
            let told = answer.json();
            format!("200, act {}, unknown {}, limit {}", told["act"], told["act_unknown"], told["limit"])
        } else {
            answer.problem()
        };
        writeln!(told, "{method} {path}: {shown}").unwrap();
    }
    assert_snapshot!(told, @"
    POST /keys/inspect: 200, act null, unknown true, limit 2
    GET /quotas/acme: 503 database-away: the database cannot be reached: it has not been reached since this server started
    GET /audit: 503 database-away: the database cannot be reached: it has not been reached since this server started
    PUT /quotas/acme: 503 database-away: the database cannot be reached: it has not been reached since this server started; nothing was changed
    ");
}

#[tokio::test]
async fn one_more_than_can_be_in_force_is_refused() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), gate());
    let address = DatabaseAddress::Sqlite(folder.path().join("tollgate.db"));
    let bounds = Bounds { tenants_max: 1, key_acts_max: 1 };
    let control = Control::open_within(bounds, address, folder.path().join("copy.db"), &gate).await.unwrap();
    let router = router(Api { control: Some(Arc::new(control)), ..api(&gate) });
    let mut told = String::new();
    for (method, path, body) in [
        ("PUT", "/quotas/acme", r#"{"tier": "gold"}"#),
        ("PUT", "/quotas/acme", r#"{"tier": "silver"}"#),
        ("PUT", "/quotas/other", r#"{"tier": "gold"}"#),
        ("POST", "/keys/ban", r#"{"policy": "search", "key": "a", "until": "2099-01-01T00:00:00Z"}"#),
        (
            "POST",
            "/keys/boost",
            r#"{"policy": "search", "key": "b", "until": "2099-01-01T00:00:00Z", "percent": 200}"#,
        ),
    ] {
        let request = request(method, path, ADMIN).header("content-type", "application/json");
        let answer = send(&router, request.body(Body::from(body.to_owned())).unwrap()).await;
        let shown = if answer.status < 300 { answer.status.to_string() } else { answer.problem() };
        writeln!(told, "{method} {path}: {shown}").unwrap();
    }
    assert_snapshot!(told, @"
    PUT /quotas/acme: 201
    PUT /quotas/acme: 200
    PUT /quotas/other: 409 no-room: at most 1 tenants can have a quota of their own: delete one that is not needed any more first; nothing was changed
    POST /keys/ban: 201
    POST /keys/boost: 409 no-room: at most 1 keys can be banned or boosted at the same time: end one first, or wait until one is over; nothing was changed
    ");
}

#[tokio::test]
async fn what_is_for_later_leaves_in_force_what_really_was() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), gate());
    let address = DatabaseAddress::Sqlite(folder.path().join("tollgate.db"));
    let control = Arc::new(Control::open(address, folder.path().join("copy.db"), &gate).await.unwrap());
    let router = router(Api { control: Some(Arc::clone(&control)), ..api(&gate) });
    let put = async |body: String| {
        let request = request("PUT", "/quotas/acme", ADMIN).header("content-type", "application/json");
        let request = request.header("if-match", "*").body(Body::from(body)).unwrap();
        assert_eq!(send(&router, request).await.status, 200);
    };
    let first = request("PUT", "/quotas/acme", ADMIN).header("content-type", "application/json");
    let first = first.body(Body::from(r#"{"tier": "first"}"#)).unwrap();
    assert_eq!(send(&router, first).await.status, 201);
    for turn in 0..20 {
        let now = put(format!(r#"{{"tier": "now-{turn}"}}"#));
        let later = put(format!(r#"{{"tier": "later-{turn}", "effective_at": "2099-01-01T00:00:00Z"}}"#));
        tokio::join!(now, later);
    }
    let rows = control.database().await.unwrap().since(0, 1_000).await.unwrap();
    let read =
        |text: &Option<String>| serde_json::from_str::<Value>(text.as_deref().unwrap_or("null")).unwrap();
    let mut checked = 0;
    for row in &rows {
        let (before, after) = (read(&row.before), read(&row.after));
        if let Some(kept) = after.get("before") {
            let was_in_force = before.get("before").unwrap_or(&before);
            assert_eq!(kept["tier"], was_in_force["tier"], "version {}", row.version);
            checked += 1;
        }
    }
    assert_eq!((checked, rows.len()), (20, 41));
}

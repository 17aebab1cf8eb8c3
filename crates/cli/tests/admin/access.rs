//! Who may ask: tokens, roles, hosts, and how often.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tollgate_testkit::real::{Client, until};

use crate::client::{Api, refusal};
use crate::{launch, of_policy};

const READER: &str = "reader-0123456789abcdef";
const OPERATOR: &str = "operator-0123456789abcdef";
const ADMIN: &str = "admin-0123456789abcdef";

#[test]
fn the_token_that_it_makes_is_for_its_user_alone_and_stays() {
    let mut server = launch().start();
    let path = server.rules().parent().unwrap().join("data/admin.token");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    until("it says where the token is", || {
        server.greeting().contains("admin token in data/admin.token").then_some(())
    });
    let token = server.admin_token();
    assert_eq!(Api::new(&server).get("/quotas").status, 200);
    server.restart();
    assert_eq!(server.admin_token(), token);
    assert_eq!(Api::new(&server).get("/quotas").status, 200);
    for told in [server.greeting(), server.logs()] {
        assert!(!told.contains(&token), "{told}");
    }
}

#[test]
fn roles_do_what_they_may() {
    let tokens = format!("reader:rita:{READER},operator:otto:{OPERATOR},admin:anna:{ADMIN}");
    let server = launch().flag("admin-tokens", &tokens).flag("log-level", "debug").start();
    let [reader, operator, admin] = [READER, OPERATOR, ADMIN].map(|token| Api::with_token(&server, token));
    let (quota, policy) = (json!({ "tier": "gold" }), json!({ "requests": 1, "period": "1h" }));
    let refused = (403, "role".to_owned());
    assert_eq!(reader.get("/quotas").status, 200);
    assert_eq!(refusal(&reader.put("/quotas/acme", &quota)), refused);
    assert_eq!(refusal(&reader.send("POST", "/usage/acme/reset", &[], None)), refused);
    assert_eq!(refusal(&reader.put("/switches", &json!({ "all": true }))), refused);
    assert_eq!(reader.get("/quotas/acme").status, 404, "nothing was written");
    assert_eq!(operator.put("/quotas/acme", &quota).status, 201);
    assert_eq!(refusal(&operator.put("/policies/search", &policy)), refused);
    assert_eq!(admin.put("/policies/search", &policy).status, 201);
    let rows = reader.read("/audit");
    let who: Vec<_> =
        rows["items"].as_array().unwrap().iter().map(|row| [&row["who"], &row["role"]]).collect();
    assert_eq!(json!(who), json!([["otto", "operator"], ["anna", "admin"]]));

    for token in ["", "wrong-0123456789abcde", &READER[1..]] {
        let stranger = Api::with_token(&server, token);
        let reply = stranger.get("/quotas");
        assert_eq!(refusal(&reply), (401, "unauthorized".to_owned()));
        assert_eq!(reply.the("www-authenticate"), "Bearer realm=\"tollgate\"");
        assert_eq!(refusal(&stranger.put("/quotas/acme", &quota)).0, 401);
    }
    let metrics = Client::connect(server.admin()).unwrap().get("/metrics", &[]);
    assert_eq!(metrics.status, 200, "without a token, as before");
    for told in [server.logs(), metrics.body, server.greeting(), rows.to_string()] {
        assert!(!told.contains("0123456789abcdef"), "a token is told: {told}");
    }
}

#[test]
fn reads_and_refusals_are_recorded_in_the_log() {
    let tokens = format!("reader:rita:{READER}");
    let server = launch().flag("admin-tokens", &tokens).flag("log-format", "json").start();
    let reader = Api::with_token(&server, READER);
    assert_eq!(reader.get("/quotas/acme").status, 404);
    assert_eq!(reader.put("/quotas/acme", &json!({ "tier": "gold" })).status, 403);
    assert_eq!(Api::with_token(&server, "wrong-0123456789abcdef").get("/nodes").status, 401);
    let line = |message: &str, status: u64| {
        until(&format!("{message} {status} is in the log"), || {
            let logs = server.logs();
            let lines = logs.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut lines = lines.map(|line| line.to_string());
            lines.find(|line| line.contains(message) && line.contains(&format!("\"status\":{status}")))
        })
    };
    for (message, status, parts) in [
        ("\"admin request\"", 404, ["rita", "reader", "GET", "/admin/v1/quotas/acme", "127.0.0.1"]),
        ("\"admin request refused\"", 403, ["rita", "reader", "PUT", "/admin/v1/quotas/acme", "127.0.0.1"]),
        ("\"admin request refused\"", 401, ["", "", "GET", "/admin/v1/nodes", "127.0.0.1"]),
    ] {
        let line = line(message, status);
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
        assert!(!line.contains("0123456789abcdef"), "{line}");
    }
}

#[test]
fn a_file_of_tokens_is_kept_up_to_date() {
    let launch = launch();
    let path = launch.folder().join("tokens");
    fs::write(&path, format!("# ours\nreader:rita:{READER}\n")).unwrap();
    let server = launch.flag("admin-tokens", "@tokens").start();
    let status = |token: &str| Api::with_token(&server, token).get("/nodes").status;
    assert_eq!((status(READER), status(OPERATOR)), (200, 401));
    fs::write(&path, format!("operator:otto:{OPERATOR}\n")).unwrap();
    until("the new token counts", || (status(OPERATOR) == 200).then_some(()));
    assert_ne!(status(READER), 200);
    fs::write(&path, "otto\n").unwrap();
    server.wait_for_log("admin tokens not reloaded, the last good ones stay in force");
    assert_eq!(status(OPERATOR), 200);
    assert!(!server.greeting().contains("admin token in"), "it has made none");
    assert!(!server.rules().parent().unwrap().join("data/admin.token").exists());
}

#[test]
fn hosts_and_origins_of_others_are_refused() {
    let server = launch().flag("admin-hosts", "admin.example").start();
    let authorization = format!("Bearer {}", server.admin_token());
    let status = |fields: &[(&str, &str)]| {
        let fields = [&[("authorization", &*authorization)], fields].concat();
        Client::connect(server.admin()).unwrap().get("/admin/v1/nodes", &fields).status
    };
    let own = server.admin().to_string();
    for host in [&*own, "localhost", "admin.example"] {
        assert_eq!(status(&[("host", host)]), 200, "{host}");
    }
    assert_eq!(status(&[("host", "rebound.example")]), 403);
    assert_eq!(status(&[("host", &own), ("origin", &format!("http://{own}"))]), 200);
    assert_eq!(status(&[("host", &own), ("origin", "https://admin.example")]), 200);
    for origin in ["https://evil.example", "null", "http://localhost:1"] {
        assert_eq!(status(&[("host", &own), ("origin", origin)]), 403, "{origin}");
    }
}

#[test]
fn whoever_asks_too_often_has_to_wait() {
    let server = launch().flag("admin-rate", "1/s:5").start();
    let api = Api::new(&server);
    let denied = (0..20).map(|_| api.get("/nodes")).find(|reply| reply.status == 429).expect("a limit");
    assert_eq!(refusal(&denied), (429, "too-many".to_owned()));
    assert_eq!(denied.the("retry-after"), "1");
}

#[test]
fn without_a_database_the_rest_works() {
    let server = launch().flag("database", "off").start();
    let api = Api::new(&server);
    assert_eq!(refusal(&api.get("/quotas")), (503, "no-database".to_owned()));
    assert_eq!(refusal(&api.put("/switches", &json!({}))), (503, "no-database".to_owned()));
    assert_eq!(api.get("/hotkeys").status, 200);
    assert_eq!(api.get("/usage/acme").status, 200);
    assert_eq!(api.post("/keys/inspect", &json!({ "policy": "search", "key": "a" })).status, 200);
}

#[test]
fn a_server_that_cannot_write_decides_all_the_same() {
    // Not by its rights, which root passes over: where the directory should be, there is a file.
    let launch = launch();
    fs::write(launch.folder().join("data"), "").unwrap();
    let server = launch.start();
    assert_eq!(server.post("/v1/check", &of_policy("search", "anybody")).status, 200);
    server.wait_for_log("there is no database");
    server.wait_for_log("lets nobody in");
    let mut client = Client::connect(server.admin()).unwrap();
    let reply = client.get("/admin/v1/quotas", &[("host", "localhost")]);
    assert_eq!(reply.status, 401, "{}", reply.body);
}

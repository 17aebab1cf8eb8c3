//! Requests that come again with their idempotency key: they get the answer of the first time, whatever has become of what they asked for.

use std::time::Duration;

use tempfile::TempDir;
use tollgate::core::Span;

use super::*;
use crate::admin::v1::moment;

/// A server with a database.
struct Server {
    gate: Arc<Gate>,
    router: Router,
    _folder: TempDir,
}

impl Server {
    async fn start() -> Server {
        let (folder, gate) = (tempfile::tempdir().unwrap(), gate());
        let address = DatabaseAddress::Sqlite(folder.path().join("tollgate.db"));
        let control = Control::open(address, folder.path().join("copy.db"), &gate).await.unwrap();
        let router = router(Api { control: Some(Arc::new(control)), ..api(&gate) });
        Server { gate, router, _folder: folder }
    }

    /// Sends it with these header fields.
    async fn send(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut request = request(method, path, ADMIN).header("content-type", "application/json");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        send(&self.router, request.body(Body::from(body.to_owned())).unwrap()).await
    }
}

#[tokio::test]
async fn one_that_depends_on_several_versions_is_answered_as_before() {
    let server = Server::start().await;
    let later = r#"{"tier": "later", "effective_at": "2099-01-01T00:00:00Z"}"#;
    assert_eq!(server.send("PUT", "/quotas/acme", &[], r#"{"tier": "one"}"#).await.status, 201);
    for (method, body, key) in [("PUT", r#"{"tier": "two"}"#, "a"), ("PUT", later, "b"), ("DELETE", "", "c")]
    {
        let now = server.send("GET", "/quotas/acme", &[], "").await.json()["version"].as_u64().unwrap();
        let either = format!("\"1000\", \"{now}\"");
        let fields = [("if-match", either.as_str()), ("idempotency-key", key)];
        let first = server.send(method, "/quotas/acme", &fields, body).await;
        assert_eq!(first.status, 200, "{}", first.body);
        let again = server.send(method, "/quotas/acme", &fields, body).await;
        assert_eq!((again.status, &again.body), (200, &first.body));
        assert_eq!(again.fields.get("etag"), first.fields.get("etag"));
        // Whoever comes with another key is too late.
        assert_eq!(server.send(method, "/quotas/acme", &fields[..1], body).await.status, 412);
    }
}

#[tokio::test]
async fn a_ban_that_is_over_is_answered_as_before() {
    let server = Server::start().await;
    let until = server.gate.now().plus(Span::from_ticks(1_000_000_000));
    let body = format!(r#"{{"policy": "search", "key": "k", "until": "{}"}}"#, moment::of_time(until));
    let key = [("idempotency-key", "once")];
    let first = server.send("POST", "/keys/ban", &key, &body).await;
    assert_eq!(first.status, 201, "{}", first.body);
    while server.gate.now() <= until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let again = server.send("POST", "/keys/ban", &key, &body).await;
    assert_eq!((again.status, &again.json()["version"]), (201, &first.json()["version"]), "{}", again.body);
    assert_eq!(again.json()["active"], false);
    for fields in [&[][..], &[("idempotency-key", "another")]] {
        let late = server.send("POST", "/keys/ban", fields, &body).await;
        assert_eq!(late.problem(), "422 invalid: `until` is over");
    }
}

//! Whoever asks the admin API here also looks whether the answer is one that the description knows.

use std::cell::RefCell;

use serde_json::Value;
use tollgate_testkit::real::{Client, Reply, Tollgate};

/// Somebody with a token.
pub(crate) struct Api<'a> {
    pub(crate) server: &'a Tollgate,
    token: String,
    described: Value,
    client: RefCell<Client>,
}

impl<'a> Api<'a> {
    /// Whoever has the token that the server has made.
    pub(crate) fn new(server: &'a Tollgate) -> Api<'a> {
        Api::with_token(server, &server.admin_token())
    }

    pub(crate) fn with_token(server: &'a Tollgate, token: &str) -> Api<'a> {
        let mut client = Client::connect(server.admin()).unwrap();
        let described = client.get("/admin/v1/openapi.json", &[("host", "localhost")]);
        assert_eq!(described.status, 200, "{}", described.body);
        let described = serde_json::from_str(&described.body).unwrap();
        Api { server, token: token.to_owned(), described, client: RefCell::new(client) }
    }

    /// Sends a request below `/admin/v1`. A body is JSON.
    pub(crate) fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let authorization = format!("Bearer {}", self.token);
        let mut all = vec![("host", "localhost"), ("authorization", &*authorization)];
        all.extend(body.map(|_| ("content-type", "application/json")));
        all.extend(fields);
        let body = body.map(Value::to_string).unwrap_or_default();
        let reply = self.client.borrow_mut().send(method, &format!("/admin/v1{path}"), &all, &body);
        let reply = reply.unwrap_or_else(|error| panic!("no answer to {method} {path}: {error}"));
        let is_told = !self.token.is_empty() && reply.body.contains(&self.token);
        assert!(!is_told, "a token is told: {}", reply.body);
        self.check_described(method, path, &reply);
        reply
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], None)
    }

    /// What is there, which must be there.
    pub(crate) fn read(&self, path: &str) -> Value {
        let reply = self.get(path);
        assert_eq!(reply.status, 200, "GET {path}: {}", reply.body);
        json_of(&reply)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Reply {
        self.send("PUT", path, &[], Some(body))
    }

    /// What it answers to a document that it takes.
    pub(crate) fn write(&self, path: &str, body: &Value) -> Value {
        let reply = self.put(path, body);
        assert!(matches!(reply.status, 200 | 201), "PUT {path}: {}", reply.body);
        json_of(&reply)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], Some(body))
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, &[], None)
    }

    /// The status of a check over HTTP.
    pub(crate) fn check(&self, body: &Value) -> u16 {
        self.server.post("/v1/check", body).status
    }

    /// Asks until it is denied, and says how often it was not.
    pub(crate) fn passes(&self, body: &Value) -> usize {
        (0..1_000).take_while(|_| self.check(body) == 200).count()
    }

    fn check_described(&self, method: &str, path: &str, reply: &Reply) {
        let path = format!("/admin/v1{}", path.split('?').next().unwrap());
        let method = if method == "HEAD" { "get".to_owned() } else { method.to_lowercase() };
        let paths = self.described["paths"].as_object().unwrap();
        // A path of its own comes before one with a parameter.
        let fitting = paths
            .iter()
            .filter(|(template, _)| fits(template, &path))
            .min_by_key(|(template, _)| template.contains('{'));
        let Some(operation) = fitting.and_then(|(_, methods)| methods.get(&method)) else {
            assert!(matches!(reply.status, 404 | 405), "{method} {path}: {} is not described", reply.status);
            return;
        };
        let response = &operation["responses"][reply.status.to_string()];
        assert!(response.is_object(), "{method} {path}: {} is not described: {}", reply.status, reply.body);
        let kinds: Vec<&str> = response["content"]
            .as_object()
            .into_iter()
            .flat_map(|kinds| kinds.keys())
            .map(String::as_str)
            .collect();
        assert_eq!(
            reply.header("content-type").into_iter().collect::<Vec<_>>(),
            kinds,
            "{method} {path}: {}",
            reply.status
        );
    }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(&path).all(|(part, given)| part.starts_with('{') || part == given)
}

pub(crate) fn json_of(reply: &Reply) -> Value {
    serde_json::from_str(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.body))
}

/// The status of a refusal, and the name of its kind.
pub(crate) fn refusal(reply: &Reply) -> (u16, String) {
    assert_eq!(reply.the("content-type"), "application/problem+json", "{}", reply.body);
    let kind = json_of(reply)["type"].as_str().unwrap().replace("urn:tollgate:", "");
    (reply.status, kind)
}

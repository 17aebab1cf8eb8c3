//! That the description has everything that is routed, and nothing else.

use super::*;
use crate::admin::v1::openapi::document;

/// All `$ref`s of a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                found.push(reference.clone());
            }
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[tokio::test]
async fn every_route_is_described_and_every_description_is_routed() {
    let document: Value = ask("GET", "/openapi.json", "").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    let mut described = 0;
    for (path, methods) in paths {
        let path = path.strip_prefix(PREFIX).unwrap().replace("{id}", "some").replace("{api_key}", "some");
        for method in ["get", "put", "post", "delete", "patch", "head", "options", "trace"] {
            let answer = ask(&method.to_uppercase(), &path, ADMIN).await;
            let is_routed = answer.status != 405;
            let is_described =
                methods.get(method).is_some() || (method == "head" && methods.get("get").is_some());
            assert_eq!(is_routed, is_described, "{method} {path}");
            described += usize::from(methods.get(method).is_some());
        }
    }
    assert_eq!(described, operations().count(), "no two operations are at one place");
}

#[test]
fn names_are_unique_and_every_reference_leads_somewhere() {
    let document = document();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 40);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
    let names: HashSet<_> = operations().map(|operation| operation.name).collect();
    assert_eq!(names.len(), operations().count());
    for operation in operations() {
        assert!(!operation.summary.is_empty() && !operation.answers.is_empty(), "{}", operation.path);
        assert!(operation.path_parameters().count() <= 1, "a path names one thing: {}", operation.path);
    }
}

/// What is told has the status and the form that the description says.
pub(super) fn check_described(method: &str, path: &str, answer: &Answer) {
    let document = document();
    let operation = operations()
        .find(|operation| operation.method.name() == method.to_lowercase() && operation.path == path);
    let operation = operation.unwrap_or_else(|| panic!("{method} {path} is no operation"));
    let pointer = format!("{PREFIX}{}", operation.path).replace('/', "~1");
    let status = answer.status;
    let response =
        document.pointer(&format!("/paths/{pointer}/{}/responses/{status}", operation.method.name()));
    let response = response.unwrap_or_else(|| panic!("{method} {path}: {status} is not described"));
    let kind = answer.fields.get("content-type").map(|kind| kind.to_str().unwrap());
    let described: Vec<&str> = response["content"]
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::keys)
        .map(String::as_str)
        .collect();
    assert_eq!(kind.into_iter().collect::<Vec<_>>(), described, "{method} {path}: {status}");
}

#[tokio::test]
async fn what_is_answered_is_described() {
    for operation in operations() {
        let method = operation.method.name().to_uppercase();
        for token in ["", READER, ADMIN] {
            for query in ["", "?nothing=1"] {
                let answer = ask(&method, &format!("{}{query}", filled(operation)), token).await;
                check_described(&method, operation.path, &answer);
            }
            for body in ["", "{}", "[]", "{"] {
                let request =
                    request(&method, &filled(operation), token).header("content-type", "application/json");
                let request = request.body(Body::from(body)).unwrap();
                let answer = send(&router(api(&gate())), request).await;
                check_described(&method, operation.path, &answer);
            }
        }
    }
}

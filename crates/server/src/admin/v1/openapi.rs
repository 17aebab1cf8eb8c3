//! The description of the admin API, made of its [`Operation`]s: OpenAPI 3.1.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use axum::body::Bytes;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::ask::ID_BYTES_MAX;
use super::operation::{Fields, Form, Operation, PLAIN, Parameter, Told};
use super::{PREFIX, answers, operations, problem, schemas};

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    path: "/openapi.json",
    role: None,
    name: "getDescription",
    summary: "This description.",
    answers: &[Told::json(200, "Description")],
    problems: &[],
    handler: |_| Box::pin(async { Ok(get()) }),
    ..PLAIN
}];

fn get() -> Response {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    answers::text(StatusCode::OK, TEXT.get_or_init(|| document().to_string().into()).clone())
}

/// The whole document.
pub(super) fn document() -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for operation in operations() {
        let path = paths.entry(format!("{PREFIX}{}", operation.path)).or_default();
        path.insert(operation.method.name().to_owned(), described(operation));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tollgate: the admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What operators change while a rate limiter runs, and what they look at. Roles: a reader looks, an operator changes quotas, keys and switches, an admin policies too.",
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas::all(),
            "responses": { "Problem": {
                "description": "Why there is no answer.",
                "content": { (problem::MEDIA_TYPE): { "schema": reference("Problem") } },
            } },
        },
    })
}

fn described(operation: &Operation) -> Value {
    let mut parameters: Vec<Value> = operation.path_parameters().map(path_parameter).collect();
    parameters.extend(operation.query.iter().map(query_parameter));
    parameters.extend(field_parameters(operation));
    let mut responses = Map::new();
    for told in operation.answers {
        responses.insert(told.status.to_string(), answered(told));
    }
    if operation.fields == Fields::Looks {
        let unchanged =
            json!({ "description": "Whoever asks has it already.", "headers": { "ETag": tag_field() } });
        responses.insert("304".to_owned(), unchanged);
    }
    for status in operation.problem_statuses() {
        responses.insert(status.to_string(), problem_response(status));
    }
    let mut described = json!({
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(role) = operation.role {
        described["description"] = format!("For the role {role} and those above it.").into();
    } else {
        described["security"] = json!([]);
    }
    if let Some(schema) = operation.body {
        let content = json!({ "application/json": { "schema": reference(schema) } });
        described["requestBody"] = json!({ "required": true, "content": content });
    }
    described
}

fn answered(told: &Told) -> Value {
    let schema = told.schema.map_or_else(|| json!({ "type": "string" }), reference);
    let mut response = json!({
        "description": StatusCode::from_u16(told.status).ok().and_then(|status| status.canonical_reason()),
        "content": { (told.media_type): { "schema": schema } },
    });
    if told.has_tag {
        response["headers"] = json!({ "ETag": tag_field() });
    }
    response
}

fn problem_response(status: u16) -> Value {
    let about = match status {
        400 => "The path, the query or a header field is wrong, or the body is not JSON.",
        401 => "No token, or a wrong one.",
        403 => "The role of the token may not do this; or Host or Origin is not this server's.",
        404 => "There is nothing of this name.",
        408 => "The body did not arrive in time.",
        409 => "There are as many of these as there can be at the same time. Nothing was changed.",
        412 => "If-Match or If-None-Match does not hold.",
        413 => "The body is larger than 256 KiB.",
        415 => "The body is not application/json.",
        422 => {
            "The body is JSON, but does not say what it should: see `errors`; or the idempotency key was used for something else."
        }
        429 => "Too many requests of this token, or too many wrong tokens.",
        _ => {
            "The database is out of reach, too slow or full, and nothing was changed; or rules or counters are not there."
        }
    };
    let mut response = json!({
        "description": about,
        "content": { (problem::MEDIA_TYPE): { "schema": reference("Problem") } },
    });
    let field = |about: &str, kind: &str| json!({ "description": about, "schema": { "type": kind } });
    match status {
        401 => response["headers"] = json!({ "WWW-Authenticate": field("Bearer.", "string") }),
        429 => response["headers"] = json!({ "Retry-After": field("Seconds.", "integer") }),
        503 => {
            response["headers"] =
                json!({ "Retry-After": field("Seconds. Absent where waiting does not help.", "integer") });
        }
        _ => {}
    }
    response
}

fn path_parameter(name: &str) -> Value {
    let about = match name {
        "api_key" => {
            "The tenant: the value of the descriptor entry that the domain's `tenant_key` names, or the key of a policy. At most 512 bytes."
        }
        _ => "Its name. At most 512 bytes.",
    };
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": about,
        "schema": { "type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX, "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$" },
    })
}

fn query_parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.form {
        Form::Count { min, max, default } => {
            let mut schema = json!({ "type": "integer", "minimum": min, "maximum": max });
            if let Some(default) = default {
                schema["default"] = default.into();
            }
            schema
        }
        Form::Text => json!({ "type": "string", "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]*$" }),
        Form::Moment => json!({ "type": "string", "format": "date-time" }),
        Form::Day => json!({ "type": "string", "format": "date" }),
        Form::Word(words) => json!({ "type": "string", "enum": words }),
    };
    json!({ "name": parameter.name, "in": "query", "description": parameter.about, "schema": schema })
}

fn field_parameters(operation: &Operation) -> Vec<Value> {
    let field = |name: &str, about: &str, pattern: &str| {
        let schema = json!({ "type": "string", "pattern": pattern });
        json!({ "name": name, "in": "header", "description": about, "schema": schema })
    };
    let tags = r#"^(\*|(W/)?"[!#-+\--~]*"(, ?(W/)?"[!#-+\--~]*"){0,3})$"#;
    let if_match =
        field("If-Match", "Only if it is of this version, as its ETag says; `*`: if it exists.", tags);
    let if_none_match = field("If-None-Match", "`*`: only if it does not exist.", r"^\*$");
    let if_changed = field("If-None-Match", "Not if it is of this version.", tags);
    let key = field(
        "Idempotency-Key",
        "Names the request, so that it is done once even if it is sent twice within a day.",
        "^[!-~]{1,128}$",
    );
    match operation.fields {
        Fields::None => Vec::new(),
        Fields::Looks => vec![if_changed],
        Fields::Changes => vec![if_match, if_none_match, key],
        Fields::Acts => vec![key],
    }
}

fn tag_field() -> Value {
    json!({ "description": "The version, in quotes.", "schema": { "type": "string", "pattern": "^\"[0-9]+\"$" } })
}

pub(super) fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

//! The record of a quota: what is sent, what is stored, and what is told of it.

use serde_json::{Map, Value, json};
use tollgate::{TenantTerms, read_terms};
use tollgate_control::Document;

use super::super::answers::{body_of, put_origin};
use super::super::ask::read_json;
use super::super::moment;
use super::super::problem::Problem;
use crate::gate::Gate;

/// What was in force before, in the stored record.
const BEFORE: &str = "before";
const EFFECTIVE_AT: &str = "effective_at";
const EXPIRES_AT: &str = "expires_at";
/// What a record says of itself, whether it was sent or not.
const FIELDS: [&str; 4] = ["tier", "overrides", EFFECTIVE_AT, EXPIRES_AT];

/// A record. It is JSON that [`read_terms`] takes.
#[derive(Clone, Debug)]
pub(super) struct Record {
    fields: Map<String, Value>,
    /// What it says, where it was just sent.
    terms: Option<TenantTerms>,
}

impl Record {
    /// What was sent.
    pub(super) fn read(key: &str, text: &str) -> Result<Record, Problem> {
        let sent: Map<String, Value> = read_json(text)?;
        if sent.contains_key(BEFORE) {
            let hint = "what is in force now stays so until `effective_at`, without being named";
            return Err(Problem::invalid("`before` cannot be written", hint));
        }
        let name = format!("quota {key}");
        let stored = Value::Object(sent.clone()).to_string();
        // As it is stored. Where something is wrong, it is read as it was sent, to say where.
        let terms = read_terms(&name, &stored).map_err(|problems| match read_terms(&name, text) {
            Err(placed) if placed.len() == problems.len() => Problem::from(placed),
            _ => Problem::from(problems),
        })?;
        let of = |field: &str| match sent.get(field) {
            None | Some(Value::Null) if field == "overrides" => json!([]),
            Some(value) => value.clone(),
            None => Value::Null,
        };
        let fields = FIELDS.map(|field| (field.to_owned(), of(field))).into_iter().collect();
        Ok(Record { fields, terms: Some(terms) })
    }

    /// What is stored.
    pub(super) fn of(document: &Document) -> Result<Record, Problem> {
        Ok(Record { fields: body_of(document)?, terms: None })
    }

    pub(super) fn text(&self) -> String {
        Value::Object(self.fields.clone()).to_string()
    }

    /// The record as it is stored, with what is in force until its moment comes.
    pub(super) fn with_before(&self, before: Option<Map<String, Value>>) -> String {
        let mut fields = self.fields.clone();
        if let Some(mut before) = before {
            before.remove(BEFORE);
            fields.insert(BEFORE.to_owned(), Value::Object(before));
        }
        Value::Object(fields).to_string()
    }

    pub(super) fn is_for_later(&self, now_ms: i64) -> bool {
        moment_of(&self.fields, EFFECTIVE_AT).is_some_and(|from_ms| from_ms > now_ms)
    }

    /// Whether it will never be in force.
    pub(super) fn is_over(&self, now_ms: i64) -> bool {
        moment_of(&self.fields, EXPIRES_AT).is_some_and(|until_ms| until_ms <= now_ms)
    }

    /// What counts at a moment: the record itself, or what was before it, or nothing.
    pub(super) fn in_force(&self, now_ms: i64) -> Option<&Map<String, Value>> {
        let counts = |fields: &&Map<String, Value>| {
            let has_begun = moment_of(fields, EFFECTIVE_AT).is_none_or(|from_ms| from_ms <= now_ms);
            has_begun && moment_of(fields, EXPIRES_AT).is_none_or(|until_ms| until_ms > now_ms)
        };
        let before = self.fields.get(BEFORE).and_then(Value::as_object).filter(|_| self.is_for_later(now_ms));
        [Some(&self.fields), before].into_iter().flatten().find(counts)
    }

    /// As it is shown to whoever asks.
    pub(super) fn told(&self, document: &Document, now_ms: i64) -> Map<String, Value> {
        let of = |fields: &Map<String, Value>, field: &str| fields.get(field).cloned().unwrap_or_default();
        let mut told = Map::new();
        told.insert("api_key".to_owned(), document.id.clone().into());
        told.extend(FIELDS.map(|field| (field.to_owned(), of(&self.fields, field))));
        put_origin(&mut told, document);
        let in_force = match self.in_force(now_ms) {
            Some(fields) => json!({ "tier": of(fields, "tier"), "overrides": of(fields, "overrides") }),
            None => json!({ "tier": null, "overrides": [] }),
        };
        told.insert("in_force".to_owned(), in_force);
        let scheduled: Option<Map<String, Value>> = self
            .is_for_later(now_ms)
            .then(|| FIELDS.map(|field| (field.to_owned(), of(&self.fields, field))).into_iter().collect());
        told.insert("scheduled".to_owned(), scheduled.map_or(Value::Null, Value::Object));
        told
    }

    /// What is well said and does nothing at present.
    pub(super) fn warnings(&self, gate: &Gate) -> Vec<String> {
        self.terms.as_ref().map(|terms| gate.engine().check_terms(terms)).unwrap_or_default()
    }
}

fn moment_of(fields: &Map<String, Value>, field: &str) -> Option<i64> {
    moment::parse_ms(fields.get(field)?.as_str()?)
}

//! What a tenant has used of durable limits, day by day: the history that bills are made of.

use axum::response::Response;
use jiff::ToSpan as _;
use jiff::civil::Date;
use serde_json::{Value, json};
use tollgate_control::{UsageDay, UsageFilter};

use super::ask::Ask;
use super::operation::{Form, Operation, PLAIN, Parameter, Told};
use super::pages;
use super::problem::Problem;

/// So many days before the last are told of if nothing is said.
const DAYS_DEFAULT: u64 = 31;
const NS_PER_DAY: u64 = 86_400_000_000_000;
const FIRST_DAY: Date = Date::constant(1970, 1, 1);

const FROM: Parameter = Parameter {
    name: "from",
    about: "The first day; 31 days before the last if nothing is said.",
    form: Form::Day,
};
const TO: Parameter = Parameter {
    name: "to",
    about: "The last day; tomorrow if nothing is said: zones differ.",
    form: Form::Day,
};
const RULE: Parameter = Parameter { name: "rule", about: "Only under this rule.", form: Form::Text };

pub(super) const OPERATIONS: &[Operation] = &[Operation {
    path: "/usage/{api_key}/days",
    name: "listUsageDays",
    summary: "What a tenant has used of its durable limits on each day, in the time zone of the rule.",
    query: &[FROM, TO, RULE, pages::LIMIT, pages::AFTER],
    answers: &[Told::json(200, "UsageDayPage")],
    handler: |ask| Box::pin(list(ask)),
    ..PLAIN
}];

async fn list(ask: Ask) -> Result<Response, Problem> {
    let tomorrow = ask.api.gate.now().ticks() / NS_PER_DAY + 1;
    let to_day = ask.query.day(TO.name).unwrap_or(tomorrow);
    let from_day = ask.query.day(FROM.name).unwrap_or(to_day.saturating_sub(DAYS_DEFAULT));
    let limit = pages::limit(&ask);
    let after = ask.query.text(pages::AFTER.name).map(read_place).transpose()?;
    let rule = ask.query.text(RULE.name).map(str::to_owned);
    let subject = ask.id()?.to_owned();
    let filter = UsageFilter { subject, from_day, to_day, rule, after, limit: pages::looked_for(limit) };
    let mut found = ask.database().await?.usage_days(&filter).await?;
    let has_more = pages::has_more(limit, found.len());
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(place);
    let items: Vec<Value> = found.iter().map(told).collect();
    pages::page(&items, next.as_deref())
}

fn told(usage: &UsageDay) -> Value {
    json!({ "day": written(usage.day), "rule": usage.rule, "units": usage.units })
}

/// Where a page ended.
fn place(usage: &UsageDay) -> String {
    format!("{} {}", written(usage.day), usage.rule)
}

fn read_place(text: &str) -> Result<(u64, String), Problem> {
    let place = text.split_once(' ').and_then(|(day, rule)| Some((parse_day(day)?, rule.to_owned())));
    place.ok_or_else(|| Problem::BadRequest("`after` has to be the `next` of another page".to_owned()))
}

/// A day such as `2026-11-17`, as days since 1970-01-01.
pub(super) fn parse_day(text: &str) -> Option<u64> {
    let date: Date = (text.len() == 10).then(|| text.parse().ok()).flatten()?;
    u64::try_from(date.since(FIRST_DAY).ok()?.get_days()).ok()
}

fn written(day: u64) -> String {
    let days = i32::try_from(day).ok().and_then(|days| FIRST_DAY.checked_add(days.days()).ok());
    days.unwrap_or(Date::MAX).to_string()
}

//! Quotas in words.

use jiff::Timestamp;
use serde_json::Value;

use super::over;
use crate::moment;
use crate::table::{Column, Table};

/// Many of them.
pub(super) fn list(items: &[Value]) -> String {
    if items.is_empty() {
        return "No tenant has a quota of its own.\n".to_owned();
    }
    let columns = [
        Column::Left("TENANT"),
        Column::Left("TIER"),
        Column::Left("OVERRIDES"),
        Column::Left("EFFECTIVE"),
        Column::Left("EXPIRES"),
        Column::Right("VERSION"),
        Column::Left("CHANGED BY"),
    ];
    let mut table = Table::new(&columns);
    for item in items {
        table.row([
            text(&item["api_key"], ""),
            text(&item["tier"], "-"),
            &overrides_in_short(item),
            &moment::told(&item["effective_at"], "-"),
            &moment::told(&item["expires_at"], "never"),
            &item["version"].to_string(),
            text(&item["changed_by"], "-"),
        ]);
    }
    table.text()
}

fn overrides_in_short(record: &Value) -> String {
    match overrides(record).as_slice() {
        [] => "-".to_owned(),
        [first] => first.clone(),
        [first, more @ ..] => format!("{first} (and {} more)", more.len()),
    }
}

fn overrides(record: &Value) -> Vec<String> {
    let overrides = record["overrides"].as_array().into_iter().flatten();
    overrides.map(|over| format!("{} = {}", over::subject(over), over::rate(over))).collect()
}

/// One of them.
pub(super) fn state(record: &Value, now: Timestamp) -> String {
    change(Some(record), record, now)
}

/// One of them, with what it was before where that is something else.
pub(super) fn change(before: Option<&Value>, after: &Value, now: Timestamp) -> String {
    let mut table = Table::of_fields();
    let nothing = Value::Null;
    let old = before.unwrap_or(&nothing);
    table.row(["tenant", text(&after["api_key"], "")]);
    table.row(["tier", &arrow(text(&old["tier"], "none"), text(&after["tier"], "none"))]);
    for (i, line) in override_lines(old, after).iter().enumerate() {
        table.row([if i == 0 { "overrides" } else { "" }, line]);
    }
    let told = |record: &Value, field: &str, none: &str| moment::told_from(&record[field], now, none);
    let effective = |record: &Value| told(record, "effective_at", "at once");
    let expires = |record: &Value| told(record, "expires_at", "never");
    table.row(["effective", &arrow(&effective(old), &effective(after))]);
    table.row(["expires", &arrow(&expires(old), &expires(after))]);
    if after["in_force"].is_object() && !is_in_force(after) {
        table.row(["in force now", &in_force(&after["in_force"])]);
    }
    let changed = format!(
        "{}, {} by {}",
        after["version"],
        moment::told(&after["changed_at"], "?"),
        text(&after["changed_by"], "?")
    );
    table.row(["version", &changed]);
    table.text()
}

/// What is different between two records; `null` is none.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<String> {
    if after.is_null() {
        return vec!["what the rules say applies".to_owned()];
    }
    let mut lines = Vec::new();
    let mut differs = |field: &str, was: String, is: String| {
        if was != is {
            lines.push(format!("{field} {was} -> {is}"));
        }
    };
    let tier = |record: &Value| text(&record["tier"], "none").to_owned();
    differs("tier", tier(before), tier(after));
    for (field, name, none) in [("effective_at", "effective", "at once"), ("expires_at", "expires", "never")]
    {
        differs(name, moment::told(&before[field], none), moment::told(&after[field], none));
    }
    let overrides = override_lines(before, after);
    lines.extend(overrides.into_iter().filter(|line| line.ends_with(')')));
    lines
}

fn arrow(before: &str, after: &str) -> String {
    if before == after { after.to_owned() } else { format!("{before} -> {after}") }
}

/// Every override that there is, and those that there were.
fn override_lines(before: &Value, after: &Value) -> Vec<String> {
    let all = |record: &Value| record["overrides"].as_array().cloned().unwrap_or_default();
    let (before, after) = (all(before), all(after));
    let same = |over: &Value, others: &[Value]| {
        others.iter().find(|other| over::subject(other) == over::subject(over)).map(over::rate)
    };
    let is = |over: &Value| {
        let rate = over::rate(over);
        let was = match same(over, &before) {
            Some(old) if old == rate => String::new(),
            Some(old) => format!(" (was {old})"),
            None => " (new)".to_owned(),
        };
        format!("{} = {rate}{was}", over::subject(over))
    };
    let mut lines: Vec<String> = after.iter().map(is).collect();
    let gone = before.iter().filter(|over| same(over, &after).is_none());
    lines.extend(gone.map(|over| format!("{} (gone, was {})", over::subject(over), over::rate(over))));
    if lines.is_empty() {
        lines.push("none".to_owned());
    }
    lines
}

/// Whether what the record says is what applies now.
fn is_in_force(record: &Value) -> bool {
    let now = &record["in_force"];
    now["tier"] == record["tier"] && overrides(now) == overrides(record)
}

fn in_force(terms: &Value) -> String {
    let overrides = overrides(terms);
    let overrides = if overrides.is_empty() { "no overrides".to_owned() } else { overrides.join("; ") };
    format!("tier {}, {overrides}", text(&terms["tier"], "none"))
}

fn text<'a>(value: &'a Value, none: &'a str) -> &'a str {
    value.as_str().unwrap_or(none)
}

//! `tollgate quota set`: changes what is named, and keeps the rest.
//!
//! The API takes a quota whole. Whoever raises one limit of a tenant does not want to take its tier away by not mentioning it; so the
//! record is fetched, changed, and put back on condition that nobody has changed it meanwhile.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{over, path, tell, tenant};
use crate::admin::{self, Admin, Condition, Reply};
use crate::failure::Failure;
use crate::{document, moment};

/// What a record is made of.
const FIELDS: [&str; 4] = ["tier", "overrides", "effective_at", "expires_at"];

/// The flags that change a part of it.
const PARTS: [&str; 9] = [
    "tier",
    "no-tier",
    "override",
    "override-policy",
    "drop-override",
    "replace",
    "effective-at",
    "expires-at",
    "for",
];

pub(super) fn command() -> Command {
    let text = |id: &'static str, name: &'static str| Arg::new(id).long(id).value_name(name);
    Command::new("set")
        .override_usage("tollgate quota set [OPTIONS] <KEY>")
        .about("Change the quota of a tenant; what is not named stays as it is")
        .after_help(
            "Examples:\n  tollgate quota set acme --tier enterprise\n  \
             tollgate quota set acme --override 'endpoint:POST /v1/orders=500/minute'\n  \
             tollgate quota set acme --override 'path:/login > user=20/90s;burst=5;limit=hourly' --for 2h\n  \
             tollgate quota set acme --tier pro --effective-at 2026-02-01T00:00:00Z\n  \
             tollgate quota set acme --file acme.json\n\n\
             An override is DESCRIPTOR=NUMBERS: the entries of the descriptor without the tenant's own, KEY:VALUE or KEY for any \
             value, ` > ` between them; nothing for the rule that counts the tenant alone. Numbers are 500/minute, 100/90s or \
             unlimited; behind them may stand ;burst=N ;limit=NAME ;domain=NAME.",
        )
        .arg(text("tier", "NAME").help("The tier").conflicts_with("no-tier"))
        .arg(Arg::new("no-tier").long("no-tier").action(ArgAction::SetTrue).help("Take the tier away"))
        .arg(
            text("override", "OVERRIDE")
                .action(ArgAction::Append)
                .value_parser(over::parse)
                .help("Numbers of its own for a rule; in the place of those for the same"),
        )
        .arg(
            text("override-policy", "OVERRIDE")
                .action(ArgAction::Append)
                .value_parser(over::parse_policy)
                .help("The same for a named policy, such as api=500/minute"),
        )
        .arg(
            text("drop-override", "DESCRIPTOR")
                .action(ArgAction::Append)
                .help("Take an override away, as `quota get` calls it"),
        )
        .arg(
            Arg::new("replace")
                .long("replace")
                .action(ArgAction::SetTrue)
                .help("Keep nothing of what is there"),
        )
        .arg(
            text("file", "FILE")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("parts")
                .help("All of it from a file, JSON or YAML, in the words of the API"),
        )
        .arg(text("effective-at", "MOMENT").help("From when on: RFC 3339, or such as 2h from now; `now`"))
        .arg(text("expires-at", "MOMENT").help("Until when: RFC 3339, or such as 2h from now; `never`"))
        .arg(
            text("for", "TIME")
                .conflicts_with("expires-at")
                .help("For how long, from when it takes effect, such as 2h"),
        )
        .group(ArgGroup::new("parts").args(PARTS).multiple(true))
        .group(ArgGroup::new("any").args(PARTS).arg("file").multiple(true).required(true))
        .arg(admin::if_match_arg())
}

pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let (now, path) = (moment::now(), path(tenant(matches)));
    let before = admin.find(&path)?;
    let record = match matches.get_one::<PathBuf>("file") {
        Some(file) => document::read(file)?,
        None => changed(matches, before.as_ref().map(|before| &before.body), now)?,
    };
    let seen = match &before {
        Some(Reply { version: Some(version), .. }) => Condition::Version(*version),
        Some(_) => Condition::Any,
        None => Condition::Absent,
    };
    if let Some(before) = before.as_ref().filter(|before| is_same(&before.body, &record)) {
        return admin.print(&before.body, || {
            format!("It was so already: nothing was changed.\n{}", tell::state(&before.body, now))
        });
    }
    let after = admin.put(&path, &record, Condition::typed_or(matches, seen))?;
    admin.print(&after.body, || tell::change(before.as_ref().map(|before| &before.body), &after.body, now))
}

/// The record with what was typed.
fn changed(matches: &ArgMatches, before: Option<&Value>, now: Timestamp) -> Result<Value, Failure> {
    // What has ended is not brought back by a change of something else.
    let kept = before.filter(|before| !matches.get_flag("replace") && !has_ended(before, now));
    let field = |name: &str| kept.map_or(Value::Null, |kept| kept[name].clone());
    let mut record = json!({
        "tier": field("tier"), "overrides": field("overrides"),
        "effective_at": field("effective_at"), "expires_at": field("expires_at"),
    });
    if matches.get_flag("no-tier") {
        record["tier"] = Value::Null;
    }
    if let Some(tier) = matches.get_one::<String>("tier") {
        record["tier"] = json!(tier);
    }
    record["overrides"] = overrides(matches, &record["overrides"])?;
    set_moments(matches, &mut record, now)?;
    Ok(record)
}

fn has_ended(record: &Value, now: Timestamp) -> bool {
    moment::moment_of(&record["expires_at"]).is_some_and(|end| end <= now)
}

fn overrides(matches: &ArgMatches, before: &Value) -> Result<Value, Failure> {
    let mut all = before.as_array().cloned().unwrap_or_default();
    for dropped in matches.get_many::<String>("drop-override").into_iter().flatten() {
        let count = all.len();
        all.retain(|over| over::subject(over) != *dropped);
        if all.len() == count {
            let known: Vec<String> = all.iter().map(|over| format!("\"{}\"", over::subject(over))).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Failure::Usage(format!(
                "--drop-override: there is no override \"{dropped}\"; there is {known}"
            )));
        }
    }
    for id in ["override", "override-policy"] {
        for over in matches.get_many::<Value>(id).into_iter().flatten() {
            match all.iter_mut().find(|other| over::subject(other) == over::subject(over)) {
                Some(other) => *other = over.clone(),
                None => all.push(over.clone()),
            }
        }
    }
    Ok(Value::Array(all))
}

fn set_moments(matches: &ArgMatches, record: &mut Value, now: Timestamp) -> Result<(), Failure> {
    let typed = |id: &str| matches.get_one::<String>(id).map(String::as_str);
    let read = |id: &str, text: &str, from: Timestamp| {
        moment::ahead(text, from).map_err(|told| Failure::Usage(format!("--{id}: {told}")))
    };
    if let Some(text) = typed("effective-at") {
        record["effective_at"] = match text {
            "now" => Value::Null,
            _ => json!(moment::rfc3339(read("effective-at", text, now)?)),
        };
    }
    if let Some(text) = typed("expires-at") {
        record["expires_at"] = match text {
            "never" => Value::Null,
            _ => json!(moment::rfc3339(read("expires-at", text, now)?)),
        };
    }
    if let Some(text) = typed("for") {
        let start = moment::moment_of(&record["effective_at"]).map_or(now, |effective| effective.max(now));
        record["expires_at"] = json!(moment::rfc3339(read("for", text, start)?));
    }
    Ok(())
}

/// Whether the server's answer already says this.
fn is_same(body: &Value, record: &Value) -> bool {
    let is_empty = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    FIELDS.iter().all(|field| {
        let (is, wanted) = (&body[*field], &record[*field]);
        let moments = (moment::moment_of(is), moment::moment_of(wanted));
        is == wanted || (is_empty(is) && is_empty(wanted)) || (moments.0.is_some() && moments.0 == moments.1)
    })
}

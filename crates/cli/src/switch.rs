//! `tollgate switch`: limiting turned off and on again, whole, for a domain, or for a rule.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::admin::{self, Admin, Condition};
use crate::failure::Failure;
use crate::moment;
use crate::policy::seen;
use crate::table::shown;

const SWITCHES: &str = "/admin/v1/switches";

pub(crate) fn command() -> Command {
    Command::new("switch")
        .about("Turn limiting off in an emergency, and on again: all of it, a domain, or a rule")
        .after_help(
            "Examples:\n  tollgate switch off all --for 15m --reason 'incident 4711'\n  tollgate switch off domain shop\n  \
             tollgate switch off rule 'shop: path=/login > remote_address'\n  tollgate switch on all\n  tollgate switch show\n\n\
             A switched-off domain or rule lets every request pass, uncounted, bans included. Counters stay, and go on when it is on again.\n\
             The metric ratelimit_kill_switch, the log, /config and `tollgate check` show it.",
        )
        .args(admin::args())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(
            Command::new("show").about("Say what is off").after_help("Example: tollgate switch show"),
        )
        .subcommand(turn(
            "off",
            "Let requests pass, uncounted",
            "Example: tollgate switch off domain shop --for 15m --reason 'incident 4711'",
        ))
        .subcommand(turn(
            "on",
            "Limit again",
            "Example: tollgate switch on all      # what was off by itself, domains and rules, stays off",
        ))
}

fn turn(name: &'static str, about: &'static str, example: &'static str) -> Command {
    let named =
        |what: &'static str, help: &'static str| Arg::new(what).required(true).value_name("NAME").help(help);
    let ends = |command: Command| if name == "off" { with_end(command) } else { command };
    Command::new(name)
        .about(about)
        .after_help(example)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(ends(Command::new("all").about("Everything").arg(admin::if_match_arg())))
        .subcommand(ends(
            Command::new("domain")
                .about("A domain")
                .arg(named("name", "The domain"))
                .arg(admin::if_match_arg()),
        ))
        .subcommand(ends(
            Command::new("rule")
                .about("A rule")
                .after_help(format!(
                    "Example: tollgate switch {name} rule 'shop: path=/login > remote_address'"
                ))
                .arg(named("name", "As in 'shop: path=/login' or 'policy api'"))
                .arg(admin::if_match_arg()),
        ))
}

/// Until when something is off, and why.
fn with_end(command: Command) -> Command {
    command
        .arg(
            Arg::new("for")
                .long("for")
                .value_name("TIME")
                .help("Switch it on again by itself after this long, such as 15m"),
        )
        .arg(
            Arg::new("until")
                .long("until")
                .value_name("MOMENT")
                .conflicts_with("for")
                .help("Switch it on again by itself at this moment, in RFC 3339"),
        )
        .arg(Arg::new("reason").long("reason").value_name("TEXT").help("Why, for the log and the audit"))
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some((name @ ("off" | "on"), matches)) => match matches.subcommand() {
            Some((what, matches)) => set(name == "off", what, matches),
            None => Ok(ExitCode::FAILURE),
        },
        Some((_, matches)) => {
            let mut admin = Admin::new(matches)?;
            let reply = admin.get(SWITCHES)?;
            admin.print(&reply.body, || tell(&reply.body, moment::now()))
        }
        None => Ok(ExitCode::FAILURE),
    }
}

fn set(is_off: bool, what: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let before = admin.get(SWITCHES)?;
    let name = matches.try_get_one::<String>("name").ok().flatten().map_or("", String::as_str);
    let now = moment::now();
    let turn = if is_off { Turn::Off(detail(matches, now)?) } else { Turn::On };
    let wanted = switched(&before.body, what, name, &turn);
    if wanted == switches(&before.body) {
        return admin.print(&before.body, || format!("It was so already.\n{}", tell(&before.body, now)));
    }
    let condition = match seen(Some(&before)) {
        // No operator has switched anything yet.
        Condition::Version(0) => Condition::Absent,
        condition => condition,
    };
    let after = admin.put(SWITCHES, &wanted, Condition::typed_or(matches, condition))?;
    admin.print(&after.body, || tell(&after.body, now))
}

/// Which way a switch is turned.
enum Turn {
    /// Off, with its end and its reason.
    Off(Map<String, Value>),
    On,
}

/// The end and the reason from the command line.
fn detail(matches: &ArgMatches, now: Timestamp) -> Result<Map<String, Value>, Failure> {
    let typed = |id: &str| matches.try_get_one::<String>(id).ok().flatten().map(String::as_str);
    let mut detail = Map::new();
    if let Some((id, text)) = ["for", "until"].into_iter().find_map(|id| Some((id, typed(id)?))) {
        let until = moment::ahead(text, now).map_err(|error| Failure::Usage(format!("--{id}: {error}")))?;
        detail.insert("until".to_owned(), json!(moment::rfc3339(until)));
    }
    if let Some(reason) = typed("reason") {
        detail.insert("reason".to_owned(), json!(reason));
    }
    Ok(detail)
}

/// What an answer says is off, and nothing else.
fn switches(said: &Value) -> Value {
    let list = |name: &str| said[name].as_array().cloned().unwrap_or_default();
    let details = said["details"].as_object().cloned().unwrap_or_default();
    let mut switches = json!({"all": said["all"].as_bool().unwrap_or(false), "domains": list("domains"), "rules": list("rules")});
    if !details.is_empty() {
        switches["details"] = Value::Object(details);
    }
    switches
}

/// The key of a switch in `details`.
fn target(what: &str, name: &str) -> String {
    if what == "all" { what.to_owned() } else { format!("{what} {name}") }
}

/// The same with one switch turned.
fn switched(said: &Value, what: &str, name: &str, turn: &Turn) -> Value {
    let mut wanted = switches(said);
    let mut details = wanted["details"].as_object().cloned().unwrap_or_default();
    details.remove(&target(what, name));
    if let Turn::Off(detail) = turn
        && !detail.is_empty()
    {
        details.insert(target(what, name), Value::Object(detail.clone()));
    }
    match &mut wanted {
        Value::Object(wanted) if details.is_empty() => drop(wanted.remove("details")),
        wanted => wanted["details"] = Value::Object(details),
    }
    let is_off = matches!(turn, Turn::Off(_));
    let list = match what {
        "domain" => "domains",
        "rule" => "rules",
        _ => {
            wanted["all"] = json!(is_off);
            return wanted;
        }
    };
    if let Value::Array(names) = &mut wanted[list] {
        names.retain(|other| other.as_str() != Some(name));
        if is_off {
            names.push(json!(name));
        }
    }
    wanted
}

fn tell(said: &Value, now: Timestamp) -> String {
    let mut lines = Vec::new();
    let detail = |what: &str, name: &str| {
        let detail = &said["details"][target(what, name)];
        let until = detail["until"].as_str().map(|_| moment::told_from(&detail["until"], now, "?"));
        let until = until.map_or_else(String::new, |until| format!(", until {until}"));
        let reason =
            detail["reason"].as_str().map_or_else(String::new, |reason| format!(": {}", shown(reason)));
        format!("{until}{reason}")
    };
    if said["all"].as_bool() == Some(true) {
        let detail = detail("all", "");
        lines.push(format!("EVERYTHING is off, every request passes uncounted{detail}"));
    }
    for (list, what) in [("domains", "domain"), ("rules", "rule")] {
        for name in said[list].as_array().into_iter().flatten().filter_map(Value::as_str) {
            lines.push(format!("off: {what} {}{}", shown(name), detail(what, name)));
        }
    }
    if lines.is_empty() {
        lines.push("Everything is on.".to_owned());
    }
    format!("{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests;

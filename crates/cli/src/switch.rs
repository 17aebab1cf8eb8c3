//! `tollgate switch`: limiting turned off and on again, whole, for a domain, or for a rule.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use serde_json::{Value, json};

use crate::admin::{self, Admin, Condition};
use crate::failure::Failure;
use crate::policy::seen;
use crate::table::shown;

const SWITCHES: &str = "/admin/v1/switches";

pub(crate) fn command() -> Command {
    Command::new("switch")
        .about("Turn limiting off in an emergency, and on again: all of it, a domain, or a rule")
        .after_help(
            "Examples:\n  tollgate switch off all\n  tollgate switch off domain shop\n  \
             tollgate switch off rule 'shop: path=/login > remote_address'\n  tollgate switch on all\n  tollgate switch show\n\n\
             What is off lets every request pass, uncounted. Counters stay, and go on when it is on again.",
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
            "Example: tollgate switch off domain shop",
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
    Command::new(name)
        .about(about)
        .after_help(example)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(Command::new("all").about("Everything").arg(admin::if_match_arg()))
        .subcommand(
            Command::new("domain")
                .about("A domain")
                .arg(named("name", "The domain"))
                .arg(admin::if_match_arg()),
        )
        .subcommand(
            Command::new("rule")
                .about("A rule")
                .after_help(format!(
                    "Example: tollgate switch {name} rule 'shop: path=/login > remote_address'"
                ))
                .arg(named("name", "As in 'shop: path=/login' or 'policy api'"))
                .arg(admin::if_match_arg()),
        )
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
            admin.print(&reply.body, || tell(&reply.body))
        }
        None => Ok(ExitCode::FAILURE),
    }
}

fn set(is_off: bool, what: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let before = admin.get(SWITCHES)?;
    let name = matches.try_get_one::<String>("name").ok().flatten().map_or("", String::as_str);
    let wanted = switched(&before.body, what, name, is_off);
    if wanted == switches(&before.body) {
        return admin.print(&before.body, || format!("It was so already.\n{}", tell(&before.body)));
    }
    let condition = match seen(Some(&before)) {
        // Nobody has switched anything yet.
        Condition::Version(0) => Condition::Absent,
        condition => condition,
    };
    let after = admin.put(SWITCHES, &wanted, Condition::typed_or(matches, condition))?;
    admin.print(&after.body, || tell(&after.body))
}

/// What an answer says is off, and nothing else.
fn switches(said: &Value) -> Value {
    let list = |name: &str| said[name].as_array().cloned().unwrap_or_default();
    json!({"all": said["all"].as_bool().unwrap_or(false), "domains": list("domains"), "rules": list("rules")})
}

/// The same with one switch turned.
fn switched(said: &Value, what: &str, name: &str, is_off: bool) -> Value {
    let mut wanted = switches(said);
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

fn tell(said: &Value) -> String {
    let mut lines = Vec::new();
    if said["all"].as_bool() == Some(true) {
        lines.push("EVERYTHING is off: every request passes, uncounted".to_owned());
    }
    for (list, what) in [("domains", "domain"), ("rules", "rule")] {
        for name in said[list].as_array().into_iter().flatten().filter_map(Value::as_str) {
            lines.push(format!("off: {what} {}", shown(name)));
        }
    }
    if lines.is_empty() {
        lines.push("Everything is on.".to_owned());
    }
    format!("{}\n", lines.join("\n"))
}

#[cfg(test)]
mod tests;

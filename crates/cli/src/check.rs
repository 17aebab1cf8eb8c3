//! `tollgate check`: asks a server from the shell.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use http::Method;
use serde_json::{Value, json};

use crate::client::{Ask, Server};
use crate::failure::Failure;
use crate::table::shown;
use crate::{print_bytes, subject};

/// A person waits no longer than this.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What the command answers with when the request is denied, for scripts.
const DENIED: u8 = 3;

pub(crate) fn command() -> Command {
    let text = |id: &'static str, help: &'static str| Arg::new(id).long(id).value_name("TEXT").help(help);
    Command::new("check")
        .about("Ask a running server whether a request may pass")
        .after_help(
            "Examples:\n  tollgate check --policy search-standard --key user:4711\n  \
             tollgate check --domain shop path=/login user=4711\n\n\
             Answers with exit code 0 if the request may pass, 3 if not.",
        )
        .arg(
            text("server", "The server's HTTP address")
                .default_value("http://127.0.0.1:8080")
                .env("TOLLGATE_SERVER"),
        )
        .arg(
            text("token", "The token to show, if the server wants one; better in the variable")
                .env("TOLLGATE_TOKEN")
                .hide_env_values(true),
        )
        .arg(
            Arg::new("ca")
                .long("ca")
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .help("The authority that vouches for an https:// server, in PEM"),
        )
        .args(subject::args())
        .group(subject::group().required(true))
        .arg(text("tier", "The tier of whoever asks").requires("policy"))
        .arg(
            Arg::new("cost")
                .long("cost")
                .value_name("UNITS")
                .default_value("1")
                .value_parser(value_parser!(u64))
                .help("How many units"),
        )
        .arg(Arg::new("peek").long("peek").action(ArgAction::SetTrue).help("Only ask; take nothing"))
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the server's answer as it is"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let server = matches.get_one::<String>("server").map_or("", String::as_str);
    let path = if matches.get_flag("peek") { "/v1/peek" } else { "/v1/check" };
    let asked = Server {
        url: server,
        token: matches.get_one::<String>("token").map(String::as_str),
        ca: matches.get_one::<PathBuf>("ca").map(PathBuf::as_path),
    };
    let ask = Ask {
        method: Method::POST,
        path,
        fields: Vec::new(),
        body: Some(question(matches)?.to_string()),
        timeout: TIMEOUT,
        may_repeat: false, // It would be counted twice.
    };
    let answer = asked.client()?.ask(&ask)?;
    let Ok(body) = serde_json::from_str::<Value>(&answer.body) else {
        let reason = format!("status {}, and no JSON: is this Tollgate's HTTP listener?", answer.status);
        return Err(Failure::NoAnswer { server: server.to_owned(), reason });
    };
    let Some(allowed) = body["allowed"].as_bool() else {
        let message = body["error"]["message"].as_str().unwrap_or(&answer.body);
        return Err(Failure::Usage(format!("the server says {}: {message}", answer.status)));
    };
    let told = if matches.get_flag("json") { answer.body } else { tell(allowed, &body, matches) };
    print_bytes(format!("{told}\n").as_bytes())?;
    Ok(if allowed { ExitCode::SUCCESS } else { ExitCode::from(DENIED) })
}

fn question(matches: &ArgMatches) -> Result<Value, Failure> {
    let cost = matches.get_one::<u64>("cost").copied().unwrap_or(1);
    let mut question = subject::body(matches)?;
    if matches.contains_id("policy") {
        question["cost"] = json!(cost);
        if let Some(tier) = matches.get_one::<String>("tier") {
            question["tier"] = json!(tier);
        }
        return Ok(question);
    }
    if cost == 0 {
        question["descriptors"][0]["hits_addend"] = json!(0); // A request's own zero means one.
    }
    // Not the descriptor's: what that costs is booked even if the request is denied.
    question["hits_addend"] = json!(cost.max(1));
    Ok(question)
}

/// The answer in words, with its reason on a second line.
fn tell(allowed: bool, body: &Value, matches: &ArgMatches) -> String {
    let verdict = if allowed { "allowed" } else { "denied" };
    let left = match (body["remaining"].as_u64(), body["limit"].as_u64()) {
        (Some(remaining), Some(limit)) => format!(": {remaining} of {limit} left"),
        _ if allowed => ": no limit applies".to_owned(),
        _ => String::new(),
    };
    let is_never = matches!(body["code"].as_str(), Some("cost_above_limit" | "blocked"));
    let retry = match body["retry_after"].as_f64() {
        Some(seconds) if !allowed && !is_never => format!(", retry after {seconds:.3} s"),
        _ => String::new(),
    };
    let reason = reason(body, matches).map_or_else(String::new, |reason| format!("\n{}", shown(&reason)));
    format!("{verdict}{left}{retry}{reason}")
}

/// Why a request is denied, or why no limit applies to it, where the server says so.
fn reason(body: &Value, matches: &ArgMatches) -> Option<String> {
    if body["decided_by"] == "kill_switch" {
        return Some("an operator has switched limits off: see `tollgate switch show`".to_owned());
    }
    let domain = matches.get_one::<String>("domain").map_or("", String::as_str);
    match body["unmatched"].as_str() {
        Some("domain") => Some(format!("there is no domain \"{domain}\"")),
        Some("rule") => {
            Some(format!("no rule of domain \"{domain}\" applies: `tollgate explain` says why each does not"))
        }
        _ => body["message"].as_str().map(str::to_owned),
    }
}

//! `tollgate key`: one key looked at, begun anew, banned or boosted until a moment.

mod tell;

use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use serde_json::{Value, json};

use crate::admin::{self, Admin, Condition, encoded};
use crate::failure::Failure;
use crate::table::shown;
use crate::{moment, subject};

const KEYS: &str = "/admin/v1/keys";

pub(crate) fn command() -> Command {
    Command::new("key")
        .about("Look at one key, have it begin anew, ban or boost it until a moment")
        .after_help(
            "Examples:\n  tollgate key inspect --policy search-standard --key user:4711\n  \
             tollgate key ban --domain shop path=/login remote_address=192.0.2.7 --for 1h --reason 'password guessing'\n  \
             tollgate key boost --policy api --key acme --percent 200 --until 2026-12-01T00:00:00Z\n  \
             tollgate key list",
        )
        .args(admin::args())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(about(
            "inspect",
            "Show what a key has left of each limit, or that it is banned; takes nothing",
            "Example: tollgate key inspect --policy search-standard --key user:4711",
        ))
        .subcommand(about(
            "reset",
            "Forget what a key has used",
            "Example: tollgate key reset --domain shop path=/login remote_address=192.0.2.7",
        ))
        .subcommand(
            acting(about(
                "ban",
                "Deny a key until a moment",
                "Example: tollgate key ban --policy api --key acme --for 1h --reason 'runaway job'",
            )),
        )
        .subcommand(
            acting(about(
                "boost",
                "Multiply the limits of a key until a moment",
                "Example: tollgate key boost --policy api --key acme --percent 200 --for 2h",
            ))
            .arg(
                Arg::new("percent")
                    .long("percent")
                    .required(true)
                    .value_name("NUMBER")
                    .value_parser(value_parser!(u32).range(1..))
                    .help("How much it then has, of a hundred: 200 is twice as much"),
            ),
        )
        .subcommand(
            Command::new("list")
                .about("List what is banned and boosted")
                .after_help("Example: tollgate key list")
                .args(admin::page_args())
                .arg(
                    Arg::new("over")
                        .long("over")
                        .action(ArgAction::SetTrue)
                        .help("Also what is over already"),
                ),
        )
        .subcommand(
            Command::new("lift")
                .about("End a ban or a boost")
                .after_help(
                    "Examples:\n  tollgate key lift ID     # as `key list` calls it\n  \
                     tollgate key lift --policy api --key acme",
                )
                .args(subject::args().into_iter().filter(|arg| arg.get_id() != "entries"))
                .arg(
                    Arg::new("entries")
                        .num_args(1..)
                        .value_name("ID | KEY=VALUE")
                        .help("What `key list` calls it; or with --domain, the entries of the descriptor"),
                )
                .group(ArgGroup::new("which").args(["policy", "domain", "entries"]).multiple(true).required(true)),
        )
}

fn about(name: &'static str, about: &'static str, example: &'static str) -> Command {
    Command::new(name)
        .about(about)
        .after_help(example)
        .args(subject::args())
        .group(subject::group().required(true))
}

fn acting(command: Command) -> Command {
    command
        .arg(
            Arg::new("until")
                .long("until")
                .value_name("MOMENT")
                .help("Until when: RFC 3339, or such as 1h from now"),
        )
        .arg(Arg::new("for").long("for").value_name("TIME").help("For how long, such as 1h"))
        .group(ArgGroup::new("end").args(["until", "for"]).required(true))
        .arg(Arg::new("reason").long("reason").value_name("TEXT").help("Why, for whoever reads the audit"))
}

/// What was done to a key, or ended, in words.
pub(crate) fn changes(before: &Value, after: &Value) -> Vec<String> {
    tell::changes(before, after)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        Some(("inspect", matches)) => inspect(matches),
        Some(("reset", matches)) => reset(matches),
        Some((name @ ("ban" | "boost"), matches)) => act(name, matches),
        Some(("list", matches)) => list(matches),
        Some(("lift", matches)) => lift(matches),
        _ => Ok(ExitCode::FAILURE),
    }
}

fn inspect(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let body = subject::body(matches)?;
    let mut admin = Admin::new(matches)?;
    let reply = admin.post(&format!("{KEYS}/inspect"), &body)?;
    admin.print(&reply.body, || tell::state(&body, &reply.body, moment::now()))
}

fn reset(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let body = subject::body(matches)?;
    let mut admin = Admin::new(matches)?;
    let reply = admin.post(&format!("{KEYS}/reset"), &body)?;
    admin.print(&reply.body, || format!("{}: begins anew\n", shown(&subject::told(&body))))
}

fn act(name: &str, matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let now = moment::now();
    let typed = ["until", "for"].into_iter().find_map(|id| Some((id, matches.get_one::<String>(id)?)));
    let (id, text) = typed.map_or(("until", ""), |(id, text)| (id, text.as_str()));
    let until = moment::ahead(text, now).map_err(|told| Failure::Usage(format!("--{id}: {told}")))?;
    let mut body = subject::body(matches)?;
    let told = subject::told(&body);
    body["until"] = json!(moment::rfc3339(until));
    if let Ok(Some(percent)) = matches.try_get_one::<u32>("percent") {
        body["percent"] = json!(percent);
    }
    if let Some(reason) = matches.get_one::<String>("reason") {
        body["reason"] = json!(reason);
    }
    let mut admin = Admin::new(matches)?;
    let reply = admin.post(&format!("{KEYS}/{name}"), &body)?;
    admin.print(&reply.body, || tell::act(&told, &reply.body, now))
}

fn list(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let listed = admin.list(KEYS, &[("over", matches.get_flag("over").then_some("true"))], matches)?;
    admin.print_list(&listed, |items| tell::list(items, moment::now()))
}

fn lift(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let is_id = !matches.contains_id("policy") && !matches.contains_id("domain");
    let words: Vec<&String> = matches.get_many("entries").into_iter().flatten().collect();
    let (id, told) = match words.as_slice() {
        [id] if is_id => ((*id).clone(), (*id).clone()),
        _ if is_id => return Err(Failure::Usage("one ID at a time; KEY=VALUE need --domain".to_owned())),
        _ => {
            let wanted = subject::body(matches)?;
            let id = tollgate_server::key_id(&wanted);
            let id = id.ok_or_else(|| Failure::Usage("this names no key".to_owned()))?;
            (id, subject::told(&wanted))
        }
    };
    let lifted = admin.delete(&format!("{KEYS}/{}", encoded(&id)), Condition::Any);
    let reply = lifted.map_err(|failure| match failure {
        Failure::Refused(refusal) if refusal.is_missing() => Failure::Failed(format!(
            "{} is neither banned nor boosted; `tollgate key list` says what is",
            shown(&told)
        )),
        other => other,
    })?;
    admin.print(&reply.body, || format!("{}: lifted\n", shown(&told)))
}

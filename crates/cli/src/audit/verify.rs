//! `tollgate audit verify`: whether the chain of changes is whole, and still has what somebody has seen of it.
//!
//! A chain shows that a row in it was touched. That its end was cut off, or all of it made anew, shows only who knows a hash from
//! before: `--head`, kept somewhere else.

use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use serde_json::Value;

use super::AUDIT;
use crate::admin::{Admin, with_query};
use crate::failure::Failure;
use crate::print_bytes;
use crate::table::shown;

pub(super) fn command() -> Command {
    Command::new("verify")
        .about("See whether the audit was touched: exit code 1 if it was")
        .after_help(
            "Examples:\n  tollgate audit verify\n  tollgate audit verify --head 4711:9f86d081...\n\n\
             Keep the head that it prints where nobody can change it together with the database; the next time, say it with --head.",
        )
        .arg(
            Arg::new("head")
                .long("head")
                .value_name("VERSION:HASH")
                .value_parser(head)
                .help("A head that was printed before: it must still be in the chain"),
        )
}

/// A version, and the hash that its row had.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    version: u64,
    hash: String,
}

fn head(text: &str) -> Result<Head, String> {
    let parsed = text.split_once(':').and_then(|(version, hash)| Some((version.parse().ok()?, hash.trim())));
    match parsed {
        Some((version, hash)) if hash.len() >= 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => {
            Ok(Head { version, hash: hash.to_ascii_lowercase() })
        }
        _ => Err("expected VERSION:HASH, as `audit verify` prints it".to_owned()),
    }
}

pub(super) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut admin = Admin::new(matches)?;
    let reply = admin.get_slowly(&format!("{AUDIT}/verify"))?;
    let mut broken = broken(&reply.body);
    if let (None, Some(head)) = (&broken, matches.get_one::<Head>("head")) {
        broken = gone(&mut admin, head)?;
    }
    if admin.is_json() {
        admin.print(&reply.body, String::new)?;
    }
    if let Some(broken) = broken {
        eprintln!("the audit was touched: {broken}");
        return Ok(ExitCode::FAILURE);
    }
    if !admin.is_json() {
        print_bytes(tell(&reply.body).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What is wrong with the chain, as the server says.
fn broken(said: &Value) -> Option<String> {
    if said["ok"].as_bool() == Some(true) {
        return None;
    }
    let what = shown(said["detail"].as_str().unwrap_or("the chain is broken"));
    Some(match said["version"].as_u64() {
        Some(version) if !what.starts_with("version ") => format!("version {version}: {what}"),
        _ => what,
    })
}

/// What is wrong with a row that was seen before.
fn gone(admin: &mut Admin, head: &Head) -> Result<Option<String>, Failure> {
    let after = head.version.saturating_sub(1).to_string();
    let path = with_query(AUDIT, &[("after", Some(&after)), ("limit", Some("1"))]);
    let said = admin.get(&path)?.body;
    let row = &said["items"][0];
    Ok(if row["version"].as_u64() != Some(head.version) {
        Some(format!("it does not have version {} any more", head.version))
    } else if row["hash"].as_str().is_none_or(|hash| hash != head.hash) {
        Some(format!("version {} is not the one that you have seen", head.version))
    } else {
        None
    })
}

fn tell(said: &Value) -> String {
    let rows = said["rows"].as_u64().unwrap_or(0);
    let head = match &said["head"] {
        // Versions have no gaps: the last is as many as there are.
        Value::String(hash) => format!("{rows}:{hash}"),
        head => format!("{}:{}", head["version"], head["hash"].as_str().unwrap_or("")),
    };
    format!("{rows} changes, none touched\nhead {}\n", shown(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_a_version_and_a_hash() {
        let expected = Head { version: 12, hash: "00ff00ff00".to_owned() };
        assert_eq!(head("12:00FF00FF00"), Ok(expected));
        for text in ["", "12", "12:", "12:xyz", "x:00ff00ff00", "12:00"] {
            assert!(head(text).is_err(), "{text}");
        }
    }
}

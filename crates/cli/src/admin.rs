//! What all commands share that ask the admin API: its flags, its token, its pages, and how its refusals are told.
//!
//! Every write carries a random `Idempotency-Key`: if the connection is lost before the answer, it is sent once more, and
//! the server does it once.

mod refusal;

use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use http::Method;
use serde_json::{Value, json};

pub(crate) use self::refusal::Refusal;
use crate::client::{Answer, Ask, Client, Server, is_here};
use crate::failure::Failure;
use crate::print_bytes;
use crate::table::shown;

/// Longer than the server waits for its database.
const TIMEOUT: Duration = Duration::from_secs(15);
/// To read the whole audit takes a while.
const LONG_TIMEOUT: Duration = Duration::from_mins(10);
/// Where a server puts the token that it has made up.
const TOKEN_FILE: &str = "data/admin.token";
/// How often a server may ask to come back later, and how much later at most.
const LATER_TIMES_MAX: usize = 20;
const LATER_MAX: Duration = Duration::from_secs(5);
/// The most items of one page; of large documents, a page must fit into an answer.
pub(crate) const PAGE_ITEMS_MAX: usize = 100;

/// The flags that say whom to ask, and how to print.
pub(crate) fn args() -> [Arg; 5] {
    let text = |id: &'static str| Arg::new(id).long(id).global(true).help_heading("Server");
    [
        text("server")
            .value_name("URL")
            .default_value("http://127.0.0.1:9090")
            .env("TOLLGATE_ADMIN_URL")
            .help("The address of the server's admin listener"),
        text("token")
            .value_name("TEXT")
            .env("TOLLGATE_ADMIN_TOKEN")
            .hide_env_values(true)
            .help("The token to show; better in the variable or in a file"),
        text("token-file").value_name("FILE").value_parser(value_parser!(PathBuf)).help(format!(
            "A file with the token [default for a server on this machine: {TOKEN_FILE}, if it exists]"
        )),
        text("ca")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("The authority that vouches for an https:// server, in PEM"),
        Arg::new("json")
            .long("json")
            .global(true)
            .action(ArgAction::SetTrue)
            .help("Print what the server says, for scripts"),
    ]
}

/// The flag that makes a write depend on a version.
pub(crate) fn if_match_arg() -> Arg {
    Arg::new("if-match")
        .long("if-match")
        .value_name("VERSION")
        .value_parser(value_parser!(u64))
        .help("Only if it still has this version")
}

/// The flags of a list.
pub(crate) fn page_args() -> [Arg; 2] {
    [
        Arg::new("limit")
            .long("limit")
            .value_name("NUMBER")
            .value_parser(value_parser!(u32).range(1..))
            .default_value("100")
            .help("How many at most"),
        Arg::new("after")
            .long("after")
            .value_name("MARK")
            .help("Go on after this, which the list before has told"),
    ]
}

/// What a write depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Any,
    /// It still has this version.
    Version(u64),
    /// It is not there.
    Absent,
}

impl Condition {
    /// What was typed, else this.
    pub(crate) fn typed_or(matches: &ArgMatches, otherwise: Condition) -> Condition {
        matches.get_one("if-match").copied().map_or(otherwise, Condition::Version)
    }

    fn field(self) -> Option<(&'static str, String)> {
        match self {
            Condition::Any => None,
            Condition::Version(version) => Some(("if-match", format!("\"{version}\""))),
            Condition::Absent => Some(("if-none-match", "*".to_owned())),
        }
    }
}

/// What the server has said, if it has not refused.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) body: Value,
    /// What the `ETag` says.
    pub(crate) version: Option<u64>,
}

/// A part of a list.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Value>,
    /// Where the rest begins.
    pub(crate) next: Option<String>,
}

/// Whoever asks the admin API.
pub(crate) struct Admin {
    client: Client,
    has_token: bool,
    is_json: bool,
}

impl Admin {
    /// As the flags say. Nothing is sent yet.
    pub(crate) fn new(matches: &ArgMatches) -> Result<Admin, Failure> {
        let url = matches.get_one::<String>("server").map_or("", String::as_str);
        let token = token(matches, url)?;
        let server = Server {
            url,
            token: token.as_deref(),
            ca: matches.get_one::<PathBuf>("ca").map(PathBuf::as_path),
        };
        let client = server.client()?;
        Ok(Admin { client, has_token: token.is_some(), is_json: matches.get_flag("json") })
    }

    /// Whether a script reads it.
    pub(crate) fn is_json(&self) -> bool {
        self.is_json
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Reply, Failure> {
        self.reply(Method::GET, path, None, Condition::Any, TIMEOUT)
    }

    /// For what the server has to think about.
    pub(crate) fn get_slowly(&mut self, path: &str) -> Result<Reply, Failure> {
        self.reply(Method::GET, path, None, Condition::Any, LONG_TIMEOUT)
    }

    /// What is there, if anything is.
    pub(crate) fn find(&mut self, path: &str) -> Result<Option<Reply>, Failure> {
        match self.get(path) {
            Ok(reply) => Ok(Some(reply)),
            Err(Failure::Refused(refusal)) if refusal.is_missing() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(crate) fn put(&mut self, path: &str, body: &Value, condition: Condition) -> Result<Reply, Failure> {
        self.reply(Method::PUT, path, Some(body), condition, TIMEOUT)
    }

    pub(crate) fn post(&mut self, path: &str, body: &Value) -> Result<Reply, Failure> {
        self.reply(Method::POST, path, Some(body), Condition::Any, TIMEOUT)
    }

    pub(crate) fn delete(&mut self, path: &str, condition: Condition) -> Result<Reply, Failure> {
        self.reply(Method::DELETE, path, None, condition, TIMEOUT)
    }

    /// As much of a list as the flags say.
    pub(crate) fn list(
        &mut self,
        path: &str,
        filter: &[(&str, Option<&str>)],
        matches: &ArgMatches,
    ) -> Result<Listed, Failure> {
        let limit = matches.get_one::<u32>("limit").map_or(usize::MAX, |limit| *limit as usize);
        let after = matches.get_one::<String>("after").cloned();
        self.list_up_to(path, filter, limit, after)
    }

    /// So much of a list, page by page.
    pub(crate) fn list_up_to(
        &mut self,
        path: &str,
        filter: &[(&str, Option<&str>)],
        limit: usize,
        after: Option<String>,
    ) -> Result<Listed, Failure> {
        let mut listed = Listed { items: Vec::new(), next: after };
        loop {
            let wanted = (limit - listed.items.len()).min(PAGE_ITEMS_MAX).to_string();
            let page = [("limit", Some(wanted.as_str())), ("after", listed.next.as_deref())];
            let query: Vec<_> = filter.iter().chain(&page).copied().collect();
            let mut body = self.get(&with_query(path, &query))?.body;
            let Some(Value::Array(items)) = body.get_mut("items").map(Value::take) else {
                return Err(Failure::Refused(Refusal::not_understood(&body)));
            };
            // A page may have nothing to show, and go on all the same.
            let is_empty = items.is_empty();
            listed.items.extend(items);
            let next = mark(&body["next"]);
            let is_stuck = is_empty && next == listed.next;
            listed.next = next;
            if is_stuck || listed.next.is_none() || listed.items.len() >= limit {
                return Ok(listed);
            }
        }
    }

    /// Asks for something long, and hands it over piece by piece if the server does not refuse.
    pub(crate) fn stream(
        &mut self,
        path: &str,
        sink: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let ask = ask(Method::GET, path, None, Condition::Any, TIMEOUT)?;
        for _ in 0..LATER_TIMES_MAX {
            let mut refused = Vec::new();
            let answer = self.client.stream(&ask, &mut |status, piece| {
                if status == 200 {
                    return sink(piece);
                }
                refused.extend_from_slice(piece);
                Ok(())
            })?;
            if answer.status == 200 {
                return Ok(());
            }
            if !waited(&answer) {
                let body = String::from_utf8_lossy(&refused).into_owned();
                return Err(Failure::Refused(Refusal::of(&Answer { body, ..answer }, self.has_token)));
            }
        }
        Err(Failure::Refused(Refusal::too_busy()))
    }

    fn reply(
        &mut self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        condition: Condition,
        timeout: Duration,
    ) -> Result<Reply, Failure> {
        let ask = ask(method, path, body, condition, timeout)?;
        for _ in 0..LATER_TIMES_MAX {
            let answer = self.client.ask(&ask)?;
            if (200..300).contains(&answer.status) {
                return read(&answer);
            }
            if !waited(&answer) {
                return Err(Failure::Refused(Refusal::of(&answer, self.has_token)));
            }
        }
        Err(Failure::Refused(Refusal::too_busy()))
    }

    /// Prints what the server has said, for scripts as it is, for people in these words.
    pub(crate) fn print(&self, said: &Value, words: impl FnOnce() -> String) -> Result<ExitCode, Failure> {
        if self.is_json {
            print_bytes(format!("{said:#}\n").as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        print_bytes(words().as_bytes())?;
        for warning in said["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            eprintln!("warning: {}", shown(warning));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints a list.
    pub(crate) fn print_list(
        &self,
        listed: &Listed,
        words: impl FnOnce(&[Value]) -> String,
    ) -> Result<ExitCode, Failure> {
        let said =
            if self.is_json { json!({"items": listed.items, "next": listed.next}) } else { Value::Null };
        self.print(&said, || {
            let more = listed.next.as_deref().map_or_else(String::new, |next| {
                format!("There are more: go on with --after '{}', or raise --limit.\n", shown(next))
            });
            format!("{}{more}", words(&listed.items))
        })
    }
}

fn ask<'a>(
    method: Method,
    path: &'a str,
    body: Option<&Value>,
    condition: Condition,
    timeout: Duration,
) -> Result<Ask<'a>, Failure> {
    let mut fields: Vec<_> = condition.field().into_iter().collect();
    if method != Method::GET {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| Failure::Runtime(error.into()))?;
        fields.push(("idempotency-key", format!("{:032x}", u128::from_be_bytes(random))));
    }
    Ok(Ask { method, path, fields, body: body.map(Value::to_string), timeout, may_repeat: true })
}

/// Waits if the server says that it has too much to do now, and for how long.
fn waited(answer: &Answer) -> bool {
    if answer.status != 429 {
        return false;
    }
    let seconds = answer.fields.get("retry-after").and_then(|field| field.to_str().ok()?.parse().ok());
    let Some(wait) = seconds.map(Duration::from_secs).filter(|wait| *wait <= LATER_MAX) else { return false };
    thread::sleep(wait);
    true
}

fn read(answer: &Answer) -> Result<Reply, Failure> {
    let etag = answer.fields.get("etag").and_then(|field| field.to_str().ok());
    let version = etag.and_then(|etag| etag.trim_matches('"').parse().ok());
    if answer.body.is_empty() {
        return Ok(Reply { body: Value::Null, version });
    }
    match serde_json::from_str(&answer.body) {
        Ok(body) => Ok(Reply { body, version }),
        Err(_) => Err(Failure::Refused(Refusal::of(answer, true))),
    }
}

/// The token of the flag, the variable, the file that is named, or the file that a server writes. That last one is shown only to a server on this machine: it was
/// written by one, and whoever is elsewhere would learn it.
fn token(matches: &ArgMatches, url: &str) -> Result<Option<String>, Failure> {
    // A file that is named is meant, whatever the variable says.
    let named = matches.get_one::<PathBuf>("token-file").map(PathBuf::as_path);
    if let (None, Some(token)) = (named, matches.get_one::<String>("token")) {
        return Ok(Some(token.trim().to_owned()));
    }
    if named.is_none() && !is_here(url) {
        return Ok(None);
    }
    let path = named.unwrap_or(Path::new(TOKEN_FILE));
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::Read { path: path.to_owned(), error }),
    }
}

/// Where a list goes on: whatever it is, it is handed back as it came.
fn mark(next: &Value) -> Option<String> {
    match next {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// A text as one segment of a path, or as a value of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}"); // Writing to a text cannot fail.
        }
    }
    encoded
}

/// A path with those of the values that there are.
pub(crate) fn with_query(path: &str, values: &[(&str, Option<&str>)]) -> String {
    let given: Vec<String> =
        values.iter().filter_map(|(name, value)| Some(format!("{name}={}", encoded((*value)?)))).collect();
    if given.is_empty() { path.to_owned() } else { format!("{path}?{}", given.join("&")) }
}

#[cfg(test)]
mod tests;

//! What clients say about themselves and their connection. There are no databases, and one user whose passwords are the tokens of the
//! listener; the rest is only confirmed, in Redis's own words.

use super::super::frame::Arguments;
use super::super::reply::{Replies, Version};
use super::about::REDIS_VERSION;
use super::{Session, integer, number, shown, unknown_subcommand, wrong_number};
use crate::access::Refused;
use crate::metrics::Protocol;

/// The user that every client is.
const USER: &[u8] = b"default";
/// The longest name that a connection may give itself.
const NAME_BYTES_MAX: usize = 256;

const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
const NAME_TOO_LONG: &str = "ERR Client names cannot be longer than 256 bytes.";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NOT_ADMITTED: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                            HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
                            select the RESP protocol version at the same time";
const SYNTAX: &str = "ERR syntax error";

pub(super) fn ping(_: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    match arguments.get(1) {
        Some(message) => replies.bulk(message),
        None => replies.simple("PONG"),
    }
}

pub(super) fn echo(_: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    replies.bulk(arguments.get(1).unwrap_or_default());
}

pub(super) fn quit(session: &mut Session<'_>, _: Arguments<'_>, replies: &mut Replies) {
    session.is_over = true;
    replies.ok();
}

pub(super) fn reset(session: &mut Session<'_>, _: Arguments<'_>, replies: &mut Replies) {
    session.reset(replies);
    replies.simple("RESET");
}

pub(super) fn select(_: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    match arguments.get(1).and_then(number::<i64>) {
        Some(0) => replies.ok(),
        Some(_) => replies.error("ERR DB index is out of range"),
        None => replies.error("ERR value is not an integer or out of range"),
    }
}

pub(super) fn auth(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let has_tokens = session.gate.access().wants_token(Protocol::Resp);
    let (user, token) = match (arguments.get(1), arguments.get(2), arguments.len()) {
        (Some(_), None, _) if !has_tokens => return replies.error(NO_PASSWORD),
        (Some(token), None, _) => (USER, token),
        (Some(user), Some(token), 3) => (user, token),
        _ => return replies.error(SYNTAX),
    };
    match authenticate(session, user, token) {
        Ok(()) => replies.ok(),
        Err(problem) => replies.error(problem),
    }
}

/// Lets a client in. One that is in already, and shows something wrong, stays.
fn authenticate(session: &mut Session<'_>, user: &[u8], token: &[u8]) -> Result<(), &'static str> {
    let (gate, attempts) = (session.gate, &session.attempts);
    // Where no token is wanted, any will do.
    let admitted = if user == USER {
        gate.admit(Protocol::Resp, Some(token), Some(attempts)).ok()
    } else {
        gate.refuse(Protocol::Resp, Refused::Wrong, Some(attempts));
        None
    };
    session.is_over |= session.attempts.is_over();
    session.admitted = Some(admitted.ok_or(WRONG_PASSWORD)?);
    Ok(())
}

pub(super) fn hello(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let version = match arguments.get(1).map(number::<i64>) {
        None => replies.version(),
        Some(Some(2)) => Version::Resp2,
        Some(Some(3)) => Version::Resp3,
        Some(Some(_)) => return replies.error("NOPROTO unsupported protocol version"),
        Some(None) => return replies.error("ERR Protocol version is not an integer or out of range"),
    };
    let (mut name, mut credentials) = (None, None);
    let mut options = arguments.from(2);
    while let Some(option) = options.next() {
        let value = options.next();
        let token = value.filter(|_| option.eq_ignore_ascii_case(b"auth")).and_then(|_| options.next());
        match (value, token) {
            (Some(user), Some(token)) => credentials = Some((user, token)),
            (Some(value), None) if option.eq_ignore_ascii_case(b"setname") => name = Some(value),
            _ => {
                let option = shown(option, NAME_BYTES_MAX);
                return replies.error(format_args!("ERR Syntax error in HELLO option '{option}'"));
            }
        }
    }
    if let Some((user, token)) = credentials
        && let Err(problem) = authenticate(session, user, token)
    {
        return replies.error(problem);
    }
    if !session.is_admitted() {
        return replies.error(NOT_ADMITTED);
    }
    if let Some(Err(problem)) = name.map(|name| set_name(session, name)) {
        return replies.error(problem);
    }
    replies.set_version(version);
    introduce(session, replies);
}

fn introduce(session: &Session<'_>, replies: &mut Replies) {
    replies.map(7);
    for (field, value) in [("server", "tollgate"), ("version", REDIS_VERSION)] {
        replies.bulk(field.as_bytes());
        replies.bulk(value.as_bytes());
    }
    for (field, value) in [("proto", replies.version().number()), ("id", integer(session.id))] {
        replies.bulk(field.as_bytes());
        replies.integer(value);
    }
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        replies.bulk(field.as_bytes());
        replies.bulk(value.as_bytes());
    }
    replies.bulk(b"modules");
    replies.array(0);
}

pub(super) fn client(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let subcommand = arguments.get(1).unwrap_or_default();
    let first = arguments.get(2).unwrap_or_default();
    match (subcommand.to_ascii_lowercase().as_slice(), arguments.len()) {
        (b"setname", 3) => match set_name(session, first) {
            Ok(()) => replies.ok(),
            Err(problem) => replies.error(problem),
        },
        (b"getname", 2) if session.name.is_empty() => replies.nil(),
        (b"getname", 2) => replies.bulk(&session.name),
        (b"id", 2) => replies.integer(integer(session.id)),
        // Only this connection knows of itself.
        (b"info", 2) | (b"list", 2..) => {
            let description = describe(session, replies.version());
            replies.text(&description);
        }
        (b"setinfo", 4) => replies.ok(), // The names and versions of libraries are of no use here.
        (b"no-evict" | b"no-touch", 3) => match first.to_ascii_lowercase().as_slice() {
            b"on" | b"off" => replies.ok(),
            _ => replies.error(SYNTAX),
        },
        (b"setname" | b"getname" | b"id" | b"info" | b"setinfo" | b"no-evict" | b"no-touch", _) => {
            wrong_number(&format!("client|{}", subcommand.to_ascii_lowercase().escape_ascii()), replies);
        }
        _ => unknown_subcommand("CLIENT", subcommand, replies),
    }
}

fn set_name(session: &mut Session<'_>, name: &[u8]) -> Result<(), &'static str> {
    if name.len() > NAME_BYTES_MAX {
        return Err(NAME_TOO_LONG);
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(BAD_NAME);
    }
    session.name = name.to_vec();
    Ok(())
}

fn describe(session: &Session<'_>, version: Version) -> String {
    let (id, name, version) = (session.id, session.name.escape_ascii(), version.number());
    format!("id={id} name={name} db=0 user=default resp={version}\n")
}

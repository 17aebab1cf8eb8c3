//! What the server says about itself: numbers, commands and parameters. Client libraries and tools ask for it before
//! they send anything else.

use std::fmt::Write as _;

use super::super::frame::Arguments;
use super::super::reply::Replies;
use super::table::{ALL, Command, Parameter, find};
use super::{Session, integer, unknown_subcommand, wrong_number};

/// The version of Redis whose protocol is spoken, for clients that choose what to send by it.
pub(super) const REDIS_VERSION: &str = "7.0.0";

const TOLLGATE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The parameters of Redis that tools ask for, and what they would be: nothing is written to a disk.
const PARAMETERS: [(&str, &str); 3] = [("save", ""), ("appendonly", "no"), ("databases", "1")];

type Section = fn(&Session<'_>, &mut String);

/// The sections of `INFO`, in order.
const SECTIONS: [(&str, Section); 3] = [("Server", server), ("Memory", memory), ("Stats", stats)];

pub(super) fn info(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let is_wanted = |name: &str| {
        let everything: [&[u8]; 3] = [b"all", b"default", b"everything"];
        let names = |wanted: &[u8]| {
            wanted.eq_ignore_ascii_case(name.as_bytes())
                || everything.iter().any(|word| wanted.eq_ignore_ascii_case(word))
        };
        arguments.len() == 1 || arguments.from(1).any(names)
    };
    let mut text = String::new();
    for (name, section) in SECTIONS.into_iter().filter(|(name, _)| is_wanted(name)) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        field(&mut text, format_args!("# {name}"));
        section(session, &mut text);
    }
    replies.text(&text);
}

fn server(_: &Session<'_>, text: &mut String) {
    field(text, format_args!("redis_version:{REDIS_VERSION}"));
    field(text, format_args!("tollgate_version:{TOLLGATE_VERSION}"));
    field(text, format_args!("redis_mode:standalone"));
    field(text, format_args!("os:{}", std::env::consts::OS));
    field(text, format_args!("arch_bits:{}", usize::BITS));
    field(text, format_args!("process_id:{}", std::process::id()));
}

fn memory(session: &Session<'_>, text: &mut String) {
    field(text, format_args!("used_memory:{}", session.gate.engine().stats().bytes));
}

fn stats(session: &Session<'_>, text: &mut String) {
    let stats = session.gate.engine().stats();
    field(text, format_args!("keys:{}", stats.keys));
    field(text, format_args!("expired_keys:{}", stats.reclaimed));
    field(text, format_args!("evicted_keys:{}", stats.evicted));
}

fn field(text: &mut String, field: std::fmt::Arguments<'_>) {
    let _ = write!(text, "{field}\r\n"); // A string takes everything.
}

pub(super) fn config(_: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let subcommand = arguments.get(1).unwrap_or_default();
    match (subcommand.to_ascii_lowercase().as_slice(), arguments.len()) {
        (b"get", 3..) => {
            let is_named = |(name, _): &&(&str, &str)| {
                let names = |wanted: &[u8]| wanted == b"*" || wanted.eq_ignore_ascii_case(name.as_bytes());
                arguments.from(2).any(names)
            };
            replies.map(PARAMETERS.iter().filter(is_named).count());
            for (name, value) in PARAMETERS.iter().filter(is_named) {
                replies.bulk(name.as_bytes());
                replies.bulk(value.as_bytes());
            }
        }
        (b"get", _) => wrong_number("config|get", replies),
        _ => unknown_subcommand("CONFIG", subcommand, replies),
    }
}

pub(super) fn command(_: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let Some(subcommand) = arguments.get(1) else { return put_all_commands(replies) };
    match (subcommand.to_ascii_lowercase().as_slice(), arguments.len()) {
        (b"count", 2) => replies.integer(integer(ALL.len())),
        (b"count", _) => wrong_number("command|count", replies),
        (b"list", 2) => {
            replies.array(ALL.len());
            for command in &ALL {
                replies.bulk(command.name.as_bytes());
            }
        }
        (b"list", _) => replies.error("ERR syntax error"),
        (b"info", 2) => put_all_commands(replies),
        (b"info", count) => {
            replies.array(count - 2);
            for name in arguments.from(2) {
                match find(name) {
                    Some(command) => put_command(command, replies),
                    None => replies.nil_array(),
                }
            }
        }
        (b"docs", 2) => put_documentation(&ALL.each_ref(), replies),
        (b"docs", _) => {
            // Once each: the answer must not grow with the number of times that a name is said.
            let is_named = |command: &&Command| {
                arguments.from(2).any(|name| name.eq_ignore_ascii_case(command.name.as_bytes()))
            };
            put_documentation(&ALL.iter().filter(is_named).collect::<Vec<_>>(), replies);
        }
        _ => unknown_subcommand("COMMAND", subcommand, replies),
    }
}

fn put_all_commands(replies: &mut Replies) {
    replies.array(ALL.len());
    for command in &ALL {
        put_command(command, replies);
    }
}

/// The ten elements that Redis 7 tells of a command.
fn put_command(command: &Command, replies: &mut Replies) {
    let (key_at, key_step) = (integer(command.key_at), i64::from(command.key_at > 0));
    replies.array(10);
    replies.bulk(command.name.as_bytes());
    replies.integer(command.arity());
    replies.set(command.flags.len());
    for flag in command.flags {
        replies.bulk(flag.as_bytes());
    }
    replies.integer(key_at);
    replies.integer(key_at);
    replies.integer(key_step);
    replies.set(0); // categories
    replies.array(0); // tips
    replies.array(0); // specifications of keys
    replies.array(0); // subcommands
}

fn put_documentation(commands: &[&Command], replies: &mut Replies) {
    replies.map(commands.len());
    for command in commands {
        replies.bulk(command.name.as_bytes());
        let fields = [("summary", command.summary), ("since", TOLLGATE_VERSION), ("group", command.group)];
        replies.map(fields.len() + 1);
        for (name, value) in fields {
            replies.bulk(name.as_bytes());
            replies.bulk(value.as_bytes());
        }
        replies.bulk(b"arguments");
        replies.array(command.parameters.len());
        for parameter in command.parameters {
            put_parameter(parameter, replies);
        }
    }
}

fn put_parameter(parameter: &Parameter, replies: &mut Replies) {
    let fields = [("name", Some(parameter.name)), ("type", Some(parameter.kind)), ("token", parameter.token)];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    replies.map(fields.clone().count() + usize::from(parameter.is_optional));
    for (name, value) in fields {
        replies.bulk(name.as_bytes());
        replies.bulk(value.as_bytes());
    }
    if parameter.is_optional {
        replies.bulk(b"flags");
        replies.set(1);
        replies.simple("optional");
    }
}

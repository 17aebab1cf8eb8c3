//! The commands that there are, one line each, with what `COMMAND` tells clients about them.

use super::super::frame::Arguments;
use super::super::reply::Replies;
use super::{Session, about, client, policy, throttle};

/// One command.
pub(super) struct Command {
    /// In lower case.
    pub(super) name: &'static str,
    /// How many arguments it takes, its name among them.
    arguments_min: usize,
    arguments_max: usize,
    /// Where its key stands, or 0.
    pub(super) key_at: usize,
    /// Whether its calls wait for each other, to be decided together.
    pub(super) waits: bool,
    pub(super) flags: &'static [&'static str],
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) run: fn(&mut Session<'_>, Arguments<'_>, &mut Replies),
    pub(super) parameters: &'static [Parameter],
}

/// One argument of a command, as it is shown to people.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) kind: &'static str,
    /// The word that goes before it.
    pub(super) token: Option<&'static str>,
    pub(super) is_optional: bool,
}

impl Command {
    pub(super) fn takes(&self, arguments: usize) -> bool {
        (self.arguments_min..=self.arguments_max).contains(&arguments)
    }

    /// Whether it asks for a decision: only then does a bad call of it count as a bad request.
    pub(super) fn is_limiting(&self) -> bool {
        self.group == LIMITING
    }

    /// Whether it may be called before a token is shown.
    pub(super) fn is_for_strangers(&self) -> bool {
        self.flags == STRANGERS
    }

    /// The number of arguments as Redis tells it: negative if there may be more.
    pub(super) fn arity(&self) -> i64 {
        let least = super::integer(self.arguments_min);
        if self.arguments_min == self.arguments_max { least } else { -least }
    }

    const fn key_at(self, key_at: usize) -> Command {
        Command { key_at, ..self }
    }

    const fn waits(self) -> Command {
        Command { waits: true, ..self }
    }

    const fn for_strangers(self) -> Command {
        Command { flags: STRANGERS, ..self }
    }

    const fn takes_from(self, arguments_min: usize, arguments_max: usize) -> Command {
        Command { arguments_min, arguments_max, ..self }
    }

    const fn shows(self, parameters: &'static [Parameter]) -> Command {
        Command { parameters, ..self }
    }
}

/// The command of a name, in whatever case it is written.
#[inline]
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    ALL.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

type Run = fn(&mut Session<'_>, Arguments<'_>, &mut Replies);

/// The group of commands that decide, as those of a module of Redis.
const LIMITING: &str = "module";

/// The flags of commands that may be called before a token is shown.
const STRANGERS: &[&str] = &["loading", "stale", "fast", "no_auth"];

/// A command that decides. Every word of it is needed.
const fn limiting(name: &'static str, summary: &'static str, run: Run) -> Command {
    Command {
        name,
        arguments_min: 1,
        arguments_max: 1,
        key_at: 0,
        waits: false,
        flags: &["write", "fast"],
        group: LIMITING,
        summary,
        run,
        parameters: &[],
    }
}

/// A command about the connection or the server, of just one word.
const fn plain(name: &'static str, group: &'static str, summary: &'static str, run: Run) -> Command {
    Command { group, flags: &["loading", "stale", "fast"], ..limiting(name, summary, run) }
}

const fn needed(name: &'static str, kind: &'static str) -> Parameter {
    Parameter { name, kind, token: None, is_optional: false }
}

const fn optional(name: &'static str, kind: &'static str) -> Parameter {
    Parameter { is_optional: true, ..needed(name, kind) }
}

const fn after(token: &'static str, parameter: Parameter) -> Parameter {
    Parameter { token: Some(token), ..parameter }
}

const ANY: usize = usize::MAX;

const POLICY: &[Parameter] = &[
    needed("policy", "string"),
    needed("key", "key"),
    optional("cost", "integer"),
    after("TIER", optional("tier", "string")),
];

/// All commands, those first that are asked most.
pub(super) static ALL: [Command; 16] = [
    limiting("cl.throttle", "Takes units from the bucket of a key, as redis-cell does", throttle::throttle)
        .waits()
        .takes_from(5, 6)
        .key_at(1)
        .shows(&[
            needed("key", "key"),
            needed("max_burst", "integer"),
            needed("count", "integer"),
            needed("period", "integer"),
            optional("quantity", "integer"),
        ]),
    limiting("tg.check", "Takes units of a key under a named policy", policy::check)
        .waits()
        .takes_from(3, 6)
        .key_at(2)
        .shows(POLICY),
    limiting("tg.peek", "Says what TG.CHECK would answer, and takes nothing", policy::peek)
        .takes_from(3, 6)
        .key_at(2)
        .shows(POLICY),
    limiting("tg.acquire", "Takes units of a key under a named policy and holds them", policy::acquire)
        .takes_from(3, 6)
        .key_at(2)
        .shows(POLICY),
    limiting("tg.release", "Gives back what a lease of TG.ACQUIRE holds", policy::release)
        .takes_from(2, 2)
        .shows(&[needed("lease", "string")]),
    plain("ping", "connection", "Answers PONG, or the message", client::ping)
        .takes_from(1, 2)
        .shows(&[optional("message", "string")]),
    plain("echo", "connection", "Answers the message", client::echo)
        .takes_from(2, 2)
        .shows(&[needed("message", "string")]),
    plain("hello", "connection", "Chooses the version of the protocol", client::hello)
        .for_strangers()
        .takes_from(1, ANY)
        .shows(&[optional("protover", "integer")]),
    plain("auth", "connection", "Shows a token", client::auth)
        .for_strangers()
        .takes_from(2, ANY)
        .shows(&[optional("username", "string"), needed("password", "string")]),
    plain("client", "connection", "Says something about this connection", client::client)
        .takes_from(2, ANY)
        .shows(&[needed("subcommand", "string")]),
    plain("select", "connection", "Chooses database 0, the only one", client::select)
        .takes_from(2, 2)
        .shows(&[needed("index", "integer")]),
    plain("quit", "connection", "Closes this connection", client::quit).for_strangers().takes_from(1, ANY),
    plain("reset", "connection", "Makes this connection as good as new", client::reset).for_strangers(),
    plain("info", "server", "Numbers about this server", about::info)
        .takes_from(1, ANY)
        .shows(&[optional("section", "string")]),
    plain("command", "server", "Says which commands there are", about::command)
        .takes_from(1, ANY)
        .shows(&[optional("subcommand", "string")]),
    plain("config", "server", "Says what a few parameters of Redis would be", about::config)
        .takes_from(2, ANY)
        .shows(&[needed("subcommand", "string")]),
];

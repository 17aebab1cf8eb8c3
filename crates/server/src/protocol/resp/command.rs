//! Commands: which there are, who runs them, and what is said of those that do not exist.

mod about;
mod client;
mod gaps;
mod pending;
mod policy;
mod table;
#[cfg(test)]
mod tests;
mod throttle;

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::core::Limit;

use self::gaps::Gap;
use self::pending::Pending;
use super::frame::Arguments;
use super::reply::{Replies, Version};
use crate::access::{Admitted, Attempts, Forbidden, Refused, Scope};
use crate::gate::Gate;
use crate::metrics::Protocol;

/// How much of an unknown command, and of its arguments, is shown to whoever sent it.
const SHOWN_BYTES_MAX: usize = 128;

/// What is said to a client that has yet to show a token.
const NOT_ADMITTED: &str = "NOAUTH Authentication required.";

/// Gives every connection a number of its own.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// What is known of a client between its commands.
pub(super) struct Session<'g> {
    gate: &'g Gate,
    id: u64,
    name: Vec<u8>,
    attempts: Attempts,
    /// What it may ask, once it has shown a token or if none is wanted.
    admitted: Option<Admitted>,
    is_over: bool,
    pending: Pending,
    /// Answers that have to be waited for.
    gaps: Vec<Gap<'g>>,
    /// The numbers that came with the last call that brought a limit, and that limit: most clients bring the same one every time.
    last_limit: Option<((u64, u64, u64), Limit)>,
}

/// What the token of a client is bounded to.
fn scope_of(admitted: Option<&Admitted>) -> Option<&Scope> {
    admitted.and_then(|admitted| admitted.scope.as_deref())
}

impl<'g> Session<'g> {
    pub(super) fn new(gate: &'g Gate, address: IpAddr) -> Session<'g> {
        // Relaxed: numbers need to differ, and order nothing.
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed) + 1;
        let admitted = admitted_at_first(gate);
        let (name, pending) = (Vec::new(), Pending::default());
        let gaps = Vec::new();
        let attempts = Attempts::new(address);
        Session { gate, id, name, attempts, admitted, is_over: false, pending, gaps, last_limit: None }
    }

    /// Whether the connection is to be closed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether it may ask.
    pub(super) fn is_admitted(&self) -> bool {
        self.admitted.is_some()
    }

    /// Whether the client's token permits this. Refusals are counted.
    fn permit(&self, permit: impl FnOnce(&Scope) -> Result<(), Forbidden>) -> Result<(), Forbidden> {
        self.gate.permit(Protocol::Resp, scope_of(self.admitted.as_ref()), permit)
    }

    /// Forgets a token that has expired since it was shown.
    fn forget_expired(&mut self) {
        if self.admitted.as_ref().is_some_and(|admitted| admitted.has_expired(|| self.gate.now())) {
            self.admitted = None;
        }
    }

    /// Counts a call that has no answer.
    fn count_bad_call(&self) {
        self.gate.metrics().observe_bad_request(Protocol::Resp);
    }

    /// Forgets what the client has told about itself.
    fn reset(&mut self, replies: &mut Replies) {
        self.name = Vec::new();
        self.admitted = admitted_at_first(self.gate);
        replies.set_version(Version::default());
    }
}

/// What a client may ask that has shown nothing yet.
fn admitted_at_first(gate: &Gate) -> Option<Admitted> {
    (!gate.access().wants_token(Protocol::Resp)).then(Admitted::default)
}

/// Runs one command. Its answer is added now or, if it can be decided together with others, when the session settles. An empty
/// line has none.
pub(super) fn run(session: &mut Session<'_>, arguments: Arguments<'_>, replies: &mut Replies) {
    let Some(name) = arguments.get(0) else { return };
    let command = table::find(name);
    session.forget_expired();
    if !command.is_some_and(|command| command.waits) {
        session.settle(replies);
    }
    match command {
        Some(command)
            if command.takes(arguments.len()) && !session.is_admitted() && !command.is_for_strangers() =>
        {
            session.gate.refuse(Protocol::Resp, Refused::Missing, Some(&session.attempts));
            replies.error(NOT_ADMITTED); // Nothing waits: a stranger's calls are not taken.
        }
        Some(command) if command.takes(arguments.len()) => (command.run)(session, arguments, replies),
        Some(command) => {
            if command.is_limiting() {
                session.count_bad_call();
            }
            session.settle(replies);
            wrong_number(command.name, replies);
        }
        None if is_http(name) => {
            // A browser can be made to send commands in the body of a request: nothing of it may be run.
            tracing::debug!("a client speaks HTTP to the RESP listener");
            session.is_over = true;
        }
        None => unknown(name, arguments, replies),
    }
}

fn is_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn unknown(name: &[u8], arguments: Arguments<'_>, replies: &mut Replies) {
    let mut beginning = String::new();
    for argument in arguments.from(1) {
        if beginning.len() >= SHOWN_BYTES_MAX {
            break;
        }
        let left_bytes = SHOWN_BYTES_MAX - beginning.len();
        let _ = write!(beginning, "'{}' ", shown(argument, left_bytes)); // A string takes everything.
    }
    let name = shown(name, SHOWN_BYTES_MAX);
    replies.error(format_args!("ERR unknown command '{name}', with args beginning with: {beginning}"));
}

/// The beginning of what a client has sent, as it can be shown.
fn shown(bytes: &[u8], bytes_max: usize) -> std::slice::EscapeAscii<'_> {
    bytes[..bytes.len().min(bytes_max)].escape_ascii()
}

fn wrong_number(command: &str, replies: &mut Replies) {
    replies.error(format_args!("ERR wrong number of arguments for '{command}' command"));
}

/// What is said of the second word of a command, if there is no such.
fn unknown_subcommand(command: &str, subcommand: &[u8], replies: &mut Replies) {
    let subcommand = shown(subcommand, SHOWN_BYTES_MAX);
    replies.error(format_args!("ERR unknown subcommand '{subcommand}'. Try COMMAND DOCS {command}."));
}

/// A number as it is written in an argument.
fn number<N: std::str::FromStr>(argument: &[u8]) -> Option<N> {
    std::str::from_utf8(argument).ok()?.parse().ok()
}

/// A number of units or seconds. There are several in every call, so the usual ones are read without looking at text.
fn units(argument: &[u8]) -> Option<u64> {
    /// So many digits always fit.
    const DIGITS_SURE: usize = 19;
    if argument.is_empty() || argument.len() > DIGITS_SURE || !argument.iter().all(u8::is_ascii_digit) {
        return number(argument);
    }
    Some(argument.iter().fold(0, |number, digit| 10 * number + u64::from(digit - b'0')))
}

/// A number as an answer has it. Larger ones than fit are cut.
fn integer(number: impl TryInto<i64>) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

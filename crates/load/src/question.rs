//! What a load asks, whichever protocol carries it.

use std::fmt;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Envoy's rate limit service: `ShouldRateLimit` over HTTP/2.
    Rls,
    /// `POST /v1/check` over HTTP/1.1.
    Http,
    /// A command of a Redis client.
    Resp,
}

/// What is asked about each key. In every text, `{key}` stands for it: twelve digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Units of a named policy.
    Policy {
        /// Its name.
        name: String,
        /// Whom it counts.
        key: String,
        /// How many units.
        cost: u64,
    },
    /// Descriptors, as a proxy sends them.
    Descriptors {
        /// Which tree of rules is asked.
        domain: String,
        /// Keys and values, one list a descriptor.
        descriptors: Vec<Vec<(String, String)>>,
        /// What the request costs.
        cost: u32,
    },
    /// Any command of a Redis client.
    Command {
        /// The command and its arguments.
        words: Vec<String>,
        /// The first number of an answer that means yes. None: every answer that is no error does.
        yes: Option<i64>,
    },
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Protocol::Rls => "rls",
            Protocol::Http => "http",
            Protocol::Resp => "resp",
        })
    }
}

impl Question {
    /// `CL.THROTTLE`: `count` units per `period_s` seconds, and `max_burst` more than one at once.
    pub fn throttle(key: &str, max_burst: u64, count: u64, period_s: u64) -> Question {
        let numbers = [max_burst, count, period_s].map(|number| number.to_string());
        let words = ["CL.THROTTLE".to_owned(), key.to_owned()].into_iter().chain(numbers).collect();
        Question::Command { words, yes: Some(0) }
    }

    /// What kind of question it is, for those who asked it over the wrong protocol.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Question::Policy { .. } => "a policy",
            Question::Descriptors { .. } => "descriptors",
            Question::Command { .. } => "a command",
        }
    }
}

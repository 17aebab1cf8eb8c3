//! One module a protocol: questions to bytes, bytes to answers.

pub(crate) mod http;
pub(crate) mod resp;
pub(crate) mod rls;

use thiserror::Error;

use crate::tally::Answer;
use crate::template::Template;

/// What came is not what the protocol says.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Garbled(pub(crate) &'static str);

/// An answer that was found at the beginning of what came, and its length.
pub(crate) type Found = Option<(Answer, usize)>;

/// How requests are written to a connection, and answers read from it, in order.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// What is sent first on every connection, and how many answers it gets, which are read over.
    pub(crate) greeting: Vec<u8>,
    pub(crate) greeting_answers: usize,
    /// The request.
    pub(crate) request: Template,
    /// Reads the first answer. None if it is not complete.
    pub(crate) decode: Decode,
}

/// Which answers come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decode {
    Http,
    /// With the first number that means yes.
    Resp(Option<i64>),
}

impl Wire {
    pub(crate) fn read(&self, bytes: &[u8]) -> Result<Found, Garbled> {
        match self.decode {
            Decode::Http => http::read(bytes),
            Decode::Resp(yes) => resp::read(bytes, yes),
        }
    }
}

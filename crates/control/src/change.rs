//! What somebody wants changed, and what became of it.

use std::borrow::Cow;
use std::fmt;

use crate::document::{BODY_BYTES_MAX, Document, ID_BYTES_MAX, Kind, TEXT_BYTES_MAX, Version};
use crate::error::ChangeError;

/// So long a repetition is known as one.
pub const REPEATS_KEPT_MS: i64 = 24 * 3_600 * 1_000;

/// What somebody wants changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Who wants it.
    pub who: Who,
    /// What they call it.
    pub action: Action,
    /// What it is about.
    pub kind: Kind,
    /// Which one of them.
    pub id: String,
    /// The document from now on, as JSON; none deletes it. Of a kind without documents: what the audit shall tell of the act.
    pub body: Option<String>,
    /// When it holds.
    pub condition: Condition,
    /// How it is known again, if it is asked for twice.
    pub repeat: Option<Repeat>,
}

/// Who changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The name of the one who asked.
    pub name: String,
    /// As what they asked.
    pub role: String,
}

/// What a change is called in the audit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Action(Cow<'static, str>);

/// What has to hold for a change to be made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing.
    #[default]
    Any,
    /// The document is the one that this change wrote.
    IfVersion(Version),
    /// The document is one that one of these changes wrote. Of none, it never holds: then only a repetition is answered.
    IfOneOf(Vec<Version>),
    /// There is no such document.
    IfAbsent,
    /// There is one.
    IfPresent,
}

/// How a change is known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// A key that the one who asks has made up. It is theirs alone: others may use the same.
    pub key: String,
    /// Of what was asked, so that another question under the same key is found out.
    pub fingerprint: String,
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Its number.
    pub version: Version,
    /// The hash of its row in the audit,
    pub hash: String,
    /// and of the one that it follows: what has to be in force before it.
    pub previous: String,
    /// The document before.
    pub before: Option<Document>,
    /// The document after. None if it was deleted, or if it was an act without one.
    pub document: Option<Document>,
    /// Whether it was made when it was asked for before, and not now.
    pub is_repeat: bool,
    /// Whether what it asks for beyond the database was done then: see [`Database::finish`](crate::Database::finish).
    pub is_finished: bool,
}

impl Action {
    /// A document is written.
    pub const PUT: Action = Action(Cow::Borrowed("put"));
    /// A document is deleted.
    pub const DELETE: Action = Action(Cow::Borrowed("delete"));
    /// What was counted is forgotten.
    pub const RESET: Action = Action(Cow::Borrowed("reset"));
    /// Rules are read again.
    pub const RELOAD: Action = Action(Cow::Borrowed("reload"));
    /// A document is written, among others.
    pub const IMPORT: Action = Action(Cow::Borrowed("import"));
    /// A key is banned.
    pub const BAN: Action = Action(Cow::Borrowed("ban"));
    /// A key is boosted.
    pub const BOOST: Action = Action(Cow::Borrowed("boost"));

    /// Under a name of one's own.
    pub fn new(name: impl Into<Cow<'static, str>>) -> Action {
        Action(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Change {
    /// Whether it can be kept at all: both databases have to take it as it is.
    pub(crate) fn check(&self) -> Result<(), ChangeError> {
        let repeat = self.repeat.as_ref();
        let texts = [
            ("the name of who asks", Some(&*self.who.name), 1, TEXT_BYTES_MAX),
            ("the role of who asks", Some(&*self.who.role), 0, TEXT_BYTES_MAX),
            ("the action", Some(self.action.as_str()), 1, TEXT_BYTES_MAX),
            ("the id", Some(&*self.id), usize::from(self.kind.is_document()), ID_BYTES_MAX),
            ("the body", self.body.as_deref(), 1, BODY_BYTES_MAX),
            ("the key of the repetition", repeat.map(|repeat| &*repeat.key), 1, TEXT_BYTES_MAX),
            ("the fingerprint", repeat.map(|repeat| &*repeat.fingerprint), 1, TEXT_BYTES_MAX),
        ];
        for (what, text, bytes_min, bytes_max) in texts {
            let Some(text) = text else { continue };
            if text.len() < bytes_min || text.len() > bytes_max {
                return Err(ChangeError::Invalid(format!("{what} has not {bytes_min} to {bytes_max} bytes")));
            }
            if text.contains('\0') {
                return Err(ChangeError::Invalid(format!("{what} has a NUL in it")));
            }
        }
        if !self.kind.is_document() && self.condition != Condition::Any {
            return Err(ChangeError::Invalid(format!("there are no documents of kind {}", self.kind)));
        }
        Ok(())
    }

    /// About how much room it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.id.len() + self.body.as_ref().map_or(0, String::len)
    }
}

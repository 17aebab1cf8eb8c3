//! What several changes make of what is there: a pure function, without a database.
//!
//! Changes that wait at the same time are made in one transaction. What they need to know is read for all of them first; then this decides, one
//! after the other, which of them hold and what each leaves behind; then that is written. A change that does not hold writes nothing, so it
//! does not touch its neighbours.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};

use crate::audit::AuditRow;
use crate::chain::{self, Head};
use crate::change::{Change, Changed, Condition, REPEATS_KEPT_MS, Repeat};
use crate::document::{Document, Kind, Version};
use crate::error::ChangeError;

/// Where a document is.
pub(crate) type Place = (Kind, String);
/// Who repeats something, and under which key.
pub(crate) type RepeatPlace = (String, String);

/// A change, and when it was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) change: Change,
    pub(crate) now_ms: i64,
}

/// What was asked for before.
#[derive(Clone, Debug)]
pub(crate) struct Repeated {
    pub(crate) fingerprint: String,
    pub(crate) at_ms: i64,
    pub(crate) changed: Changed,
}

/// What is there, as far as some changes need to know.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) head: Head,
    pub(crate) documents: HashMap<Place, Document>,
    pub(crate) repeats: HashMap<RepeatPlace, Repeated>,
}

/// What has to be written, and what is answered once it is.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) outcomes: Vec<Result<Changed, ChangeError>>,
    pub(crate) head: Head,
    pub(crate) rows: Vec<AuditRow>,
    pub(crate) written: Vec<Document>,
    pub(crate) deleted: Vec<Place>,
    pub(crate) repeats: Vec<NewRepeat>,
}

/// A change that will be known again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NewRepeat {
    pub(crate) who: String,
    pub(crate) repeat: Repeat,
    pub(crate) version: Version,
    pub(crate) at_ms: i64,
}

/// Decides on all of them, in order.
pub(crate) fn plan(known: Known, asked: &[Asked]) -> Plan {
    let mut making = Making { known, rows: Vec::new(), touched: BTreeSet::new(), repeats: HashMap::new() };
    let outcomes = asked.iter().map(|asked| making.make(asked)).collect();
    let Making { known: Known { head, mut documents, .. }, rows, touched, repeats } = making;
    let (mut written, mut deleted) = (Vec::new(), Vec::new());
    for place in touched {
        match documents.remove(&place) {
            Some(document) => written.push(document),
            None => deleted.push(place),
        }
    }
    Plan { outcomes, head, rows, written, deleted, repeats: repeats.into_values().collect() }
}

struct Making {
    /// As it is after the changes so far.
    known: Known,
    rows: Vec<AuditRow>,
    touched: BTreeSet<Place>,
    repeats: HashMap<RepeatPlace, NewRepeat>,
}

impl Making {
    fn make(&mut self, asked: &Asked) -> Result<Changed, ChangeError> {
        let Asked { change, now_ms } = asked;
        change.check()?;
        if let Some(changed) = self.repeated(change, *now_ms)? {
            return Ok(changed);
        }
        let place = (change.kind, change.id.clone());
        let before = self.known.documents.get(&place).cloned();
        check_condition(change, before.as_ref())?;
        let previous = self.known.head.hash.clone();
        let Head { version, hash } = self.chain(change, *now_ms, before.as_ref());
        let mut changed =
            Changed { version, hash, previous, before, document: None, is_repeat: false, is_finished: false };
        if change.kind.is_document() {
            changed.document = change.body.clone().map(|body| Document {
                kind: change.kind,
                id: change.id.clone(),
                version,
                body,
                changed_at_ms: *now_ms,
                changed_by: change.who.name.clone(),
            });
            match &changed.document {
                Some(document) => drop(self.known.documents.insert(place.clone(), document.clone())),
                None => drop(self.known.documents.remove(&place)),
            }
            self.touched.insert(place);
        }
        self.remember(change, *now_ms, &changed);
        Ok(changed)
    }

    /// What came of it, if it was asked for before.
    fn repeated(&self, change: &Change, now_ms: i64) -> Result<Option<Changed>, ChangeError> {
        let Some(repeat) = &change.repeat else { return Ok(None) };
        let place = (change.who.name.clone(), repeat.key.clone());
        match self.known.repeats.get(&place) {
            Some(before) if now_ms.saturating_sub(before.at_ms) >= REPEATS_KEPT_MS => Ok(None),
            Some(before) if before.fingerprint != repeat.fingerprint => Err(ChangeError::RepeatDiffers),
            Some(before) => Ok(Some(Changed { is_repeat: true, ..before.changed.clone() })),
            None => Ok(None),
        }
    }

    /// Adds a row to the audit.
    fn chain(&mut self, change: &Change, now_ms: i64, before: Option<&Document>) -> Head {
        let version = self.known.head.version + 1;
        let mut row = AuditRow {
            version,
            at_ms: now_ms,
            who: change.who.name.clone(),
            role: change.who.role.clone(),
            action: change.action.as_str().to_owned(),
            kind: change.kind.name().to_owned(),
            id: change.id.clone(),
            before: before.map(|document| document.body.clone()),
            after: change.body.clone(),
            previous: self.known.head.hash.clone(),
            hash: String::new(),
        };
        row.hash = chain::hash(&row);
        self.known.head = Head { version, hash: row.hash.clone() };
        self.rows.push(row);
        self.known.head.clone()
    }

    fn remember(&mut self, change: &Change, now_ms: i64, changed: &Changed) {
        let Some(repeat) = &change.repeat else { return };
        let place = (change.who.name.clone(), repeat.key.clone());
        let fingerprint = repeat.fingerprint.clone();
        let repeated = Repeated { fingerprint, at_ms: now_ms, changed: changed.clone() };
        self.known.repeats.insert(place.clone(), repeated);
        let new = NewRepeat {
            who: change.who.name.clone(),
            repeat: repeat.clone(),
            version: changed.version,
            at_ms: now_ms,
        };
        self.repeats.insert(place, new);
    }
}

fn check_condition(change: &Change, before: Option<&Document>) -> Result<(), ChangeError> {
    let current = before.map(|document| document.version);
    let holds = match &change.condition {
        Condition::Any => true,
        Condition::IfVersion(version) => current == Some(*version),
        Condition::IfOneOf(versions) => current.is_some_and(|version| versions.contains(&version)),
        Condition::IfAbsent => current.is_none(),
        Condition::IfPresent => current.is_some(),
    };
    if !holds {
        return Err(ChangeError::Condition { current });
    }
    if change.kind.is_document() && change.body.is_none() && current.is_none() {
        return Err(ChangeError::Missing);
    }
    Ok(())
}

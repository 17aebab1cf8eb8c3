//! The rows of the audit: what was changed, by whom, and what was there before.

use crate::document::{Document, Kind, Version};
use crate::driver::{Row, Value};
use crate::error::DatabaseError;
use crate::page;

/// The columns of a row, in the order of [`AuditRow`].
pub(crate) const COLUMNS: &str = "version, at, who, role, action, kind, id, before, after, previous, hash";

/// The columns that say how large it is.
pub(crate) fn sizes() -> String {
    page::sizes(&["id", "before", "after"])
}

/// One change, as it is told afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number.
    pub version: Version,
    /// When it was made, in milliseconds since 1970, by the clock of the node that made it.
    pub at_ms: i64,
    /// Who asked for it.
    pub who: String,
    /// As what.
    pub role: String,
    /// What they called it.
    pub action: String,
    /// What it is about. A text: a newer node may know kinds that we do not.
    pub kind: String,
    /// Which one of them.
    pub id: String,
    /// The document before.
    pub before: Option<String>,
    /// The document after, or what is told of an act without one.
    pub after: Option<String>,
    /// The hash of the row before.
    pub previous: String,
    /// The hash of this one.
    pub hash: String,
}

/// Which rows of the audit are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only what follows this version in the order that is asked for.
    pub after: Option<Version>,
    /// The newest first, and not the oldest.
    pub is_newest_first: bool,
    /// At most so many, as far as they fit into a page.
    pub limit: usize,
    /// By this one.
    pub who: Option<String>,
    /// Of this name.
    pub action: Option<String>,
    /// About this kind.
    pub kind: Option<Kind>,
    /// About this one.
    pub id: Option<String>,
    /// From this moment on, in milliseconds since 1970.
    pub from_ms: Option<i64>,
    /// Before this moment.
    pub to_ms: Option<i64>,
}

impl AuditRow {
    /// What it is about, if we know that kind.
    pub fn known_kind(&self) -> Option<Kind> {
        self.kind.parse().ok()
    }

    /// The document that it wrote. None if it deleted one or is about none.
    pub fn document(&self) -> Option<Document> {
        let kind = self.known_kind().filter(|kind| kind.is_document())?;
        Some(Document {
            kind,
            id: self.id.clone(),
            version: self.version,
            body: self.after.clone()?,
            changed_at_ms: self.at_ms,
            changed_by: self.who.clone(),
        })
    }

    pub(crate) fn read(mut row: Row) -> Result<AuditRow, DatabaseError> {
        Ok(AuditRow {
            version: row.version(0)?,
            at_ms: row.integer(1)?,
            who: row.text(2)?,
            role: row.text(3)?,
            action: row.text(4)?,
            kind: row.text(5)?,
            id: row.text(6)?,
            before: row.text_or_null(7)?,
            after: row.text_or_null(8)?,
            previous: row.text(9)?,
            hash: row.text(10)?,
        })
    }

    pub(crate) fn values(&self) -> Result<[Value<'_>; 11], DatabaseError> {
        Ok([
            Value::version(self.version)?,
            Value::Integer(self.at_ms),
            Value::Text(&self.who),
            Value::Text(&self.role),
            Value::Text(&self.action),
            Value::Text(&self.kind),
            Value::Text(&self.id),
            self.before.as_deref().into(),
            self.after.as_deref().into(),
            Value::Text(&self.previous),
            Value::Text(&self.hash),
        ])
    }
}

impl AuditFilter {
    /// The statement that says how large they are, and its values.
    pub(crate) fn sizes(&self, rows_max: usize) -> Result<(String, Vec<Value<'_>>), DatabaseError> {
        self.statement(&sizes(), None, rows_max)
    }

    /// The statement that finds them as far as this version, and its values.
    pub(crate) fn rows(
        &self,
        last: Version,
        rows_max: usize,
    ) -> Result<(String, Vec<Value<'_>>), DatabaseError> {
        self.statement(COLUMNS, Some(last), rows_max)
    }

    fn statement(
        &self,
        columns: &str,
        last: Option<Version>,
        rows_max: usize,
    ) -> Result<(String, Vec<Value<'_>>), DatabaseError> {
        let (beyond, before, order) =
            if self.is_newest_first { ("<", ">=", "DESC") } else { (">", "<=", "ASC") };
        let after = self.after.map(Value::version).transpose()?;
        let last = last.map(Value::version).transpose()?;
        let texts = [("who", &self.who), ("action", &self.action), ("id", &self.id)];
        let mut conditions: Vec<(String, Value<'_>)> = Vec::new();
        conditions.extend(after.map(|after| (format!("version {beyond} ?"), after)));
        conditions.extend(last.map(|last| (format!("version {before} ?"), last)));
        for (column, text) in texts {
            conditions.extend(text.as_deref().map(|text| (format!("{column} = ?"), Value::Text(text))));
        }
        conditions.extend(self.kind.map(|kind| ("kind = ?".to_owned(), Value::Text(kind.name()))));
        conditions.extend(self.from_ms.map(|from| ("at >= ?".to_owned(), Value::Integer(from))));
        conditions.extend(self.to_ms.map(|to| ("at < ?".to_owned(), Value::Integer(to))));
        let (conditions, mut values): (Vec<String>, Vec<Value<'_>>) = conditions.into_iter().unzip();
        let holds = if conditions.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", conditions.join(" AND "))
        };
        values.push(Value::count(rows_max));
        Ok((format!("SELECT {columns} FROM audit{holds} ORDER BY version {order} LIMIT ?"), values))
    }
}

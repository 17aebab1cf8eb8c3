//! The chain of the audit: each row's hash covers the row and the hash of the one before, so that no row can be changed, taken out or put
//! elsewhere without all that follow it having to be made anew.

use blake3::Hasher;

use crate::audit::AuditRow;
use crate::document::Version;
use crate::error::DatabaseError;

/// The newest version, and the hash of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The number of the newest change; 0 before the first.
    pub version: Version,
    /// The hash of its row. Who was here before and finds another one at the same version has another history.
    pub hash: String,
}

impl Head {
    /// What the first row follows. It is another one for every fleet, so that no chain can be taken for another.
    pub(crate) fn first(fleet: &str) -> Head {
        let mut hasher = Hasher::new();
        add(&mut hasher, b"tollgate audit 1");
        add(&mut hasher, fleet.as_bytes());
        Head { version: 0, hash: hasher.finalize().to_hex().to_string() }
    }

    pub(crate) fn write(&self) -> String {
        format!("{} {}", self.version, self.hash)
    }

    pub(crate) fn read(text: &str) -> Result<Head, DatabaseError> {
        let parts = text.split_once(' ').and_then(|(version, hash)| Some((version.parse().ok()?, hash)));
        let (version, hash) =
            parts.ok_or_else(|| DatabaseError::Corrupt("the head of the audit is not one".to_owned()))?;
        Ok(Head { version, hash: hash.to_owned() })
    }
}

/// The hash that a row has to have. Each part says how long it is: nothing can be moved from one to the next.
pub(crate) fn hash(row: &AuditRow) -> String {
    let mut hasher = Hasher::new();
    add(&mut hasher, row.previous.as_bytes());
    add(&mut hasher, &row.version.to_le_bytes());
    add(&mut hasher, &row.at_ms.to_le_bytes());
    for text in [&row.who, &row.role, &row.action, &row.kind, &row.id] {
        add(&mut hasher, text.as_bytes());
    }
    for text in [&row.before, &row.after] {
        hasher.update(&[u8::from(text.is_some())]);
        add(&mut hasher, text.as_deref().unwrap_or_default().as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn add(hasher: &mut Hasher, part: &[u8]) {
    hasher.update(&(part.len() as u64).to_le_bytes());
    hasher.update(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> AuditRow {
        let text = str::to_owned;
        AuditRow {
            version: 7,
            at_ms: 1_700_000_000_000,
            who: text("ann"),
            role: text("admin"),
            action: text("put"),
            kind: text("quota"),
            id: text("acme"),
            before: None,
            after: Some(text("{}")),
            previous: text("00"),
            hash: String::new(),
        }
    }

    #[test]
    fn every_part_counts_and_none_runs_into_the_next() {
        let text = str::to_owned;
        let others = [
            AuditRow { version: 8, ..row() },
            AuditRow { at_ms: 0, ..row() },
            AuditRow { who: text("anna"), role: text("dmin"), ..row() },
            AuditRow { who: text("bob"), ..row() },
            AuditRow { role: text("reader"), ..row() },
            AuditRow { action: text("delete"), ..row() },
            AuditRow { kind: text("policy"), ..row() },
            AuditRow { id: text("acme2"), ..row() },
            AuditRow { before: Some(String::new()), ..row() },
            AuditRow { before: Some(text("{}")), after: None, ..row() },
            AuditRow { after: None, ..row() },
            AuditRow { previous: text("01"), ..row() },
            row(),
        ];
        let mut hashes: Vec<String> = others.iter().map(hash).collect();
        hashes.sort();
        hashes.dedup();
        assert_eq!(hashes.len(), others.len());
        assert_eq!(hash(&AuditRow { hash: text("anything"), ..row() }), hash(&row()));
    }

    /// What has been written stays verifiable: the hash is a format.
    #[test]
    fn the_hash_is_what_it_was() {
        assert_eq!(
            Head::first("fleet").write(),
            "0 8f4213b3c73d16556908b95f0453b8d4119ff968cad2c1669b0e8e727600f3ea"
        );
        assert_eq!(hash(&row()), "6940e31186192b13a0846bcf871e43f97155bab80aa71e1eaa3b13ec0b57005d");
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = Head::first("fleet");
        assert_eq!(Head::read(&head.write()), Ok(head));
        for text in ["", "7", "seven 00", "-1 00"] {
            assert!(Head::read(text).is_err(), "{text:?}");
        }
    }
}

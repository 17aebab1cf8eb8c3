//! The rows of request ids: read and written in the transaction that counts.

use std::collections::BTreeMap;

use tollgate_core::Time;
use tollgate_store::authority::{Act, Question};

use super::books::{Books, KnownId};
use super::commit::{hex, integer, key_of};
use crate::driver::{Row, Session, Value};
use crate::error::DatabaseError;
use crate::rows::{by_rows, by_rows_like};

/// Reads what is remembered under the ids of some questions. Where none has an id, nothing is asked.
pub(super) async fn read(
    session: &mut Session<'_>,
    questions: &[Question],
    books: &mut Books,
) -> Result<(), DatabaseError> {
    let mut places = BTreeMap::new();
    for question in questions {
        if let Act::Once(id, _) = question.act {
            places.entry((question.key, id.number)).or_insert_with(|| hex(question.key));
        }
    }
    let places: Vec<_> =
        places.iter().map(|((_, number), key)| [Value::Text(key), integer(*number)]).collect();
    let words = [
        "SELECT key, number, fingerprint, users, allowed, counted_at, deadline FROM request_ids \
            WHERE (key, number) IN (VALUES ",
        "(?, CAST(? AS BIGINT))",
        ")",
    ];
    by_rows_like(session, words, &places).await?.into_iter().try_for_each(|row| put(books, row))
}

fn put(books: &mut Books, mut row: Row) -> Result<(), DatabaseError> {
    let key = key_of(&row.text(0)?)?;
    let known = KnownId {
        fingerprint: row.version(2)?,
        users: row.version(3)?,
        is_allowed: row.integer(4)? != 0,
        counted_at: Time::from_ticks(row.version(5)?),
        deadline_us: row.version(6)?,
        is_changed: false,
    };
    books.put_id(key, row.version(1)?, known);
    Ok(())
}

/// Writes what has changed.
pub(super) async fn write(session: &mut Session<'_>, books: &Books) -> Result<(), DatabaseError> {
    let changed: BTreeMap<(String, u64), KnownId> =
        books.changed_ids().map(|(key, number, known)| ((hex(key), number), *known)).collect();
    let (kept, forgotten): (Vec<_>, Vec<_>) = changed.iter().partition(|(_, known)| known.users > 0);
    let rows: Vec<_> = kept
        .iter()
        .map(|((key, number), known)| {
            let KnownId { fingerprint, users, is_allowed, counted_at, deadline_us, .. } = **known;
            [
                Value::Text(key),
                integer(*number),
                integer(fingerprint),
                integer(users),
                integer(is_allowed.into()),
                integer(counted_at.ticks()),
                integer(deadline_us),
            ]
        })
        .collect();
    let insert =
        "INSERT INTO request_ids (key, number, fingerprint, users, allowed, counted_at, deadline) VALUES ";
    let replace = " ON CONFLICT (key, number) DO UPDATE SET fingerprint = excluded.fingerprint, \
        users = excluded.users, allowed = excluded.allowed, counted_at = excluded.counted_at, \
        deadline = excluded.deadline";
    by_rows(session, insert, &rows, replace).await?;
    let places: Vec<_> =
        forgotten.iter().map(|((key, number), _)| [Value::Text(key), integer(*number)]).collect();
    let words = ["DELETE FROM request_ids WHERE (key, number) IN (VALUES ", "(?, CAST(? AS BIGINT))", ")"];
    by_rows_like(session, words, &places).await.map(drop)
}

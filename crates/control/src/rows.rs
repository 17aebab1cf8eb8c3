//! One statement for many rows: every statement is a round trip, and there are few different ones to keep ready.

use crate::driver::{Row, Session, Value};
use crate::error::DatabaseError;

/// So many rows are in one statement.
const ROWS_MAX: usize = 64;

/// One statement for many rows of values. Their number in it is a power of two, so that there are few different ones to keep ready.
pub(crate) async fn by_rows<const COLUMNS: usize>(
    session: &mut Session<'_>,
    start: &str,
    rows: &[[Value<'_>; COLUMNS]],
    end: &str,
) -> Result<Vec<Row>, DatabaseError> {
    let row = format!("({})", ["?"; COLUMNS].join(", "));
    by_rows_like(session, [start, &row, end], rows).await
}

/// As [`by_rows`], with the words for one row between those before and after all of them: where nothing else says of which type a value is, they do.
pub(crate) async fn by_rows_like<const COLUMNS: usize>(
    session: &mut Session<'_>,
    [start, row, end]: [&str; 3],
    mut rows: &[[Value<'_>; COLUMNS]],
) -> Result<Vec<Row>, DatabaseError> {
    let mut answers = Vec::new();
    while !rows.is_empty() {
        let count = 1 << rows.len().min(ROWS_MAX).ilog2();
        let (some, rest) = rows.split_at(count);
        let sql = format!("{start}{}{end}", vec![row; count].join(", "));
        answers.extend(session.query(&sql, some.as_flattened()).await?);
        rows = rest;
    }
    Ok(answers)
}

//! Answers in pages: bounded in rows, and in bytes because a row may be large.
//!
//! A page is read by two statements. The first asks how large the rows are, the second for as many as fit: so nobody ever has more of them in memory.

#[cfg(test)]
mod tests;

use crate::document::Version;
use crate::driver::Row;

/// The most rows of one answer,
pub const PAGE_ROWS_MAX: usize = 1_000;
/// and the most bytes of what stands in them. One row may have more, and is a page of its own then.
pub const PAGE_BYTES_MAX: usize = 1 << 20;

/// What a row has besides its longest texts: names, hashes, numbers.
const ROW_BYTES: usize = 256;

/// Some rows, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// Those that fit: at least one, if there are any.
    pub rows: Vec<T>,
    /// Whether others follow.
    pub has_more: bool,
}

/// How much of what there is fits into a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fit {
    /// How many rows.
    pub(crate) rows: usize,
    /// Whether others follow.
    pub(crate) has_more: bool,
    /// The version of the last that fits.
    pub(crate) last: Version,
}

/// The columns of a statement that asks how large rows are, for [`fit`]; these are their longest texts.
pub(crate) fn sizes(texts: &[&str]) -> String {
    let bytes = texts.iter().map(|text| format!("COALESCE(octet_length({text}), 0)")).collect::<Vec<_>>();
    format!("version, CAST({} AS BIGINT)", bytes.join(" + "))
}

/// How many of these fit, if so many are wanted. There has to be one more than that, if there is.
pub(crate) fn fit(sized: &[Row], rows_max: usize) -> Fit {
    let (mut bytes, mut fit) = (0_usize, Fit::default());
    for row in sized.iter().take(rows_max) {
        // Whoever changes a database by hand can put anything anywhere; that is found out elsewhere.
        let number = |column| row.peek_integer(column).and_then(|number| u64::try_from(number).ok());
        bytes = bytes.saturating_add(usize::try_from(number(1).unwrap_or(0)).unwrap_or(usize::MAX));
        bytes = bytes.saturating_add(ROW_BYTES);
        if fit.rows > 0 && bytes > PAGE_BYTES_MAX {
            break;
        }
        (fit.rows, fit.last) = (fit.rows + 1, number(0).unwrap_or(fit.last));
    }
    Fit { has_more: fit.rows < sized.len(), ..fit }
}

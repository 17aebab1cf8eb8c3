//! Throwing away what is over: in small portions, now and then, by one server at a time.

use tollgate_core::Span;

use super::commit::{Writer, integer, time_there};
use crate::driver::{Session, Value, Work};
use crate::error::DatabaseError;

const SECOND_US: u64 = 1_000_000;
const DAY_US: u64 = 24 * 3_600 * SECOND_US;

/// So often it is looked for what is over, by all servers together.
pub(super) const SWEEP_INTERVAL_US: u64 = 60 * SECOND_US;
/// So many rows of a table go at once. If there were as many, the rest follows soon.
pub(super) const SWEEP_ROWS_MAX: usize = 500;
/// A lease is kept for so long after its deadline: nobody who returns it late meets whoever throws it away.
pub(super) const LEASES_KEPT_US: u64 = 3_600 * SECOND_US;
/// A counter is kept for so long after the end of its window, for people to look at.
pub(super) const COUNTERS_KEPT_US: u64 = 7 * DAY_US;
/// The number of the last transaction of a server that has gone is kept for so long.
pub(super) const COMMITS_KEPT_US: u64 = 30 * DAY_US;
/// The history of usage is kept for so many days.
pub const USAGE_KEPT_DAYS: u64 = 400;

/// The row that is locked by whoever sweeps. Its number tells whether more was left than one portion.
const BROOM: &str = "sweep";

/// Where a file was last swept longer ago than this, or later than now, its clock may be wrong.
const GAP_MIN_US: u64 = DAY_US;
/// After such a gap, nothing is thrown away for so long: an operator has time to set the clock right.
pub(super) const GAP_PATIENCE: Span = Span::from_ticks(24 * 3_600 * 1_000_000_000);

/// Throws away one portion of each table, if it is time for that.
///
/// Nothing is thrown away on the word of one clock. With PostgreSQL, a row has to be over by its clock and by this process's. A file has no clock: see [`Gap`].
pub(super) struct Sweep {
    pub(super) writer: Writer,
    pub(super) gap: Gap,
    pub(super) made_up_us: Option<u64>,
}

/// What to do where the time since the last sweep of a file cannot be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gap {
    /// Nothing.
    Wait,
    /// It was waited for long enough.
    Cross,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Swept {
    /// All that is over is gone.
    All,
    /// There is more.
    Some,
    /// The time cannot be believed: nothing was done.
    Held,
}

/// What is thrown away of a table.
struct Over {
    table: &'static str,
    /// The columns by which a row is known.
    place: &'static str,
    /// The column that says how old it is, and from where on it is kept.
    age: &'static str,
    kept_from: u64,
}

impl Work for Sweep {
    type Out = Swept;

    async fn run(&self, session: &mut Session<'_>) -> Result<Swept, DatabaseError> {
        let (is_unfinished, swept_at_us) = lock(session).await?;
        let there = if self.made_up_us.is_some() { None } else { time_there(session).await? };
        let now_us = self.made_up_us.or(there).unwrap_or_else(|| self.writer.now_us());
        if !is_unfinished && now_us.abs_diff(swept_at_us) < SWEEP_INTERVAL_US {
            return Ok(Swept::All);
        }
        let is_believed = session.has_clock() || self.made_up_us.is_some() || self.gap == Gap::Cross;
        if !is_believed && swept_at_us > 0 && now_us.abs_diff(swept_at_us) > GAP_MIN_US {
            return Ok(Swept::Held);
        }
        let over_us = there.map_or(now_us, |there_us| there_us.min(self.writer.now_us()));
        let set = "UPDATE commits SET number = ?, at = ? WHERE writer = ?";
        // First, or its own row would be among those that are too old.
        session.execute(set, &[Value::Integer(1), integer(now_us), Value::Text(BROOM)]).await?;
        let mut has_more = false;
        for over in over(over_us) {
            has_more |= over.sweep(session).await?;
        }
        let values = [Value::Integer(has_more.into()), integer(now_us), Value::Text(BROOM)];
        session.execute(set, &values).await?;
        Ok(if has_more { Swept::Some } else { Swept::All })
    }
}

/// Keeps others from sweeping. Tells whether there is more, and when it was last done.
async fn lock(session: &mut Session<'_>) -> Result<(bool, u64), DatabaseError> {
    let lock = "INSERT INTO commits (writer, number, at) VALUES (?, 1, 0) \
        ON CONFLICT (writer) DO UPDATE SET number = commits.number RETURNING number, at";
    let mut rows = session.query(lock, &[Value::Text(BROOM)]).await?;
    let row = rows.first_mut();
    row.map_or(Ok((true, 0)), |row| Ok((row.integer(0)? != 0, row.version(1).unwrap_or(0))))
}

fn over(now_us: u64) -> [Over; 7] {
    let before = |kept_us: u64| now_us.saturating_sub(kept_us);
    let kept_from_day = (now_us / DAY_US).saturating_sub(USAGE_KEPT_DAYS);
    [
        Over { table: "leases", place: "key, number", age: "deadline", kept_from: before(LEASES_KEPT_US) },
        Over { table: "counters", place: "key", age: "over_at", kept_from: before(COUNTERS_KEPT_US) },
        Over {
            table: "settlements",
            place: "key, number",
            age: "deadline",
            kept_from: before(LEASES_KEPT_US),
        },
        Over { table: "request_ids", place: "key, number", age: "deadline", kept_from: now_us },
        Over {
            table: "past_counters",
            place: "key, window_start",
            age: "over_at",
            kept_from: before(COUNTERS_KEPT_US),
        },
        Over { table: "usage_days", place: "subject, day, rule", age: "day", kept_from: kept_from_day },
        Over { table: "commits", place: "writer", age: "at", kept_from: before(COMMITS_KEPT_US) },
    ]
}

impl Over {
    async fn sweep(&self, session: &mut Session<'_>) -> Result<bool, DatabaseError> {
        let Over { table, place, age, kept_from } = self;
        // The age is asked twice: between the two, somebody may have begun a new window of the same counter.
        let delete = format!(
            "DELETE FROM {table} WHERE ({place}) IN \
            (SELECT {place} FROM {table} WHERE {age} < ? ORDER BY {age} LIMIT ?) AND {age} < ? RETURNING {age}"
        );
        let values = [integer(*kept_from), Value::count(SWEEP_ROWS_MAX), integer(*kept_from)];
        let rows = session.query(&delete, &values).await?;
        Ok(rows.len() >= SWEEP_ROWS_MAX)
    }
}

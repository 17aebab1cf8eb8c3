//! Some questions in one transaction.
//!
//! First the counters are locked, in the order of their keys, so that two servers that want the same ones wait for each other and never both. Only then the time is read:
//! whoever had a counter before has used it before. What the questions make of it is decided by [`Books`], and written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tollgate_core::{Count, Time};
use tollgate_store::Clock;
use tollgate_store::authority::{Act, OnceAct, Question, SharedKey};

use super::books::{Books, Counter, FirstSettlement, Lease, Past, Usage, text};
use super::{Answer, ids};
use crate::driver::{Row, Session, Value, Work};
use crate::error::DatabaseError;
use crate::rows::{by_rows, by_rows_like};

/// Beyond this, a day is not added to any more: no sum overflows.
const DAY_UNITS_MAX: u64 = 1 << 62;

/// Who writes, and by which clock.
#[derive(Clone)]
pub(super) struct Writer {
    /// A name that no other has, made up at the start.
    pub(super) name: Arc<str>,
    /// What people call it.
    pub(super) node: Arc<str>,
    pub(super) clock: Arc<Clock>,
}

/// Some questions that are answered together.
pub(super) struct Commit {
    pub(super) writer: Writer,
    /// The number of this transaction among all of the writer's.
    pub(super) number: i64,
    pub(super) questions: Arc<[Question]>,
    /// When each of them happened, in microseconds since 1970. Those beyond its end happen now.
    pub(super) since_us: Vec<u64>,
    pub(super) mark: Mark,
    pub(super) made_up_us: Option<u64>,
}

/// Whether the number of a transaction is written down in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// If it would have to be known later whether it was committed.
    WhereNeeded,
    /// In any case, and for so long: others may come to tell the same.
    For {
        /// In microseconds.
        us: u64,
    },
}

/// What is answered once it is committed.
#[derive(Debug)]
pub(super) struct Committed {
    pub(super) answers: Vec<Answer>,
    pub(super) now_us: u64,
    /// Whether the number was written down, so that it can be found out whether this was committed.
    pub(super) is_marked: bool,
}

/// The counters of some questions, by key.
#[derive(Default)]
struct Keys {
    /// Of those that may be changed: the key as text, and the tick.
    locked: BTreeMap<SharedKey, (String, i64)>,
    peeked: BTreeMap<SharedKey, String>,
}

impl Work for Commit {
    type Out = Committed;

    async fn run(&self, session: &mut Session<'_>) -> Result<Committed, DatabaseError> {
        let keys = Keys::of(&self.questions);
        let (mut rows, mut db_us) = keys.lock(session).await?;
        rows.extend(keys.peek(session).await?);
        if db_us.is_none() && self.made_up_us.is_none() {
            db_us = time_there(session).await?;
        }
        let now_us = self.made_up_us.or(db_us).unwrap_or_else(|| self.writer.now_us());
        let mut books = Books::new(now_us);
        for row in rows {
            put_counter(&mut books, row)?;
        }
        let out_of_window = books.out_of_window(&*self.questions);
        for row in past(session, &out_of_window).await? {
            put_past(&mut books, row)?;
        }
        for row in self.returned(session).await? {
            put_lease(&mut books, row)?;
        }
        for row in self.settled(session).await? {
            put_settlement(&mut books, row)?;
        }
        ids::read(session, &self.questions, &mut books).await?;
        self.forget_leases(session).await?;
        let answer = |(at, question)| match self.since_us.get(at) {
            Some(since_us) => books.answer_late(question, *since_us),
            None => books.answer(question),
        };
        let answers = self.questions.iter().enumerate().map(answer).collect::<Vec<_>>();
        self.write_counters(session, &books).await?;
        write_past(session, &books).await?;
        write_settlements(session, &books).await?;
        ids::write(session, &books).await?;
        self.write_leases(session, &books).await?;
        write_usage(session, &books).await?;
        let marked_at_us = match self.mark {
            Mark::WhereNeeded => (!session.is_alone() && self.needs_mark(&answers)).then_some(now_us),
            Mark::For { us } => Some(now_us.saturating_add(us)),
        };
        let is_marked = marked_at_us.is_some();
        if let Some(at_us) = marked_at_us {
            self.mark(session, at_us).await?;
        }
        Ok(Committed { answers, now_us, is_marked })
    }
}

impl Commit {
    /// The leases that come back. Whatever becomes of what is left of them, they are not out any more.
    async fn returned(&self, session: &mut Session<'_>) -> Result<Vec<Row>, DatabaseError> {
        let mut places = BTreeMap::new();
        for question in &*self.questions {
            if let Act::Return(rest) = question.act {
                places.entry((question.key, rest.number)).or_insert_with(|| hex(question.key));
            }
        }
        let places: Vec<_> =
            places.iter().map(|((_, number), key)| [Value::Text(key), integer(*number)]).collect();
        let words = [
            "DELETE FROM leases WHERE (key, number) IN (VALUES ",
            "(?, CAST(? AS BIGINT))",
            ") RETURNING key, number, units, counted_at, deadline",
        ];
        by_rows_like(session, words, &places).await
    }

    /// Which of the reservations that are to be settled are so already.
    async fn settled(&self, session: &mut Session<'_>) -> Result<Vec<Row>, DatabaseError> {
        let mut places = BTreeMap::new();
        for question in &*self.questions {
            if let Act::Settle(settle) = question.act {
                places.entry((question.key, settle.number)).or_insert_with(|| hex(question.key));
            }
        }
        let places: Vec<_> =
            places.iter().map(|((_, number), key)| [Value::Text(key), integer(*number)]).collect();
        let words = [
            "SELECT key, number, sender FROM settlements WHERE (key, number) IN (VALUES ",
            "(?, CAST(? AS BIGINT))",
            ")",
        ];
        by_rows_like(session, words, &places).await
    }

    /// Of counters that begin anew, nothing is out any more, and nothing comes back.
    async fn forget_leases(&self, session: &mut Session<'_>) -> Result<(), DatabaseError> {
        let is_reset = |question: &&Question| matches!(question.act, Act::Reset);
        let keys: BTreeMap<SharedKey, String> = self
            .questions
            .iter()
            .filter(is_reset)
            .map(|question| (question.key, hex(question.key)))
            .collect();
        let keys: Vec<_> = keys.values().map(|key| [Value::Text(key)]).collect();
        by_rows(session, "DELETE FROM past_counters WHERE key IN (VALUES ", &keys, ")").await?;
        by_rows(session, "DELETE FROM leases WHERE key IN (VALUES ", &keys, ")").await.map(drop)
    }

    async fn write_counters(&self, session: &mut Session<'_>, books: &Books) -> Result<(), DatabaseError> {
        let changed: BTreeMap<String, &Counter> =
            books.changed().map(|(key, counter)| (hex(key), counter)).collect();
        let named: Vec<_> = changed
            .values()
            .map(|counter| counter.account.as_ref().map(|who| (text(&who.subject), text(&who.rule))))
            .collect();
        let mut rows = Vec::with_capacity(changed.len());
        for ((key, counter), named) in changed.iter().zip(&named) {
            let count = counter.count();
            rows.push([
                Value::Text(key),
                integer(count.window_start().ticks()),
                integer(counter.tick_us),
                integer(count.units()),
                integer(counter.over_at_us),
                named.as_ref().map(|(subject, _)| &**subject).into(),
                named.as_ref().map(|(_, rule)| &**rule).into(),
                integer(books.now_us()),
            ]);
        }
        let insert = "INSERT INTO counters \
            (key, window_start, tick, used, over_at, subject, rule, changed_at) VALUES ";
        let or_else = " ON CONFLICT (key) DO UPDATE SET window_start = excluded.window_start, \
            used = excluded.used, over_at = excluded.over_at, changed_at = excluded.changed_at, \
            subject = COALESCE(excluded.subject, counters.subject), \
            rule = COALESCE(excluded.rule, counters.rule)";
        by_rows(session, insert, &rows, or_else).await.map(drop)
    }

    async fn write_leases(&self, session: &mut Session<'_>, books: &Books) -> Result<(), DatabaseError> {
        let out: Vec<_> = books.leases().map(|(key, number, lease)| (hex(key), number, *lease)).collect();
        let rows: Vec<_> = out
            .iter()
            .map(|(key, number, lease)| {
                let Lease { units, counted_at_us, deadline_us } = *lease;
                let node = Value::Text(&self.writer.node);
                let moments = [integer(counted_at_us), integer(deadline_us)];
                [Value::Text(key), integer(*number), integer(units), moments[0], moments[1], node]
            })
            .collect();
        let insert = "INSERT INTO leases (key, number, units, counted_at, deadline, node) VALUES ";
        by_rows(session, insert, &rows, " ON CONFLICT (key, number) DO NOTHING").await.map(drop)
    }

    /// Whether somebody would have to know if it was committed. A lease has a row of its own that tells, and comes back only once.
    fn needs_mark(&self, answers: &[Answer]) -> bool {
        self.questions.iter().zip(answers).any(|(question, answer)| match question.act {
            Act::Take(_) | Act::Once(_, OnceAct::Take(_)) => {
                answer.is_ok_and(|grant| question.undo(&grant).is_some())
            }
            Act::Book(_) | Act::GiveBack { .. } | Act::Once(_, OnceAct::Undo { .. }) | Act::Reset => true,
            Act::Peek(_)
            | Act::Lease { .. }
            | Act::Return(_)
            | Act::Settle(_)
            | Act::Once(..)
            | Act::Release(_) => false,
        })
    }

    async fn mark(&self, session: &mut Session<'_>, at_us: u64) -> Result<(), DatabaseError> {
        let set = "INSERT INTO commits (writer, number, at) VALUES (?, ?, ?) \
            ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at";
        let values = [Value::Text(&self.writer.name), Value::Integer(self.number), integer(at_us)];
        session.execute(set, &values).await
    }
}

/// Looks which transaction of a writer was the last that was committed.
pub(super) struct LastCommitted {
    pub(super) writer: Arc<str>,
}

impl Work for LastCommitted {
    type Out = i64;

    async fn run(&self, session: &mut Session<'_>) -> Result<i64, DatabaseError> {
        // Whoever has this row knows that the lost transaction, which wrote it too, has ended one way or the other.
        let lock = "INSERT INTO commits (writer, number, at) VALUES (?, 0, 0) \
            ON CONFLICT (writer) DO UPDATE SET number = commits.number RETURNING number";
        let mut rows = session.query(lock, &[Value::Text(&self.writer)]).await?;
        rows.first_mut().map_or(Ok(0), |row| row.integer(0))
    }
}

impl Writer {
    pub(super) fn now_us(&self) -> u64 {
        self.clock.now().ticks() / 1_000
    }
}

impl Keys {
    fn of(questions: &[Question]) -> Keys {
        let mut keys = Keys::default();
        for question in questions {
            let key = question.key;
            if matches!(question.act, Act::Peek(_)) {
                keys.peeked.entry(key).or_insert_with(|| hex(key));
            } else {
                let tick = i64::try_from(question.limit.tick().length_us()).unwrap_or(i64::MAX);
                keys.locked.entry(key).or_insert_with(|| (hex(key), tick));
            }
        }
        keys.peeked.retain(|key, _| !keys.locked.contains_key(key));
        keys
    }

    /// Keeps others from these counters until the end of the transaction, and tells what time it is then, where the database has a clock.
    async fn lock(&self, session: &mut Session<'_>) -> Result<(Vec<Row>, Option<u64>), DatabaseError> {
        if session.is_alone() {
            return Ok((read(session, self.locked.values().map(|(key, _)| key)).await?, None));
        }
        let rows: Vec<_> =
            self.locked.values().map(|(key, tick)| [Value::Text(key), Value::Integer(*tick)]).collect();
        let insert = "INSERT INTO counters (key, tick, window_start, used, over_at, changed_at) VALUES ";
        let or_else = format!(
            " ON CONFLICT (key) DO UPDATE SET used = counters.used RETURNING key, window_start, tick, used, {}",
            session.time_words()
        );
        let rows = by_rows_like(session, [insert, "(?, ?, 0, 0, 0, 0)", &or_else], &rows).await?;
        // That of the last row was read when it was locked.
        let now_us = rows.iter().filter_map(|row| row.peek_integer(4)).max();
        Ok((rows, now_us.and_then(|now_us| u64::try_from(now_us).ok())))
    }

    /// The counters that are only looked at.
    async fn peek(&self, session: &mut Session<'_>) -> Result<Vec<Row>, DatabaseError> {
        read(session, self.peeked.values()).await
    }
}

async fn read(
    session: &mut Session<'_>,
    keys: impl Iterator<Item = &String>,
) -> Result<Vec<Row>, DatabaseError> {
    let keys: Vec<_> = keys.map(|key| [Value::Text(key)]).collect();
    let select = "SELECT key, window_start, tick, used FROM counters WHERE key IN (VALUES ";
    by_rows(session, select, &keys, ")").await
}

/// What time it is in the database, in microseconds since 1970. A file has no clock.
pub(super) async fn time_there(session: &mut Session<'_>) -> Result<Option<u64>, DatabaseError> {
    if session.is_alone() {
        return Ok(None);
    }
    let select = format!("SELECT {}", session.time_words());
    let mut rows = session.query(&select, &[]).await?;
    rows.first_mut().map(|row| row.version(0)).transpose()
}

/// A counter that somebody has damaged is put here as one that no question understands: it costs nobody else an answer.
fn put_counter(books: &mut Books, mut row: Row) -> Result<(), DatabaseError> {
    let key = key_of(&row.text(0)?)?;
    let numbers = (row.version(1), row.version(2), row.version(3));
    let (start, tick_us, used) = match numbers {
        (Ok(start), Ok(tick_us), Ok(used)) => (start, tick_us, used),
        _ => (0, 0, 0),
    };
    books.put_counter(key, tick_us, Count::new(Time::from_ticks(start), used));
    Ok(())
}

/// A damaged lease does not come back.
fn put_lease(books: &mut Books, mut row: Row) -> Result<(), DatabaseError> {
    let key = key_of(&row.text(0)?)?;
    let numbers = (row.version(1), row.version(2), row.version(3), row.version(4));
    if let (Ok(number), Ok(units), Ok(counted_at_us), Ok(deadline_us)) = numbers {
        books.put_lease(key, number, Lease { units, counted_at_us, deadline_us });
    }
    Ok(())
}

/// What counters had counted in windows that they have left.
async fn past(session: &mut Session<'_>, keys: &BTreeSet<SharedKey>) -> Result<Vec<Row>, DatabaseError> {
    let keys: Vec<String> = keys.iter().copied().map(hex).collect();
    let keys: Vec<_> = keys.iter().map(|key| [Value::Text(key)]).collect();
    let select = "SELECT key, window_start, tick, used FROM past_counters WHERE key IN (VALUES ";
    by_rows(session, select, &keys, ")").await
}

fn put_past(books: &mut Books, mut row: Row) -> Result<(), DatabaseError> {
    let key = key_of(&row.text(0)?)?;
    if let (Ok(start), Ok(tick_us), Ok(used)) = (row.version(1), row.version(2), row.version(3)) {
        books.put_past(key, tick_us, Count::new(Time::from_ticks(start), used));
    }
    Ok(())
}

fn put_settlement(books: &mut Books, mut row: Row) -> Result<(), DatabaseError> {
    let key = key_of(&row.text(0)?)?;
    books.put_settlement(key, row.version(1)?, row.version(2)?);
    Ok(())
}

async fn write_settlements(session: &mut Session<'_>, books: &Books) -> Result<(), DatabaseError> {
    let new: Vec<_> =
        books.new_settlements().map(|(key, number, settlement)| (hex(key), number, *settlement)).collect();
    let rows: Vec<_> = new
        .iter()
        .map(|(key, number, settlement)| {
            let FirstSettlement { sender, deadline_us, .. } = *settlement;
            [Value::Text(key), integer(*number), integer(sender), integer(deadline_us)]
        })
        .collect();
    by_rows(session, "INSERT INTO settlements (key, number, sender, deadline) VALUES ", &rows, "")
        .await
        .map(drop)
}

async fn write_past(session: &mut Session<'_>, books: &Books) -> Result<(), DatabaseError> {
    let left: BTreeMap<(String, u64), &Past> =
        books.new_past().map(|(key, start, past)| ((hex(key), start.ticks()), past)).collect();
    let rows: Vec<_> = left
        .iter()
        .map(|((key, start), past)| {
            let Past { tick_us, units, over_at_us, .. } = **past;
            [Value::Text(key), integer(*start), integer(tick_us), integer(units), integer(over_at_us)]
        })
        .collect();
    let insert = "INSERT INTO past_counters (key, window_start, tick, used, over_at) VALUES ";
    let or_else = " ON CONFLICT (key, window_start) DO UPDATE SET used = excluded.used, tick = excluded.tick";
    by_rows(session, insert, &rows, or_else).await.map(drop)
}

async fn write_usage(session: &mut Session<'_>, books: &Books) -> Result<(), DatabaseError> {
    let rows: Vec<_> = books
        .usage()
        .iter()
        .map(|((subject, day, rule), usage)| {
            let Usage { counted, given_back } = *usage;
            let [counted, given_back] =
                [counted, given_back].map(|units| integer(units.min(DAY_UNITS_MAX - 1)));
            [Value::Text(subject), integer(*day), Value::Text(rule), counted, given_back]
        })
        .collect();
    let insert = "INSERT INTO usage_days (subject, day, rule, counted, given_back) VALUES ";
    let sum = |column: &str| {
        format!(
            "{column} = usage_days.{column} + CASE WHEN usage_days.{column} < {DAY_UNITS_MAX} \
            THEN excluded.{column} ELSE 0 END"
        )
    };
    let or_else =
        format!(" ON CONFLICT (subject, day, rule) DO UPDATE SET {}, {}", sum("counted"), sum("given_back"));
    by_rows(session, insert, &rows, &or_else).await.map(drop)
}

pub(super) fn hex(key: SharedKey) -> String {
    format!("{:032x}", key.0)
}

pub(super) fn key_of(text: &str) -> Result<SharedKey, DatabaseError> {
    let key = u128::from_str_radix(text, 16);
    key.map(SharedKey).map_err(|_| DatabaseError::Corrupt("a counter has a key that is none".to_owned()))
}

pub(super) fn integer(number: u64) -> Value<'static> {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

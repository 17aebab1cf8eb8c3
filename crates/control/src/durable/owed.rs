//! What a process owes the database, as text: it is kept in a file while the database is away.
//!
//! Only facts are kept: costs that were spent, and units that come back. A reset is not. Told hours later, it would forget what was counted since.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tollgate_core::{Cost, LeaseRest, SettleChange, SettleOnce, SharedLimit, Time};
use tollgate_store::authority::{Account, Act, OnceAct, OnceId, Question, SharedKey};

use super::books::text;

/// Something that the database is to be told.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Owed {
    pub(super) question: Question,
    /// When it came to be owed, in microseconds since 1970.
    pub(super) since_us: u64,
    pub(super) condition: Condition,
}

/// Whether it is to be told at all. It may depend on a transaction of which it was not known whether it was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Always,
    IfCommitted,
    IfNotCommitted,
}

const CONDITIONS: [(Condition, &str); 3] = [
    (Condition::Always, "always"),
    (Condition::IfCommitted, "if-committed"),
    (Condition::IfNotCommitted, "if-not-committed"),
];
const BOOK: &str = "book";
const GIVE_BACK: &str = "give-back";
const UNDO: &str = "undo";
const RETURN: &str = "return";
const SETTLE_BOOK: &str = "settle-book";
const SETTLE_RETURN: &str = "settle-return";
const ONCE_BOOK: &str = "once-book";
const ONCE_GIVE_BACK: &str = "once-give-back";
const ONCE_UNDO: &str = "once-undo";

impl Owed {
    /// A line of fields between tabs. None for what is not kept.
    pub(super) fn to_line(&self) -> Option<String> {
        let Question { key, limit, act, account } = &self.question;
        let (_, condition) = CONDITIONS.iter().find(|(condition, _)| *condition == self.condition)?;
        let act = match *act {
            Act::Book(cost) => format!("{BOOK} {}", cost.units()),
            Act::GiveBack { units, counted_at, undoes } => {
                let kind = if undoes { UNDO } else { GIVE_BACK };
                format!("{kind} {units} {}", counted_at.ticks())
            }
            Act::Return(LeaseRest { units, counted_at, deadline, number }) => {
                format!("{RETURN} {units} {} {} {number}", counted_at.ticks(), deadline.ticks())
            }
            Act::Settle(SettleOnce { change, counted_at, deadline, number, sender }) => {
                let (kind, units) = match change {
                    SettleChange::Book(units) => (SETTLE_BOOK, units),
                    SettleChange::Return(units) => (SETTLE_RETURN, units),
                };
                let (counted_at, deadline) = (counted_at.ticks(), deadline.ticks());
                format!("{kind} {units} {counted_at} {deadline} {number} {sender}")
            }
            Act::Once(OnceId { number, fingerprint }, act) => match act {
                OnceAct::Take(_) => return None,
                OnceAct::Book(cost) => format!("{ONCE_BOOK} {} {number} {fingerprint}", cost.units()),
                OnceAct::GiveBack { units, counted_at } => {
                    format!("{ONCE_GIVE_BACK} {units} {} {number} {fingerprint}", counted_at.ticks())
                }
                OnceAct::Undo { units, undoes } => {
                    format!("{ONCE_UNDO} {units} {} {number} {fingerprint}", u8::from(undoes))
                }
            },
            _ => return None,
        };
        let limit = limit.to_window_text()?;
        let mut line = format!("{condition}\t{}\t{:032x}\t{limit}\t{act}", self.since_us, key.0);
        if let Some(account) = account {
            for name in [&account.subject, &account.rule] {
                line.push('\t');
                line.push_str(&escaped(&text(name)));
            }
        }
        Some(line)
    }

    /// Reads what [`Owed::to_line`] writes.
    pub(super) fn from_line(line: &str) -> Option<Owed> {
        let mut fields = line.split('\t');
        let condition_name = fields.next()?;
        let (condition, _) = *CONDITIONS.iter().find(|(_, name)| *name == condition_name)?;
        let since_us = fields.next()?.parse().ok()?;
        let key = SharedKey(u128::from_str_radix(fields.next()?, 16).ok()?);
        let limit = Arc::new(SharedLimit::from_window_text(fields.next()?)?);
        let act = read_act(fields.next()?)?;
        let account = match (fields.next(), fields.next()) {
            (Some(subject), Some(rule)) => {
                let (subject, rule) = (unescaped(subject)?.into(), unescaped(rule)?.into());
                Some(Arc::new(Account { subject, rule }))
            }
            (None, _) => None,
            (Some(_), None) => return None,
        };
        let question = Question { key, limit, act, account };
        fields.next().is_none().then_some(Owed { question, since_us, condition })
    }
}

fn read_act(text: &str) -> Option<Act> {
    let (kind, numbers) = text.split_once(' ')?;
    let numbers: Vec<u64> =
        numbers.split(' ').map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some(match (kind, &*numbers) {
        (BOOK, &[units]) => Act::Book(Cost::new(units)),
        (GIVE_BACK | UNDO, &[units, counted_at]) => {
            Act::GiveBack { units, counted_at: Time::from_ticks(counted_at), undoes: kind == UNDO }
        }
        (RETURN, &[units, counted_at, deadline, number]) => {
            let (counted_at, deadline) = (Time::from_ticks(counted_at), Time::from_ticks(deadline));
            Act::Return(LeaseRest { units, counted_at, deadline, number })
        }
        (SETTLE_BOOK | SETTLE_RETURN, &[units, counted_at, deadline, number, sender]) => {
            let is_booking = kind == SETTLE_BOOK;
            let change = if is_booking { SettleChange::Book(units) } else { SettleChange::Return(units) };
            let (counted_at, deadline) = (Time::from_ticks(counted_at), Time::from_ticks(deadline));
            Act::Settle(SettleOnce { change, counted_at, deadline, number, sender })
        }
        (ONCE_BOOK, &[units, number, fingerprint]) => {
            Act::Once(OnceId { number, fingerprint }, OnceAct::Book(Cost::new(units)))
        }
        (ONCE_GIVE_BACK, &[units, counted_at, number, fingerprint]) => {
            let counted_at = Time::from_ticks(counted_at);
            Act::Once(OnceId { number, fingerprint }, OnceAct::GiveBack { units, counted_at })
        }
        (ONCE_UNDO, &[units, undoes, number, fingerprint]) => {
            Act::Once(OnceId { number, fingerprint }, OnceAct::Undo { units, undoes: undoes != 0 })
        }
        _ => return None,
    })
}

/// A name without the characters that end a field or a line.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(field: &str) -> Option<String> {
    let mut name = String::with_capacity(field.len());
    let mut letters = field.chars();
    while let Some(letter) = letters.next() {
        name.push(match letter {
            '\\' => match letters.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            letter => letter,
        });
    }
    Some(name)
}

//! The history: who has used how much on which day, by rule.

use crate::database::Database;
use crate::driver::Value;
use crate::error::DatabaseError;
use crate::page::PAGE_ROWS_MAX;

/// Whose usage is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageFilter {
    /// The tenant, or what is counted where there is none.
    pub subject: String,
    /// The first day, as days since 1970-01-01.
    pub from_day: u64,
    /// The last day, which belongs to it.
    pub to_day: u64,
    /// Only under this rule.
    pub rule: Option<String>,
    /// Only what comes after this: the last of the page before.
    pub after: Option<(u64, String)>,
    /// At most so many, and never more than [`PAGE_ROWS_MAX`].
    pub limit: usize,
}

/// What was used on a day: what was taken, leased and booked, less what was given back of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageDay {
    /// Days since 1970-01-01, in the zone of the rule.
    pub day: u64,
    /// The rule, and which of its limits.
    pub rule: String,
    /// How many units.
    pub units: u64,
}

impl Database {
    /// Usage of a subject per day and rule, newest last; at most [`PAGE_ROWS_MAX`]. Days without any are left out.
    pub async fn usage_days(&self, filter: &UsageFilter) -> Result<Vec<UsageDay>, DatabaseError> {
        let mut sql = "SELECT day, rule, counted, given_back FROM usage_days \
            WHERE subject = ? AND day >= ? AND day <= ? AND counted > given_back"
            .to_owned();
        let mut values = vec![Value::Text(&filter.subject), day(filter.from_day), day(filter.to_day)];
        if let Some(rule) = &filter.rule {
            sql.push_str(" AND rule = ?");
            values.push(Value::Text(rule));
        }
        if let Some((after, rule)) = &filter.after {
            sql.push_str(" AND (day, rule) > (?, ?)");
            values.extend([day(*after), Value::Text(rule)]);
        }
        sql.push_str(" ORDER BY day, rule LIMIT ?");
        values.push(Value::count(filter.limit.min(PAGE_ROWS_MAX)));
        let rows = self.driver().query(&sql, &values).await?;
        rows.into_iter()
            .map(|mut row| {
                let (day, rule) = (row.version(0)?, row.text(1)?);
                let units = row.version(2)?.saturating_sub(row.version(3)?);
                Ok(UsageDay { day, rule, units })
            })
            .collect()
    }
}

fn day(day: u64) -> Value<'static> {
    Value::Integer(i64::try_from(day).unwrap_or(i64::MAX))
}

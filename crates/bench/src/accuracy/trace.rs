//! Recorded traffic: a web log with a host per line, and a log of token counts of a language model.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use thiserror::Error;
use tollgate_core::{Cost, LimitError, Time};

use super::traffic::{Arrival, Traffic, per_minute};
use tollgate_load::Random;

/// What one host of the web log may ask per minute.
const REQUESTS_PER_MINUTE: u64 = 10;
const SECOND_NS: u64 = 1_000_000_000;

/// Why a trace cannot be read.
#[derive(Debug, Error)]
pub(super) enum TraceError {
    /// The file is not there, or not ours to read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A line that is not of the expected form.
    #[error("{}:{line}: {what}", path.display())]
    BadLine {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// Nothing beyond the header.
    #[error("{} has no arrivals", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A rate that no limit can have.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// A web log: tab-separated with a header; host in column 1, Unix seconds in column 3. Arrivals of one second are
/// spread within it.
pub(super) fn web_log(path: &Path, seed: u64) -> Result<Traffic, TraceError> {
    let mut random = Random::new(seed);
    let mut hosts: HashMap<String, usize> = HashMap::new();
    let arrivals = read_lines(path, |line| {
        let mut columns = line.split('\t');
        let host = columns.next().filter(|host| !host.is_empty()).ok_or("no host in column 1")?;
        let seconds = number(columns.nth(1), "column 3 (Unix seconds)")?;
        let next_key = hosts.len();
        let key = *hosts.entry(host.to_owned()).or_insert(next_key);
        let at_ns =
            seconds.checked_mul(SECOND_NS).ok_or("a moment beyond all clocks")? + random.below(SECOND_NS);
        Ok(Arrival { key, at: Time::from_ticks(at_ns), cost: Cost::ONE })
    })?;
    Ok(Traffic::new("web log, 10/min per host", per_minute(REQUESTS_PER_MINUTE)?, hosts.len(), arrivals))
}

/// A log of tokens: comma-separated with a header; timestamp, context tokens, generated tokens. One key, held to the
/// mean of the trace.
pub(super) fn token_log(path: &Path) -> Result<Traffic, TraceError> {
    let arrivals = read_lines(path, |line| {
        let mut columns = line.split(',');
        let at_ns = timestamp_ns(columns.next().unwrap_or_default())?;
        let context = number(columns.next(), "column 2 (context tokens)")?;
        let generated = number(columns.next(), "column 3 (generated tokens)")?;
        let cost = context.checked_add(generated).ok_or("more tokens than can be counted")?;
        Ok(Arrival { key: 0, at: Time::from_ticks(at_ns), cost: Cost::new(cost) })
    })?;
    let rate = per_minute(mean_per_minute(&arrivals))?;
    Ok(Traffic::new("language model tokens, 1.0 x mean", rate, 1, arrivals))
}

/// Every line after the header as an arrival.
fn read_lines(
    path: &Path,
    mut parse: impl FnMut(&str) -> Result<Arrival, String>,
) -> Result<Vec<Arrival>, TraceError> {
    let unreadable = |source| TraceError::Unreadable { path: path.to_owned(), source };
    let lines = BufReader::new(File::open(path).map_err(unreadable)?).lines();
    let mut arrivals = Vec::new();
    for (index, line) in lines.enumerate().skip(1) {
        let line = line.map_err(unreadable)?;
        match parse(line.trim_end_matches('\r')) {
            Ok(arrival) => arrivals.push(arrival),
            Err(what) => return Err(TraceError::BadLine { path: path.to_owned(), line: index + 1, what }),
        }
    }
    if arrivals.is_empty() {
        return Err(TraceError::Empty { path: path.to_owned() });
    }
    Ok(arrivals)
}

fn number(text: Option<&str>, what: &str) -> Result<u64, String> {
    let text = text.ok_or_else(|| format!("{what} is missing"))?;
    text.trim().parse().map_err(|_| format!("{what} is not a whole number: {text:?}"))
}

fn timestamp_ns(text: &str) -> Result<u64, String> {
    let bad = |why: &dyn std::fmt::Display| format!("column 1 is not a timestamp: {text:?} ({why})");
    let moment: jiff::civil::DateTime = text.trim().parse().map_err(|error: jiff::Error| bad(&error))?;
    let zoned = moment.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| bad(&error))?;
    u64::try_from(zoned.timestamp().as_nanosecond()).map_err(|error| bad(&error))
}

/// The units of all arrivals over the minutes they span, at least 1.
fn mean_per_minute(arrivals: &[Arrival]) -> u64 {
    let units: u128 = arrivals.iter().map(|arrival| u128::from(arrival.cost.units())).sum();
    let first = arrivals.iter().map(|arrival| arrival.at).min().unwrap_or_default();
    let last = arrivals.iter().map(|arrival| arrival.at).max().unwrap_or_default();
    let span_ns = u128::from(last.since(first).ticks()).max(1);
    u64::try_from(units * 60 * u128::from(SECOND_NS) / span_ns).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests;

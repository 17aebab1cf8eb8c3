//! How many, per what time: the numbers of a limit, in either of their two spellings.

use super::Reader;
use super::fields::{Fields, Found};
use crate::keys::UNITS;
use crate::problem::{Mark, Problem};
use crate::rule::{Period, Unit};

/// The numbers of a limit or of a tier, as far as they are given.
#[derive(Clone, Copy)]
pub(super) struct Numbers {
    pub(super) units: Found<u64>,
    pub(super) period: Found<Period>,
    pub(super) burst: Found<u64>,
    pub(super) unlimited: Found<bool>,
    /// Where something is missing, if it is.
    pub(super) mark: Mark,
}

impl Numbers {
    /// These numbers, and those of `around` where these are silent.
    pub(super) fn within(self, around: &Numbers) -> Numbers {
        Numbers {
            units: self.units.or(around.units),
            period: self.period.or(around.period),
            burst: self.burst.or(around.burst),
            ..self
        }
    }

    pub(super) fn is_unlimited(&self) -> bool {
        self.unlimited.given().is_some_and(|given| given.value)
    }

    /// Whether nothing is counted: all passes, or nothing does.
    pub(super) fn counts_nothing(&self) -> bool {
        self.is_unlimited() || self.units.given().is_some_and(|given| given.value == 0)
    }
}

impl Reader<'_, '_> {
    /// The numbers that the mapping gives.
    pub(super) fn numbers(&mut self, fields: &Fields) -> Numbers {
        self.only_one(
            fields,
            &["requests_per_unit", "requests"],
            "they mean the same: keep one, such as `requests_per_unit: 100` with `unit: minute`",
        );
        self.only_one(
            fields,
            &["unit", "period", "calendar"],
            "keep one: `unit: minute`, or any length as `period: 90s`, or `calendar: month`",
        );
        let units = self.field(fields, "requests_per_unit", Reader::whole);
        let units = units.or(self.field(fields, "requests", Reader::whole));
        let period = self
            .field(fields, "unit", |reader, entry| reader.choice(entry, UNITS, &Unit::ALL).map(Period::Unit));
        let period = period.or(self.field(fields, "period", |reader, entry| {
            let length = reader.duration(entry)?;
            if length.is_zero() {
                reader.wrong(
                    entry.value.mark,
                    "a `period` of no length has no rate",
                    "write one such as `1s`",
                );
                return None;
            }
            Some(Period::Length(length))
        }));
        let burst = self.field(fields, "burst", Reader::whole);
        let unlimited = self.field(fields, "unlimited", Reader::boolean);
        let numbers = Numbers { units, period, burst, unlimited, mark: fields.mark };
        if numbers.is_unlimited() {
            self.check_unlimited(fields);
            return Numbers { units: Found::Absent, ..numbers };
        }
        numbers
    }

    /// What is unlimited has no numbers; but envoyproxy/ratelimit passes over `requests_per_unit` there, and files have it.
    fn check_unlimited(&mut self, fields: &Fields) {
        let Some(unlimited) = fields.entry("unlimited") else { return };
        let excluded = ["unit", "requests", "period", "calendar", "burst"];
        for entry in fields.entries().iter().filter(|entry| excluded.contains(&&*entry.key)) {
            let what = format!("`{}` has no meaning where `unlimited` is true", entry.key);
            let problem = Problem::new(self.page.position(entry.key_mark), what)
                .also(self.page.position(unlimited.key_mark), "unlimited by this")
                .hint(format!("remove `{}`, or remove `unlimited`", entry.key));
            self.problems.push(problem);
        }
    }

    /// Of these keys, one at most may be given.
    pub(super) fn only_one(&mut self, fields: &Fields, keys: &[&str], hint: &str) -> bool {
        let mut given = fields.entries().iter().filter(|entry| keys.contains(&&*entry.key));
        let Some(first) = given.next() else { return true };
        let mut is_single = true;
        for other in given {
            is_single = false;
            let what = format!("both `{}` and `{}` are given", first.key, other.key);
            let problem = Problem::new(self.page.position(other.key_mark), what)
                .also(self.page.position(first.key_mark), "the other one")
                .hint(hint);
            self.problems.push(problem);
        }
        is_single
    }
}

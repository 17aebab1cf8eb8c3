//! The query of a request: each parameter once, and none that is not known. A misspelt one would otherwise be left out silently.

use percent_encoding::percent_decode_str;

use super::moment;
use super::operation::{Form, Parameter};
use super::problem::Problem;
use super::usage_days::parse_day;

/// The parameters that were given, each in its form.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(&'static str, String)>);

impl Query {
    /// Reads the query of a request that may have these parameters.
    pub(super) fn read(text: &str, known: &'static [Parameter]) -> Result<Query, Problem> {
        let mut given: Vec<(&'static str, String)> = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (decode(name)?, decode(value)?);
            let parameter = known.iter().find(|parameter| parameter.name == name);
            let parameter = parameter.ok_or_else(|| unknown(&name, known))?;
            if given.iter().any(|(name, _)| *name == parameter.name) {
                return Err(Problem::BadRequest(format!(
                    "the parameter `{}` is given twice",
                    parameter.name
                )));
            }
            parameter.check(&value)?;
            given.push((parameter.name, value));
        }
        Ok(Query(given))
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| *given == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// A day, as days since 1970-01-01.
    pub(super) fn day(&self, name: &str) -> Option<u64> {
        parse_day(self.text(name)?)
    }

    /// A moment in milliseconds since 1970.
    pub(super) fn moment_ms(&self, name: &str) -> Option<i64> {
        moment::parse_ms(self.text(name)?)
    }
}

impl Parameter {
    fn check(&self, value: &str) -> Result<(), Problem> {
        let wrong = |wanted: &str| Err(Problem::BadRequest(format!("`{}` has to be {wanted}", self.name)));
        match self.form {
            Form::Text if value.contains(char::is_control) => wrong("a text without control characters"),
            Form::Count { min, max, .. } => {
                let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let number =
                    value.parse::<u64>().ok().filter(|number| is_number && (min..=max).contains(number));
                number.map_or_else(|| wrong(&format!("a whole number from {min} to {max}")), |_| Ok(()))
            }
            Form::Moment if moment::parse_ms(value).is_none() => {
                wrong("a moment such as 2026-02-01T00:00:00Z")
            }
            Form::Day if parse_day(value).is_none() => wrong("a day since 1970, such as 2026-11-17"),
            Form::Word(words) if !words.contains(&value) => wrong(&format!("one of {}", words.join(", "))),
            Form::Text | Form::Moment | Form::Day | Form::Word(_) => Ok(()),
        }
    }
}

fn unknown(name: &str, known: &[Parameter]) -> Problem {
    let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
    let known = if names.is_empty() {
        "this path takes none".to_owned()
    } else {
        format!("this path takes {}", names.join(", "))
    };
    Problem::BadRequest(format!("unknown parameter {name:?}: {known}"))
}

fn decode(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    decoded.map(Into::into).map_err(|_| Problem::BadRequest("the query is not UTF-8".to_owned()))
}

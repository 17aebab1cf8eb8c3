//! Values by their kinds: text, numbers, booleans, lengths of time, and words of a list.

use std::time::Duration;

use super::Reader;
use crate::keys::{NAME_CHARS_MAX, nearest};
use crate::problem::quote;
use crate::yaml::{Content, Entry, Plain, Scalar, plain};

impl Reader<'_, '_> {
    /// Any scalar, as it is written: `404` and `true` are text where text is asked for.
    pub(super) fn text(&mut self, entry: &Entry) -> Option<String> {
        self.scalar(entry, "text").map(|scalar| scalar.text.as_ref().to_owned())
    }

    /// Text of so many characters at most, because every counter's key carries it.
    pub(super) fn text_up_to(&mut self, entry: &Entry, chars_max: usize) -> Option<String> {
        let text = self.text(entry)?;
        let chars = text.chars().count();
        if chars <= chars_max {
            return Some(text);
        }
        let what = format!("`{}` may have at most {chars_max} characters, not {chars}", entry.key);
        self.wrong(entry.value.mark, what, "the key of every counter below carries it: choose a shorter one");
        None
    }

    /// A name that is told to clients in headers, which carry printable ASCII only.
    pub(super) fn name(&mut self, entry: &Entry) -> Option<String> {
        let name = self.text(entry)?;
        self.check_name(&name, entry.value.mark).then_some(name)
    }

    /// Whether a name may be told to clients.
    pub(super) fn check_name(&mut self, name: &str, mark: crate::problem::Mark) -> bool {
        if let Some(c) = name.chars().find(|c| !matches!(c, ' '..='~')) {
            let what = format!("a name may not have the character {}", quote(&c.to_string()));
            self.wrong(mark, what, "names are sent in headers: use letters, digits and signs of ASCII");
            return false;
        }
        if name.len() > NAME_CHARS_MAX {
            let what = format!("a name may have at most {NAME_CHARS_MAX} characters, not {}", name.len());
            self.wrong(mark, what, "names are sent in headers: choose a shorter one");
            return false;
        }
        true
    }

    pub(super) fn boolean(&mut self, entry: &Entry) -> Option<bool> {
        let scalar = self.scalar(entry, "`true` or `false`")?;
        if scalar.plain
            && let Plain::Boolean(value) = plain(&scalar.text)
        {
            return Some(value);
        }
        let meant = match scalar.text.to_ascii_lowercase().as_str() {
            // As in YAML 1.1, which envoyproxy/ratelimit reads.
            "yes" | "on" | "y" if scalar.plain => return Some(true),
            "no" | "off" | "n" if scalar.plain => return Some(false),
            "true" | "yes" | "on" | "y" | "1" => "write `true`",
            "false" | "no" | "off" | "n" | "0" => "write `false`",
            _ => "write `true` or `false`",
        };
        let what = format!("`{}` must be `true` or `false`, not {}", entry.key, shown(scalar));
        self.wrong(entry.value.mark, what, meant);
        None
    }

    /// A whole number of 64 bits, not negative.
    pub(super) fn whole(&mut self, entry: &Entry) -> Option<u64> {
        let scalar = self.scalar(entry, "a whole number")?;
        match number(scalar) {
            Ok(number) => Some(number),
            Err(NoNumber { what, hint }) => {
                self.wrong(entry.value.mark, format!("`{}` {what} {}", entry.key, shown(scalar)), hint);
                None
            }
        }
    }

    /// A whole number up to a bound.
    pub(super) fn whole_up_to(&mut self, entry: &Entry, max: u64) -> Option<u64> {
        let number = self.whole(entry)?;
        if number <= max {
            return Some(number);
        }
        let what = format!("`{}` is {number}, and may be at most {max}", entry.key);
        self.wrong(entry.value.mark, what, format!("write a number up to {max}"));
        None
    }

    /// A day of a month.
    pub(super) fn day_of_month(&mut self, entry: &Entry) -> Option<u8> {
        let day = self.whole_up_to(entry, 31).and_then(|day| u8::try_from(day).ok())?;
        if day == 0 {
            let what = format!("`{}` is 0, and months begin with day 1", entry.key);
            self.wrong(entry.value.mark, what, "write a number from 1 to 31");
            return None;
        }
        Some(day)
    }

    /// A part of a whole, from 0 to 1, in percent.
    pub(super) fn fraction(&mut self, entry: &Entry) -> Option<u8> {
        let scalar = self.scalar(entry, "a number from 0 to 1")?;
        let number = match plain(&scalar.text) {
            Plain::Float(number) if scalar.plain => Some(number),
            Plain::Whole(0) if scalar.plain => Some(0.0),
            Plain::Whole(1) if scalar.plain => Some(1.0),
            _ => None,
        };
        let percent = (0..=100_u8)
            .find(|percent| number.is_some_and(|number| (number * 100.0 - f64::from(*percent)).abs() < 1e-9));
        if percent.is_none() {
            let what = format!("`{}` must be from 0 to 1 in hundredths, not {}", entry.key, shown(scalar));
            self.wrong(entry.value.mark, what, "a quarter is `0.25`");
        }
        percent
    }

    /// A length of time such as `1m30s`.
    pub(super) fn duration(&mut self, entry: &Entry) -> Option<Duration> {
        let scalar = self.scalar(entry, "a length of time")?;
        match duration(&scalar.text) {
            Ok(duration) => Some(duration),
            Err(hint) => {
                let what = format!("`{}` must be a length of time, not {}", entry.key, quote(&scalar.text));
                self.wrong(entry.value.mark, what, hint);
                None
            }
        }
    }

    /// One of several words; upper case is as good.
    pub(super) fn choice<T: Copy>(&mut self, entry: &Entry, words: &[&str], values: &[T]) -> Option<T> {
        debug_assert_eq!(words.len(), values.len());
        let scalar = self.scalar(entry, "a word")?;
        let found = words.iter().position(|word| word.eq_ignore_ascii_case(&scalar.text));
        if let Some(value) = found.and_then(|i| values.get(i)) {
            return Some(*value);
        }
        if self.is_only_counted(entry.value.mark) {
            return None;
        }
        let hint = match nearest(&scalar.text, words.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? It can be {}", words.join(", ")),
            None => format!("it can be {}", words.join(", ")),
        };
        self.wrong(entry.value.mark, format!("unknown {} {}", entry.key, quote(&scalar.text)), hint);
        None
    }

    fn scalar<'e>(&mut self, entry: &'e Entry, wanted: &str) -> Option<&'e Scalar> {
        if let Content::Scalar(scalar) = &entry.value.content {
            return Some(scalar);
        }
        // The key may be a person's own, such as the name of a tenant.
        let what = format!("{} must be {wanted}, not {}", quote(&entry.key), entry.value.kind());
        let hint = format!("write {} and the value on one line", quote(&format!("{}:", entry.key)));
        self.wrong(entry.value.mark, what, hint);
        None
    }
}

/// The text as it stands, with its quotes.
fn shown(scalar: &Scalar) -> String {
    if scalar.plain { quote(&scalar.text) } else { quote(&format!("\"{}\"", scalar.text)) }
}

/// Why a scalar is no number of ours: what is said before it is shown, and what to write instead.
struct NoNumber {
    what: &'static str,
    hint: String,
}

/// The number that a scalar is.
fn number(scalar: &Scalar) -> Result<u64, NoNumber> {
    let text = &*scalar.text;
    let no_number = |hint: String| NoNumber { what: "must be a whole number, not", hint };
    let hint = match (plain(text), scalar.plain) {
        (Plain::Whole(_), false) => format!("remove the quotes: {}", quote(text)),
        (_, false) => "write digits only, such as `100`".to_owned(),
        (Plain::Whole(_), _) if has_leading_zero(text) => {
            "a number that begins with 0 is read as octal by some: leave the 0 out".to_owned()
        }
        (Plain::Whole(number), _) => {
            return u64::try_from(number).map_err(|_| NoNumber {
                what: if number < 0 { "cannot be negative:" } else { "is too large:" },
                hint: format!("write a number from 0 to {}", u64::MAX),
            });
        }
        (Plain::Float(_), _) => {
            "leave out the fraction; for less than one per unit, use a longer period".to_owned()
        }
        _ => advice(text),
    };
    Err(no_number(hint))
}

fn has_leading_zero(text: &str) -> bool {
    let digits = text.trim_start_matches(['+', '-']);
    digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// What to write instead of something that begins like a number.
fn advice(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let rest = rest.trim();
    if digits.is_empty() {
        return "write digits only, such as `100`".to_owned();
    }
    if rest.bytes().all(|byte| byte.is_ascii_digit() || b"_,'".contains(&byte)) {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        return format!("write it without separators: {}", quote(&digits));
    }
    if let Some(unit) = rest.strip_prefix('/').map(str::trim) {
        let unit = unit_named(unit).unwrap_or("minute");
        return format!("write the number alone, {}, and the time as `unit: {unit}`", quote(digits));
    }
    match rest {
        "k" | "K" => format!("write it in full: {}", quote(&format!("{digits}000"))),
        "m" | "M" => format!("write it in full: {}", quote(&format!("{digits}000000"))),
        _ => format!("write the number alone: {}", quote(digits)),
    }
}

/// The unit that an abbreviation stands for.
fn unit_named(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase();
    let abbreviations = [
        ("second", ["s", "sec", "secs", "seconds"]),
        ("minute", ["m", "min", "mins", "minutes"]),
        ("hour", ["h", "hr", "hrs", "hours"]),
        ("day", ["d", "dy", "dys", "days"]),
        ("week", ["w", "wk", "wks", "weeks"]),
        ("month", ["mo", "mon", "mth", "months"]),
        ("year", ["y", "yr", "yrs", "years"]),
    ];
    abbreviations
        .into_iter()
        .find(|(unit, short)| *unit == text || short.contains(&&*text))
        .map(|(unit, _)| unit)
}

const LENGTHS: [(&str, u128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// A sum of numbers with units, or what to write instead.
fn duration(text: &str) -> Result<Duration, String> {
    const EXAMPLES: &str = "write a number and a unit, such as `250ms`, `90s`, `1m30s`, `12h`, `1d` or `2w`";
    let mut total_ns: u128 = 0;
    let mut rest = text;
    if rest.is_empty() {
        return Err(EXAMPLES.to_owned());
    }
    while !rest.is_empty() {
        let digits_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (digits, after) = rest.split_at(digits_end);
        let unit_end = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        if digits.is_empty() {
            return Err(match unit_named(text) {
                Some(unit) => format!("for one {unit}, write `unit: {unit}` instead, or a number before it"),
                None => EXAMPLES.to_owned(),
            });
        }
        if unit.is_empty() {
            return Err(format!("it needs a unit: `{digits}s` are seconds, `{digits}ms` milliseconds"));
        }
        let Some((_, length_ns)) = LENGTHS.iter().find(|(name, _)| *name == unit) else {
            return Err(unit_advice(digits, unit).unwrap_or_else(|| EXAMPLES.to_owned()));
        };
        let number: u128 = digits.parse().unwrap_or(u128::MAX);
        total_ns =
            number.checked_mul(*length_ns).and_then(|ns| total_ns.checked_add(ns)).unwrap_or(u128::MAX);
        rest = next;
    }
    let seconds = u64::try_from(total_ns / 1_000_000_000).unwrap_or(u64::MAX);
    let nanos = u32::try_from(total_ns % 1_000_000_000).unwrap_or(0);
    Ok(Duration::new(seconds, nanos))
}

fn unit_advice(digits: &str, unit: &str) -> Option<String> {
    if unit.starts_with('.') {
        return Some("write it without a fraction: `1h30m` instead of `1.5h`".to_owned());
    }
    let unit = unit_named(unit.trim())?;
    Some(match unit {
        "month" | "year" => {
            format!("`unit: {unit}` has fixed days, `calendar: month` those of the calendar; or count in `d`")
        }
        _ => format!("write `{digits}{}`", &unit[..1]),
    })
}

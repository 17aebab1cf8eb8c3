//! Overrides as they are typed, `DESCRIPTOR=NUMBERS`, and as they are told.

use serde_json::{Map, Value, json};

const UNITS: [&str; 7] = ["second", "minute", "hour", "day", "week", "month", "year"];
/// What stands between the levels of a descriptor, as in the names of rules.
const LEVELS: &str = " > ";
/// What can stand behind the numbers, each with its value.
const OPTIONS: [&str; 3] = ["burst", "limit", "domain"];

/// An override of a rule: `endpoint:POST /v1/orders=500/minute`, `path:/login > user=5/90s;limit=hourly`, `=10/second` for the rule that
/// counts the tenant alone.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let (subject, numbers) = parts(text)?;
    let levels: Vec<&str> = subject.split(LEVELS).map(str::trim).filter(|level| !level.is_empty()).collect();
    let descriptor = match levels.as_slice() {
        [level] => json!(level),
        levels => json!(levels),
    };
    Ok(joined("descriptor", descriptor, numbers))
}

/// An override of a named policy: `api=500/minute`.
pub(super) fn parse_policy(text: &str) -> Result<Value, String> {
    let (subject, numbers) = parts(text)?;
    if subject.is_empty() {
        return Err(format!("\"{text}\" names no policy: write such as api=500/minute"));
    }
    Ok(joined("policy", json!(subject), numbers))
}

fn joined(key: &str, subject: Value, numbers: Map<String, Value>) -> Value {
    let mut whole = Map::new();
    whole.insert(key.to_owned(), subject);
    whole.extend(numbers);
    Value::Object(whole)
}

/// What it is about, and its numbers.
fn parts(text: &str) -> Result<(&str, Map<String, Value>), String> {
    let mut rest = text;
    let mut options = Map::new();
    while let Some((before, (name, value))) = option(rest) {
        let value = match name {
            "burst" => json!(whole(value)?),
            _ => json!(value),
        };
        options.insert(name.to_owned(), value);
        rest = before;
    }
    let Some((subject, numbers)) = rest.rsplit_once('=') else {
        return Err(format!(
            "\"{text}\" says no numbers: write DESCRIPTOR=NUMBERS, such as endpoint:POST /v1/orders=500/minute"
        ));
    };
    let mut all = self::numbers(numbers.trim())?;
    all.extend(options);
    Ok((subject.trim(), all))
}

/// An option at the end of the text, and what stands before it.
fn option(text: &str) -> Option<(&str, (&str, &str))> {
    let (before, option) = text.rsplit_once(';')?;
    let (name, value) = option.split_once('=')?;
    let name = name.trim();
    OPTIONS.contains(&name).then_some((before, (name, value.trim())))
}

fn numbers(text: &str) -> Result<Map<String, Value>, String> {
    let numbers = if text == "unlimited" {
        json!({"unlimited": true})
    } else {
        let (number, per) = text.split_once('/').ok_or_else(|| {
            format!("\"{text}\" is no rate: write such as 500/minute, 100/90s, or unlimited")
        })?;
        let (number, per) = (whole(number.trim())?, per.trim());
        if UNITS.contains(&per) {
            json!({"requests_per_unit": number, "unit": per})
        } else if per.starts_with(|c: char| c.is_ascii_digit()) {
            json!({"requests": number, "period": per})
        } else {
            return Err(format!(
                "\"{per}\" is no unit: it can be {}, or a length of time such as 90s",
                UNITS.join(", ")
            ));
        }
    };
    Ok(match numbers {
        Value::Object(numbers) => numbers,
        _ => Map::new(),
    })
}

fn whole(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is not a whole number"))
}

/// What an override is about. Of two with the same, the later takes the earlier one's place.
pub(super) fn subject(over: &Value) -> String {
    let about = match (over["policy"].as_str(), &over["descriptor"]) {
        (Some(policy), _) => format!("policy {policy}"),
        (None, Value::String(level)) => level.clone(),
        (None, Value::Array(levels)) if !levels.is_empty() => {
            let levels: Vec<&str> = levels.iter().filter_map(Value::as_str).collect();
            levels.join(LEVELS)
        }
        _ => "the tenant alone".to_owned(),
    };
    let domain = over["domain"].as_str().map_or_else(String::new, |domain| format!("{domain}: "));
    let limit = over["limit"].as_str().map_or_else(String::new, |limit| format!(" [{limit}]"));
    format!("{domain}{about}{limit}")
}

/// Its numbers, in words.
pub(super) fn rate(over: &Value) -> String {
    if over["unlimited"].as_bool() == Some(true) {
        return "unlimited".to_owned();
    }
    let number = if over["requests"].is_u64() { &over["requests"] } else { &over["requests_per_unit"] };
    let per =
        over["unit"].as_str().or(over["period"].as_str()).map_or_else(String::new, |per| format!("/{per}"));
    let burst = over["burst"].as_u64().map_or_else(String::new, |burst| format!(", burst {burst}"));
    format!("{number}{per}{burst}")
}

#[cfg(test)]
mod tests;

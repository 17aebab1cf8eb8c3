//! Keys in words.

use jiff::Timestamp;
use serde_json::Value;

use crate::table::{Column, Table, shown};
use crate::{moment, subject};

/// What a key has left, limit by limit.
pub(super) fn state(asked: &Value, said: &Value, now: Timestamp) -> String {
    let verdict =
        if said["allowed"].as_bool() == Some(true) { "would be allowed" } else { "would be denied" };
    let retry = match said["retry_after"].as_f64() {
        Some(seconds) => format!(", retry after {seconds:.3} s"),
        None => String::new(),
    };
    let text = format!("{}: {verdict}{retry}\n", shown(&subject::told(asked)));
    if let Some(act) = said["act"].as_object().filter(|act| act["act"] == "ban" && act["active"] == true) {
        return format!("{text}{}\n", what(&Value::Object(act.clone()), now));
    }
    let decisions = said["decisions"].as_array().map_or(&[][..], Vec::as_slice);
    if decisions.is_empty() {
        return format!("{text}No limit applies.\n");
    }
    let columns = [
        Column::Left("LIMIT"),
        Column::Left("RULE"),
        Column::Left("ENFORCEMENT"),
        Column::Right("LEFT"),
        Column::Right("OF"),
        Column::Right("WINDOW"),
        Column::Left("DECIDED BY"),
    ];
    let mut table = Table::new(&columns);
    for decision in decisions {
        table.row([
            decision["title"].as_str().unwrap_or("-"),
            decision["rule"].as_str().unwrap_or("-"),
            decision["enforcement"].as_str().unwrap_or("-"),
            &number(&decision["remaining"]),
            &number(&decision["limit"]),
            &moment::window(&decision["window"]),
            decision["decided_by"].as_str().unwrap_or("-"),
        ]);
    }
    format!("{text}{}", table.text())
}

fn number(value: &Value) -> String {
    value.as_u64().map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// A ban or a boost that was just made.
pub(super) fn act(told: &str, said: &Value, now: Timestamp) -> String {
    let id = said["id"]
        .as_str()
        .map_or_else(String::new, |id| format!("to end it: tollgate key lift {}\n", shown(id)));
    format!("{}: {}\n{id}", shown(told), what(said, now))
}

fn what(act: &Value, now: Timestamp) -> String {
    let until = moment::told_from(&act["until"], now, "?");
    let reason = act["reason"].as_str().map_or_else(String::new, |reason| format!(": {}", shown(reason)));
    match act["percent"].as_u64() {
        Some(percent) => format!("boosted to {percent} % until {until}{reason}"),
        None => format!("banned until {until}{reason}"),
    }
}

/// What was done to a key, or ended.
pub(super) fn changes(before: &Value, after: &Value) -> Vec<String> {
    let told = |act: &Value| {
        let what =
            act["percent"].as_u64().map_or_else(|| "ban".to_owned(), |percent| format!("boost {percent} %"));
        let reason = act["reason"].as_str().map_or_else(String::new, |reason| format!(": {reason}"));
        (
            format!("{what} of {}", subject::told(act)),
            format!(" until {}{reason}", moment::told(&act["until"], "?")),
        )
    };
    vec![match after {
        Value::Null => format!("end of the {}", told(before).0),
        after => told(after).0 + &told(after).1,
    }]
}

fn until(item: &Value, now: Timestamp) -> String {
    let over = if item["active"].as_bool() == Some(false) { ", over" } else { "" };
    format!("{}{over}", moment::told_from(&item["until"], now, "?"))
}

/// All bans and boosts.
pub(super) fn list(items: &[Value], now: Timestamp) -> String {
    if items.is_empty() {
        return "No key is banned or boosted.\n".to_owned();
    }
    let columns = [
        Column::Left("KEY"),
        Column::Left("WHAT"),
        Column::Left("UNTIL"),
        Column::Left("REASON"),
        Column::Left("BY"),
        Column::Left("ID"),
    ];
    let mut table = Table::new(&columns);
    for item in items {
        let what =
            item["percent"].as_u64().map_or_else(|| "ban".to_owned(), |percent| format!("boost {percent} %"));
        table.row([
            &subject::told(item),
            &what,
            &until(item, now),
            item["reason"].as_str().unwrap_or("-"),
            item["changed_by"].as_str().unwrap_or("-"),
            item["id"].as_str().unwrap_or("-"),
        ]);
    }
    table.text()
}

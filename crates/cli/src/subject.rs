//! Whom a command is about, as the questions of `/v1/check` say it: a policy and a key, or a domain and a descriptor.

use clap::{Arg, ArgGroup, ArgMatches};
use serde_json::{Value, json};

use crate::descriptor;
use crate::failure::Failure;

/// The flags.
pub(crate) fn args() -> [Arg; 4] {
    let text = |id: &'static str, help: &'static str| Arg::new(id).long(id).value_name("TEXT").help(help);
    [
        text("policy", "A named policy").conflicts_with_all(["domain", "entries"]).requires("key"),
        text("key", "Whom the policy counts").requires("policy"),
        text("domain", "The domain of a descriptor").requires("entries"),
        Arg::new("entries")
            .num_args(1..)
            .value_name("KEY=VALUE")
            .requires("domain")
            .help("The entries of the descriptor, in order"),
    ]
}

/// That one of the two is there.
pub(crate) fn group() -> ArgGroup {
    ArgGroup::new("subject").args(["policy", "domain"])
}

/// What was typed, in JSON.
pub(crate) fn body(matches: &ArgMatches) -> Result<Value, Failure> {
    let text = |id: &str| matches.get_one::<String>(id);
    if let Some(policy) = text("policy") {
        return Ok(json!({"policy": policy, "key": text("key")}));
    }
    let words: Vec<String> = matches.get_many("entries").into_iter().flatten().cloned().collect();
    let entries: Vec<Value> = descriptor::entries(&words)?
        .into_iter()
        .map(|(key, value)| json!({"key": key, "value": value}))
        .collect();
    Ok(json!({"domain": text("domain"), "descriptors": [{"entries": entries}]}))
}

/// What a server calls it, in words.
pub(crate) fn told(subject: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    if subject["policy"].is_string() {
        return format!("{} {}", text(&subject["policy"]), text(&subject["key"]));
    }
    let mut words = vec![format!("{}:", text(&subject["domain"]))];
    for descriptor in subject["descriptors"].as_array().into_iter().flatten() {
        for entry in descriptor["entries"].as_array().into_iter().flatten() {
            words.push(format!("{}={}", text(&entry["key"]), text(&entry["value"])));
        }
    }
    words.join(" ")
}

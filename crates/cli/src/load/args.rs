//! What is typed, and the load that it means.

use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, value_parser};
use tollgate_load::{Arrivals, Draw, Keys, Load, Pace, Protocol, Question};

use crate::descriptor;
use crate::failure::Failure;

/// Asked unless something else is: these stand in the rules of this repository.
const POLICY: &str = "search-standard";
const DOMAIN: &str = "shop";
const DESCRIPTOR: &str = "customer={key}";

pub(super) fn args() -> Vec<Arg> {
    let arg = |name: &'static str, value_name: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value_name).help(help)
    };
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    vec![
        arg("protocol", "NAME", "How to ask").value_parser(["http", "rls", "resp"]).default_value("http"),
        arg(
            "address",
            "ADDR",
            "Where the server listens [default: 127.0.0.1, and the protocol's usual port]",
        ),
        arg("rate", "N", "Requests a second, planned beforehand; or `max`: as fast as answers come")
            .value_parser(rate)
            .default_value("1000"),
        arg("arrivals", "HOW", "How planned moments are spread")
            .value_parser(["uniform", "poisson"])
            .default_value("uniform"),
        arg("batch", "N", "RESP: how many requests are planned for the same moment, in one write")
            .value_parser(value_parser!(u32).range(1..))
            .default_value("1"),
        arg("duration", "TIME", "How long").value_parser(duration).default_value("10s"),
        arg("warmup", "TIME", "What is asked before that does not count")
            .value_parser(duration)
            .default_value("0s"),
        arg("requests", "N", "End after so many requests, if that is earlier").value_parser(count),
        arg("connections", "N", "Connections").value_parser(value_parser!(usize)).default_value("8"),
        arg("in-flight", "N", "Requests under way on a connection: streams, or a pipeline; HTTP has one")
            .value_parser(value_parser!(usize))
            .default_value("32"),
        arg("keys", "N", "How many different keys").value_parser(count).default_value("1M"),
        arg("zipf", "EXPONENT", "Few keys are asked for most of the time [default: all equally often]")
            .value_parser(value_parser!(f64)),
        arg("seed", "N", "The same seed, the same keys and moments")
            .value_parser(value_parser!(u64))
            .default_value("1"),
        arg("policy", "NAME", "A named policy [default: search-standard, or for rls the domain shop]")
            .conflicts_with_all(["domain", "throttle"]),
        arg("key", "TEXT", "Whom it counts; {key} becomes twelve digits").default_value("user:{key}"),
        arg("throttle", "BURST,COUNT,PERIOD", "CL.THROTTLE with these numbers; the period is in seconds")
            .value_parser(three_numbers)
            .conflicts_with("domain"),
        arg("domain", "NAME", "The domain of descriptors").requires("descriptor"),
        arg("descriptor", "KEY=VALUE,...", "The entries of a descriptor; may be given several times")
            .action(ArgAction::Append)
            .requires("domain"),
        arg("cost", "UNITS", "How many units a request takes").value_parser(count).default_value("1"),
        arg("token", "TEXT", "A bearer token, or for RESP the password")
            .env("TOLLGATE_TOKEN")
            .hide_env_values(true),
        flag("json", "Print the report as JSON"),
        flag("quiet", "No progress; there is none either where standard error is no terminal"),
    ]
}

pub(super) fn load(matches: &ArgMatches) -> Result<Load, Failure> {
    let (protocol, port) = match text(matches, "protocol") {
        "rls" => (Protocol::Rls, 8081),
        "resp" => (Protocol::Resp, 6380),
        _ => (Protocol::Http, 8080),
    };
    let draw = matches.get_one::<f64>("zipf").map_or(Draw::Uniform, |&exponent| Draw::Zipf(exponent));
    Ok(Load {
        protocol,
        address: match matches.get_one::<String>("address") {
            Some(address) => with_host(address)?,
            None => format!("127.0.0.1:{port}"),
        },
        token: matches.get_one::<String>("token").cloned(),
        question: question(matches, protocol)?,
        keys: Keys { count: number(matches, "keys"), draw, seed: number(matches, "seed") },
        pace: pace(matches),
        duration: matches.get_one("duration").copied().unwrap_or_default(),
        warmup: matches.get_one("warmup").copied().unwrap_or_default(),
        requests_max: matches.get_one("requests").copied().unwrap_or(u64::MAX),
        connections: matches.get_one("connections").copied().unwrap_or(1),
        in_flight: matches.get_one("in-flight").copied().unwrap_or(1),
    })
}

fn text<'a>(matches: &'a ArgMatches, id: &str) -> &'a str {
    matches.get_one::<String>(id).map_or("", String::as_str)
}

fn number(matches: &ArgMatches, id: &str) -> u64 {
    matches.get_one(id).copied().unwrap_or(1)
}

fn pace(matches: &ArgMatches) -> Pace {
    let arrivals = if text(matches, "arrivals") == "poisson" { Arrivals::Poisson } else { Arrivals::Uniform };
    let batch = matches.get_one("batch").copied().unwrap_or(1);
    match matches.get_one::<Option<f64>>("rate").copied().flatten() {
        Some(per_second) => Pace::Planned { per_second, arrivals, batch },
        None => Pace::Max,
    }
}

fn question(matches: &ArgMatches, protocol: Protocol) -> Result<Question, Failure> {
    let (key, cost) = (text(matches, "key"), number(matches, "cost"));
    if let Some(numbers) = matches.get_one::<[u64; 3]>("throttle") {
        let words = ["CL.THROTTLE".to_owned(), key.to_owned()];
        let words = words.into_iter().chain(numbers.iter().chain([&cost]).map(u64::to_string)).collect();
        return Ok(Question::Command { words, yes: Some(0) });
    }
    let policy = matches.get_one::<String>("policy");
    if policy.is_some() || (protocol != Protocol::Rls && !matches.contains_id("domain")) {
        let name = policy.map_or(POLICY, String::as_str).to_owned();
        return Ok(Question::Policy { name, key: key.to_owned(), cost });
    }
    let domain = matches.get_one::<String>("domain").map_or(DOMAIN, String::as_str);
    let given: Vec<&str> =
        matches.get_many::<String>("descriptor").into_iter().flatten().map(String::as_str).collect();
    let written = if given.is_empty() { vec![DESCRIPTOR] } else { given };
    let cost = u32::try_from(cost)
        .map_err(|_| Failure::Usage("--cost: descriptors cost at most 4294967295".to_owned()))?;
    let descriptors = written.into_iter().map(entries).collect::<Result<_, _>>()?;
    Ok(Question::Descriptors { domain: domain.to_owned(), descriptors, cost })
}

fn entries(written: &str) -> Result<Vec<(String, String)>, Failure> {
    let words: Vec<String> = written.split(',').map(str::to_owned).collect();
    let entries = descriptor::entries(&words)?;
    Ok(entries.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
}

/// A bare port is one of this machine; an address may look like that of a web page.
fn with_host(address: &str) -> Result<String, Failure> {
    if address.starts_with("https://") {
        let told = "--address: TLS is not spoken here; ask a listener without it, at http://";
        return Err(Failure::Usage(told.to_owned()));
    }
    let address = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
    Ok(match address.strip_prefix(':').unwrap_or(address).parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}"),
        Err(_) => address.to_owned(),
    })
}

/// A number a second; none is as fast as possible.
fn rate(text: &str) -> Result<Option<f64>, String> {
    match text {
        "max" => Ok(None),
        _ => match scaled(text).filter(|rate| rate.is_finite() && *rate > 0.0) {
            Some(rate) => Ok(Some(rate)),
            None => Err("expected a number above 0, such as 500 or 20K, or `max`".to_owned()),
        },
    }
}

/// A whole number from 1 on.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was looked at before")]
fn count(text: &str) -> Result<u64, String> {
    match scaled(text) {
        Some(count) if count >= 1.0 && count <= 2_f64.powi(53) && count.fract() == 0.0 => Ok(count as u64),
        _ => Err("expected a whole number from 1 on, such as 500, 20K or 1M".to_owned()),
    }
}

fn three_numbers(text: &str) -> Result<[u64; 3], String> {
    let numbers: Result<Vec<u64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
    numbers
        .ok()
        .and_then(|numbers| numbers.try_into().ok())
        .ok_or_else(|| "expected three whole numbers, such as 15,30,60".to_owned())
}

/// A number with an optional K or M behind it.
fn scaled(text: &str) -> Option<f64> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix(['M', 'm']).map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    digits.parse::<f64>().ok().map(|number| number * unit)
}

/// A length of time: `250ms`, `10s`, `2m`; a bare number is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let length_ms = unit_ms.and_then(|unit_ms| number.parse::<u64>().ok()?.checked_mul(unit_ms));
    length_ms.map(Duration::from_millis).ok_or_else(|| "expected a time such as 250ms, 10s or 2m".to_owned())
}

#[cfg(test)]
mod tests;

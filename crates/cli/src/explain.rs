//! `tollgate explain`: which rules a descriptor meets, level by level, and why the others do not apply; and which address `/v1/auth`
//! counts for a request that came through proxies.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tollgate_server::{SETTINGS, Settings};

use crate::admin::{self, Admin};
use crate::failure::Failure;
use crate::table::shown;
use crate::{descriptor, print_bytes, validate};

/// The settings that decide whose address is counted.
const ADDRESS_SETTINGS: [&str; 2] = ["trusted_proxies", "trusted_hops"];

pub(crate) fn command() -> Command {
    Command::new("explain")
        .about("Show which rules a descriptor meets, and whose address /v1/auth counts")
        .after_help(
            "Examples:\n  tollgate explain --domain shop path=/login user=4711\n  \
             tollgate explain --policy search-standard\n  \
             tollgate explain --running --domain shop path=/login user=4711\n  \
             tollgate explain --peer 10.0.0.1 --header 'X-Forwarded-For: 203.0.113.9' --trusted-proxies 10.0.0.0/8\n\n\
             Files of rules are read. A server whose database replaces some of them has other rules in force:\n\
             --running asks its admin listener.",
        )
        .args(admin::args())
        .arg(
            Arg::new("running")
                .long("running")
                .action(ArgAction::SetTrue)
                .conflicts_with("peer")
                .help("Ask a running server for its rules, files and database together"),
        )
        .arg(
            Arg::new("policy")
                .long("policy")
                .value_name("NAME")
                .conflicts_with_all(["domain", "entries"])
                .help("A named policy"),
        )
        .arg(validate::default_algorithm_arg())
        .arg(validate::rules_arg("rules").long("rules").value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("domain")
                .long("domain")
                .short('d')
                .required_unless_present_any(["peer", "policy"])
                .requires("entries")
                .value_name("NAME")
                .help("The domain of the request"),
        )
        .arg(
            Arg::new("entries")
                .required_unless_present_any(["peer", "policy"])
                .requires("domain")
                .num_args(1..)
                .value_name("KEY=VALUE")
                .help("The entries of the descriptor, in order"),
        )
        .arg(
            Arg::new("peer")
                .long("peer")
                .value_name("ADDR")
                .value_parser(value_parser!(IpAddr))
                .help("The address that connects to /v1/auth: show which client it is counted for"),
        )
        .arg(
            Arg::new("header")
                .long("header")
                .short('H')
                .action(ArgAction::Append)
                .requires("peer")
                .value_name("NAME:VALUE")
                .help("A header field that it sends, such as X-Forwarded-For"),
        )
        .args(address_settings())
}

fn address_settings() -> impl Iterator<Item = Arg> {
    let settings = SETTINGS.iter().filter(|setting| ADDRESS_SETTINGS.contains(&setting.name));
    settings.map(|setting| {
        Arg::new(setting.name)
            .long(setting.name.replace('_', "-"))
            .env(setting.variable)
            .value_name(setting.value_name)
            .help(setting.help)
    })
}

pub(crate) fn run(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    if let Some(peer) = matches.get_one::<IpAddr>("peer") {
        let told = explain_address(*peer, matches)?;
        print_bytes(format!("client address {told}\n").as_bytes())?;
    }
    let (policy, domain) = (matches.get_one::<String>("policy"), matches.get_one::<String>("domain"));
    let words: Vec<String> = matches.get_many("entries").into_iter().flatten().cloned().collect();
    let entries = descriptor::entries(&words)?;
    let asked = match (policy, domain) {
        (Some(policy), _) => json!({ "policy": policy }),
        (None, Some(domain)) => {
            let entries = entries.iter().map(|(key, value)| json!({ "key": key, "value": value }));
            json!({ "domain": domain, "entries": entries.collect::<Vec<_>>() })
        }
        (None, None) => return Ok(ExitCode::SUCCESS),
    };
    if matches.get_flag("running") {
        let mut admin = Admin::new(matches)?;
        let reply = admin.post("/admin/v1/explain", &asked)?;
        return admin.print(&reply.body, || tell(&reply.body));
    }
    let rules: Vec<PathBuf> = matches.get_many("rules").into_iter().flatten().cloned().collect();
    let (snapshot, _) = validate::load(&rules, matches)?;
    let explanation = match (policy, domain) {
        (Some(policy), _) => snapshot.explain_policy(policy),
        (None, domain) => snapshot.explain(domain.map_or("", String::as_str), &entries),
    };
    let shown: Vec<String> = rules.iter().map(|path| path.display().to_string()).collect();
    let said = json!({
        "lines": explanation.lines(),
        "meets_a_limit": explanation.meets_a_limit(),
        "source": shown.join(", "),
        "replaces": null,
    });
    let told = if matches.get_flag("json") { format!("{said:#}\n") } else { tell(&said) };
    print_bytes(told.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// An explanation in words, and where its rules come from.
fn tell(said: &Value) -> String {
    let lines = said["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let source = said["source"].as_str().map(|source| {
        let replaces = said["replaces"].as_str();
        let replaces = replaces.map_or_else(String::new, |file| format!(", which replaces {}", shown(file)));
        format!("source: {}{replaces}", shown(source))
    });
    let lines: Vec<String> = lines.map(shown).chain(source).collect();
    format!("{}\n", lines.join("\n"))
}

fn explain_address(peer: IpAddr, matches: &ArgMatches) -> Result<String, Failure> {
    let mut settings = Settings::default();
    for name in ADDRESS_SETTINGS {
        let Some(text) = matches.get_one::<String>(name) else { continue };
        let given_by = format!("--{}", name.replace('_', "-"));
        settings.set(name, text).map_err(|error| Failure::Setting { given_by, error })?;
    }
    let mut fields = HeaderMap::new();
    for line in matches.get_many::<String>("header").into_iter().flatten() {
        let (name, value) = header(line).ok_or_else(|| {
            Failure::Usage(format!(
                "--header: \"{line}\" is not a header field such as `X-Forwarded-For: 192.0.2.1`"
            ))
        })?;
        fields.append(name, value);
    }
    Ok(settings.gate.addresses.client(peer, &fields).to_string())
}

fn header(line: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim().parse().ok()?, value.trim().parse().ok()?))
}

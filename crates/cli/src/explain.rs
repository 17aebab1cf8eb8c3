//! `tollgate explain`: which rules a descriptor meets, level by level, and why the others do not apply; and which address `/v1/auth`
//! counts for a request that came through proxies.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_server::{SETTINGS, Settings};

use crate::failure::Failure;
use crate::{descriptor, print_bytes, validate};

/// The settings that decide whose address is counted.
const ADDRESS_SETTINGS: [&str; 2] = ["trusted_proxies", "trusted_hops"];

pub(crate) fn command() -> Command {
    Command::new("explain")
        .about("Show which rules a descriptor meets, and whose address /v1/auth counts")
        .after_help(
            "Examples:\n  tollgate explain --domain shop path=/login user=4711\n  \
             tollgate explain --peer 10.0.0.1 --header 'X-Forwarded-For: 203.0.113.9' --trusted-proxies 10.0.0.0/8",
        )
        .arg(validate::default_algorithm_arg())
        .arg(validate::rules_arg("rules").long("rules").value_parser(value_parser!(PathBuf)))
        .arg(
            Arg::new("domain")
                .long("domain")
                .short('d')
                .required_unless_present("peer")
                .requires("entries")
                .value_name("NAME")
                .help("The domain of the request"),
        )
        .arg(
            Arg::new("entries")
                .required_unless_present("peer")
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
    let Some(domain) = matches.get_one::<String>("domain") else { return Ok(ExitCode::SUCCESS) };
    let rules: Vec<PathBuf> = matches.get_many("rules").into_iter().flatten().cloned().collect();
    let words: Vec<String> = matches.get_many("entries").into_iter().flatten().cloned().collect();
    let (snapshot, _) = validate::load(&rules, matches)?;
    let told = snapshot.explain(domain, &descriptor::entries(&words)?);
    print_bytes(format!("{told}\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
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

//! Every setting takes its values, and says what is wrong with others.
#![allow(clippy::unwrap_used)]

use std::collections::HashSet;

use super::*;

fn set(name: &str, text: &str) -> Result<Settings, SettingError> {
    let mut settings = Settings::default();
    settings.set(name, text).map(|()| settings)
}

#[test]
fn listeners_are_addresses_ports_or_off() {
    assert_eq!(set("http", "off").unwrap().http, Listen::Off);
    assert_eq!(set("grpc", "9000").unwrap().grpc, Listen::loopback(9000));
    assert_eq!(set("resp", ":0").unwrap().resp, Listen::loopback(0));
    assert_eq!(set("admin", "[::1]:80").unwrap().admin, Listen::At("[::1]:80".parse().unwrap()));
    assert!(matches!(set("http", "localhost:1").unwrap().http, Listen::At(at) if at.ip().is_loopback()));
    let refused = set("http", "80800").unwrap_err().to_string();
    assert_eq!(refused, "\"80800\" is not an address such as 127.0.0.1:8080 or [::]:8080, a port, or `off`");
}

#[test]
fn sizes_and_times_have_units() {
    assert_eq!(set("memory", "64MiB").unwrap().memory, Some(64 << 20));
    for (text, bytes) in [
        ("1GB", 1_000_000_000),
        ("1G", 1_000_000_000),
        ("512M", 512_000_000),
        ("512mb", 512_000_000),
        ("1Gi", 1 << 30),
        ("64 mib", 64 << 20),
        ("900k", 900_000),
    ] {
        assert_eq!(set("memory", text).unwrap().memory, Some(bytes), "{text}");
    }
    assert_eq!(set("connections_memory", "8MiB").unwrap().connections_memory, Some(8 << 20));
    assert_eq!(set("inline_limits_percent", "80").unwrap().gate.engine.ledger.callers_percent, 80);
    assert_eq!(set("drain_timeout", "250ms").unwrap().drain_timeout, Duration::from_millis(250));
    assert_eq!(set("drain_delay", "2").unwrap().drain_delay, Duration::from_secs(2));
    for (name, text) in [
        ("memory", "99999999999999999999GiB"),
        ("memory", "1TB"),
        ("inline_limits_percent", "0"),
        ("inline_limits_percent", "81"),
        ("drain_delay", "5h"),
        ("drain_delay", "-1s"),
    ] {
        assert!(set(name, text).is_err(), "{name} took {text}");
    }
}

#[test]
fn numbers_have_ranges() {
    assert_eq!(set("workers", "3").unwrap().workers, 3);
    for (name, text) in [
        ("workers", "0"),
        ("connections_max", "-1"),
        ("near_limit_ratio", "1.5"),
        ("near_limit_ratio", "NaN"),
        ("shadow_mode", "maybe"),
    ] {
        assert!(set(name, text).is_err(), "{name} took {text}");
    }
}

#[test]
fn proxies_are_networks() {
    let networks = |text: &str| set("trusted_proxies", text).unwrap().gate.addresses.trusted_proxies;
    assert_eq!(networks("loopback"), Settings::default().gate.addresses.trusted_proxies);
    assert_eq!(networks("private").len(), 8);
    assert_eq!(networks("loopback, 192.0.2.1").len(), 3);
    assert_eq!(networks("none"), []);
    assert_eq!(
        networks("192.0.2.1,10.0.0.0/8 , ::ffff:192.0.2.2")
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>(),
        ["192.0.2.1/32", "10.0.0.0/8", "192.0.2.2/32"]
    );
    assert_eq!(networks("192.0.2.1, private").len(), 9);
    let mapped = set("trusted_proxies", "::ffff:127.0.0.0/104, ::ffff:10.0.0.1/128, ::ffff:0:0/96").unwrap();
    let mapped = mapped.gate.addresses;
    let told: Vec<String> = mapped.trusted_proxies.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["127.0.0.0/8", "10.0.0.1/32", "0.0.0.0/0"]);
    for peer in ["127.9.9.9", "::ffff:127.9.9.9"] {
        let mut addresses = mapped.clone();
        addresses.trusted_proxies.truncate(1);
        assert!(addresses.trusts(peer.parse().unwrap()), "{peer}");
    }
    assert_eq!(set("trusted_hops", "2").unwrap().gate.addresses.trusted_hops, 2);
    assert_eq!(set("ipv6_prefix", "/56").unwrap().gate.addresses.ipv6_prefix, 56);
    assert!(set("trusted_proxies", &vec!["192.0.2.1"; 257].join(",")).is_err());
    for (name, text) in [
        ("trusted_proxies", ""),
        ("trusted_proxies", "10.0.0.0/33"),
        ("trusted_proxies", "10.0.0.1,"),
        ("trusted_proxies", "::ffff:127.0.0.0/95"),
        ("trusted_proxies", "::ffff:127.0.0.0/8"),
        ("trusted_proxies", "proxy.example"),
        ("trusted_hops", "-1"),
        ("ipv6_prefix", "129"),
        ("ipv6_prefix", "0"),
    ] {
        assert!(set(name, text).is_err(), "{name} took {text}");
    }
}

#[test]
fn pins_are_names_and_nodes() {
    let pins = |text: &str| {
        let pins = set("store_pins", text).unwrap().store.pins;
        pins.iter().map(|(name, node)| format!("{name} {node}")).collect::<Vec<_>>()
    };
    assert_eq!(
        pins("acme=10.0.0.9:7000, a=b = [::1]:1,c=Host"),
        ["acme 10.0.0.9:7000", "a=b [::1]:1", "c host:6379"]
    );
    assert_eq!(pins(" "), [""; 0]);
    let many = |count: usize| (0..count).map(|at| format!("n{at}=h")).collect::<Vec<_>>().join(",");
    assert_eq!(pins(&many(256)).len(), 256);
    let longest = "n".repeat(255);
    assert_eq!(pins(&format!("{longest}=h")), [format!("{longest} h:6379")]);
    let form = |number: usize| {
        format!(
            "pin {number} has to be NAME=HOST:PORT, with commas between pins, and a name of 1 to 255 bytes"
        )
    };
    let node = "pin 2 names no node: write HOST:PORT, with an IPv6 address in brackets; user and password are those of the store";
    for (text, expected) in [
        ("acme", form(1)),
        ("a=h,", form(2)),
        ("a=h,=h", form(2)),
        (&format!("{longest}n=h"), form(1)),
        ("a=h,b=h:0", node.to_owned()),
        ("a=h,b=", node.to_owned()),
        ("a=h,b=user:secret@h:1", node.to_owned()),
        ("a=h,b=secret@h", node.to_owned()),
        ("a=h,b=::1", node.to_owned()),
        ("a=h, a =h2", "\"a\" is pinned twice: a key lives on one node".to_owned()),
        (&many(257), "more than 256 pins".to_owned()),
    ] {
        assert_eq!(set("store_pins", text).unwrap_err().to_string(), expected, "{text}");
    }
}

#[test]
fn the_admin_api_has_tokens_hosts_and_a_rate() {
    let settings = set("admin_tokens", "reader:ann:0123456789abcdef").unwrap();
    assert!(matches!(settings.admin_api.tokens, Some(AdminTokenSource::Listed(tokens)) if tokens.len() == 1));
    let refused = set("admin_tokens", "ann:0123456789abcdef").unwrap_err().to_string();
    assert!(refused.contains("ROLE:NAME:TOKEN") && !refused.contains("0123"), "{refused}");
    assert_eq!(set("admin_hosts", "a.example, b.example:8443").unwrap().admin_api.hosts.len(), 2);
    assert_eq!(set("admin_rate", "off").unwrap().admin_api.rate, None);
    assert_eq!(
        set("admin_rate", "5/s").unwrap().admin_api.rate,
        Some(AdminRate { per_second: 5, burst: 20 })
    );
    for (name, text) in [("admin_hosts", "a b"), ("admin_rate", "5"), ("admin_rate", "0/s")] {
        assert!(set(name, text).is_err(), "{name} took {text}");
    }
}

#[test]
fn a_database_is_a_file_in_the_data_unless_told_otherwise() {
    let address = |settings: &Settings| settings.database_address().to_string();
    assert_eq!(address(&Settings::default()), "sqlite:data/tollgate.db");
    let mut settings = set("data", "state").unwrap();
    settings.paths_from(Path::new("/etc/tollgate"));
    assert_eq!(address(&settings), "sqlite:/etc/tollgate/state/tollgate.db");
    assert_eq!(settings.admin_token_file(), Path::new("/etc/tollgate/state/admin.token"));
    let mut settings = set("database", "sqlite:other.db").unwrap();
    settings.paths_from(Path::new("/etc/tollgate"));
    assert_eq!(address(&settings), "sqlite:/etc/tollgate/other.db");
    assert_eq!(address(&set("database", "off").unwrap()), "off");
    let refused = set("database", "postgres://ann:hunter2@host:none/x").unwrap_err().to_string();
    assert!(!refused.contains("hunter2"), "{refused}");
}

#[test]
fn names_are_unique_and_made_alike() {
    let names: HashSet<_> = SETTINGS.iter().map(|setting| setting.name).collect();
    assert_eq!(names.len(), SETTINGS.len());
    for setting in SETTINGS {
        assert_eq!(setting.variable, format!("TOLLGATE_{}", setting.name.to_uppercase()));
        assert!(setting.help.contains("[default: "), "{}", setting.name);
    }
    assert_eq!(set("htpp", "1").unwrap_err(), SettingError::Unknown);
}

#[test]
fn a_word_that_is_no_level_is_not_taken_for_a_module() {
    for (text, level) in [
        ("WARNING", "warn"),
        ("Fatal", "error"),
        ("debug", "debug"),
        ("info,tollgate_server=debug", "info,tollgate_server=debug"),
    ] {
        assert_eq!(set("log_level", text).unwrap().log_level, level);
    }
    assert!(set("log_level", "inof").is_err());
}

//! Whom the admin API answers, by the names that requests have.
#![allow(clippy::unwrap_used)]

use super::*;

fn check(listener: &str, others: &str, host: Option<&str>, origin: Option<&str>) -> Result<(), Foreign> {
    let hosts = Hosts::new(listener.parse().unwrap(), AdminHost::parse_list(others).unwrap());
    let mut fields = HeaderMap::new();
    for (name, value) in [(HOST, host), (ORIGIN, origin)] {
        if let Some(value) = value {
            fields.insert(name, HeaderValue::from_str(value).unwrap());
        }
    }
    hosts.check(&Uri::from_static("/admin/v1/quotas"), &fields)
}

#[test]
fn hosts_are_our_address_loopback_or_listed() {
    let others = "admin.example, Other.example:8443";
    for host in [
        "127.0.0.1:9090",
        "127.0.0.1",
        "localhost:1234",
        "LOCALHOST",
        "[::1]:9090",
        "10.0.0.7:9090",
        "admin.example",
        "Admin.Example:443",
        "other.example:8443",
    ] {
        assert_eq!(check("10.0.0.7:9090", others, Some(host), None), Ok(()), "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example",
        "10.0.0.8:9090",
        "other.example",
        "other.example:1",
        "",
        "localhost:x",
        "localhost:0",
        "a b",
        "ann@localhost",
        "[::1",
        "localhost, evil.example",
    ] {
        assert_eq!(check("10.0.0.7:9090", others, Some(host), None), Err(Foreign::Host), "{host}");
    }
    assert_eq!(check("127.0.0.1:9090", "", None, None), Err(Foreign::Host));
    // Whoever listens everywhere is asked by any address, but not by any name.
    assert_eq!(check("0.0.0.0:9090", "", Some("192.0.2.1:9090"), None), Ok(()));
    assert_eq!(check("[::]:9090", "", Some("evil.example:9090"), None), Err(Foreign::Host));
}

#[test]
fn origins_are_the_same_or_listed() {
    let at = |host: &str, origin: &str| check("127.0.0.1:9090", "admin.example", Some(host), Some(origin));
    assert_eq!(at("localhost:9090", "http://localhost:9090"), Ok(()));
    assert_eq!(at("127.0.0.1:9090", "https://admin.example"), Ok(()));
    for origin in [
        "null",
        "",
        "http://localhost:3000",
        "http://127.0.0.1:9090.evil.example",
        "https://evil.example",
        "file://localhost:9090",
        "localhost:9090",
    ] {
        assert_eq!(at("localhost:9090", origin), Err(Foreign::Origin), "{origin}");
    }
}

#[test]
fn in_http2_the_host_stands_in_the_address() {
    let hosts = Hosts::new("127.0.0.1:9090".parse().unwrap(), Vec::new());
    let check = |uri: &'static str| hosts.check(&Uri::from_static(uri), &HeaderMap::new());
    assert_eq!(check("http://localhost:9090/admin/v1/quotas"), Ok(()));
    assert_eq!(check("http://evil.example/admin/v1/quotas"), Err(Foreign::Host));
}

#[test]
fn lists_have_a_length() {
    let many = |count: usize| vec!["a.example"; count].join(",");
    assert_eq!(AdminHost::parse_list(&many(HOSTS_MAX)).unwrap().len(), HOSTS_MAX);
    assert_eq!(AdminHost::parse_list(&many(HOSTS_MAX + 1)), None);
    assert_eq!(AdminHost::parse_list("").unwrap(), []);
    assert_eq!(AdminHost::parse_list("a.example, b c"), None);
}

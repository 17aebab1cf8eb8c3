//! What browsers send, and which of it is refused.
#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

fn check(hosts: &WebHosts, fields: &[(&'static str, &'static str)]) -> u16 {
    let fields: HeaderMap = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    hosts
        .check(&Uri::from_static("/v1/check"), &fields)
        .map_or_else(|problem| problem.told().0.as_u16(), |()| 200)
}

fn on_loopback() -> WebHosts {
    WebHosts::new(AdminHost::parse_list("limits.example, app.example:8443").unwrap(), true)
}

#[test]
fn a_page_of_another_site_is_refused() {
    for hosts in [on_loopback(), WebHosts::default()] {
        let host = ("host", "127.0.0.1:8080");
        for origin in [
            "https://evil.example",
            "http://127.0.0.1:3000",
            "http://localhost:8080",
            "null",
            "",
            "file://",
            "http://127.0.0.1:8080.evil.example",
        ] {
            assert_eq!(check(&hosts, &[host, ("origin", origin)]), 403, "{origin}");
        }
        for site in ["cross-site", "same-site", "x", ""] {
            assert_eq!(check(&hosts, &[host, ("sec-fetch-site", site)]), 403, "{site}");
        }
        let plain = ("content-type", "text/plain");
        assert_eq!(check(&hosts, &[host, plain, ("origin", "https://evil.example")]), 403);
    }
}

#[test]
fn other_programs_and_the_listener_itself_are_not() {
    for hosts in [on_loopback(), WebHosts::default()] {
        let host = ("host", "127.0.0.1:8080");
        assert_eq!(check(&hosts, &[]), 200);
        assert_eq!(check(&hosts, &[host]), 200);
        assert_eq!(
            check(&hosts, &[host, ("content-type", "application/x-www-form-urlencoded")]),
            200,
            "curl -d"
        );
        assert_eq!(check(&hosts, &[host, ("origin", "http://127.0.0.1:8080")]), 200);
        for site in ["none", "same-origin"] {
            assert_eq!(check(&hosts, &[host, ("sec-fetch-site", site)]), 200);
        }
    }
}

#[test]
fn a_listener_on_loopback_answers_to_addresses_and_localhost_only() {
    let hosts = on_loopback();
    for host in [
        "localhost",
        "localhost:8080",
        "LOCALHOST",
        "127.0.0.1",
        "[::1]:8080",
        "10.0.0.1:80",
        "limits.example",
    ] {
        assert_eq!(check(&hosts, &[("host", host)]), 200, "{host}");
    }
    for host in
        ["evil.example", "evil.example:8080", "localhost.evil.example", "", "app.example", "127.0.0.1.evil"]
    {
        assert_eq!(check(&hosts, &[("host", host)]), 403, "{host}");
        assert_eq!(check(&WebHosts::default(), &[("host", host)]), 200, "{host} elsewhere");
    }
    // A page whose name points here is its own origin, and is refused all the same where the name is not checked.
    let rebound = [("host", "evil.example:8080"), ("origin", "http://evil.example:8080")];
    assert_eq!(check(&WebHosts::default(), &rebound), 403);
}

#[test]
fn pages_of_listed_hosts_may_ask() {
    let hosts = on_loopback();
    let host = ("host", "127.0.0.1:8080");
    assert_eq!(check(&hosts, &[host, ("origin", "https://limits.example")]), 200);
    let listed = [host, ("origin", "https://app.example:8443"), ("sec-fetch-site", "cross-site")];
    assert_eq!(check(&hosts, &listed), 200);
    assert_eq!(check(&hosts, &[host, ("origin", "https://app.example")]), 403);
}

//! Whom a request is counted for, whatever its sender writes into its header.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for (name, value) in lines {
        fields.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    fields
}

fn found(settings: &AddressSettings, peer: &str, lines: &[(&'static str, &str)]) -> String {
    settings.client(peer.parse().unwrap(), &fields(lines)).address.to_string()
}

/// Settings under which proxies on private networks are trusted.
fn private() -> AddressSettings {
    AddressSettings { trusted_proxies: PRIVATE.to_vec(), ..AddressSettings::default() }
}

/// Who is behind a proxy at 10.0.0.1 that sends this list.
fn check(list: &str, expected: &str) {
    let client = found(&private(), "10.0.0.1", &[("x-forwarded-for", list)]);
    assert_eq!(client, expected, "{list:?}");
}

#[test]
fn the_list_is_read_from_the_right() {
    check("192.0.2.7", "192.0.2.7");
    check("1.1.1.1, 192.0.2.7", "192.0.2.7");
    check("1.1.1.1,192.0.2.7,10.0.0.2,172.16.0.3", "192.0.2.7");
    check("10.0.0.3, 10.0.0.2", "10.0.0.3");
    check("", "10.0.0.1");
}

#[test]
fn what_is_no_address_ends_the_walk() {
    check("1.1.1.1, unknown, 10.0.0.2", "10.0.0.2");
    check("1.1.1.1, , 10.0.0.2", "10.0.0.2");
    check("1.1.1.1, 300.0.0.1", "10.0.0.1");
    check("192.0.2.7;x", "10.0.0.1");
    check("1.1.1.1, \u{e9}", "10.0.0.1");
}

#[test]
fn all_that_proxies_write() {
    check("192.0.2.7:4711", "192.0.2.7");
    check("2001:db8::1", "2001:db8::1");
    check("[2001:db8::1]", "2001:db8::1");
    check("[2001:db8::1]:4711", "2001:db8::1");
    check("\t192.0.2.7 ", "192.0.2.7");
    check("2001:db8::1%eth0", "2001:db8::1");
    check("::ffff:192.0.2.7", "192.0.2.7");
    check("[::ffff:192.0.2.7]:80", "192.0.2.7");
    check("192.0.2.7, ::ffff:10.0.0.9", "192.0.2.7");
    check("192.0.2.7, fe80::1%eth0", "192.0.2.7");
}

#[test]
fn several_lines_are_one_list() {
    let lines = [("x-forwarded-for", "1.1.1.1, 192.0.2.7"), ("x-forwarded-for", "10.0.0.2")];
    assert_eq!(found(&private(), "10.0.0.1", &lines), "192.0.2.7");
}

#[test]
fn only_a_trusted_peer_is_believed() {
    let lines = [("x-forwarded-for", "192.0.2.7"), ("x-real-ip", "192.0.2.8")];
    let default = private();
    for peer in
        ["127.0.0.1", "::1", "10.9.9.9", "172.31.0.1", "192.168.1.1", "169.254.1.1", "fd00::1", "fe80::1"]
    {
        assert_eq!(found(&default, peer, &lines), "192.0.2.7", "{peer}");
    }
    for peer in ["198.51.100.1", "172.32.0.1", "2001:db8::1", "11.0.0.1"] {
        assert_eq!(found(&default, peer, &lines), peer);
    }
    assert_eq!(found(&default, "::ffff:127.0.0.1", &lines), "192.0.2.7");
    assert_eq!(found(&default, "::ffff:198.51.100.1", &lines), "198.51.100.1");
    let nobody = AddressSettings { trusted_proxies: Vec::new(), ..default };
    assert_eq!(found(&nobody, "127.0.0.1", &lines), "127.0.0.1");
}

#[test]
fn by_default_a_client_on_a_private_network_cannot_choose_its_address() {
    let default = AddressSettings::default();
    let lines = [("x-forwarded-for", "192.0.2.7"), ("x-real-ip", "192.0.2.8")];
    for peer in ["10.9.9.9", "172.31.0.1", "192.168.1.1", "169.254.1.1", "fd00::1", "fe80::1"] {
        assert_eq!(found(&default, peer, &lines), peer);
    }
    for peer in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
        assert_eq!(found(&default, peer, &lines), "192.0.2.7", "{peer}");
    }
}

#[test]
fn the_reason_says_which_address_was_used_and_why() {
    let check = |settings: &AddressSettings, peer: &str, lines: &[(&'static str, &str)], expected: &str| {
        assert_eq!(settings.client(peer.parse().unwrap(), &fields(lines)).to_string(), expected);
    };
    let (default, list) = (AddressSettings::default(), |list| [("x-forwarded-for", list)]);
    check(
        &default,
        "10.0.0.1",
        &list("192.0.2.7"),
        "10.0.0.1: the peer 10.0.0.1 is not in `trusted_proxies`, so its header fields are not believed",
    );
    check(
        &default,
        "127.0.0.1",
        &[],
        "127.0.0.1: the trusted proxy 127.0.0.1 sent neither X-Forwarded-For nor an address in X-Real-IP",
    );
    check(
        &default,
        "127.0.0.1",
        &[("x-real-ip", "192.0.2.8")],
        "192.0.2.8: X-Real-IP of the trusted proxy 127.0.0.1",
    );
    check(
        &private(),
        "10.0.0.1",
        &list("1.1.1.1, 192.0.2.7, 10.0.0.2"),
        "192.0.2.7: entry 2 from the right of X-Forwarded-For, the first that is not in `trusted_proxies`; the peer 10.0.0.1 is trusted",
    );
    check(
        &private(),
        "10.0.0.1",
        &list("10.0.0.3, 10.0.0.2"),
        "10.0.0.3: entry 2 from the right of X-Forwarded-For, the last one: all of them and the peer 10.0.0.1 are in `trusted_proxies`",
    );
    check(
        &private(),
        "10.0.0.1",
        &list("1.1.1.1, unknown, 10.0.0.2"),
        "10.0.0.2: entry 2 from the right of X-Forwarded-For is not an address, so the one before it counts; the peer 10.0.0.1 is trusted",
    );
    let hops = AddressSettings { trusted_hops: 2, ..private() };
    check(
        &hops,
        "10.0.0.1",
        &list("192.0.2.7, 198.51.100.1"),
        "192.0.2.7: entry 2 from the right of X-Forwarded-For, as `trusted_hops` says; the peer 10.0.0.1 is trusted",
    );
    check(
        &hops,
        "10.0.0.1",
        &list("192.0.2.7"),
        "10.0.0.1: X-Forwarded-For has no address at entry 2 from the right, which `trusted_hops` names, so the peer counts",
    );
}

#[test]
fn the_real_ip_counts_only_alone() {
    let default = private();
    assert_eq!(found(&default, "10.0.0.1", &[("x-real-ip", "192.0.2.8")]), "192.0.2.8");
    assert_eq!(found(&default, "10.0.0.1", &[("x-real-ip", "nonsense")]), "10.0.0.1");
    assert_eq!(
        found(&default, "10.0.0.1", &[("x-real-ip", "192.0.2.8"), ("x-forwarded-for", "")]),
        "10.0.0.1"
    );
    assert_eq!(found(&default, "10.0.0.1", &[("forwarded", "for=192.0.2.8")]), "10.0.0.1");
    assert_eq!(found(&default, "10.0.0.1", &[]), "10.0.0.1");
}

#[test]
fn hops_are_counted_from_the_right() {
    let hops = |trusted_hops, list| {
        let settings = AddressSettings { trusted_hops, ..private() };
        found(&settings, "10.0.0.1", &[("x-forwarded-for", list)])
    };
    assert_eq!(hops(1, "1.1.1.1, 192.0.2.7, 198.51.100.1"), "198.51.100.1");
    assert_eq!(hops(2, "1.1.1.1, 192.0.2.7, 198.51.100.1"), "192.0.2.7");
    assert_eq!(hops(1, "192.0.2.7, 10.0.0.2"), "10.0.0.2");
    assert_eq!(hops(3, "192.0.2.7, 198.51.100.1"), "10.0.0.1");
    assert_eq!(hops(2, "nonsense, 198.51.100.1"), "10.0.0.1");
}

#[test]
fn the_real_ip_says_nothing_of_hops() {
    let settings = AddressSettings { trusted_hops: 1, ..private() };
    assert_eq!(found(&settings, "10.0.0.1", &[("x-real-ip", "192.0.2.8")]), "10.0.0.1");
    let both = [("x-real-ip", "192.0.2.8"), ("x-forwarded-for", "192.0.2.7")];
    assert_eq!(found(&settings, "10.0.0.1", &both), "192.0.2.7");
}

#[test]
fn hops_need_somebody_to_trust() {
    let check = |trusted_proxies: &[IpNet], trusted_hops| {
        let trusted_proxies = trusted_proxies.to_vec();
        AddressSettings { trusted_proxies, trusted_hops, ..private() }.check()
    };
    assert_eq!(check(&[], 2), Err(AddressError::UntrustedHops { hops: 2 }));
    assert_eq!([check(&[], 0), check(&PRIVATE, 2), check(&PRIVATE, 0)], [Ok(()); 3]);
}

/// Any text that can stand in a header, often one that looks like a list of addresses.
fn anything() -> impl Strategy<Value = String> {
    let entry = prop_oneof![
        any::<Ipv4Addr>().prop_map(|address| address.to_string()),
        any::<Ipv6Addr>().prop_map(|address| format!("[{address}]:80")),
        Just("127.0.0.1".to_owned()),
        Just("10.0.0.2".to_owned()),
        "[ -~]{0,12}",
    ];
    prop::collection::vec(entry, 0..6).prop_map(|entries| entries.join(", "))
}

fn untrusted() -> impl Strategy<Value = Ipv4Addr> {
    let settings = private();
    any::<Ipv4Addr>().prop_filter("not trusted", move |address| !settings.trusts((*address).into()))
}

proptest! {
    /// A proxy adds the address that it has seen to whatever the client has sent. That address is found, however many trusted
    /// proxies come after it.
    #[test]
    fn a_client_cannot_choose_its_address(
        sent in prop::collection::vec(anything(), 0..3),
        others in prop::collection::vec(("(x-real-ip|forwarded|x-forwarded-host|x-client-ip)", anything()), 0..3),
        client in untrusted(),
        proxies in prop::collection::vec(Just("10.0.0.2"), 0..3),
        on_a_line_of_its_own: bool,
        hops in 0..2_usize,
    ) {
        let mut fields = HeaderMap::new();
        for (name, value) in &others {
            fields.append(http::HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap());
        }
        let mut lines = sent;
        let seen = std::iter::once(client.to_string()).chain(proxies.iter().map(ToString::to_string));
        let seen = seen.collect::<Vec<_>>().join(", ");
        match lines.last_mut() {
            Some(last) if !on_a_line_of_its_own => *last = format!("{last}, {seen}"),
            _ => lines.push(seen),
        }
        for line in &lines {
            fields.append("x-forwarded-for", HeaderValue::try_from(line).unwrap());
        }
        let trusted_hops = if hops == 0 { 0 } else { proxies.len() + 1 };
        let settings = AddressSettings { trusted_hops, ..private() };
        prop_assert_eq!(settings.client("127.0.0.1".parse().unwrap(), &fields).address, IpAddr::V4(client));
    }

    /// Whoever is not trusted is himself, whatever he writes.
    #[test]
    fn a_stranger_is_himself(peer in untrusted(), list in anything(), real_ip in anything()) {
        let lines = [("x-forwarded-for", &*list), ("x-real-ip", &*real_ip)];
        let settings = private();
        prop_assert_eq!(settings.client(peer.into(), &fields(&lines)).address, IpAddr::V4(peer));
    }
}

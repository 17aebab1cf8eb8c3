//! Which addresses are one client, and how fast one may connect.
#![allow(clippy::unwrap_used)]

use super::*;

fn clients(connection_rate: Option<AdminRate>, exempt: &[&str]) -> Clients {
    let exempt = exempt.iter().map(|network| network.parse().unwrap()).collect();
    Clients::new(ClientLimits { connection_rate, exempt }).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

const NOW: Time = Time::from_ticks(1_800_000_000_000_000_000);

#[test]
fn addresses_of_one_ipv6_network_are_one_client() {
    let clients = clients(None, &[]);
    let open = |text| clients.open(address(text), ConnectionRate::Data, NOW).unwrap();
    let first = open("2001:db8:1:2:3:4:5:6");
    assert!(Arc::ptr_eq(&first, &open("2001:db8:1:2::1")));
    assert!(!Arc::ptr_eq(&first, &open("2001:db8:1:3::1")));
    assert!(!Arc::ptr_eq(&open("192.0.2.1"), &open("192.0.2.2")));
    assert!(Arc::ptr_eq(&open("192.0.2.1"), &open("::ffff:192.0.2.1")));
}

#[test]
fn reservations_count_for_the_same_clients() {
    let clients = clients(None, &[]);
    let client = |text| clients.open(address(text), ConnectionRate::Data, NOW).unwrap().reservations;
    assert_eq!(client("2001:db8:1:2:3:4:5:6"), client("2001:db8:1:2::1"));
    assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
    assert_ne!(client("192.0.2.1"), client("2001:db8:1:2::1"));
}

#[test]
fn a_client_that_connects_too_fast_is_refused_and_no_other() {
    let clients = clients(Some(AdminRate { per_second: 1, burst: 3 }), &[]);
    let opens = |text| clients.open(address(text), ConnectionRate::Data, NOW).is_some();
    assert_eq!([(); 5].map(|()| opens("192.0.2.1")), [true, true, true, false, false]);
    assert!(opens("192.0.2.2"));
}

#[test]
fn exempt_networks_have_no_rate() {
    let clients = clients(Some(AdminRate { per_second: 1, burst: 1 }), &["192.0.2.0/24"]);
    assert!((0..100).all(|_| clients.open(address("192.0.2.7"), ConnectionRate::Data, NOW).is_some()));
}

#[test]
fn an_exempt_address_does_not_exempt_the_rest_of_its_network() {
    let clients = clients(Some(AdminRate { per_second: 1, burst: 1 }), &["2001:db8::7/128"]);
    assert!((0..100).all(|_| clients.open(address("2001:db8::7"), ConnectionRate::Data, NOW).is_some()));
    assert!(clients.open(address("2001:db8::8"), ConnectionRate::Data, NOW).is_some());
    assert!(clients.open(address("2001:db8::8"), ConnectionRate::Data, NOW).is_none());
    // Nor do its connections and memory count as those of the exempt address.
    let clients = self::clients(None, &["2001:db8::7/128"]);
    let [exempt, other] = ["2001:db8::7", "2001:db8::8"]
        .map(|text| clients.open(address(text), ConnectionRate::Data, NOW).unwrap());
    assert!(exempt.is_exempt && !other.is_exempt);
}

#[test]
fn clients_without_a_connection_take_bounded_memory() {
    let clients = clients(Some(AdminRate { per_second: 1, burst: 1 }), &[]);
    let kept = clients.open(address("192.0.2.1"), ConnectionRate::Data, NOW).unwrap();
    kept.connect(0);
    for index in (0x0a00_0000..).take(3 * IDLE_CLIENTS_MAX) {
        let _ = clients.open(std::net::Ipv4Addr::from(index).into(), ConnectionRate::Data, NOW);
    }
    assert!(clients.lock().entries.len() <= IDLE_CLIENTS_MAX + 1, "{}", clients.lock().entries.len());
    assert!(
        clients.open(address("192.0.2.1"), ConnectionRate::Data, NOW).is_none(),
        "a connected client's rate is remembered"
    );
}

#[test]
fn an_exempt_address_and_the_network_written_like_it_are_two_clients() {
    let (exempt, other) = ("2001:db8:0:1::", "2001:db8:0:1::5");
    for order in [[exempt, other], [other, exempt]] {
        let clients = clients(None, &["2001:db8:0:1::/128"]);
        for text in order {
            let client = clients.open(address(text), ConnectionRate::Data, NOW).unwrap();
            assert_eq!(client.is_exempt, text == exempt, "{text} in the order {order:?}");
        }
    }
}

#[test]
fn data_connections_do_not_use_up_the_rate_of_admin_connections() {
    let clients = clients(Some(AdminRate { per_second: 1, burst: 2 }), &[]);
    let opens = |rate| clients.open(address("192.0.2.1"), rate, NOW).is_some();
    assert_eq!([(); 3].map(|()| opens(ConnectionRate::Data)), [true, true, false]);
    assert_eq!([(); 3].map(|()| opens(ConnectionRate::Admin)), [true, true, false]);
}

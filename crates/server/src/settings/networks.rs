//! Networks, and how much of an address tells clients apart.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

use super::value::{SettingError, meaningless};
use crate::client_address::{LOOPBACK, PRIVATE};

/// How many leading bits `::ffff:192.0.2.1` has before the address of IPv4.
const MAPPED_BITS: u8 = 96;
/// The most networks of a list: every request is held against all of them.
const NETWORKS_MAX: usize = 256;

/// A list of networks, addresses and the words `loopback` and `private`; or `none`.
pub(super) fn networks(text: &str) -> Result<Vec<IpNet>, SettingError> {
    const WANTED: &str = "a list of at most 256 networks such as 10.0.0.0/8, 192.0.2.1, 2001:db8::/32, `loopback`, `private`; or `none`";
    if text.trim() == "none" {
        return Ok(Vec::new());
    }
    let mut networks = Vec::new();
    for word in text.split(',').map(str::trim) {
        match word {
            "loopback" => networks.extend(LOOPBACK),
            "private" => networks.extend(PRIVATE),
            _ => networks.push(network(word).ok_or_else(|| meaningless(text, WANTED))?),
        }
        if networks.len() > NETWORKS_MAX {
            return Err(meaningless(text, WANTED));
        }
    }
    Ok(networks)
}

fn network(word: &str) -> Option<IpNet> {
    let network = word.parse::<IpNet>().or_else(|_| word.parse::<IpAddr>().map(IpNet::from)).ok()?;
    let mapped = match network {
        IpNet::V6(network) => network.addr().to_ipv4_mapped(),
        IpNet::V4(_) => None,
    };
    let Some(address) = mapped else { return Some(network) };
    // Addresses are looked at as those of IPv4 if they are. So must networks be, or nobody would be in them; a shorter one is none.
    let length = network.prefix_len().checked_sub(MAPPED_BITS)?;
    Ipv4Net::new(address, length).ok().map(IpNet::V4)
}

pub(super) fn hops(text: &str) -> Result<usize, SettingError> {
    text.parse().map_err(|_| meaningless(text, "a whole number, or 0 to trust addresses alone"))
}

pub(super) fn ipv6_prefix(text: &str) -> Result<u8, SettingError> {
    let length =
        text.strip_prefix('/').unwrap_or(text).parse().ok().filter(|length| (1..=128).contains(length));
    length.ok_or_else(|| meaningless(text, "a number of bits from 1 to 128, such as 64"))
}

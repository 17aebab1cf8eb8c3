//! Whose request it is, where a proxy stands between.
//!
//! A proxy says in `X-Forwarded-For` for whom it asks, and adds to what it was told itself. So anybody can begin that list with anything: only
//! its end can be believed, as far back as those who wrote it are proxies that we trust. The list is therefore read from the right, and
//! what stands left of the first address that is not a trusted proxy changes nothing.
//!
//! `X-Real-IP` counts only where there is no `X-Forwarded-For`, and not where hops are counted: it has none. `Forwarded` (RFC 7239) is not looked at: the proxies that this is for do not
//! write it, so whatever stands in it comes from the client.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, HeaderValue};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;

/// How clients are found behind proxies, and told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressSettings {
    /// The proxies that are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How many proxies stand between a client and this server, if that is known: then so many entries are counted from the right. 0:
    /// as many as are trusted by their addresses. The one that connects to this server must be trusted either way.
    pub trusted_hops: usize,
    /// By how many leading bits IPv6 clients are told apart.
    pub ipv6_prefix: u8,
}

/// Why clients could not be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Somebody is to be counted past who is not believed.
    #[error(
        "`trusted_hops` is {hops}, but `trusted_proxies` is `none`: whoever asks /v1/auth must be trusted for hops to be counted"
    )]
    UntrustedHops {
        /// How many.
        hops: usize,
    },
}

/// Addresses that nobody has outside of this machine and its networks: loopback, private and link-local ones.
pub(crate) const PRIVATE: [IpNet; 8] = [
    v4([127, 0, 0, 0], 8),
    v4([10, 0, 0, 0], 8),
    v4([172, 16, 0, 0], 12),
    v4([192, 168, 0, 0], 16),
    v4([169, 254, 0, 0], 16),
    v6(1, 128),
    v6(0xfc00 << 112, 7),
    v6(0xfe80 << 112, 10),
];

const fn v4([a, b, c, d]: [u8; 4], length: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), length))
}

const fn v6(bits: u128, length: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::from_bits(bits), length))
}

impl Default for AddressSettings {
    fn default() -> AddressSettings {
        AddressSettings { trusted_proxies: PRIVATE.to_vec(), trusted_hops: 0, ipv6_prefix: 64 }
    }
}

impl AddressSettings {
    /// Refuses what would do nothing and look as if it did.
    pub(crate) fn check(&self) -> Result<(), AddressError> {
        match (self.trusted_hops, self.trusted_proxies.is_empty()) {
            (hops @ 1.., true) => Err(AddressError::UntrustedHops { hops }),
            _ => Ok(()),
        }
    }

    /// Whether an address is that of a proxy which is believed.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.trusted_proxies.iter().any(|network| network.contains(&address))
    }

    /// The client on whose behalf somebody at this address sends these header fields.
    pub(crate) fn client(&self, peer: IpAddr, fields: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.trusts(peer) {
            return peer;
        }
        let mut entries = entries_from_the_right(fields);
        if let Some(before) = self.trusted_hops.checked_sub(1) {
            // As in Envoy: where there are fewer than there should be, something is wrong, and nobody is believed.
            return entries.nth(before).flatten().unwrap_or(peer);
        }
        if !fields.contains_key("x-forwarded-for") {
            return fields.get("x-real-ip").and_then(|value| parse(value.as_bytes())).unwrap_or(peer);
        }
        let mut client = peer;
        for entry in entries {
            // What is no address was written by nobody that we know.
            let Some(address) = entry else { return client };
            client = address;
            if !self.trusts(address) {
                return client;
            }
        }
        client
    }
}

/// The addresses of `X-Forwarded-For`, the newest first; nothing where an entry is none. Several lines are one list.
fn entries_from_the_right(fields: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let lines = fields.get_all("x-forwarded-for").into_iter().map(HeaderValue::as_bytes).rev();
    lines.flat_map(|line| line.rsplit(|byte| *byte == b',')).map(parse)
}

/// An address, as proxies write them: bare, in brackets, with a port, or with the zone of an IPv6 address.
fn parse(entry: &[u8]) -> Option<IpAddr> {
    let text = str::from_utf8(entry).ok()?.trim_matches([' ', '\t']);
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket.ip().to_canonical());
    }
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let without_zone = bare.split_once('%').map_or(bare, |(address, _)| address);
    without_zone.parse::<Ipv6Addr>().ok().map(|address| IpAddr::V6(address).to_canonical())
}

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

use std::fmt;
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

/// Addresses of this machine.
pub(crate) const LOOPBACK: [IpNet; 2] = [v4([127, 0, 0, 0], 8), v6(1, 128)];

/// Addresses of this machine and of private networks: loopback, private and link-local ones.
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
        AddressSettings { trusted_proxies: LOOPBACK.to_vec(), trusted_hops: 0, ipv6_prefix: 64 }
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

    /// The client of a request that arrived from `peer` with these header fields, and how it was found.
    pub fn client(&self, peer: IpAddr, fields: &HeaderMap) -> ClientAddress {
        let peer = peer.to_canonical();
        let found = |address, source| ClientAddress { address, peer, source };
        if !self.trusts(peer) {
            return found(peer, AddressSource::UntrustedPeer);
        }
        let mut entries = entries_from_the_right(fields);
        if let Some(before) = self.trusted_hops.checked_sub(1) {
            // As in Envoy: a list that is shorter than the number of proxies is not believed at all.
            let hops = self.trusted_hops;
            return match entries.nth(before).flatten() {
                Some(address) => found(address, AddressSource::Hop { hops }),
                None => found(peer, AddressSource::MissingHop { hops }),
            };
        }
        if !fields.contains_key("x-forwarded-for") {
            return match fields.get("x-real-ip").map(|value| parse(value.as_bytes())) {
                Some(Some(address)) => found(address, AddressSource::RealIp),
                Some(None) | None => found(peer, AddressSource::NothingForwarded),
            };
        }
        let mut client = found(peer, AddressSource::UnreadableEntry { entry: 1 });
        for (entry, address) in (1..).zip(entries) {
            let Some(address) = address else {
                return ClientAddress { source: AddressSource::UnreadableEntry { entry }, ..client };
            };
            if !self.trusts(address) {
                return found(address, AddressSource::Entry { entry });
            }
            client = found(address, AddressSource::TrustedEntry { entry });
        }
        client
    }
}

/// The address that a request is counted for, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress {
    /// The client.
    pub address: IpAddr,
    /// The address at the other end of the connection.
    pub peer: IpAddr,
    /// Where `address` was read.
    pub source: AddressSource,
}

/// Where a client's address was read. Entries of `X-Forwarded-For` are counted from the right, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressSource {
    /// The peer is not in `trusted_proxies`, so its header fields are not believed.
    UntrustedPeer,
    /// The peer is trusted and sent neither `X-Forwarded-For` nor an address in `X-Real-IP`.
    NothingForwarded,
    /// `X-Real-IP`.
    RealIp,
    /// The first entry that is not a trusted proxy.
    Entry {
        /// Its number.
        entry: usize,
    },
    /// The last entry of a list in which all are trusted proxies.
    TrustedEntry {
        /// Its number.
        entry: usize,
    },
    /// The entry before this one, which is not an address.
    UnreadableEntry {
        /// The number of the one that is not an address.
        entry: usize,
    },
    /// The entry that `trusted_hops` names.
    Hop {
        /// Its number.
        hops: usize,
    },
    /// `trusted_hops` is larger than the list, or that entry is not an address: the peer counts.
    MissingHop {
        /// The number of the missing entry.
        hops: usize,
    },
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ClientAddress { address, peer, source } = self;
        write!(f, "{address}: ")?;
        match source {
            AddressSource::UntrustedPeer => {
                write!(
                    f,
                    "the peer {peer} is not in `trusted_proxies`, so its header fields are not believed"
                )
            }
            AddressSource::NothingForwarded => {
                write!(f, "the trusted proxy {peer} sent neither X-Forwarded-For nor an address in X-Real-IP")
            }
            AddressSource::RealIp => write!(f, "X-Real-IP of the trusted proxy {peer}"),
            AddressSource::Entry { entry } => write!(
                f,
                "entry {entry} from the right of X-Forwarded-For, the first that is not in `trusted_proxies`; \
                 the peer {peer} is trusted"
            ),
            AddressSource::TrustedEntry { entry } => write!(
                f,
                "entry {entry} from the right of X-Forwarded-For, the last one: all of them and the peer {peer} \
                 are in `trusted_proxies`"
            ),
            AddressSource::UnreadableEntry { entry } => write!(
                f,
                "entry {entry} from the right of X-Forwarded-For is not an address, so the one before it counts; \
                 the peer {peer} is trusted"
            ),
            AddressSource::Hop { hops } => write!(
                f,
                "entry {hops} from the right of X-Forwarded-For, as `trusted_hops` says; the peer {peer} is trusted"
            ),
            AddressSource::MissingHop { hops } => write!(
                f,
                "X-Forwarded-For has no address at entry {hops} from the right, which `trusted_hops` names, so \
                 the peer counts"
            ),
        }
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

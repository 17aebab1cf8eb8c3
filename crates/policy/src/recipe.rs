//! How descriptors are made from a request that a proxy asks about.
//!
//! Envoy makes descriptors itself, by the actions of its routes. Other proxies hand the request over as it is, so the actions stand in
//! the rules here, under Envoy's names and with Envoy's meanings: the entries of a descriptor come in the order of its actions,
//! and an action that has nothing to say drops the whole descriptor.

mod matcher;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub use matcher::{Matcher, Test};

/// What a request is asked, so that descriptors can be made of it.
pub trait Facts {
    /// The values of a header, which may stand there several times. Names are in lower case; `:path`, `:method`, `:authority` and
    /// `:scheme` are those of the request that the client has sent.
    fn header(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>>;

    /// The first value of a parameter of the query.
    fn parameter(&self, name: &str) -> Option<Cow<'_, str>>;

    /// The client's address.
    fn address(&self) -> Option<IpAddr>;

    /// By how many leading bits IPv6 addresses are told apart, where an action does not say it.
    fn ipv6_prefix(&self) -> u8;
}

/// How one descriptor is made: an entry of `forward_auth`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// What makes its entries, in their order.
    pub actions: Vec<Action>,
}

/// What makes one entry of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `request_headers` and `query_parameters`: a value that the request brings.
    Copied {
        /// Where it stands.
        part: Part,
        /// What it is called there.
        name: String,
        /// The key of the entry.
        key: String,
        /// Whether only this entry is left out where there is no such value, and not the whole descriptor.
        skip_if_absent: bool,
    },
    /// `header_value_match` and `query_parameter_value_match`: a fixed value, if the request is of a kind.
    Matched {
        /// Where the values stand that are looked at.
        part: Part,
        /// What they must be, all of them.
        matchers: Vec<Matcher>,
        /// Whether they must be, or must not.
        expect_match: bool,
        /// The key of the entry.
        key: String,
        /// Its value.
        value: String,
    },
    /// `generic_key`: always the same.
    Generic {
        /// The key of the entry.
        key: String,
        /// Its value.
        value: String,
    },
    /// `remote_address`.
    RemoteAddress,
    /// `masked_remote_address`: the network that the address is in.
    MaskedRemoteAddress {
        /// How many leading bits of an IPv4 address are kept.
        v4_prefix_mask_len: u8,
        /// The same of an IPv6 address.
        v6_prefix_mask_len: u8,
    },
}

/// A part of a request that has values by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Its header.
    Header,
    /// Its query.
    Query,
}

/// What an action has to say about a request.
enum Said<'a> {
    Entry(&'a str, Cow<'a, str>),
    Nothing,
    /// That there is no such descriptor.
    Drop,
}

impl Recipe {
    /// Adds the entries of the descriptor that a request has by this recipe. False if it has none; what was added then means nothing.
    pub fn put<'a, F: Facts>(
        &'a self,
        request: &'a F,
        entries: &mut impl Extend<(&'a str, Cow<'a, str>)>,
    ) -> bool {
        let mut is_empty = true;
        for action in &self.actions {
            match action.say(request) {
                Said::Entry(key, value) => {
                    entries.extend(Some((key, value)));
                    is_empty = false;
                }
                Said::Nothing => {}
                Said::Drop => return false,
            }
        }
        !is_empty
    }
}

impl Action {
    fn say<'a, F: Facts>(&'a self, request: &'a F) -> Said<'a> {
        match self {
            Action::Copied { part, name, key, skip_if_absent } => {
                // As in Envoy: where a header stands there twice, the first counts, so that nobody gets a key of his own by adding one.
                let value = match part {
                    Part::Header => request.header(name).next(),
                    Part::Query => request.parameter(name),
                };
                match value {
                    Some(value) => Said::Entry(key, value),
                    None if *skip_if_absent => Said::Nothing,
                    None => Said::Drop,
                }
            }
            Action::Matched { part, matchers, expect_match, key, value } => {
                let holds = matchers.iter().all(|matcher| match part {
                    Part::Header => matcher.holds(request.header(matcher.name())),
                    Part::Query => matcher.holds(request.parameter(matcher.name()).into_iter()),
                });
                if holds == *expect_match { Said::Entry(key, value.into()) } else { Said::Drop }
            }
            Action::Generic { key, value } => Said::Entry(key, value.into()),
            Action::RemoteAddress => match request.address() {
                Some(address) => {
                    Said::Entry("remote_address", counted_as(address, request.ipv6_prefix()).into())
                }
                None => Said::Drop,
            },
            Action::MaskedRemoteAddress { v4_prefix_mask_len, v6_prefix_mask_len } => {
                let Some(address) = request.address() else { return Said::Drop };
                let length = if address.is_ipv4() { *v4_prefix_mask_len } else { *v6_prefix_mask_len };
                Said::Entry("masked_remote_address", network(address, length).into())
            }
        }
    }
}

/// What an address is counted as: itself; or its network, if it is an IPv6 address and fewer than all bits tell clients apart. Whoever
/// has one IPv6 address has a whole network of them.
pub fn counted_as(address: IpAddr, ipv6_prefix: u8) -> String {
    if address.is_ipv6() && ipv6_prefix < 128 { network(address, ipv6_prefix) } else { address.to_string() }
}

/// The network of so many leading bits that an address is in, such as `192.0.2.0/24`.
fn network(address: IpAddr, length: u8) -> String {
    let first: IpAddr = match address {
        IpAddr::V4(v4) => {
            let cut = 32_u32.saturating_sub(length.into());
            Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(cut).unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            let cut = 128_u32.saturating_sub(length.into());
            Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(cut).unwrap_or(0)).into()
        }
    };
    format!("{first}/{length}")
}

//! Which names the admin API answers to. A web page that somebody visits may have its own name point at this machine, and ask in the
//! visitor's stead: the browser then sends that name along, by which such requests are known.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

const HOSTS_MAX: usize = 256;
const HOST_BYTES_MAX: usize = 261;
const LOOPBACK_NAME: &str = "localhost";

/// A name besides the listener's own: `admin.example`, or `admin.example:8443` for that port alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminHost {
    name: String,
    port: Option<u16>,
}

/// What the admin API answers to.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    listener: SocketAddr,
    others: Vec<AdminHost>,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    Host,
    Origin,
}

impl AdminHost {
    /// `NAME` or `NAME:PORT`, in lower case from then on.
    pub(crate) fn parse(text: &str) -> Option<AdminHost> {
        if text.is_empty() || text.len() > HOST_BYTES_MAX {
            return None;
        }
        let text = text.to_ascii_lowercase();
        let (name, port) = match text.rsplit_once(':') {
            // The colons of an IPv6 address stand in brackets.
            Some((name, port)) if !port.ends_with(']') => {
                (name, Some(port.parse().ok().filter(|port| *port > 0)?))
            }
            _ => (&*text, None),
        };
        let inside = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let is_name =
            |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let is_good =
            inside.map_or_else(|| !name.is_empty() && is_name(name), |ip| ip.parse::<IpAddr>().is_ok());
        is_good.then(|| AdminHost { name: name.to_owned(), port })
    }

    /// Those of a setting, with commas between them.
    pub(crate) fn parse_list(text: &str) -> Option<Vec<AdminHost>> {
        let hosts = text.split(',').map(str::trim).filter(|host| !host.is_empty());
        let hosts: Vec<AdminHost> = hosts.take(HOSTS_MAX + 1).map(AdminHost::parse).collect::<Option<_>>()?;
        (hosts.len() <= HOSTS_MAX).then_some(hosts)
    }

    /// The host of an origin such as `https://admin.example:8443`.
    pub(crate) fn of_origin(origin: &str) -> Option<AdminHost> {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
        AdminHost::parse(host)
    }

    /// Whether it is `localhost` or an address: no page can have its own name point there.
    pub(crate) fn is_local_or_address(&self) -> bool {
        self.name == LOOPBACK_NAME || self.ip().is_some()
    }

    /// Whether it is one of these. One without a port stands for all ports.
    pub(crate) fn is_among(&self, listed: &[AdminHost]) -> bool {
        let is = |other: &AdminHost| {
            other.name == self.name && other.port.is_none_or(|port| self.port == Some(port))
        };
        listed.iter().any(is)
    }

    fn ip(&self) -> Option<IpAddr> {
        self.name.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }
}

impl Hosts {
    pub(crate) fn new(listener: SocketAddr, others: Vec<AdminHost>) -> Hosts {
        Hosts { listener, others }
    }

    /// Whether a request is meant for us: by its host, and by where the page stands that sends it.
    pub(super) fn check(&self, uri: &Uri, fields: &HeaderMap) -> Result<(), Foreign> {
        // In HTTP/2 the host stands in the first line, so to speak.
        let named = uri.authority().map(http::uri::Authority::as_str);
        let named = named.or_else(|| text(one(fields, &HOST)?));
        let host = named.and_then(AdminHost::parse).filter(|host| self.has(host)).ok_or(Foreign::Host)?;
        if !fields.contains_key(ORIGIN) {
            return Ok(());
        }
        let origin = one(fields, &ORIGIN).and_then(text).and_then(AdminHost::of_origin);
        let origin = origin.ok_or(Foreign::Origin)?;
        // What another program serves on this machine is another origin.
        let is_same = origin == host;
        if is_same || self.is_listed(&origin) { Ok(()) } else { Err(Foreign::Origin) }
    }

    fn has(&self, host: &AdminHost) -> bool {
        let is_ours = |ip: IpAddr| {
            // Whoever listens everywhere has all addresses; a page's name is none.
            ip.is_loopback() || ip == self.listener.ip() || self.listener.ip().is_unspecified()
        };
        host.name == LOOPBACK_NAME || host.ip().is_some_and(is_ours) || self.is_listed(host)
    }

    fn is_listed(&self, host: &AdminHost) -> bool {
        host.is_among(&self.others)
    }
}

/// The only field of a name.
fn one<'a>(fields: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a HeaderValue> {
    let mut values = fields.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

//! The request that a client has sent, as its proxy tells it.
//!
//! The proxy hands over the client's header and adds the rest in fields of its own: `X-Forwarded-Uri`, `-Method`, `-Host` and `-Proto`, or, for those who have
//! it from nginx, `X-Original-URI`, `-URL` and `-Method`. A client can write these too; the proxy must set those it uses, and they are believed only
//! from proxies that are trusted.

use std::borrow::Cow;
use std::net::IpAddr;

use http::HeaderValue;
use http::request::Parts;
use tollgate::policy::Facts;

use super::normalize::normalize;
use super::percent::decode;
use crate::gate::{GateSettings, PathForm};
use crate::stream::Peer;

/// A request that was handed over.
pub(super) struct Forwarded<'a> {
    head: &'a Parts,
    settings: &'a GateSettings,
    address: Option<IpAddr>,
    /// Whether who hands it over is believed.
    is_believed: bool,
}

impl<'a> Forwarded<'a> {
    pub(super) fn new(head: &'a Parts, settings: &'a GateSettings) -> Forwarded<'a> {
        let peer = head.extensions.get::<Peer>().map(|peer| peer.address.ip());
        let addresses = &settings.addresses;
        let client = peer.map(|peer| addresses.client(peer, &head.headers));
        if let Some(client) = client {
            tracing::debug!(address = %client.address, peer = %client.peer, reason = %client, "client address");
        }
        Forwarded {
            head,
            settings,
            address: client.map(|client| client.address),
            is_believed: peer.is_some_and(|peer| addresses.trusts(peer)),
        }
    }

    /// What the proxy says in the first of these fields that is there.
    fn told(&self, names: &[&str]) -> Option<Cow<'a, str>> {
        let told = names.iter().filter(|_| self.is_believed).find_map(|name| self.head.headers.get(*name));
        told.map(text)
    }

    /// Path and query, normalized if the settings say so.
    fn path(&self) -> Cow<'a, str> {
        let path = self.sent_path();
        match self.settings.path_form {
            PathForm::AsSent => path,
            PathForm::Normalized => normalize(path),
        }
    }

    /// Path and query as the client has sent them.
    fn sent_path(&self) -> Cow<'a, str> {
        let told = self.told(&["x-forwarded-uri", "x-original-uri", "x-original-url"]);
        told.map_or_else(
            || self.head.uri.path_and_query().map_or("/", |path| path.as_str()).into(),
            |told| match told {
                Cow::Borrowed(told) => path_of(told).into(),
                Cow::Owned(told) => path_of(&told).to_owned().into(),
            },
        )
    }

    /// What Envoy has among the headers, though it stands in the first line.
    fn pseudo_header(&self, name: &str) -> Option<Cow<'a, str>> {
        let uri = &self.head.uri;
        match name {
            ":path" => Some(self.path()),
            ":method" => {
                let told = self.told(&["x-forwarded-method", "x-original-method"]);
                Some(told.unwrap_or_else(|| self.head.method.as_str().into()))
            }
            ":authority" => {
                let told = self.told(&["x-forwarded-host"]);
                told.or_else(|| self.head.headers.get(http::header::HOST).map(text))
                    .or_else(|| uri.authority().map(|authority| authority.as_str().into()))
            }
            ":scheme" => {
                let told = self.told(&["x-forwarded-proto"]);
                Some(told.unwrap_or_else(|| uri.scheme_str().unwrap_or("http").into()))
            }
            _ => None,
        }
    }
}

impl Facts for Forwarded<'_> {
    fn header(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let values = self.head.headers.get_all(name);
        self.pseudo_header(name).into_iter().chain(values.into_iter().map(text))
    }

    fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        match self.path() {
            Cow::Borrowed(path) => parameter(path, name),
            Cow::Owned(path) => parameter(&path, name).map(|value| value.into_owned().into()),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        self.address
    }

    fn ipv6_prefix(&self) -> u8 {
        self.settings.addresses.ipv6_prefix
    }
}

/// Bytes that are not UTF-8 are read all the same: a client must not be able to make us fail.
fn text(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// The path and query of a URL, which may be nothing else.
fn path_of(url: &str) -> &str {
    let after_scheme = if url.starts_with('/') { None } else { url.split_once("://") };
    let Some((_, rest)) = after_scheme else { return url };
    rest.find('/').map_or("/", |at| &rest[at..])
}

/// The first value of a parameter in the query of a path.
fn parameter<'p>(path: &'p str, name: &str) -> Option<Cow<'p, str>> {
    let before_fragment = path.split_once('#').map_or(path, |(before, _)| before);
    let (_, query) = before_fragment.split_once('?')?;
    let mut parameters =
        query.split('&').map(|parameter| parameter.split_once('=').unwrap_or((parameter, "")));
    parameters.find(|(key, _)| decode(key) == name).map(|(_, value)| decode(value))
}

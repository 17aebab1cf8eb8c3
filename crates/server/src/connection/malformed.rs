//! Requests of HTTP/2 that RFC 9113 calls malformed and that h2 lets pass.
//!
//! A proxy that translates such a request to HTTP/1.1 may see another target, host or field than this server does.

#[cfg(test)]
mod tests;

use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderValue, Method, Request, Uri};

/// Whether the stream of a request must be reset with `PROTOCOL_ERROR`. Section 8 has the rules; h2 checks the others.
pub(super) fn is_malformed<B>(request: &Request<B>) -> bool {
    let (method, uri, fields) = (request.method(), request.uri(), request.headers());
    let is_target = match *method {
        Method::CONNECT => uri.authority().is_some(),
        _ => uri.path().starts_with('/') || (*method == Method::OPTIONS && uri.path() == "*"),
    };
    let has_user = uri.authority().is_some_and(|authority| authority.as_str().contains('@'));
    !is_target
        || has_user
        || fields.get(HOST).is_some_and(|host| is_other_host(uri, host))
        || fields.values().any(|value| is_padded(value.as_bytes()))
}

/// Whether a `Host` field names another host or port than `:authority` does (section 8.3.1).
fn is_other_host(uri: &Uri, host: &HeaderValue) -> bool {
    let Some(authority) = uri.authority() else { return false };
    let Ok(host) = Authority::try_from(host.as_bytes()) else { return true };
    let default_port = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default_port);
    !host.host().eq_ignore_ascii_case(authority.host()) || port(&host) != port(authority)
}

/// Whether a value has white space at its start or end (section 8.2.1).
fn is_padded(value: &[u8]) -> bool {
    [value.first(), value.last()].iter().flatten().any(|byte| matches!(byte, b' ' | b'\t'))
}

//! Requests that a web page sends in the stead of its visitor.
//!
//! A page may send a POST to any address that its visitor's browser reaches, such as this machine's loopback, and it may have its own
//! name point there (DNS rebinding). Browsers tell in `Origin` and `Sec-Fetch-Site` that a page of another site asks, and in `Host`
//! under which name it asks. Other programs send neither of the first two. Proxies that ask `/v1/auth` hand over those of their clients,
//! so that path is not looked at here.

#[cfg(test)]
mod tests;

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

use super::problem::Problem;
use crate::admin::AdminHost;

pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Which names and pages may use the HTTP listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebHosts {
    listed: Vec<AdminHost>,
    /// Whether `Host` must be an address, `localhost` or listed. On a listener that only this machine reaches and that wants no
    /// token, a foreign name comes from a browser that was led here.
    checks_host: bool,
}

impl WebHosts {
    pub(crate) fn new(listed: Vec<AdminHost>, checks_host: bool) -> WebHosts {
        WebHosts { listed, checks_host }
    }

    /// Whether `Host` matters.
    pub(crate) fn checks_host(&self) -> bool {
        self.checks_host
    }

    /// Refuses requests that a page of another site may have sent.
    pub(super) fn check(&self, uri: &Uri, fields: &HeaderMap) -> Result<(), Problem> {
        let origin = fields.get(ORIGIN);
        let site = fields.get(SEC_FETCH_SITE);
        if !self.checks_host && origin.is_none() && site.is_none() {
            return Ok(());
        }
        // In HTTP/2 the host stands in the first line, so to speak.
        let named = uri.authority().map(http::uri::Authority::as_str);
        let named = named.or_else(|| fields.get(HOST).map(|host| host.to_str().unwrap_or_default()));
        if self.checks_host && !named.is_none_or(|named| self.answers_to(named)) {
            return Err(Problem::ForeignHost);
        }
        let is_same = match (origin, site) {
            (Some(origin), _) => self.is_own(origin, named),
            // Nothing but the browser's user, or a page of this listener, which has none.
            (None, Some(site)) => site == "none" || site == "same-origin",
            (None, None) => true,
        };
        if is_same { Ok(()) } else { Err(Problem::ForeignOrigin) }
    }

    /// Whether a name is an address, `localhost` or listed.
    pub(super) fn answers_to(&self, named: &str) -> bool {
        AdminHost::parse(named).is_some_and(|host| host.is_local_or_address() || host.is_among(&self.listed))
    }

    /// Whether the page of an origin may ask: it is listed, or comes from this listener, under an address or `localhost`.
    fn is_own(&self, origin: &HeaderValue, named: Option<&str>) -> bool {
        let Some(origin) = origin.to_str().ok().and_then(AdminHost::of_origin) else { return false };
        let is_same = || named.and_then(AdminHost::parse).is_some_and(|host| host == origin);
        origin.is_among(&self.listed) || origin.is_local_or_address() && is_same()
    }
}

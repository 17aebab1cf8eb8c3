//! The header of a call: whether RFC 9113 calls it malformed, and what the services behind need of it.
//!
//! Two bytes of a header block can name thousands. Were all fields passed on to h2, a client could make the server hold a thousand
//! times what it sends. So h2 is passed the few fields that something behind reads, each once, and all others end here.

use std::sync::Arc;

use tollgate_http2::hpack::{Fields, put_field};

use super::super::{REQUEST_ID, SHOULD_RATE_LIMIT};
use crate::access::{self, Remembered, Scope};
use crate::gate::Gate;
use crate::metrics::Protocol;

const CONTENT_TYPE: &[u8] = b"application/grpc";

/// The client breaks a rule of section 8 of RFC 9113. Its stream has to end with `PROTOCOL_ERROR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A client that may ask.
pub(super) struct Admitted<'a> {
    /// The token that the client has shown, if it had to show one.
    pub(super) token: Option<&'a [u8]>,
    /// What that token is bounded to, if it is.
    pub(super) scope: Option<Arc<Scope>>,
}

/// What is read of a header. Of a field that is sent twice, the first counts.
#[derive(Debug, Default)]
pub(super) struct Request<'a> {
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
    content_type: Option<&'a [u8]>,
    content_length: Option<&'a [u8]>,
    te: Option<&'a [u8]>,
    encoding: Option<&'a [u8]>,
    accept_encoding: Option<&'a [u8]>,
    timeout: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
    own_token: Option<&'a [u8]>,
    id: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads the fields of a request.
    pub(super) fn read(fields: &'a Fields) -> Result<Request<'a>, Malformed> {
        if fields.has_invalid() {
            return Err(Malformed);
        }
        let mut request = Request::default();
        let mut is_pseudo_over = false;
        for (name, value) in fields.iter() {
            if name.first() == Some(&b':') {
                let place = match name {
                    b":method" => &mut request.method,
                    b":scheme" => &mut request.scheme,
                    b":path" => &mut request.path,
                    b":authority" => &mut request.authority,
                    _ => return Err(Malformed),
                };
                if is_pseudo_over || place.replace(value).is_some() {
                    return Err(Malformed);
                }
            } else {
                is_pseudo_over = true;
                request.take_field(name, value)?;
            }
        }
        request.check_pseudo()?;
        Ok(request)
    }

    fn take_field(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), Malformed> {
        let place = match name {
            b"content-type" => &mut self.content_type,
            b"authorization" => &mut self.authorization,
            b"te" => {
                check_te(value)?;
                &mut self.te
            }
            b"grpc-encoding" => &mut self.encoding,
            b"grpc-accept-encoding" => &mut self.accept_encoding,
            b"grpc-timeout" => &mut self.timeout,
            b"host" if self.host.is_some() => return Err(Malformed),
            b"host" => &mut self.host,
            b"content-length" => {
                let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
                if !is_number || self.content_length.is_some_and(|before| before != value) {
                    return Err(Malformed);
                }
                &mut self.content_length
            }
            _ if is_of_connection(name) => return Err(Malformed),
            _ if name == REQUEST_ID.as_bytes() => &mut self.id,
            _ if name == access::TOKEN_FIELD.as_str().as_bytes() => &mut self.own_token,
            _ => return Ok(()),
        };
        place.get_or_insert(value);
        Ok(())
    }

    /// The rules of sections 8.3.1 and 8.5.
    fn check_pseudo(&self) -> Result<(), Malformed> {
        let method = self.method.ok_or(Malformed)?;
        let authority = self.authority.unwrap_or_default();
        let is_other_host = |host: &[u8]| !authority.is_empty() && !host.eq_ignore_ascii_case(authority);
        if self.host.is_some_and(is_other_host) {
            return Err(Malformed);
        }
        let is_right = if method == b"CONNECT" {
            self.scheme.is_none() && self.path.is_none() && !authority.is_empty()
        } else {
            let (scheme, path) = (self.scheme.ok_or(Malformed)?, self.path.ok_or(Malformed)?);
            let has_user = matches!(scheme, b"http" | b"https") && authority.contains(&b'@');
            let is_path = path.first() == Some(&b'/') || (method == b"OPTIONS" && path == b"*");
            is_path && !has_user
        };
        if is_right { Ok(()) } else { Err(Malformed) }
    }

    /// Whether this is a call of the method that is called all the time, in whatever form.
    pub(super) fn is_question(&self) -> bool {
        self.method == Some(b"POST") && self.path == Some(SHOULD_RATE_LIMIT.as_bytes())
    }

    /// The client, if this is a question in its usual form that is to be answered. Unusual forms and wrong tokens are left to h2 and to the
    /// services behind, which say what is wrong. So is everything where counters are shared, since answers may have to be waited for.
    pub(super) fn admitted(&self, gate: &Gate, remembered: &mut Remembered) -> Option<Admitted<'a>> {
        if gate.is_sharing() {
            return None;
        }
        let is_usual = self.is_question()
            && matches!(self.scheme, Some(b"http" | b"https"))
            && self.content_type.is_some_and(|told| told.starts_with(CONTENT_TYPE))
            && self.encoding.is_none_or(|told| told == b"identity")
            && self.content_length.is_none()
            && self.host.is_none()
            && self.id.is_none();
        if !is_usual {
            return None;
        }
        let access = gate.access();
        if !access.wants_token(Protocol::Rls) {
            return Some(Admitted { token: None, scope: None });
        }
        let token = access::shown_in(self.own_token, self.authorization)?;
        // A wrong one is not counted here: h2's part looks at it again, counts it and says so.
        let admitted = remembered.admit(access, Protocol::Rls, token, || gate.now()).ok()?;
        Some(Admitted { token: Some(token), scope: admitted.scope })
    }

    /// Writes the fields that something behind reads.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let token_field = access::TOKEN_FIELD;
        let fields: [(&[u8], Option<&[u8]>); 13] = [
            (b":method", self.method),
            (b":scheme", self.scheme),
            (b":path", self.path),
            (b":authority", self.authority.filter(|authority| !authority.is_empty())),
            (b"content-type", self.content_type),
            (b"content-length", self.content_length),
            (b"te", self.te),
            (b"grpc-encoding", self.encoding),
            (b"grpc-accept-encoding", self.accept_encoding),
            (b"grpc-timeout", self.timeout),
            (token_field.as_str().as_bytes(), self.own_token),
            (b"authorization", self.authorization),
            (REQUEST_ID.as_bytes(), self.id),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                put_field(out, name, value);
            }
        }
    }
}

/// Writes the header of a question in its usual form.
pub(super) fn put_question(out: &mut Vec<u8>, token: Option<&[u8]>) {
    let request = Request {
        method: Some(b"POST"),
        scheme: Some(b"http"),
        path: Some(SHOULD_RATE_LIMIT.as_bytes()),
        content_type: Some(CONTENT_TYPE),
        te: Some(b"trailers"),
        own_token: token,
        ..Request::default()
    };
    request.put(out);
}

/// Checks the fields that come after a message: they must be regular fields.
pub(super) fn check_trailers(fields: &Fields) -> Result<(), Malformed> {
    if fields.has_invalid() {
        return Err(Malformed);
    }
    for (name, value) in fields.iter() {
        if name.first() == Some(&b':') || is_of_connection(name) {
            return Err(Malformed);
        }
        if name == b"te" {
            check_te(value)?;
        }
    }
    Ok(())
}

/// Whether a field is about one connection of HTTP/1.1, and so must not be in HTTP/2 (section 8.2.2).
fn is_of_connection(name: &[u8]) -> bool {
    matches!(name, b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade")
}

fn check_te(value: &[u8]) -> Result<(), Malformed> {
    if value == b"trailers" { Ok(()) } else { Err(Malformed) }
}

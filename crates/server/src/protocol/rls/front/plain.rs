//! What the header of a plain question looks like.

use std::sync::Arc;

use tollgate_http2::hpack::{Fields, put_field};

use super::super::SHOULD_RATE_LIMIT;
use crate::access::{self, Remembered, Scope};
use crate::gate::Gate;
use crate::metrics::Protocol;

const CONTENT_TYPE: &[u8] = b"application/grpc";

/// Whoever may ask.
pub(super) struct Admitted<'a> {
    /// What was shown to be let in, if anything had to be.
    pub(super) token: Option<&'a [u8]>,
    /// What that is bounded to, if it is.
    pub(super) scope: Option<Arc<Scope>>,
}

/// Who asks, if these are the fields of a question that is to be answered. What is wrong is not, nor is what is right but rare: whoever
/// takes it up then says so. Nor is anything where counters are shared, since answers may have to be waited for.
pub(super) fn read<'a>(fields: &'a Fields, gate: &Gate, remembered: &mut Remembered) -> Option<Admitted<'a>> {
    if gate.is_sharing() {
        return None;
    }
    let (mut method, mut scheme, mut path, mut authority) = (None, None, None, None);
    let (mut content_type, mut own_token, mut authorization) = (None, None, None);
    let mut is_pseudo_over = false;
    for (name, value) in fields.iter() {
        if name.first() == Some(&b':') {
            let place = match name {
                b":method" => &mut method,
                b":scheme" => &mut scheme,
                b":path" => &mut path,
                b":authority" => &mut authority,
                _ => return None,
            };
            if is_pseudo_over || place.replace(value).is_some() {
                return None;
            }
            continue;
        }
        is_pseudo_over = true;
        match name {
            // Of those that are sent twice, the first counts.
            b"content-type" => content_type = content_type.or(Some(value)),
            b"authorization" => authorization = authorization.or(Some(value)),
            _ if name == access::TOKEN_FIELD.as_str().as_bytes() => own_token = own_token.or(Some(value)),
            b"te" if value == b"trailers" => {}
            b"grpc-encoding" if value == b"identity" => {}
            b"te" | b"grpc-encoding" | b"content-length" | b"host" => return None,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return None;
            }
            _ if !is_name(name) => return None,
            _ => {}
        }
    }
    let is_question = method == Some(b"POST")
        && path == Some(SHOULD_RATE_LIMIT.as_bytes())
        && matches!(scheme, Some(b"http" | b"https"))
        && content_type.is_some_and(|told: &[u8]| told.starts_with(CONTENT_TYPE));
    if !is_question {
        return None;
    }
    let access = gate.access();
    if !access.wants_token(Protocol::Rls) {
        return Some(Admitted { token: None, scope: None });
    }
    let token = access::shown_in(own_token, authorization)?;
    // A wrong one is not counted here: h2's part looks at it again, counts it and says so.
    let admitted = remembered.admit(access, Protocol::Rls, token, || gate.now()).ok()?;
    Some(Admitted { token: Some(token), scope: admitted.scope })
}

fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_graphic() && !byte.is_ascii_uppercase())
}

/// Writes such a header.
pub(super) fn put(out: &mut Vec<u8>, token: Option<&[u8]>) {
    put_field(out, b":method", b"POST");
    put_field(out, b":scheme", b"http");
    put_field(out, b":path", SHOULD_RATE_LIMIT.as_bytes());
    put_field(out, b"content-type", CONTENT_TYPE);
    put_field(out, b"te", b"trailers");
    if let Some(token) = token {
        put_field(out, access::TOKEN_FIELD.as_str().as_bytes(), token);
    }
}

//! Request ids: how a caller repeats a request of which it does not know whether it was charged.
//!
//! A caller that got no answer (a timeout, a 503, a cut connection) sends its request again under the same id. Every counter that was
//! charged remembers the id for ten minutes, next to its count, together with a fingerprint of the request. A repeat finds the id and is
//! answered without a second charge; another request under the same id is an error. A denied request has charged nothing, so no counter
//! remembers it.
//!
//! Two requests with the same id meet only at a counter that both charge. So callers of different tenants and policies neither collide
//! nor learn which ids others have used.

use thiserror::Error;
use tollgate_core::Span;
use tollgate_store::authority::{OnceId, SharedKey};

use crate::request::{Descriptor, Request, Subject};
use crate::reservation::{put_number, put_subject};

/// How a caller calls a request, to be able to repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId<'a>(&'a str);

/// A text that cannot be the id of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a request id has 1 to {} visible ASCII characters and no spaces", RequestId::BYTES_MAX)]
pub struct NotARequestId;

impl<'a> RequestId<'a> {
    /// The longest id.
    pub const BYTES_MAX: usize = 128;
    /// For so long a counter remembers an id: ten minutes.
    pub const LIFE: Span = Span::from_ticks(600 * 1_000_000_000);

    /// Checks an id: 1 to 128 visible ASCII characters.
    pub fn new(id: &'a str) -> Result<RequestId<'a>, NotARequestId> {
        let is_right =
            (1..=RequestId::BYTES_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        if is_right { Ok(RequestId(id)) } else { Err(NotARequestId) }
    }

    /// Its characters.
    pub fn as_str(&self) -> &'a str {
        self.0
    }
}

/// What an id is bound to: domain or policy, keys and costs.
pub(crate) fn fingerprint(request: &Request<'_>) -> u64 {
    let mut bytes = Vec::new();
    put_number(&mut bytes, request.cost);
    if let Subject::Descriptors { descriptors, .. } = request.subject {
        for Descriptor { cost, refund, .. } in descriptors {
            bytes.push(u8::from(*refund) << 1 | u8::from(cost.is_some()));
            put_number(&mut bytes, cost.unwrap_or(0));
        }
    }
    put_subject(&mut bytes, &request.subject);
    number(&[b"request", &bytes])
}

/// The id of a request at a counter that others share. `nth` counts the charges of one request on the same counter.
pub(crate) fn at_shared(counter: SharedKey, id: RequestId<'_>, nth: u64, fingerprint: u64) -> OnceId {
    let parts = [&counter.0.to_le_bytes()[..], &nth.to_le_bytes(), id.0.as_bytes()];
    OnceId { number: number(&parts), fingerprint }
}

/// 63 bits of a hash of some parts, of which only the last may have any length.
pub(crate) fn number(parts: &[&[u8]]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut low = [0; 8];
    hasher.finalize_xof().fill(&mut low);
    u64::from_le_bytes(low) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_1_to_128_visible_ascii_characters() {
        let longest = "x".repeat(RequestId::BYTES_MAX);
        for id in ["a", "!", "~", "6ba7b810-9dad-11d1", &longest] {
            assert_eq!(RequestId::new(id).map(|id| id.as_str()), Ok(id));
        }
        let too_long = "x".repeat(RequestId::BYTES_MAX + 1);
        for id in ["", " ", "a b", "a\n", "\u{7f}", "ü", &too_long] {
            assert_eq!(RequestId::new(id), Err(NotARequestId), "{id:?}");
        }
    }

    #[test]
    fn requests_with_other_values_have_other_fingerprints() {
        let entries = [("user", "a")];
        let plain = [Descriptor::new(&entries)];
        let twice = [plain[0], plain[0]];
        let with_cost = [Descriptor { cost: Some(1), ..plain[0] }];
        let refund = [Descriptor { refund: true, ..with_cost[0] }];
        let requests = [
            Request::new("d", &plain),
            Request::new("d", &plain).cost(2),
            Request::new("e", &plain),
            Request::new("d", &twice),
            Request::new("d", &with_cost),
            Request::new("d", &refund),
            Request::policy("d", b"a"),
            Request::policy("d", b"b"),
            Request::policy("d", b"a").tier("gold"),
        ];
        let mut seen: Vec<u64> = requests.iter().map(fingerprint).collect();
        assert_eq!(seen[0], fingerprint(&Request::new("d", &[Descriptor::new(&[("user", "a")])])));
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), requests.len());
    }
}

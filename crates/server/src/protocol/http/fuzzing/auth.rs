//! Any head of a request as a proxy hands it over: the answer obeys the query, and nobody is believed who is not trusted.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::body::Body;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, StatusCode, Uri};

use super::Answered;
use crate::fuzzing::at_once;
use crate::fuzzing::with_gate;
use crate::gate::Gate;
use crate::protocol::http::auth;
use crate::stream::Peer;

/// A proxy on the same machine, which is trusted, and somebody else.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));

/// The first line is a query, each of the others a header field.
pub fn http_auth(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let query = lines.next().unwrap_or_default();
    let Ok(uri) = Uri::try_from([b"/v1/auth?", query].concat()) else { return };
    let mut head = Request::get(uri).body(()).expect("a request").into_parts().0;
    head.headers.extend(lines.filter_map(field));
    with_gate(|gate| {
        check_stranger(gate, &mut head);
        for _ in 0..3 {
            check_answer(gate, &mut head);
        }
    });
}

fn field(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
}

fn ask(gate: &Gate, head: &mut Parts, peer: IpAddr) -> Answered {
    head.extensions.insert(Peer { address: SocketAddr::new(peer, 4711) });
    Answered::of(at_once(auth::answer((gate, None), head)).map(Body::new))
}

/// Whatever a stranger writes, it is the stranger who is counted.
fn check_stranger(gate: &Gate, head: &mut Parts) {
    assert_eq!(gate.settings().addresses.client(STRANGER, &head.headers).address, STRANGER);
    ask(gate, head, STRANGER);
}

fn check_answer(gate: &Gate, head: &mut Parts) {
    let answered = ask(gate, head, PROXY);
    if answered.status == StatusCode::OK {
        assert!(answered.body.is_empty());
        return;
    }
    let asked = head.uri.query().is_some_and(|query| query.contains("deny="));
    assert!(asked || answered.status.is_client_error(), "{}", answered.status);
    let body = answered.json();
    let code = body.get("code").or_else(|| body.get("error")?.get("code"));
    assert!(code.is_some_and(|code| code.as_str().is_some_and(|code| !code.is_empty())), "{body}");
}

//! What a client sends on a connection, in pieces of any length: with the short cut it is answered as without.
//!
//! Requests that are read in two ways are how others are smuggled past a proxy. So both ways must find the same requests in the same bytes.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tower::Service as _;

use super::answers::{Answer, read_all};
use crate::connection;
use crate::drain::{Drain, Stopper};
use crate::fuzzing::pieces::{Lengths, Pieces};
use crate::fuzzing::{block_on, with_router};
use crate::protocol::http::{Service, serve};
use crate::stream::{Peer, Stream};

/// What a connection of HTTP/2 begins with. There is no short cut for that.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n";

/// The first bytes say how long the pieces are, in turn: see [`Lengths`]. The others are what a client sends.
pub fn quick(bytes: &[u8]) {
    let Some((lengths, sent)) = bytes.split_first_chunk() else { return };
    if sent.starts_with(HTTP2) {
        return;
    }
    let lengths = Lengths::new(*lengths);
    let short = talk(sent, lengths, async |stream, service, drain| serve(stream, service, drain).await);
    let long = talk(sent, lengths, async |stream, service, drain| {
        let answer = move |request| service.router.clone().call(request);
        connection::serve(stream, answer, drain).await;
    });
    assert_same(short, long);
}

/// What a client is told that sends this and nothing more.
fn talk<'a>(
    sent: &'a [u8],
    lengths: Lengths,
    serve: impl AsyncFnOnce(Stream<&mut Pieces<'a>>, Service, Drain),
) -> Vec<Answer> {
    let (stopper, mut pieces) = (Stopper::new(), Pieces::new(sent, lengths));
    let peer = Peer { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 4711)) };
    with_router(|gate, router| {
        let service = Service { gate: Arc::clone(gate), router, client: None };
        block_on(serve(Stream::new(&mut pieces, peer), service, stopper.drain()));
    });
    read_all(pieces.written())
}

/// What hyper does may depend on the pieces, of which it sees others after the short cut. So one of the two may be told less:
///
/// - A head that cannot become a request is refused with its first piece or its last, which a client may not have sent.
/// - Who asks what is answered without its body is heard no more, unless that body has arrived already.
fn assert_same(mut short: Vec<Answer>, mut long: Vec<Answer>) {
    if short.len() != long.len() {
        let shared = short.len().min(long.len());
        let longer = if short.len() > shared { &mut short } else { &mut long };
        if longer[..shared].last().is_some_and(Answer::may_be_the_last) {
            longer.truncate(shared);
        } else {
            longer.pop_if(|answer| answer.is_refusal());
        }
    }
    assert_eq!(short, long, "the short cut makes a difference");
}

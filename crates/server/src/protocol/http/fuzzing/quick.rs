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
use crate::fuzzing::{block_on, with_gate};
use crate::gate::Gate;
use crate::protocol::http::{Service, router, serve};
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
    let short = talk(sent, lengths, async |stream, gate, drain| {
        serve(stream, Service::new(gate), drain).await;
    });
    let long = talk(sent, lengths, async |stream, gate, drain| {
        let router = router(gate);
        connection::serve(stream, move |request| router.clone().call(request), drain).await;
    });
    assert_same(short, long);
}

/// What a client is told, and how many keys are counted afterwards.
#[derive(Debug, PartialEq)]
struct Talk {
    answers: Vec<Answer>,
    keys: usize,
}

fn talk<'a>(
    sent: &'a [u8],
    lengths: Lengths,
    serve: impl AsyncFnOnce(Stream<&mut Pieces<'a>>, Arc<Gate>, Drain),
) -> Talk {
    let (stopper, mut pieces) = (Stopper::new(), Pieces::new(sent, lengths));
    let peer = Peer { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 4711)) };
    with_gate(|gate| {
        block_on(serve(Stream::new(&mut pieces, peer), Arc::clone(gate), stopper.drain()));
        Talk { answers: read_all(pieces.written()), keys: gate.engine().stats().keys }
    })
}

/// What hyper does may depend on the pieces, of which it sees others after the short cut. So one of the two may be told less:
///
/// - A head that cannot become a request is refused with its first piece or its last, which a client may not have sent.
/// - Who asks what is answered without its body is heard no more, unless that body has arrived already.
fn assert_same(mut short: Talk, mut long: Talk) {
    if short.answers.len() != long.answers.len() {
        let shared = short.answers.len().min(long.answers.len());
        let longer = if short.answers.len() > shared { &mut short } else { &mut long };
        if longer.answers[..shared].last().is_some_and(Answer::may_be_the_last) {
            longer.answers.truncate(shared);
            long.keys = short.keys;
        } else {
            longer.answers.pop_if(|answer| answer.is_refusal());
        }
    }
    assert_eq!(short, long, "the short cut makes a difference");
}

//! A gate behind a socket, and a client that can do what no decent client does.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::super::{SHOULD_RATE_LIMIT, Services, router, serve as serve_connection};
use super::*;
use crate::drain::Stopper;
use crate::room::Room;
use crate::stream::{Peer, Stream};

/// What was answered: the status, and of header and trailers what gRPC says, and the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) http_status: u16,
    pub(super) fields: Vec<(String, String)>,
    pub(super) body: Bytes,
}

/// Serves a gate to everybody who comes, as long as the test lasts. The stopper ends the connections.
pub(super) async fn serve(gate: &Arc<Gate>) -> (SocketAddr, Arc<Stopper>) {
    serve_in(Room::unbounded(), gate).await
}

/// The same, in a room that all of them share.
pub(super) async fn serve_in(room: Room, gate: &Arc<Gate>) -> (SocketAddr, Arc<Stopper>) {
    let room = Arc::new(room);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let services = Arc::new(Services::new(Arc::clone(gate)));
    let stopper = Arc::new(Stopper::new());
    let kept = Arc::clone(&stopper);
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, address) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let stream = Stream::plain(stream, Peer { address }, Arc::clone(&room));
            connections.spawn(serve_connection(stream, Arc::clone(&services), kept.drain()));
        }
    });
    (address, stopper)
}

/// The same gate, but everything goes through hyper and tonic.
pub(super) async fn serve_by_tonic(gate: &Arc<Gate>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = TowerToHyperService::new(router(Arc::clone(gate)));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(builder.serve_connection(TokioIo::new(stream), service.clone()));
        }
    });
    address
}

/// A connection of a client, with the window that it has for answers.
pub(super) async fn client(address: SocketAddr, window_bytes: u32) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(window_bytes).initial_max_send_streams(1024);
    let (client, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// The header of a question.
pub(super) fn question() -> Request<()> {
    let request = Request::post(format!("http://tollgate{SHOULD_RATE_LIMIT}"));
    request.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap()
}

/// A message with its prefix.
pub(super) fn framed(message: &RateLimitRequest) -> Vec<u8> {
    framed_bytes(&message.encode_to_vec())
}

pub(super) fn framed_bytes(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&[0], length.to_be_bytes().as_slice(), message].concat()
}

/// Begins a call. The body follows.
pub(super) fn begin(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
) -> (ResponseFuture, SendStream<Bytes>) {
    client.send_request(request, false).unwrap()
}

/// Asks with a body in pieces.
pub(super) async fn ask(client: &mut SendRequest<Bytes>, request: Request<()>, pieces: &[&[u8]]) -> Told {
    *client = client.clone().ready().await.unwrap();
    let (answer, mut stream) = begin(client, request);
    for piece in pieces {
        // An error means that the answer is there already.
        let _ = stream.send_data(Bytes::copy_from_slice(piece), false);
        tokio::task::yield_now().await;
    }
    let _ = stream.send_data(Bytes::new(), true);
    told(answer.await.unwrap()).await
}

/// All of an answer.
pub(super) async fn told(response: Response<RecvStream>) -> Told {
    let (parts, mut body) = response.into_parts();
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        all.extend_from_slice(&data);
    }
    let trailers = body.trailers().await.unwrap().unwrap_or_default();
    let mut fields = [fields(&parts.headers), fields(&trailers)].concat();
    fields.sort();
    Told { http_status: parts.status.as_u16(), fields, body: all.into() }
}

fn fields(headers: &HeaderMap) -> Vec<(String, String)> {
    let told = |name: &str| name.starts_with("grpc-") || name == "content-type";
    let fields = headers.iter().filter(|(name, _)| told(name.as_str()));
    fields.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect()
}

impl Told {
    pub(super) fn grpc_status(&self) -> Option<&str> {
        let field = self.fields.iter().find(|(name, _)| name == "grpc-status");
        field.map(|(_, value)| value.as_str())
    }

    /// The overall code of the message.
    pub(super) fn overall(&self) -> &'static str {
        RateLimitResponse::decode(&self.body[5..]).unwrap().overall_code().as_str_name()
    }
}

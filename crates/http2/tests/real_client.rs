//! What a real client and a real server write, taken from the wire: cut into frames, and read as what they were told to send.
#![allow(clippy::unwrap_used)] // A test stops at the first surprise.

use bytes::Bytes;
use h2::{client, server};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex, split};
use tollgate_http2::frame::{HEADER_BYTES, Head, PAYLOAD_BYTES_MAX, flag, kind, unpadded};
use tollgate_http2::hpack::{Decoder, Fields};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const TABLE_BYTES_DEFAULT: u32 = 4096;
const PIPE_BYTES: usize = 64 << 10;
const FIELDS_BYTES_MAX: usize = 1 << 20;

/// A question and its answer.
#[derive(Clone, Debug)]
struct Exchange {
    method: Method,
    path: String,
    request: HeaderMap,
    status: StatusCode,
    response: HeaderMap,
}

type Line = (Vec<u8>, Vec<u8>);

fn line(name: &str, value: impl AsRef<[u8]>) -> Line {
    (name.as_bytes().to_vec(), value.as_ref().to_vec())
}

fn lines(fields: &HeaderMap) -> impl Iterator<Item = Line> {
    fields.iter().map(|(name, value)| line(name.as_str(), value))
}

impl Exchange {
    fn request_lines(&self) -> Vec<Line> {
        let pseudo = [
            line(":method", self.method.as_str()),
            line(":scheme", "http"),
            line(":authority", "example.com"),
            line(":path", &self.path),
        ];
        pseudo.into_iter().chain(lines(&self.request)).collect()
    }

    fn response_lines(&self) -> Vec<Line> {
        [line(":status", self.status.as_str())].into_iter().chain(lines(&self.response)).collect()
    }
}

/// Has the exchanges made, one after the other, and returns what the client and what the server wrote.
async fn record(client_table_bytes: u32, exchanges: &[Exchange]) -> (Vec<u8>, Vec<u8>) {
    let (client_io, client_wire) = duplex(PIPE_BYTES);
    let (server_wire, server_io) = duplex(PIPE_BYTES);
    let wire = tokio::spawn(tap(client_wire, server_wire));
    let answers: Vec<_> = exchanges.iter().map(|one| (one.status, one.response.clone())).collect();
    let serving = tokio::spawn(serve(server_io, answers));
    let (mut sender, connection) = client::Builder::new()
        .header_table_size(client_table_bytes)
        .handshake::<_, Bytes>(client_io)
        .await
        .unwrap();
    let connected = tokio::spawn(connection);
    for exchange in exchanges {
        let uri = format!("http://example.com{}", exchange.path);
        let mut request = Request::builder().method(&exchange.method).uri(uri).body(()).unwrap();
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = exchange.request.clone();
        sender = sender.ready().await.unwrap();
        let (response, _) = sender.send_request(request, true).unwrap();
        assert_eq!(response.await.unwrap().headers(), &exchange.response);
    }
    drop(sender);
    connected.await.unwrap().unwrap();
    serving.await.unwrap();
    wire.await.unwrap()
}

async fn serve(io: DuplexStream, answers: Vec<(StatusCode, HeaderMap)>) {
    let mut connection = server::handshake(io).await.unwrap();
    for (status, fields) in answers {
        let (_, mut respond) = connection.accept().await.unwrap().unwrap();
        let mut response = Response::builder().status(status).body(()).unwrap();
        *response.headers_mut() = fields;
        respond.send_response(response, true).unwrap();
    }
    assert!(connection.accept().await.is_none());
}

/// Passes on what comes from either side, and keeps it.
async fn tap(client: DuplexStream, server: DuplexStream) -> (Vec<u8>, Vec<u8>) {
    let (client_read, client_write) = split(client);
    let (server_read, server_write) = split(server);
    tokio::join!(pass(client_read, server_write), pass(server_read, client_write))
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) -> Vec<u8> {
    let (mut kept, mut piece) = (Vec::new(), vec![0; PIPE_BYTES]);
    loop {
        let length = from.read(&mut piece).await.unwrap();
        kept.extend_from_slice(&piece[..length]);
        // Whoever has gone does not read any more.
        if length == 0 || to.write_all(&piece[..length]).await.is_err() {
            let _ = to.shutdown().await;
            return kept;
        }
    }
}

/// The header blocks of a stream of frames, each put together from its frames.
fn blocks(mut wire: &[u8]) -> Vec<Vec<u8>> {
    let (mut blocks, mut block) = (Vec::new(), Vec::new());
    while !wire.is_empty() {
        let head = Head::read(wire).unwrap();
        let length = usize::try_from(head.length).unwrap();
        assert!(length <= PAYLOAD_BYTES_MAX);
        let payload = &wire[HEADER_BYTES..HEADER_BYTES + length];
        wire = &wire[HEADER_BYTES + length..];
        match head.kind {
            kind::HEADERS => block.extend_from_slice(unpadded(head, payload).unwrap()),
            kind::CONTINUATION => block.extend_from_slice(payload),
            _ => continue,
        }
        if head.has(flag::END_HEADERS) {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks
}

fn check_wire(wire: &[u8], table_bytes_max: u32, expected: impl Iterator<Item = Vec<Line>>) {
    let mut decoder = Decoder::new(usize::try_from(table_bytes_max).unwrap());
    let mut fields = Fields::new(FIELDS_BYTES_MAX);
    let mut blocks = blocks(wire).into_iter();
    for (nth, expected) in expected.enumerate() {
        let block = blocks.next().unwrap();
        decoder.decode(&block, &mut fields).unwrap();
        let read: Vec<_> = fields.iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect();
        assert!(read == expected, "block {nth}: {read:?}\nis not {expected:?}");
        assert!(!fields.is_too_long());
    }
    assert_eq!(blocks.next(), None);
}

/// Returns how many bytes were sent in both directions.
fn check(client_table_bytes: u32, exchanges: &[Exchange]) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (requests, responses) = runtime.block_on(record(client_table_bytes, exchanges));
    let frames = requests.strip_prefix(PREFACE).unwrap();
    check_wire(frames, TABLE_BYTES_DEFAULT, exchanges.iter().map(Exchange::request_lines));
    check_wire(&responses, client_table_bytes, exchanges.iter().map(Exchange::response_lines));
    requests.len() + responses.len()
}

/// Names that have a place in every table, and names that do not.
fn name() -> impl Strategy<Value = HeaderName> {
    let known = prop::sample::select(vec![
        header::ACCEPT_ENCODING,
        header::AUTHORIZATION,
        header::CACHE_CONTROL,
        header::CONTENT_TYPE,
        header::COOKIE,
        header::ETAG,
        header::USER_AGENT,
        header::WWW_AUTHENTICATE,
    ]);
    let unknown = "x-[a-z0-9_-]{1,12}".prop_map(|name| HeaderName::from_bytes(name.as_bytes()).unwrap());
    prop_oneof![2 => known, 1 => Just(HeaderName::from_static("grpc-timeout")), 1 => unknown]
}

/// All bytes that a value may have; few distinct ones, many, and long ones.
fn value() -> impl Strategy<Value = HeaderValue> {
    let byte = prop_oneof![Just(b'\t'), 0x20..=0x7e_u8, 0x80..=0xff_u8];
    let text = prop_oneof![
        20 => "[ab]{0,2}".prop_map(String::into_bytes),
        20 => "[!-~]{1,60}".prop_map(String::into_bytes),
        10 => proptest::collection::vec(byte, 0..100),
        1 => "[a-z]{3000,20000}".prop_map(String::into_bytes),
    ];
    (text, prop::bool::weighted(0.1)).prop_map(|(text, is_sensitive)| {
        let mut value = HeaderValue::from_bytes(&text).unwrap();
        value.set_sensitive(is_sensitive);
        value
    })
}

fn fields() -> impl Strategy<Value = HeaderMap> {
    proptest::collection::vec((name(), value()), 0..10).prop_map(|fields| {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name, value);
        }
        map
    })
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let method = prop::sample::select(vec![Method::GET, Method::POST, Method::PUT]);
    let status = prop_oneof![
        2 => prop::sample::select(vec![200_u16, 204, 206, 304, 400, 404, 500]),
        1 => 200..600_u16,
    ];
    (method, "/[a-z./]{0,40}", fields(), status, fields()).prop_map(
        |(method, path, request, status, response)| {
            let status = StatusCode::from_u16(status).unwrap();
            Exchange { method, path, request, status, response }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_exchanges(
        client_table_bytes in prop_oneof![Just(TABLE_BYTES_DEFAULT), 0..300_u32, 0..20_000_u32],
        exchanges in proptest::collection::vec(exchange(), 1..30),
    ) {
        check(client_table_bytes, &exchanges);
    }
}

fn plain(request: HeaderMap) -> Exchange {
    let response = HeaderMap::new();
    Exchange { method: Method::POST, path: "/".to_owned(), request, status: StatusCode::OK, response }
}

#[test]
fn every_name_that_has_a_place() {
    // All but `transfer-encoding`, which nobody may send.
    let names = "accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow \
        authorization cache-control content-disposition content-encoding content-language content-length \
        content-location content-range content-type cookie date etag expect expires from host if-match \
        if-modified-since if-none-match if-range if-unmodified-since last-modified link location max-forwards \
        proxy-authenticate proxy-authorization range referer refresh retry-after server set-cookie \
        strict-transport-security user-agent vary via www-authenticate";
    let mut request = HeaderMap::new();
    for name in names.split(' ') {
        let value = if name == "content-length" { "0" } else { "gzip, deflate" };
        request.insert(name, HeaderValue::from_static(value));
    }
    check(TABLE_BYTES_DEFAULT, &[plain(request)]);
}

#[test]
fn what_is_sent_again_is_short() {
    let mut request = HeaderMap::new();
    request.insert("te", HeaderValue::from_static("trailers"));
    request.insert("grpc-timeout", HeaderValue::from_static("20m"));
    request.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let few = check(TABLE_BYTES_DEFAULT, &vec![plain(request.clone()); 10]);
    let many = check(TABLE_BYTES_DEFAULT, &vec![plain(request); 110]);
    // Both have to be indexed fields nearly alone: two frame headers, seven fields and a status.
    assert!(many - few < 100 * 40, "{} bytes for 100 exchanges", many - few);
}

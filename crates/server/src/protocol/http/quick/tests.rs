//! Which requests are usual, and that they are answered as the router answers them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::Request;

use super::super::WebHosts;
use super::super::tests::{gate, send, without_times};
use super::*;
use crate::drain::Stopper;
use crate::fuzzing::pieces::{Lengths, Pieces};
use crate::stream::Peer;

const BODY: &str = r#"{"policy":"search","key":"a"}"#;

/// As a listener that answers to any name finds requests.
fn usual(input: &[u8]) -> Result<Option<(usize, usize)>, Unusual> {
    super::usual(input, &mut Vec::new(), &gate())
}

#[test]
fn what_browsers_send_is_left_to_the_guard() {
    for fields in ["Origin: http://evil.example\r\n", "origin: null\r\n", "Sec-Fetch-Site: cross-site\r\n"] {
        assert_eq!(usual(request(fields, BODY).as_bytes()), Err(Unusual), "{fields}");
    }
    let gate = Arc::into_inner(gate()).unwrap().with_web_hosts(WebHosts::new(Vec::new(), true));
    let mut last = Vec::new();
    let mut named = |host: &str| {
        let sent = request("", BODY).replace("Host: x", &format!("Host: {host}"));
        super::usual(sent.as_bytes(), &mut last, &gate).map(|found| found.is_some())
    };
    for host in ["127.0.0.1:8080", "127.0.0.1:8080", "localhost", "[::1]:8080"] {
        assert_eq!(named(host), Ok(true), "{host}");
    }
    assert_eq!(named("evil.example"), Err(Unusual));
    assert_eq!(named("127.0.0.1:8080"), Ok(true));
}

fn request(fields: &str, body: &str) -> String {
    format!("POST /v1/check HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn usual_requests_are_found_whole() {
    for fields in
        ["", "Connection: keep-alive\r\n", "connection: Keep-Alive\r\nX-A: b\r\n", "Accept: */*\r\n"]
    {
        let sent = request(fields, BODY);
        for cut in 0..sent.len() {
            assert_eq!(usual(&sent.as_bytes()[..cut]), Ok(None), "{sent:?} up to {cut}");
        }
        let found = Ok(Some((sent.len() - BODY.len(), sent.len())));
        assert_eq!(usual(sent.as_bytes()), found);
        assert_eq!(usual((sent.clone() + "more").as_bytes()), found);
    }
}

#[tokio::test]
async fn buffers_beyond_the_first_are_charged_to_the_account() {
    for (lent_bytes_max, is_kept) in [(0, false), (1 << 20, true)] {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let mut client = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, address) = listener.accept().await.unwrap();
        let room = Arc::new(crate::room::Room::new(1, lent_bytes_max));
        let mut stream = Stream::plain(server, Peer { address }, room);
        let unfinished = request("", &"x".repeat(BODY_BYTES_MAX));
        client.write_all(&unfinished.as_bytes()[..BODY_BYTES_MAX]).await.unwrap();
        let stopper = Stopper::new();
        let (gate, mut drain) = (gate(), stopper.drain());
        let ended = timeout(Duration::from_millis(200), serve(&mut stream, &gate, &mut drain)).await;
        assert_eq!(ended.is_err(), is_kept, "{lent_bytes_max} to lend");
    }
}

#[test]
fn what_is_unusual_is_not_touched() {
    let long = "x".repeat(BODY_BYTES_MAX + 1);
    let many = "X-A: b\r\n".repeat(FIELDS_MAX);
    let endless = format!("POST /v1/check HTTP/1.1\r\nX-A: {}", "x".repeat(REQUEST_BYTES_MAX));
    for sent in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /".to_owned(),
        "POST /v1/check?headers=older HTTP/1.1\r\n".to_owned(),
        "POST /v1/check HTTP/1.0\r\n".to_owned(),
        "POST /v1/check HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(),
        request("Transfer-Encoding: chunked\r\n", BODY),
        request("Expect: 100-continue\r\n", BODY),
        request("Connection: close\r\n", BODY),
        request("Connection: keep-alive, upgrade\r\n", BODY),
        request("Upgrade: h2c\r\n", BODY),
        request("Content-Length: 29\r\n", BODY),
        request("Content-Length : 29\r\n", BODY),
        request("X-A: b\r\n folded\r\n", BODY),
        request("", BODY).replace("Content-Length: 29", "Content-Length: +29"),
        request("", BODY).replace("Content-Length: 29", "Content-Length: 29, 29"),
        request("", BODY).replace("Content-Length: 29", "Content-Length: 99999999999999999999"),
        request("", BODY).replace("Host: x\r\n", ""),
        request("host: x\r\n", BODY),
        request("", BODY).replace("Host: x", "Host: x y"),
        request("", BODY).replace("Host: x\r\n", "Host: x\n"),
        request("", BODY).replace("\r\n\r\n", "\r\n\n"),
        request("", &long),
        request(&many, BODY),
        endless,
    ] {
        assert_eq!(usual(sent.as_bytes()), Err(Unusual), "{sent:?}");
    }
}

/// The status, the names of the header fields, and the body without its times.
type Answer = (u16, BTreeSet<String>, String);

fn read(output: &[u8]) -> Answer {
    let (head, body) = std::str::from_utf8(output).unwrap().split_once("\r\n\r\n").unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields: Vec<(&str, &str)> = lines.map(|line| line.split_once(": ").unwrap()).collect();
    let value = |name| fields.iter().find(|field| field.0 == name).unwrap().1;
    assert_eq!(value("content-length"), body.len().to_string());
    assert!(httpdate::parse_http_date(value("date")).is_ok());
    let names = fields.iter().map(|field| field.0.to_owned()).filter(|name| name != "date");
    let names = names.filter(|name| name != "content-length").collect();
    (status, names, without_times(serde_json::from_str(body).unwrap()))
}

#[tokio::test]
async fn answers_are_those_of_the_router() {
    let (ours, theirs) = (gate(), gate());
    let mut connection = Connection::default();
    for body in [
        BODY,
        BODY,
        BODY,
        r#"{"policy":"closed","key":"a"}"#,
        r#"{"policy":"none","key":"a"}"#,
        r#"{"policy":"mail","key":"a","cost":3}"#,
        r#"{"domain":"web","descriptors":[{"entries":[{"key":"plan","value":"free"}]}]}"#,
        r#"{"domain":"","descriptors":[]}"#,
        r#"{"domain":"elsewhere","descriptors":[{"entries":[]}]}"#,
    ] {
        connection.input.extend_from_slice(request("", body).as_bytes());
        assert_eq!(connection.answer(&ours), Found::Part, "{body}");
        let (head, text) = send(&theirs, Request::post("/v1/check").body(body.into()).unwrap()).await;
        let names = head.headers().keys().map(|name| name.as_str().to_owned());
        let names = names.filter(|name| name != "content-length").collect();
        let expected = (head.status().as_u16(), names, without_times(serde_json::from_str(&text).unwrap()));
        assert_eq!(read(&connection.output), expected, "{body}");
        connection.output.clear();
    }
}

#[tokio::test]
async fn a_pipeline_is_answered_in_full_and_what_is_left_is_kept() {
    let (gate, mut connection) = (gate(), Connection::default());
    let bad = request("", "no JSON");
    connection.input.extend_from_slice((request("", BODY).repeat(3) + &bad).as_bytes());
    assert_eq!(connection.answer(&gate), Found::Unusual);
    let answers = String::from_utf8(connection.output).unwrap();
    assert_eq!((answers.matches(" 200 OK").count(), answers.matches(" 429 ").count()), (2, 1));
    assert_eq!(connection.input, bad.as_bytes());
}

fn peer() -> Peer {
    Peer { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 4711)) }
}

/// What is left of a connection on which this is all that comes.
async fn left_of(sent: &str) -> (Left, String) {
    let mut pieces = Pieces::new(sent.as_bytes(), Lengths::whole());
    let mut stream = Stream::new(&mut pieces, peer());
    let left = serve(&mut stream, &gate(), &mut Stopper::new().drain()).await;
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    (left, rest)
}

#[tokio::test]
async fn who_was_answered_speaks_http_1_for_good() {
    const HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let nothing = (Left::Nothing, String::new());
    assert_eq!(left_of("").await, nothing);
    assert_eq!(left_of(&request("", BODY)).await, nothing);
    assert_eq!(left_of(HTTP2).await, (Left::All, HTTP2.to_owned()));
    assert_eq!(left_of(&(request("", BODY) + HTTP2)).await, (Left::Rest, HTTP2.to_owned()));
}

/// A client that has asked much and takes a little of the answers every now and then. Returns how much it was told, and what was left.
async fn told(pause: Duration) -> (usize, Left) {
    const ASKED: usize = 200;
    let (mut client, server) = tokio::io::duplex(request("", BODY).len() * ASKED);
    client.write_all(request("", BODY).repeat(ASKED).as_bytes()).await.unwrap();
    let (gate, stopper) = (gate(), Stopper::new());
    let serving = async {
        let mut stream = Stream::new(server, peer());
        serve(&mut stream, &gate, &mut stopper.drain()).await
    };
    let reading = async {
        let mut answers = String::new();
        let mut some = [0; 1_024];
        while let Ok(length @ 1..) = client.read(&mut some).await {
            answers.push_str(std::str::from_utf8(&some[..length]).unwrap());
            if answers.matches("HTTP/1.1 ").count() == ASKED {
                client.shutdown().await.unwrap();
            }
            sleep(pause).await;
        }
        answers.matches("HTTP/1.1 ").count()
    };
    let (left, told) = tokio::join!(serving, reading);
    (told, left)
}

#[tokio::test(start_paused = true)]
async fn who_takes_answers_slowly_gets_them_all() {
    assert_eq!(told(WRITE_TIMEOUT / 2).await, (200, Left::Nothing));
}

#[tokio::test(start_paused = true)]
async fn who_takes_none_for_long_is_not_waited_for() {
    let (told, left) = told(WRITE_TIMEOUT * 2).await;
    assert!((1..200).contains(&told), "{told}");
    assert_eq!(left, Left::Nothing);
}

//! What a connection of HTTP/1.1 takes at most, over a real one.
#![allow(clippy::unwrap_used, clippy::panic)]

use axum::body::Body;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::body;
use crate::drain::Stopper;
use crate::gate::{Gate, GateSettings};
use crate::protocol::http;
use crate::stream::Peer;

/// Answers how long the body was.
async fn length(request: Request<Sent>) -> Result<Response, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    Ok(Response::new(Body::from(format!("{} bytes", body.len()))))
}

async fn answer(request: &str) -> String {
    answer_by(length, Room::unbounded(), request).await
}

/// The answer of a service to a request. The connection ends after it.
async fn answer_by<S, A>(service: S, room: Room, request: &str) -> String
where
    S: Fn(Request<Sent>) -> A,
    A: Future<Output = Result<Response, Infallible>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, server) =
        tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (server, address) = server.unwrap();
    let (mut answers, mut requests) = client.unwrap().into_split();
    let stopper = Stopper::new();
    let send = async {
        // A server that has closed does not listen any more.
        let _ = requests.write_all(request.as_bytes()).await;
        let _ = requests.shutdown().await;
    };
    let receive = async {
        let mut received = Vec::new();
        let _ = answers.read_to_end(&mut received).await; // A reset may follow the answer.
        String::from_utf8(received).unwrap()
    };
    let stream = Stream::plain(server, Peer { address }, Arc::new(room));
    let serving = serve(stream, service, stopper.drain());
    tokio::join!(send, receive, serving).1
}

/// A head of just so many bytes.
fn head(bytes: usize) -> String {
    let (start, end) = ("GET / HTTP/1.1\r\nHost: x\r\nX: ", "\r\n\r\n");
    format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
}

#[tokio::test]
async fn a_head_has_a_longest_length() {
    let longest = HEADER_BYTES_MAX as usize;
    assert!(answer(&head(longest / 2)).await.starts_with("HTTP/1.1 200 "));
    assert!(answer(&head(longest - 1)).await.starts_with("HTTP/1.1 200 "));
    assert!(answer(&head(longest + 1)).await.starts_with("HTTP/1.1 431 "));
    assert!(answer(&head(6 * longest)).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn a_request_of_http_1_1_has_one_host() {
    let get = |fields: &str| format!("GET / HTTP/1.1\r\n{fields}\r\n");
    for fields in ["", "Host: x\r\nHost: x\r\n", "Host: x y\r\n", "Host: u@x\r\n", "Host: x/\r\n"] {
        let answer = answer(&get(fields)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{fields:?}: {answer}");
    }
    for fields in ["Host: x\r\n", "Host:\r\n", "Host: x:80\r\n", "Host: [::1]:8080\r\n"] {
        let answer = answer(&get(fields)).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{fields:?}: {answer}");
    }
    assert!(answer("GET / HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200 "));
}

#[tokio::test]
async fn a_line_ends_with_a_carriage_return_and_a_line_feed() {
    let whole = "GET / HTTP/1.1\r\nHost: x\r\nX: y\r\n\r\n";
    for (end, _) in whole.match_indices("\r\n") {
        let mut request = whole.to_owned();
        request.remove(end);
        // What follows must not be taken for another request.
        let answer = answer(&(request + whole)).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "at {end}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "at {end}: {answer}");
    }
    // Within a body it is nothing special.
    let answer = answer(&post("/", "a\nb\n")).await;
    assert!(answer.ends_with("4 bytes"), "{answer}");
}

fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn bodies_are_longer_than_heads() {
    let body = "x".repeat(1 << 20);
    let answer = answer(&post("/", &body)).await;
    assert!(answer.ends_with("1048576 bytes"), "{answer}");
}

#[tokio::test]
async fn long_bodies_are_told_that_there_is_no_room_for_them() {
    let service = http::Service::new(Arc::new(Gate::new(GateSettings::default()).unwrap()));
    let question = r#"{"policy": "p", "key": "k"}"#;
    let long = " ".repeat(200_000) + question;
    // One of them goes past the router.
    for path in ["/v1/check", "/v1/peek"] {
        for (lent_bytes_max, body, expected) in [
            (100_000, &*long, r#"{"error":{"code":"busy","message":"too many long requests are under way"#),
            (200_000, &*long, r#"{"error":{"code":"not_loaded""#),
            (0, question, r#"{"error":{"code":"not_loaded""#),
        ] {
            let answers = |request| service.clone().answer(request);
            let answer = answer_by(answers, Room::new(1, lent_bytes_max), &post(path, body)).await;
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("retry-after: 1\r\n"), "{answer}");
            assert!(answer.contains(expected), "{path}: {answer}");
        }
    }
}

/// What the requests of a connection are charged as, at the cap of their account.
mod accounted {
    use super::*;

    #[tokio::test]
    async fn a_header_that_does_not_end_is_charged_and_refused_at_the_cap() {
        let never_ending = format!("GET / HTTP/1.1\r\nHost: x\r\nx: {}", "x".repeat(40_000));
        assert_eq!(answer_by(length, Room::new(1, 0), &never_ending).await, "", "closed");
        let whole = format!("{never_ending}\r\n\r\n");
        assert!(answer_by(length, Room::new(1, 100_000), &whole).await.starts_with("HTTP/1.1 200 "));
    }

    #[tokio::test]
    async fn header_fields_are_charged_while_their_request_is_under_way() {
        let fields = "x: y\r\n".repeat(90);
        let request = format!("GET / HTTP/1.1\r\nHost: x\r\n{fields}Long: {}\r\n\r\n", "x".repeat(30_000));
        let answer = answer_by(length, Room::new(1, 20_000), &request).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") || answer.is_empty(), "{answer}");
        assert!(answer_by(length, Room::new(1, 100_000), &request).await.starts_with("HTTP/1.1 200 "));
    }

    /// Reads so many bytes through a connection that charges them.
    async fn read(unparsed: &Arc<Unparsed>, bytes: u64) -> std::io::Result<usize> {
        let mut io = ReadAhead::new(tokio::io::repeat(b'x').take(bytes), Arc::clone(unparsed));
        let (mut count, mut place) = (0, [0; 1_000]);
        loop {
            match io.read(&mut place).await? {
                0 => return Ok(count),
                read => count += read,
            }
        }
    }

    #[tokio::test]
    async fn bytes_of_a_header_are_charged_until_it_is_whole_and_those_of_its_body_are_not() {
        // A connection's first buffers have 8 KiB of it.
        let unparsed = Unparsed::new(Arc::new(Room::new(1, 10_000)));
        assert_eq!(read(&unparsed, 10_000).await.unwrap(), 10_000);
        let refused = read(&unparsed, 10_000).await.unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::OutOfMemory);
        let under_way = unparsed.parsed();
        assert_eq!(read(&unparsed, 100_000).await.unwrap(), 100_000, "bodies are charged elsewhere");
        drop(under_way);
        assert_eq!(read(&unparsed, 10_000).await.unwrap(), 10_000, "the next header begins at nothing");
        assert!(read(&unparsed, 10_000).await.is_err());
    }

    #[tokio::test]
    async fn answers_to_pings_do_not_add_up_while_a_connection_is_idle() {
        let unparsed = Unparsed::new(Arc::new(Room::new(1, 1_000)));
        for _ in 0..10_000 {
            assert_eq!(read(&unparsed, 17).await.unwrap(), 17);
            unparsed.look();
        }
        assert_eq!(read(&unparsed, 9_000).await.unwrap(), 9_000);
        unparsed.look();
        assert!(read(&unparsed, 1_000).await.is_err(), "a header that grows stays charged");
    }

    #[test]
    fn each_header_field_is_charged_with_what_it_takes_beside_its_text() {
        let budget = Budget::new(Arc::new(Room::new(1, 10_000)));
        let request = |fields: usize| {
            (0..fields).fold(Request::get("/"), |request, _| request.header("x", "y")).body(()).unwrap()
        };
        let charge = |fields| budget.request().charge(&request(fields), 0);
        assert!(charge(300).is_ok());
        assert!(charge(400).is_err(), "800 bytes of text, and 25,600 beside it");
    }

    fn charge(budget: &Budget) -> bool {
        let request = Request::builder().uri("/").body(()).unwrap();
        budget.request().charge(&request, 0).is_ok()
    }

    #[tokio::test]
    async fn a_response_is_charged_until_the_client_has_taken_it() {
        let room = Arc::new(Room::new(1, 1 << 20));
        let budget = Budget::new(Arc::clone(&room));
        let responses = Arc::default();
        let response = Response::new(Body::from(vec![0; 500_000]));
        let (response, charged) = count_response(response, &budget, &responses);
        assert!(charged.is_ok());
        assert_eq!(responses.taken_while_waiting(), Some(0));
        assert!(charge(&budget));
        let another = Response::new(Body::from(vec![0; 700_000]));
        let (another, charged) = count_response(another, &budget, &responses);
        assert!(charged.is_err() && !charge(&budget), "the account is full");
        drop((response, another));
        assert_eq!(responses.taken_while_waiting(), None);
        assert!(charge(&budget));
    }

    #[tokio::test]
    async fn a_body_is_charged_until_its_request_has_a_response() {
        let room = Room::new(1, 1 << 20);
        let limit = Arc::clone(room.limit());
        let service = move |request: Request<Sent>| {
            let limit = Arc::clone(&limit);
            async move {
                let body = body::read(request, 1 << 20).await.unwrap();
                // A decision takes its time here.
                tokio::task::yield_now().await;
                let held_bytes = limit.held_bytes(Class::Request);
                assert!(held_bytes > body.len() / 2, "{held_bytes}");
                Ok(Response::new(Body::from("decided")))
            }
        };
        let answer = answer_by(service, room, &post("/", &"x".repeat(200_000))).await;
        assert!(answer.ends_with("decided"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_whole_response_is_disconnected_however_slowly_it_reads() {
        let room = Arc::new(Room::unbounded());
        let visit = Visit::new(Arc::clone(&room), Unparsed::new(room));
        let budget = Budget::new(Arc::new(Room::unbounded()));
        let (response, _) = count_response(Response::new("x".into()), &budget, &visit.responses);
        let over = tokio::time::timeout((STALLED_LOOKS_MAX + 2) * LOOK_INTERVAL, visit.over()).await;
        assert!(matches!(over, Ok(Over::Stalled)));
        drop(response);
        let over = tokio::time::timeout(100 * LOOK_INTERVAL, visit.over()).await;
        assert!(over.is_err(), "nothing is left to take");
    }
}

//! Clients that are slow, greedy, or not there any more: they get an error or lose their connection, and others keep their service.
//!
//! Time is paused where something has to be waited for: it jumps to the next timer as soon as nothing else is to be done.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use prost::Message as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::super::decode::DESCRIPTORS_MAX;
use super::served::{ask, begin, client, framed, framed_bytes, question, serve, serve_in, told};
use super::*;
use crate::room::Room;

const RULES: &str = r"
domain: d
descriptors:
- key: many
  rate_limit: {unit: year, requests_per_unit: 1000000}
";
const WINDOW_BYTES: u32 = 1 << 20;
/// Longer than anything takes that has an end.
const FOR_EVER: Duration = Duration::from_mins(5);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const EMPTY_SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn body() -> Vec<u8> {
    framed(&message(&[of("many")]))
}

async fn check_served(address: SocketAddr) {
    let told = ask(&mut client(address, WINDOW_BYTES).await, question(), &[&body()]).await;
    assert_eq!(told.grpc_status(), Some("0"));
}

#[tokio::test]
async fn whoever_is_slow_holds_up_nobody() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let (slow, mut rest) = begin(&mut client, question());
    rest.send_data(Bytes::copy_from_slice(&body()[..7]), false).unwrap();
    for _ in 0..10 {
        assert_eq!(ask(&mut client, question(), &[&body()]).await.overall(), "OK");
    }
    rest.send_data(Bytes::copy_from_slice(&body()[7..]), true).unwrap();
    assert_eq!(told(slow.await.unwrap()).await.overall(), "OK");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_never_ends_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let (slow, mut rest) = begin(&mut client, question());
    rest.send_data(Bytes::copy_from_slice(&body()[..7]), false).unwrap();
    let slow = timeout(FOR_EVER, slow).await.unwrap().unwrap();
    assert_eq!(told(slow).await.grpc_status(), Some("4"));
    check_served(address).await;
}

#[tokio::test]
async fn unfinished_messages_are_bounded() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let begun = [0, 0, 0x7f, 0xff, 0xff]; // almost 8 MiB are to come
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..3 {
        client = client.ready().await.unwrap();
        let (answer, mut stream) = begin(&mut client, question());
        stream.send_data(Bytes::copy_from_slice(&begun), false).unwrap();
        answers.spawn(async move {
            // An error means that the answer is there already.
            let _ = stream.send_data(vec![0; 7 << 20].into(), false);
            let told = told(answer.await.unwrap()).await;
            drop(stream);
            told
        });
    }
    // One of the three is too much for the server. The others could still be finished.
    assert_eq!(answers.join_next().await.unwrap().unwrap().grpc_status(), Some("8"));
    answers.abort_all();
    while answers.join_next().await.is_some() {}
    assert_eq!(ask(&mut client, question(), &[&body()]).await.overall(), "OK");
}

#[tokio::test]
async fn messages_that_are_whole_make_room_for_later_ones() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    // An unknown field of 3 MiB in each. All of them together are more than may be unfinished.
    let length = 3 << 20;
    let mut message = message(&[of("many")]).encode_to_vec();
    prost::encoding::encode_key(20_000, prost::encoding::WireType::LengthDelimited, &mut message);
    prost::encoding::encode_varint(length, &mut message);
    message.resize(message.len() + usize::try_from(length).unwrap(), 0);
    let body = super::served::framed_bytes(&message);
    for _ in 0..7 {
        let told = ask(&mut client, question(), &[&body[..7], &body[7..]]).await;
        assert_eq!(told.grpc_status(), Some("0"));
    }
}

#[tokio::test]
async fn unfinished_messages_of_all_connections_are_bounded() {
    let (address, _stopper) = serve_in(Room::new(100, 500_000), &gate(RULES)).await;
    let mut begun = Vec::new();
    // Each holds a little that is not counted, and some hundred thousand bytes that are counted.
    for _ in 0..3 {
        let mut client = client(address, WINDOW_BYTES).await;
        let (answer, mut stream) = begin(&mut client, question());
        stream.send_data([&[0, 0, 0x7f, 0xff, 0xff][..], &vec![0; 164_000]].concat().into(), false).unwrap();
        begun.push((client, answer, stream));
    }
    let mut one_more = client(address, WINDOW_BYTES).await;
    let told = ask(&mut one_more, question(), &[&[0, 0, 0x7f, 0xff, 0xff], &vec![0; 500_000]]).await;
    assert_eq!(told.grpc_status(), Some("8"));
    // Who asks a short question is not concerned.
    assert_eq!(ask(&mut one_more, question(), &[&body()[..7], &body()[7..]]).await.overall(), "OK");
}

#[tokio::test]
async fn a_decided_question_is_answered_though_the_account_is_full() {
    // The first buffers of the connection hold the call and its message, and not the answer besides: it names a limit in each status.
    let rules = RULES.replace("1000000}", &format!("1000000, name: {}}}", "n".repeat(64)));
    let (address, _stopper) = serve_in(Room::new(100, 0), &gate(&rules)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let body = framed(&message(&vec![of("many"); DESCRIPTORS_MAX]));
    for _ in 0..10 {
        let told = ask(&mut client, question(), &[&body[..7], &body[7..]]).await;
        assert_eq!((told.grpc_status(), told.overall()), (Some("0"), "OK"));
        assert!(told.body.len() > 8 << 10, "{} bytes", told.body.len());
    }
}

#[tokio::test]
async fn too_many_descriptors_are_refused_before_room_is_made_for_them() {
    let gate = gate(RULES);
    let (address, _stopper) = serve(&gate).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let descriptors = [0x12, 0].repeat(100_000);
    let one = body();
    let refused = framed_bytes(&descriptors);
    for (what, body) in [("one message", refused.clone()), ("a second message", [one, refused].concat())] {
        let told = ask(&mut client, question(), &[&body]).await;
        let text =
            ("grpc-message".to_owned(), "the%20request%20has%20more%20than%20128%20descriptors".to_owned());
        assert!(told.fields.contains(&text), "{what}: {told:?}");
        assert_eq!(told.grpc_status(), Some("3"), "{what}");
    }
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_by_the_thousand() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut flooding = client(address, WINDOW_BYTES).await;
    for _ in 0..20_000 {
        // An error means that the server has had enough. Whether it comes to that depends on how the flood arrives.
        let Ok(ready) = flooding.clone().ready().await else { break };
        flooding = ready;
        let Ok((_, mut stream)) = flooding.send_request(question(), false) else { break };
        stream.send_reset(Reason::CANCEL);
    }
    check_served(address).await;
}

#[tokio::test]
async fn streams_that_are_reset_in_the_same_breath_end_the_connection() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut bytes = [PREFACE, EMPTY_SETTINGS].concat();
    for id in (1..4001_u32).step_by(2).map(u32::to_be_bytes) {
        // HEADERS: POST, http, /, an authority; then RST_STREAM.
        bytes.extend_from_slice(&[0, 0, 6, 1, 4]);
        bytes.extend_from_slice(&id);
        bytes.extend_from_slice(&[0x83, 0x86, 0x84, 0x41, 1, b'a']);
        bytes.extend_from_slice(&[0, 0, 4, 3, 0]);
        bytes.extend_from_slice(&id);
        bytes.extend_from_slice(&[0, 0, 0, 8]);
    }
    stream.write_all(&bytes).await.unwrap();
    let mut answer = Vec::new();
    // An end or a reset, whichever the system makes of it.
    let _ = timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("an end");
    let enhance_your_calm = [0, 0, 0, 11];
    assert!(answer.windows(4).any(|bytes| bytes == enhance_your_calm), "{answer:?}");
    check_served(address).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_no_ping_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[PREFACE, EMPTY_SETTINGS].concat()).await.unwrap();
    let start = Instant::now();
    let _ = timeout(FOR_EVER, stream.read_to_end(&mut Vec::new())).await;
    assert!((40..45).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_pings_is_kept() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    // Answers of the client need the system, for which paused time does not wait: so the steps are small.
    for _ in 0..2000 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
    }
    assert_eq!(ask(&mut client, question(), &[&body()]).await.overall(), "OK");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    for said in [&b""[..], b"PRI * HT", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(FOR_EVER, stream.read_to_end(&mut answer)).await.expect("an end");
        assert_eq!(answer, b"", "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_that_nobody_takes_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, 0).await;
    let asked = framed(&message(&vec![of("many"); DESCRIPTORS_MAX]));
    let (answer, mut stream) = begin(&mut client, question());
    stream.send_data(asked.into(), true).unwrap();
    let (_, mut body) = answer.await.unwrap().into_parts();
    let error = timeout(FOR_EVER, body.data()).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::CANCEL));
}

#[tokio::test]
async fn a_client_with_a_wide_window_is_answered_without_end() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(100 << 20);
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut client, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    // In pieces, so that h2 answers: more than the window that every connection begins with.
    let (body, mut bytes) = (body(), 0);
    while bytes < 200_000 {
        let told = timeout(FOR_EVER, ask(&mut client, question(), &[&body[..7], &body[7..]])).await.unwrap();
        assert_eq!(told.grpc_status(), Some("0"));
        bytes += told.body.len();
    }
}

/// Asks more plain questions than the client's window has room for, on a connection of its own, and reads what comes.
async fn overspend(address: SocketAddr) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&[PREFACE, EMPTY_SETTINGS].concat()).await.unwrap();
    let path = super::super::SHOULD_RATE_LIMIT.as_bytes();
    let mut block = vec![0x83, 0x86, 0x04, u8::try_from(path.len()).unwrap()];
    block.extend_from_slice(path);
    block.extend_from_slice(b"\x0f\x10\x10application/grpc");
    let frame = |kind, flags, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    };
    for stream_id in (0..1000).map(|at| 2 * at + 1) {
        let call = [frame(1, 4, stream_id, &block), frame(0, 1, stream_id, &body())].concat();
        stream.write_all(&call).await.unwrap();
    }
    let mut heard = Vec::new();
    while data_bytes(&heard) < 65_535 {
        assert_ne!(timeout(FOR_EVER, stream.read_buf(&mut heard)).await.unwrap().unwrap(), 0, "an end");
    }
    (stream, heard)
}

/// How much data was heard, in frames that are there as a whole.
fn data_bytes(heard: &[u8]) -> usize {
    frames(heard).filter(|(kind, _)| *kind == 0).map(|(_, payload)| payload.len()).sum()
}

/// The kinds and payloads of the frames that are there as a whole.
fn frames(mut heard: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (prefix, rest) = heard.split_first_chunk::<9>()?;
        let length = u32::from_be_bytes([0, prefix[0], prefix[1], prefix[2]]) as usize;
        let (payload, rest) = rest.split_at_checked(length)?;
        heard = rest;
        Some((prefix[3], payload))
    })
}

#[tokio::test]
async fn answers_that_wait_for_a_window_are_sent_even_if_the_server_stops() {
    let (address, stopper) = serve(&gate(RULES)).await;
    let (mut stream, heard) = overspend(address).await;
    assert_eq!(data_bytes(&heard), 65_535);
    stopper.stop();
    // GOAWAY, and the PING whose answer lets h2 go, which says GOAWAY again.
    let (ping, goaway) = (6, 7);
    let mut told = heard;
    let mut is_answered = false;
    while frames(&told).filter(|(kind, _)| *kind == goaway).count() < 2 {
        stream.read_buf(&mut told).await.unwrap();
        let asked = frames(&told).find(|(kind, _)| *kind == ping).map(|(_, payload)| payload.to_vec());
        if let Some(payload) = asked.filter(|_| !is_answered) {
            stream.write_all(&[&[0, 0, 8, ping, 1, 0, 0, 0, 0], payload.as_slice()].concat()).await.unwrap();
            is_answered = true;
        }
    }
    stream.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 1, 0, 0, 0]).await.unwrap();
    told.clear();
    timeout(FOR_EVER, stream.read_to_end(&mut told)).await.expect("an end").unwrap();
    // Those that were decided; h2 has refused the others.
    assert!(data_bytes(&told[..]) > 100, "{}", told.len());
}

#[tokio::test]
async fn a_client_that_never_widens_its_window_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let (mut stream, heard) = overspend(address).await;
    assert_eq!(data_bytes(&heard), 65_535);
    let mut told = Vec::new();
    timeout(Duration::from_secs(30), stream.read_to_end(&mut told)).await.expect("an end").unwrap();
    let enhance_your_calm = [0, 0, 0, 11];
    assert!(told.ends_with(&enhance_your_calm), "{told:?}");
    check_served(address).await;
}

/// A client that takes a byte now and then keeps no answers.
#[tokio::test]
async fn a_client_that_widens_its_window_byte_by_byte_is_given_up() {
    let (address, _stopper) = serve(&gate(RULES)).await;
    let (stream, _) = overspend(address).await;
    let (mut answers, mut questions) = stream.into_split();
    let widen = async {
        // An error means that the server has closed the connection.
        while questions.write_all(&[0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let mut told = Vec::new();
    let ended = async {
        tokio::select! {
            () = widen => {}
            ended = answers.read_to_end(&mut told) => drop(ended),
        }
    };
    timeout(Duration::from_secs(30), ended).await.expect("an end");
    check_served(address).await;
}

/// Messages that are whole while their calls are not: the server keeps them, at most a frame of each.
#[tokio::test]
async fn a_connection_whose_buffers_the_account_has_no_room_for_is_given_up() {
    for (lent_bytes_max, is_given_up) in [(0, true), (1 << 20, false)] {
        let (address, _stopper) = serve_in(Room::new(100, lent_bytes_max), &gate(RULES)).await;
        let mut client = client(address, WINDOW_BYTES).await;
        let mut begun = Vec::new();
        for _ in 0..4 {
            let (answer, mut stream) = begin(&mut client, question());
            stream.send_data(super::served::framed_bytes(&[0; 16_000]).into(), false).unwrap();
            begun.push((answer, stream));
        }
        let (answer, _stream) = begun.pop().unwrap();
        // Calls wait here for their ends longer than this.
        let ended = timeout(Duration::from_millis(700), answer).await;
        assert_eq!(ended.is_ok_and(|ended| ended.is_err()), is_given_up, "{lent_bytes_max} to lend");
    }
}

#[tokio::test]
async fn whoever_has_begun_is_answered_when_the_server_stops() {
    let (address, stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, WINDOW_BYTES).await;
    let (slow, mut rest) = begin(&mut client, question());
    rest.send_data(Bytes::copy_from_slice(&body()[..7]), false).unwrap();
    assert_eq!(ask(&mut client, question(), &[&body()]).await.overall(), "OK");
    stopper.stop();
    // Nothing new is taken up; what was begun is finished.
    let closed = async {
        while client.clone().ready().await.is_ok() {
            let _ = client.send_request(question(), true);
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), closed).await.expect("no more calls are taken");
    rest.send_data(Bytes::copy_from_slice(&body()[7..]), true).unwrap();
    assert_eq!(told(slow.await.unwrap()).await.overall(), "OK");
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_no_answer_does_not_hold_the_stop() {
    let (address, stopper) = serve(&gate(RULES)).await;
    let mut client = client(address, 0).await;
    let (answer, mut stream) = begin(&mut client, question());
    stream.send_data(body().into(), true).unwrap();
    let (_, mut body) = answer.await.unwrap().into_parts();
    stopper.stop();
    let ended = timeout(FOR_EVER, body.data()).await.unwrap().unwrap();
    assert!(ended.is_err(), "{ended:?}");
}

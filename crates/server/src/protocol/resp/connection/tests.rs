//! Pipelines, clients that do not read, errors that end a connection, and servers that stop.
#![allow(clippy::unwrap_used, clippy::panic)]

mod memory;
mod strangers;

use tokio::io::{DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::super::testing::{gate, room, talk};
use super::*;
use crate::access::TEST_CLIENT;
use crate::drain::Stopper;
use crate::stream::tests::NeverClosed;

#[track_caller]
fn assert_bytes(received: &[u8], expected: &str) {
    assert_eq!(received.escape_ascii().to_string(), expected.as_bytes().escape_ascii().to_string());
}

async fn check(sent: &str, expected: &str) {
    assert_bytes(&talk(&gate(), sent.as_bytes()).await, expected);
}

#[tokio::test]
async fn answers_in_order_whatever_form_commands_have() {
    check(
        "PING\r\n*1\r\n$4\r\nping\r\n\r\n*0\r\n*2\r\n$4\r\nECHO\r\n$1\r\na\r\nPI",
        "+PONG\r\n+PONG\r\n$1\r\na\r\n",
    )
    .await;
}

#[tokio::test]
async fn closes_after_a_protocol_error_and_what_came_before_is_answered() {
    check("PING\r\n*1\r\n$-1\r\nPING\r\n", "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n").await;
    check("*1\r\n*1\r\n", "-ERR Protocol error: expected '$', got '*'\r\n").await;
}

#[tokio::test]
async fn closes_after_quit() {
    check("PING\r\nQUIT\r\nPING\r\n", "+PONG\r\n+OK\r\n").await;
}

#[tokio::test]
async fn runs_nothing_that_came_with_a_request_of_a_browser() {
    check("PING\r\nPOST / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n", "+PONG\r\n").await;
    check(
        "GET / HTTP/1.1\r\nHost: x\r\n\r\nPING\r\n",
        "-ERR unknown command 'GET', with args beginning with: '/' 'HTTP/1.1' \r\n",
    )
    .await;
}

#[tokio::test]
async fn a_long_pipeline_is_answered_in_full() {
    const COMMANDS: usize = 50_000;
    let answers = talk(&gate(), "PING\r\n".repeat(COMMANDS).as_bytes()).await;
    assert_eq!(answers.len(), "+PONG\r\n".len() * COMMANDS);
}

#[tokio::test]
async fn a_client_sees_the_error_even_if_it_sends_megabytes_more() {
    let mut sent = b"*1\r\n$2000000\r\n".to_vec();
    sent.resize(2_000_000, b'x');
    assert_bytes(&talk(&gate(), &sent).await, "-ERR Protocol error: invalid bulk length\r\n");
}

/// A client of a server that runs until the test is over.
async fn with_client<F: Future<Output = ()>>(test: impl FnOnce(DuplexStream, Stopper) -> F) {
    let (client, server) = duplex(1 << 10);
    let (gate, stopper) = (gate(), Stopper::new());
    let serving = run(server, (&gate, TEST_CLIENT), room(), stopper.drain());
    tokio::join!(test(client, stopper), serving);
}

async fn receive(client: &mut DuplexStream, expected: &str) {
    let mut received = vec![0; expected.len()];
    client.read_exact(&mut received).await.unwrap();
    assert_bytes(&received, expected);
}

async fn receive_end(client: &mut DuplexStream) {
    assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn an_idle_connection_ends_when_the_server_stops() {
    with_client(async |mut client, stopper| {
        client.write_all(b"PING\r\nPI").await.unwrap();
        receive(&mut client, "+PONG\r\n").await;
        stopper.stop();
        receive_end(&mut client).await;
    })
    .await;
}

#[tokio::test]
async fn what_was_sent_before_the_server_stops_is_answered() {
    with_client(async |mut client, stopper| {
        client.write_all(b"PING\r\nECHO a\r\n").await.unwrap();
        stopper.stop();
        receive(&mut client, "+PONG\r\n$1\r\na\r\n").await;
        receive_end(&mut client).await;
    })
    .await;
}

#[tokio::test]
async fn a_client_that_breaks_the_protocol_and_stays_does_not_keep_the_server_from_stopping() {
    with_client(async |mut client, stopper| {
        client.write_all(b"'\r\n").await.unwrap();
        receive(&mut client, "-ERR Protocol error: unbalanced quotes in request\r\n").await;
        receive_end(&mut client).await;
        stopper.stop();
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_is_no_problem() {
    with_client(async |mut client, _stopper| {
        client.write_all("ECHO 0123456789\r\n".repeat(100).as_bytes()).await.unwrap();
        drop(client);
    })
    .await;
}

#[tokio::test]
async fn answers_wait_to_be_written_before_more_are_made() {
    let gate = gate();
    let mut connection = Connection::new((&gate, TEST_CLIENT), room());
    let (message, commands) = ("x".repeat(1_000), 1_000);
    connection.input.extend_from_slice(format!("ECHO {message}\r\n").repeat(commands).as_bytes());
    let mut written = 0;
    loop {
        let batch = connection.answer();
        let ready = connection.replies.as_bytes().len();
        assert!(ready <= ANSWERS_BYTES_MAX + message.len() + 16, "{ready} bytes");
        written += ready;
        connection.replies.clear(KEPT_BYTES_MAX);
        match batch {
            Batch::Full => assert!(ready >= ANSWERS_BYTES_MAX),
            other => break assert_eq!(other, Batch::Answered),
        }
    }
    assert_eq!(written, commands * ("$1000\r\n\r\n".len() + message.len()));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_listened_to() {
    let (mut client, server) = duplex(1 << 10);
    let (gate, stopper) = (gate(), Stopper::new());
    let mut serving = std::pin::pin!(run(server, (&gate, TEST_CLIENT), room(), stopper.drain()));
    let flood = async {
        let mut sent_bytes = 0_usize;
        while client.write_all(&b"ECHO 0123456789012345678901234567890123456789\r\n".repeat(20)).await.is_ok()
        {
            sent_bytes += 920;
            assert!(sent_bytes < 1 << 20, "it takes everything");
        }
    };
    // Both wait for each other once the buffers are full: neither can go on, and nothing else runs here.
    let mut flood = std::pin::pin!(flood);
    for _ in 0..10_000 {
        tokio::select! {
            biased;
            () = &mut flood => panic!("the pipe broke"),
            () = &mut serving => panic!("the server gave up"),
            () = tokio::task::yield_now() => {}
        }
    }
}

#[tokio::test]
async fn a_huge_command_leaves_no_huge_buffers() {
    let (client, mut server) = duplex(1 << 10);
    let (gate, stopper) = (gate(), Stopper::new());
    let mut connection = Connection::new((&gate, TEST_CLIENT), room());
    let message = "x".repeat(1_000_000);
    connection.input.extend_from_slice(format!("*2\r\n$4\r\nECHO\r\n$1000000\r\n{message}\r\nPI").as_bytes());
    assert_eq!(connection.answer(), Batch::Full);
    connection.replies.clear(KEPT_BYTES_MAX);
    assert_eq!(connection.answer(), Batch::Answered);
    drop(client);
    assert!(!connection.read(&mut server, &mut stopper.drain()).await.unwrap());
    assert_eq!(connection.input, b"PI");
    assert!(connection.input.capacity() <= KEPT_BYTES_MAX);
}

/// Over a real connection: only there does closing on unread bytes break it.
#[tokio::test]
async fn answers_survive_a_server_that_stops_before_it_has_read_everything() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (client, server) =
        tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
    let (mut answers, mut commands) = client.unwrap().into_split();
    let (gate, stopper) = (gate(), Stopper::new());
    // More than fits into all buffers between the two, so that the client still sends when it gets its last answer.
    let flood = b"PING\r\n".repeat(2_000_000);
    assert!(flood.len() < LINGER_BYTES_MAX);
    stopper.stop();
    let send = async {
        commands.write_all(&flood).await.unwrap();
        commands.shutdown().await.unwrap();
    };
    let receive = async {
        let mut received = Vec::new();
        answers.read_to_end(&mut received).await.unwrap();
        received
    };
    let ((), received, ()) =
        tokio::join!(send, receive, run(server.unwrap().0, (&gate, TEST_CLIENT), room(), stopper.drain()));
    assert!(received.starts_with(b"+PONG\r\n"), "{} bytes", received.len());
}

#[tokio::test]
async fn a_client_that_stays_is_not_waited_for_when_the_server_stops() {
    let ends = async |sent: &str| {
        let (mut client, server) = duplex(1 << 10);
        let (gate, stopper) = (gate(), Stopper::new());
        client.write_all(sent.as_bytes()).await.unwrap();
        stopper.stop();
        let ended = tokio::time::timeout(
            20 * LINGER_TIME_MAX,
            run(server, (&gate, TEST_CLIENT), room(), stopper.drain()),
        )
        .await;
        assert!(ended.is_ok(), "{sent:?}");
    };
    tokio::join!(ends("PING\r\n"), ends("QUIT\r\n"), ends("'\r\n"));
}

/// From the bytes that were read to those that are to be written.
#[tokio::test]
async fn pipelines_are_answered_without_allocating() {
    let gate = gate();
    let mut connection = Connection::new((&gate, TEST_CLIENT), room());
    let mut answer = |pipeline: &[u8]| {
        connection.input.extend_from_slice(pipeline);
        assert_eq!(connection.answer(), Batch::Answered);
        connection.replies.clear(KEPT_BYTES_MAX);
    };
    let throttle = b"*5\r\n$11\r\nCL.THROTTLE\r\n$1\r\nk\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n";
    let check = b"*3\r\n$8\r\nTG.CHECK\r\n$5\r\nsmall\r\n$1\r\nk\r\n";
    for pipeline in [throttle.repeat(16), check.repeat(16), [&throttle[..], check].concat().repeat(40)] {
        answer(&pipeline); // The first time, buffers grow.
        let allocated = allocation_counter::measure(|| (0..100).for_each(|_| answer(&pipeline)));
        assert_eq!(allocated.count_total, 0, "{}", pipeline.escape_ascii());
    }
}

/// Longer than anybody is waited for, but far less than a test may take: time is made up.
const LONG: Duration = Duration::from_hours(1);

#[tokio::test(start_paused = true)]
async fn a_client_that_never_completes_its_command_is_not_waited_for() {
    with_client(async |mut client, _stopper| {
        client.write_all(b"PING\r\n").await.unwrap();
        receive(&mut client, "+PONG\r\n").await;
        // A byte a second, for ever: it is not silent, but it asks nothing.
        let mut slow = b"*1\r\n$100\r\n".iter().copied().chain(std::iter::repeat(b'x'));
        for sent in 0.. {
            assert!(Duration::from_secs(sent) < 3 * COMMAND_TIME_MAX, "still listened to");
            tokio::time::sleep(Duration::from_secs(1)).await;
            let byte = slow.next().unwrap();
            if tokio::time::timeout(Duration::from_millis(1), client.read(&mut [0; 1])).await.is_ok() {
                break;
            }
            let _ = client.write_all(&[byte]).await; // The server may be gone by now.
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_waited_for_but_not_for_ever() {
    with_client(async |mut client, _stopper| {
        tokio::time::sleep(COMMAND_TIME_MAX * (IDLE_LOOKS_MAX - 1)).await;
        client.write_all(b"PING\r\n").await.unwrap();
        receive(&mut client, "+PONG\r\n").await;
        tokio::time::sleep(COMMAND_TIME_MAX * (IDLE_LOOKS_MAX - 1)).await;
        client.write_all(b"PING\r\n").await.unwrap();
        receive(&mut client, "+PONG\r\n").await;
        tokio::time::timeout(LONG, receive_end(&mut client)).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_no_answers_is_not_waited_for() {
    let (mut client, server) = duplex(1 << 10);
    let (gate, stopper) = (gate(), Stopper::new());
    let flood = async {
        let _ = client.write_all("PING\r\n".repeat(10_000).as_bytes()).await;
        tokio::time::sleep(LONG).await;
    };
    tokio::select! {
        () = run(server, (&gate, TEST_CLIENT), room(), stopper.drain()) => {}
        () = flood => panic!("it is still waited for"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_gives_way_to_others() {
    let room = Arc::new(Room::new(2, 0));
    let (mut client, server) = duplex(1 << 10);
    let (gate, stopper) = (gate(), Stopper::new());
    let all_places = async {
        let _ours = (room.limit().wait_for_place().await, room.limit().wait_for_place().await);
        tokio::time::timeout(3 * COMMAND_TIME_MAX, receive_end(&mut client)).await.unwrap();
    };
    tokio::join!(all_places, run(server, (&gate, TEST_CLIENT), &room, stopper.drain()));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_even_take_the_end_is_not_waited_for() {
    let (mut client, server) = duplex(1 << 10);
    let (gate, stopper) = (gate(), Stopper::new());
    client.write_all(b"QUIT\r\n").await.unwrap();
    let talk = run(NeverClosed(server), (&gate, TEST_CLIENT), room(), stopper.drain());
    tokio::time::timeout(LONG, talk).await.unwrap();
}

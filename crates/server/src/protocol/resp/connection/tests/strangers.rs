//! Clients that have yet to show a token: they have a little time for that, whatever else they do with it.

use std::task::{Context, ready};

use tokio::io::ReadBuf;
use tokio::task::coop::poll_proceed;

use super::super::super::testing::guarded;
use super::*;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const AUTH: &[u8] = b"AUTH 0123456789abcdef\r\n";
/// So long a stranger is listened to.
const STRANGER_TIME: Duration = Duration::from_secs(2 * COMMAND_TIME_MAX.as_secs());
/// After so long it is gone, even if it does not close in turn.
const GONE_AFTER: Duration =
    Duration::from_secs(STRANGER_TIME.as_secs() + LINGER_IDLE_MAX.as_secs() + LINGER_TIME_MAX.as_secs() + 1);

/// Asks for what it has no right to, shortly before every look, as long as anybody listens.
async fn ask_again_and_again(mut client: DuplexStream) {
    let mut received = vec![0; NOAUTH.len()];
    while client.write_all(b"PING\r\n").await.is_ok() && client.read_exact(&mut received).await.is_ok() {
        assert_bytes(&received, NOAUTH);
        tokio::time::sleep(COMMAND_TIME_MAX / 5 * 4).await;
    }
}

/// A client of a server that wants tokens. Comes back when the server has had enough of it; fails if that takes too long.
async fn is_sent_away<F: Future<Output = ()>>(within: Duration, act: impl FnOnce(DuplexStream) -> F) {
    let (client, server) = duplex(1 << 10);
    let (gate, stopper) = (guarded(), Stopper::new());
    let acts = async {
        act(client).await;
        tokio::time::sleep(LONG).await;
    };
    tokio::select! {
        () = run(server, (&gate, TEST_CLIENT), room(), stopper.drain()) => {}
        () = acts => panic!("it is still there"),
        () = tokio::time::sleep(within) => panic!("it stays too long"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_room_full_of_strangers_does_not_keep_others_out() {
    const PLACES: usize = 4;
    let (gate, stopper, room) = (guarded(), Stopper::new(), Arc::new(Room::new(PLACES, 0)));
    let serve = async |server| {
        let _place = room.limit().wait_for_place().await;
        run(server, (&gate, TEST_CLIENT), &room, stopper.drain()).await;
    };
    let stranger = async || {
        let (client, server) = duplex(1 << 10);
        tokio::join!(serve(server), ask_again_and_again(client));
    };
    let newcomer = async {
        tokio::time::sleep(Duration::from_secs(1)).await; // All places are taken by now.
        let (mut client, server) = duplex(1 << 10);
        let talk = async {
            client.write_all(&[AUTH, b"PING\r\n"].concat()).await.unwrap();
            tokio::time::timeout(GONE_AFTER, receive(&mut client, "+OK\r\n+PONG\r\n")).await.unwrap();
            drop(client);
        };
        tokio::join!(serve(server), talk);
    };
    tokio::join!(stranger(), stranger(), stranger(), stranger(), newcomer);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_sent_away_even_if_nobody_wants_its_place() {
    is_sent_away(GONE_AFTER, ask_again_and_again).await;
}

/// A client from which there is always something to read, and which takes everything.
struct Endless;

impl AsyncRead for Endless {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // As a socket does, lets others have their turn now and then: with nothing to spare for a look at the time.
        ready!(poll_proceed(context)).made_progress();
        buffer.put_slice(&b"PING\r\n".repeat(100));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Endless {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_never_ceases_to_send_is_sent_away() {
    let (gate, stopper) = (guarded(), Stopper::new());
    // Nothing waits here, so made-up time passes only if it is told to. What is sent after the last answer is taken as long as it
    // is not too much, hence so many seconds.
    let seconds = async {
        for _ in 0..600 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        () = run(Endless, (&gate, TEST_CLIENT), room(), stopper.drain()) => {}
        () = seconds => panic!("it is still there"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_takes_its_answers_slowly_is_sent_away() {
    let within = STRANGER_TIME + Duration::from_secs(1);
    let sent_away = is_sent_away(within, async |client| {
        let (mut answers, mut commands) = tokio::io::split(client);
        let send = async { while commands.write_all(&b"PING\r\n".repeat(100)).await.is_ok() {} };
        let take = async {
            while answers.read(&mut [0; 1 << 10]).await.is_ok_and(|bytes| bytes > 0) {
                tokio::time::sleep(COMMAND_TIME_MAX).await;
            }
        };
        tokio::join!(send, take);
    });
    Box::pin(sent_away).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_shows_a_token_in_time_may_stay() {
    let (mut client, server) = duplex(1 << 10);
    let (gate, stopper) = (guarded(), Stopper::new());
    let talk = async {
        for _ in 0..2 {
            tokio::time::sleep(COMMAND_TIME_MAX / 5 * 4).await;
            client.write_all(b"PING\r\n").await.unwrap();
            receive(&mut client, NOAUTH).await;
        }
        client.write_all(AUTH).await.unwrap();
        receive(&mut client, "+OK\r\n").await;
        tokio::time::sleep(COMMAND_TIME_MAX * (IDLE_LOOKS_MAX - 1)).await;
        // Who gives up what it has shown has as much time as at the start, however long it was silent.
        client.write_all(b"RESET\r\n").await.unwrap();
        receive(&mut client, "+RESET\r\n").await;
        tokio::time::sleep(COMMAND_TIME_MAX).await;
        client.write_all(AUTH).await.unwrap();
        receive(&mut client, "+OK\r\n").await;
        drop(client);
    };
    tokio::join!(talk, run(server, (&gate, TEST_CLIENT), room(), stopper.drain()));
}

#[tokio::test]
async fn a_token_that_expires_on_an_open_connection_has_to_be_shown_anew() {
    let now_ns = i128::from(tollgate::Clock::new().now().ticks());
    let expires = jiff::Timestamp::from_nanosecond(now_ns).unwrap() + Duration::from_secs(2);
    let access = crate::access::Access::of_lines(&format!("0123456789abcdef expires={expires}"));
    let (gate, stopper) = (gate().with_access(access), Stopper::new());
    let (mut client, server) = duplex(1 << 10);
    let talk = async {
        client.write_all(&[AUTH, b"PING\r\n"].concat()).await.unwrap();
        receive(&mut client, "+OK\r\n+PONG\r\n").await;
        tokio::time::sleep(Duration::from_millis(2_100)).await;
        client.write_all(b"PING\r\n").await.unwrap();
        receive(&mut client, NOAUTH).await;
    };
    tokio::select! {
        () = run(server, (&gate, TEST_CLIENT), room(), stopper.drain()) => panic!("an end"),
        talked = tokio::time::timeout(Duration::from_secs(20), talk) => talked.expect("another answer"),
    }
}

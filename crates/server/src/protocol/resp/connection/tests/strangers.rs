//! Clients that have yet to show a token: they have a little time for that, whatever else they do with it.

use super::super::super::testing::guarded;
use super::*;

const NOAUTH: &str = "-NOAUTH Authentication required.\r\n";
const AUTH: &[u8] = b"AUTH 0123456789abcdef\r\n";
/// A stranger is gone after so long, and not just then: it is looked at, and then waited for until it closes.
const STRANGER_TIME_MAX: Duration = Duration::from_secs(
    2 * COMMAND_TIME_MAX.as_secs() + LINGER_IDLE_MAX.as_secs() + LINGER_TIME_MAX.as_secs() + 1,
);

/// Asks for what it has no right to, shortly before every look, as long as anybody listens.
async fn ask_again_and_again(mut client: DuplexStream) {
    let mut received = vec![0; NOAUTH.len()];
    while client.write_all(b"PING\r\n").await.is_ok() && client.read_exact(&mut received).await.is_ok() {
        assert_bytes(&received, NOAUTH);
        tokio::time::sleep(COMMAND_TIME_MAX / 5 * 4).await;
    }
}

/// A client of a server that wants tokens. Comes back when the server has had enough of it; fails if that takes too long.
async fn is_sent_away<F: Future<Output = ()>>(act: impl FnOnce(DuplexStream) -> F) {
    let (client, server) = duplex(1 << 10);
    let (gate, stopper) = (guarded(), Stopper::new());
    let acts = async {
        act(client).await;
        tokio::time::sleep(LONG).await;
    };
    tokio::select! {
        () = run(server, &gate, room(), stopper.drain()) => {}
        () = acts => panic!("it is still there"),
        () = tokio::time::sleep(STRANGER_TIME_MAX) => panic!("it stays too long"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_room_full_of_strangers_does_not_keep_others_out() {
    const PLACES: usize = 4;
    let (gate, stopper, room) = (guarded(), Stopper::new(), Arc::new(Room::new(PLACES, 0)));
    let serve = async |server| {
        let _place = room.enter().await;
        run(server, &gate, &room, stopper.drain()).await;
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
            tokio::time::timeout(STRANGER_TIME_MAX, receive(&mut client, "+OK\r\n+PONG\r\n")).await.unwrap();
            drop(client);
        };
        tokio::join!(serve(server), talk);
    };
    tokio::join!(stranger(), stranger(), stranger(), stranger(), newcomer);
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_sent_away_even_if_nobody_wants_its_place() {
    is_sent_away(ask_again_and_again).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_never_ceases_to_send_is_sent_away() {
    is_sent_away(async |client| {
        let (mut answers, mut commands) = tokio::io::split(client);
        let send = async {
            while commands.write_all(b"PING\r\n").await.is_ok() {
                // Nothing waits here, so made-up time passes only if it is told to.
                tokio::time::advance(Duration::from_millis(10)).await;
            }
        };
        let take = async { while answers.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {} };
        tokio::join!(send, take);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_takes_its_answers_slowly_is_sent_away() {
    is_sent_away(async |client| {
        let (mut answers, mut commands) = tokio::io::split(client);
        let send = async { while commands.write_all(&b"PING\r\n".repeat(100)).await.is_ok() {} };
        let take = async {
            while answers.read(&mut [0; 1 << 10]).await.is_ok_and(|bytes| bytes > 0) {
                tokio::time::sleep(COMMAND_TIME_MAX / 2).await;
            }
        };
        tokio::join!(send, take);
    })
    .await;
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
    tokio::join!(talk, run(server, &gate, room(), stopper.drain()));
}

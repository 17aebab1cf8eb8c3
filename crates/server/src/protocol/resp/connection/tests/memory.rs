//! What long commands take, alone and all together, and when it is given back.

use super::*;

const LENT_MAX: usize = 1 << 20;
const REFUSED: &str =
    "-ERR too many long requests are under way: try again in a moment, or ask about less at once\r\n";

/// How a command begins whose last argument has so many bytes.
fn beginning(bytes: usize) -> String {
    format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n")
}

#[tokio::test]
async fn a_long_command_takes_hardly_more_than_has_arrived_of_it_and_never_more_than_its_length() {
    const BYTES: usize = 1_000_000;
    let gate = gate();
    let mut connection = Connection::new((&gate, TEST_CLIENT), room());
    let command = format!("{}{}\r\n", beginning(BYTES), "x".repeat(BYTES));
    let (mut rest, mut capacities) = (command.as_bytes(), Vec::new());
    while !rest.is_empty() {
        assert_eq!(connection.answer(), Batch::Answered);
        connection.make_room().unwrap();
        let (arrived, capacity) = (connection.input.len(), connection.input.capacity());
        let bound = (2 * arrived).clamp(2 * LONG_BYTES, command.len());
        assert!(capacity <= bound, "{capacity} bytes for {arrived}");
        assert!(capacity > arrived, "no room for more than {arrived}");
        capacities.push(capacity);
        let read;
        (read, rest) = rest.split_at(rest.len().min(READ_BYTES).min(capacity - arrived));
        connection.input.extend_from_slice(read);
    }
    assert_eq!(connection.input.capacity(), command.len());
    capacities.dedup();
    assert!(capacities.len() < 10, "it is moved too often: {capacities:?}");
    assert_eq!(connection.answer(), Batch::Full);
    assert!(connection.input.capacity() <= KEPT_BYTES_MAX, "given back before the answer is taken");
}

#[test]
fn a_command_of_many_arguments_takes_little_more_than_the_longest_may() {
    let (mut length, mut capacity) = (0, 0);
    // Nothing is known of its length but the short argument that is under way.
    while length < COMMAND_BYTES_MAX {
        capacity = wanted_capacity(length, capacity, length);
        assert!(capacity >= length + READ_BYTES);
        assert!(capacity <= (2 * length).clamp(2 * LONG_BYTES, COMMAND_BYTES_MAX + READ_BYTES), "{length}");
        length += 1000;
    }
}

#[test]
fn short_commands_keep_their_buffer() {
    let settled = wanted_capacity(100, READ_BYTES, 150);
    assert_eq!(wanted_capacity(0, settled, 0), settled);
    assert_eq!(wanted_capacity(READ_BYTES, settled, READ_BYTES + 100), settled);
}

/// Connections that share a room with little memory.
struct Crowd {
    gate: Gate,
    room: Arc<Room>,
    stopper: Stopper,
}

impl Crowd {
    fn new() -> Crowd {
        Crowd { gate: gate(), room: Arc::new(Room::new(100, LENT_MAX)), stopper: Stopper::new() }
    }

    /// One more client, which does this.
    async fn with_client<F: Future<Output = ()>>(&self, act: impl FnOnce(DuplexStream) -> F) {
        let (client, server) = duplex(4 << 10);
        tokio::join!(act(client), run(server, (&self.gate, TEST_CLIENT), &self.room, self.stopper.drain()));
    }

    async fn check(&self, sent: &str, expected: &str) {
        let act = async |client| {
            let (mut answers, mut commands) = tokio::io::split(client);
            let ask = async {
                commands.write_all(sent.as_bytes()).await.unwrap();
                commands.shutdown().await.unwrap();
            };
            let mut received = Vec::new();
            let ((), received_bytes) = tokio::join!(ask, answers.read_to_end(&mut received));
            received_bytes.unwrap();
            let shown = received.len().min(expected.len());
            assert_bytes(&received[..shown], expected);
        };
        self.with_client(act).await;
    }
}

const LONG_BODY: usize = 900_000;

fn long_command() -> String {
    format!("{}{}\r\n", beginning(LONG_BODY), "x".repeat(LONG_BODY))
}

#[tokio::test]
async fn all_connections_together_hold_no_more_than_there_is() {
    let crowd = Crowd::new();
    let (whole, answer) = (long_command(), format!("${LONG_BODY}\r\nxxx"));
    let (begun, rest) = whole.split_at(whole.len() - 10);
    crowd
        .with_client(async |mut holder| {
            holder.write_all(begun.as_bytes()).await.unwrap();
            // Another one that is as long is too much, but short ones are served as ever.
            crowd.check(&whole, REFUSED).await;
            crowd.check("PING\r\n", "+PONG\r\n").await;
            crowd.check(&format!("PING {}\r\n", "x".repeat(9_000)), "$9000\r\nxxx").await;
            holder.write_all(rest.as_bytes()).await.unwrap();
            let mut received = vec![0; LONG_BODY + "$900000\r\n\r\n".len()];
            holder.read_exact(&mut received).await.unwrap();
            holder.write_all(b"PING\r\n").await.unwrap();
            receive(&mut holder, "+PONG\r\n").await;
            // What was answered counts no more, even if the client stays.
            crowd.check(&whole, &answer).await;
        })
        .await;
}

#[tokio::test]
async fn answers_that_nobody_takes_count_too() {
    let crowd = Crowd::new();
    let whole = long_command();
    crowd
        .with_client(async |mut holder| {
            holder.write_all(whole.as_bytes()).await.unwrap();
            receive(&mut holder, "$900000\r\n").await;
            crowd.check(&whole, REFUSED).await;
        })
        .await;
    crowd.check(&whole, "$900000\r\n").await;
}

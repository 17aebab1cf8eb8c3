//! Whatever arrives, in whatever pieces.

use proptest::prelude::*;

use super::*;

/// What is found in these bytes when they come in pieces of this size.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Reply>, WireError> {
    let (mut replies, mut found) = (Replies::default(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        replies.incoming().extend_from_slice(piece);
        while let Some(reply) = replies.next()? {
            found.push(reply);
        }
    }
    Ok(found)
}

fn check(bytes: &[u8], expected: &[Reply]) {
    for piece in [1, 2, 3, 7, bytes.len()] {
        assert_eq!(read(bytes, piece).as_deref(), Ok(expected), "in pieces of {piece}");
    }
}

fn check_error(bytes: &[u8], expected: WireError) {
    for piece in [1, 5, bytes.len()] {
        assert_eq!(read(bytes, piece), Err(expected), "in pieces of {piece}");
    }
}

/// The bytes of a reply, as Redis writes them.
fn write(reply: &Reply, bytes: &mut Vec<u8>) {
    match reply {
        Reply::Status(text) => bytes.extend_from_slice(format!("+{text}\r\n").as_bytes()),
        Reply::Error(text) => bytes.extend_from_slice(format!("-{text}\r\n").as_bytes()),
        Reply::Integer(number) => bytes.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Text(text) => bulk(bytes, text),
        Reply::Nil => bytes.extend_from_slice(b"$-1\r\n"),
        Reply::Integers(integers) => {
            header(bytes, b'*', integers.len());
            for number in integers {
                write(&Reply::Integer(*number), bytes);
            }
        }
        Reply::Array(items) => {
            header(bytes, b'*', items.len());
            for item in items {
                write(item, bytes);
            }
        }
    }
}

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        "[ -~]{0,20}".prop_map(Reply::Status),
        "[A-Z]{1,8} [ -~]{0,20}".prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Reply::Text),
        Just(Reply::Nil),
        proptest::collection::vec(any::<i64>(), 0..40).prop_map(Reply::Integers),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        proptest::collection::vec(inner, 1..6).prop_map(|items| {
            let integers: Option<Vec<i64>> = items.iter().map(Reply::integer).collect();
            integers.map_or(Reply::Array(items), Reply::Integers)
        })
    })
}

proptest! {
    #[test]
    fn what_was_written_is_read(replies in proptest::collection::vec(reply(), 1..6), piece in 1_usize..60) {
        let mut bytes = Vec::new();
        for reply in &replies {
            write(reply, &mut bytes);
        }
        prop_assert_eq!(read(&bytes, piece), Ok(replies));
    }

    #[test]
    fn any_bytes_in_any_pieces_give_the_same(bytes in proptest::collection::vec(any::<u8>(), 0..200), piece in 1_usize..20) {
        prop_assert_eq!(read(&bytes, piece).is_ok(), read(&bytes, bytes.len()).is_ok());
    }

    #[test]
    fn bytes_that_are_nearly_replies_too(bytes in "[-+:$*0-9\r\n_a]{0,60}", piece in 1_usize..20) {
        prop_assert_eq!(read(bytes.as_bytes(), piece), read(bytes.as_bytes(), bytes.len()));
    }
}

#[test]
fn reads_what_redis_says() {
    check(b"+OK\r\n", &[Reply::Status("OK".to_owned())]);
    check(
        b"-NOSCRIPT No matching script.\r\n:5\r\n",
        &[Reply::Error("NOSCRIPT No matching script.".to_owned()), Reply::Integer(5)],
    );
    check(
        b"*3\r\n:1\r\n:-2\r\n:9007199254740992\r\n",
        &[Reply::Integers(vec![1, -2, 9_007_199_254_740_992])],
    );
    check(b"*2\r\n:1\r\n$2\r\nab\r\n", &[Reply::Array(vec![Reply::Integer(1), Reply::Text(b"ab".to_vec())])]);
    check(
        b"*0\r\n*-1\r\n$-1\r\n$0\r\n\r\n",
        &[Reply::Integers(vec![]), Reply::Nil, Reply::Nil, Reply::Text(vec![])],
    );
    check(b":-9223372036854775808\r\n", &[Reply::Integer(i64::MIN)]);
}

#[test]
fn garbage_is_an_error() {
    check_error(b"HTTP/1.1 400 Bad Request\r\n", WireError::Mark(b'H'));
    check_error(b"\x15\x03\x03", WireError::Mark(0x15));
    check_error(b":12x\r\n", WireError::Number);
    check_error(b":\r\n", WireError::Number);
    check_error(b":9223372036854775808\r\n", WireError::Number);
    check_error(b"*-2\r\n", WireError::Number);
    check_error(b"$2\r\nabc\r\n", WireError::End);
    check_error(b"+OK\n", WireError::End);
}

#[test]
fn everything_has_a_bound() {
    check_error(format!("${}\r\n", BULK_BYTES_MAX + 1).as_bytes(), WireError::Bulk);
    check_error(format!("*{}\r\n", ITEMS_MAX + 1).as_bytes(), WireError::Items);
    check_error(format!("*2\r\n*{ITEMS_MAX}\r\n").as_bytes(), WireError::Items);
    check_error("*1\r\n".repeat(DEPTH_MAX + 1).as_bytes(), WireError::Depth);
    let deep = "*1\r\n".repeat(DEPTH_MAX) + ":1\r\n";
    assert_eq!(read(deep.as_bytes(), 3).map(|found| found.len()), Ok(1));
    let line = |length: usize| [b"+".as_slice(), &vec![b'x'; length], b"\r\n"].concat();
    assert_eq!(read(&line(LINE_BYTES_MAX - 2), 4096).map(|found| found.len()), Ok(1));
    assert_eq!(read(&line(LINE_BYTES_MAX), 4096), Err(WireError::Line));
}

#[test]
fn an_announced_array_takes_no_room_before_it_comes() {
    let mut replies = Replies::default();
    replies.incoming().extend_from_slice(format!("*{ITEMS_MAX}\r\n").as_bytes());
    assert_eq!(replies.next(), Ok(None));
    let Some(Open { items: Items::Integers(integers), .. }) = replies.open.last() else { panic!("no array") };
    assert!(integers.capacity() <= 2 * ITEMS_EXPECTED_MAX, "{}", integers.capacity());
}

#[test]
fn writes_commands() {
    let (mut commands, mut arguments) = (Commands::default(), Arguments::default());
    arguments.number(0);
    arguments.number(i64::MIN);
    arguments.text(b"k\r\n");
    commands.command(&[b"PING"]);
    commands.command_with(&[b"EVALSHA", b"ab"], &arguments);
    let expected = "*1\r\n$4\r\nPING\r\n*5\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n0\r\n$20\r\n-9223372036854775808\r\n$3\r\nk\r\n\r\n";
    assert_eq!(String::from_utf8_lossy(commands.bytes()), expected);
}

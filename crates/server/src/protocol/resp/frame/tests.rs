//! What is understood, what is refused in which words, and that pieces of any size make no difference.
#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

type Command = Vec<Vec<u8>>;

/// The commands of a stream that arrives in one piece, what is left of it, and how it broke.
fn commands(stream: &[u8]) -> (Vec<Command>, usize, Option<ProtocolError>) {
    in_pieces(stream, &[stream.len()])
}

/// The same for a stream of which more and more is there, up to each of `ends`.
fn in_pieces(stream: &[u8], ends: &[usize]) -> (Vec<Command>, usize, Option<ProtocolError>) {
    let (mut parser, mut found, mut done) = (Parser::default(), Vec::new(), 0);
    for &end in ends {
        loop {
            let input = &stream[done..end];
            match parser.parse(input) {
                Ok(Some(length)) => {
                    assert!(length > 0 && length <= input.len());
                    let command: Command = parser.arguments(input).from(0).map(<[u8]>::to_vec).collect();
                    assert_eq!(command.len(), parser.arguments(input).len());
                    found.push(command);
                    done += length;
                }
                Ok(None) => break,
                Err(error) => return (found, 0, Some(error)),
            }
        }
    }
    (found, stream.len() - done, None)
}

fn encode(command: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// One complete command.
#[track_caller]
fn check(stream: impl AsRef<[u8]>, expected: &[&[u8]]) {
    let expected = expected.iter().map(|argument| argument.to_vec()).collect();
    assert_eq!(commands(stream.as_ref()), (vec![expected], 0, None));
}

#[track_caller]
fn check_refused(stream: impl AsRef<[u8]>, text: &str) {
    let (found, _, error) = commands(stream.as_ref());
    assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(text), "found {found:?}");
}

#[track_caller]
fn check_incomplete(stream: impl AsRef<[u8]>) {
    let stream = stream.as_ref();
    assert_eq!(commands(stream), (vec![], stream.len(), None));
}

#[test]
fn arrays_of_bulks() {
    check("*1\r\n$4\r\nPING\r\n", &[b"PING"]);
    check("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", &[b"ECHO", b""]);
    check(b"*2\r\n$4\r\nECHO\r\n$5\r\n\r\n\0\xff*\r\n", &[b"ECHO", b"\r\n\0\xff*"]);
    check("*0\r\n", &[]);
    check("*-1\r\n", &[]);
    let two = commands(b"*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n*1\r\n$1");
    assert_eq!(two, (vec![vec![b"a".to_vec()], vec![b"b".to_vec()]], 6, None));
}

#[test]
fn lines() {
    check("PING\r\n", &[b"PING"]);
    check("PING\n", &[b"PING"]);
    check("  echo \t a  b \r\n", &[b"echo", b"a", b"b"]);
    check("\r\n", &[]);
    check("\n", &[]);
    check(
        r#"echo "a b" 'c d' "" '' e"f g""#.to_owned() + "\r\n",
        &[b"echo", b"a b", b"c d", b"", b"", b"ef g"],
    );
    check(r#""\x41\xfF\n\r\t\b\a\"\\\xg1\q""#.to_owned() + "\r\n", &[b"A\xff\n\r\t\x08\x07\"\\xg1q"]);
    check(r"'it\'s \n'".to_owned() + "\n", &[br"it's \n"]);
    check("$5\r\n", &[b"$5"]);
    check_incomplete("PING");
    check_incomplete("\"a");
}

#[test]
fn unbalanced_quotes() {
    let text = "Protocol error: unbalanced quotes in request";
    for line in ["\"a", "'a", "\"a\"b", "'a'b", "a\"b\"c", "\"a\\", "\"a\\\"", "'a\\'"] {
        check_refused(format!("{line}\r\n"), text);
    }
}

#[test]
fn lengths_of_arrays() {
    let text = "Protocol error: invalid multibulk length";
    for length in ["", "x", "1x", "+1", " 1", "01", "-0", "-", "9223372036854775808", "1025", "2147483648"] {
        check_refused(format!("*{length}\r\n"), text);
    }
    check_refused(format!("*{}", "1".repeat(40)), "Protocol error: too big mbulk count string");
}

#[test]
fn lengths_of_bulks() {
    let text = "Protocol error: invalid bulk length";
    for length in
        ["", "x", "-1", "-2", "+1", "1 ", "01", "1048577", "9223372036854775807", "18446744073709551616"]
    {
        check_refused(format!("*1\r\n${length}\r\n"), text);
    }
    check_refused("*1\r\n$1\r\nabc", text);
    check_refused(format!("*1\r\n${}", "1".repeat(40)), "Protocol error: too big bulk count string");
}

#[test]
fn anything_but_a_bulk_within_an_array() {
    check_refused("*1\r\n*1\r\n$1\r\na\r\n", "Protocol error: expected '$', got '*'");
    check_refused("*1\r\n:1\r\n", "Protocol error: expected '$', got ':'");
    check_refused("*1\r\n\r\n", r"Protocol error: expected '$', got '\r'");
    check_refused(b"*1\r\n\xff", r"Protocol error: expected '$', got '\xff'");
    check_refused("*1\r\n*".repeat(9), "Protocol error: expected '$', got '*'");
}

#[test]
fn as_many_arguments_as_allowed() {
    let (found, left, error) = commands(&encode(&vec!["a"; ARGUMENTS_MAX]));
    assert_eq!((found[0].len(), left, error), (ARGUMENTS_MAX, 0, None));
    check_refused(encode(&vec!["a"; ARGUMENTS_MAX + 1]), "Protocol error: invalid multibulk length");

    let (found, left, error) = commands(("a ".repeat(ARGUMENTS_MAX) + "\n").as_bytes());
    assert_eq!((found[0].len(), left, error), (ARGUMENTS_MAX, 0, None));
    check_refused("a ".repeat(ARGUMENTS_MAX + 1) + "\n", "Protocol error: too big inline request");
}

#[test]
fn as_long_a_command_as_allowed() {
    let around = "*1\r\n$1048558\r\n\r\n".len();
    let longest = encode(&[vec![b'x'; COMMAND_BYTES_MAX - around]]);
    assert_eq!(longest.len(), COMMAND_BYTES_MAX);
    assert_eq!(commands(&longest).0[0][0].len(), COMMAND_BYTES_MAX - around);
    // Refused as soon as it is announced.
    check_refused(
        format!("*1\r\n${}\r\n", COMMAND_BYTES_MAX - around + 1),
        "Protocol error: invalid bulk length",
    );
    // And so are many that are too long together.
    let half = encode(&[vec![b'x'; COMMAND_BYTES_MAX / 2], vec![b'x'; COMMAND_BYTES_MAX / 2]]);
    check_refused(half, "Protocol error: invalid bulk length");
}

#[test]
fn as_long_a_line_as_allowed() {
    let longest = "x".repeat(LINE_BYTES_MAX);
    check(format!("{longest}\n"), &[longest.as_bytes()]);
    check_incomplete(&longest);
    check_refused(format!("{longest}x"), "Protocol error: too big inline request");
    check_refused(format!("{longest}x\n"), "Protocol error: too big inline request");
}

#[test]
fn as_long_a_header_as_allowed() {
    check_incomplete(format!("*{}", "1".repeat(HEADER_BYTES_MAX - 2)));
    check_refused(
        format!("*{}", "1".repeat(HEADER_BYTES_MAX - 1)),
        "Protocol error: too big mbulk count string",
    );
}

#[test]
fn announcing_allocates_nothing() {
    let mut parser = Parser::default();
    assert_eq!(parser.parse(b"*1024\r\n$1000000\r\nabc"), Ok(None));
    assert_eq!((parser.ranges.capacity(), parser.unquoted.capacity()), (0, 0));
}

#[test]
fn a_pipeline_may_be_cut_anywhere() {
    let stream = b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\nPING\r\n*0\r\n\r\nset 'a b' \"\\x41\"\n*1\r\n$0\r\n\r\n*1\r\n$2\r\nab";
    let whole = commands(stream);
    assert_eq!(whole.0.len(), 6);
    for cut in 0..=stream.len() {
        assert_eq!(in_pieces(stream, &[cut, stream.len()]), whole, "cut at {cut}");
    }
    let bytes: Vec<usize> = (0..=stream.len()).collect();
    assert_eq!(in_pieces(stream, &bytes), whole);
}

fn any_command() -> impl Strategy<Value = Command> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6)
}

/// Bytes that often are almost a command.
fn almost_resp() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "*",
            "$",
            "\r\n",
            "*1\r\n",
            "*2\r\n$1\r\na\r\n",
            "$1\r\n",
            "-1",
            "0",
            "\"",
            "'",
            "\\x4",
            " ",
            "a"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn what_is_encoded_is_found_again(sent in prop::collection::vec(any_command(), 0..6)) {
        let stream: Vec<u8> = sent.iter().flat_map(|command| encode(command)).collect();
        prop_assert_eq!(commands(&stream), (sent, 0, None));
    }

    #[test]
    fn quoted_lines_are_found_again(sent in any_command()) {
        let escaped = |argument: &Vec<u8>| {
            argument.iter().fold(String::new(), |text, byte| text + &format!("\\x{byte:02x}"))
        };
        let quoted: Vec<String> = sent.iter().map(|argument| format!("\"{}\"", escaped(argument))).collect();
        prop_assert_eq!(commands((quoted.join(" ") + "\r\n").as_bytes()), (vec![sent], 0, None));
    }

    #[test]
    fn pieces_make_no_difference(stream in almost_resp(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        ends.push(stream.len());
        ends.sort_unstable();
        prop_assert_eq!(in_pieces(&stream, &ends), commands(&stream));
    }

    #[test]
    fn nothing_panics(stream in prop::collection::vec(any::<u8>(), 0..300)) {
        commands(&stream);
        // Nor does what comes after an error, although nobody asks for it.
        let mut parser = Parser::default();
        for start in 0..stream.len() {
            let _ = parser.parse(&stream[start..]);
        }
    }
}

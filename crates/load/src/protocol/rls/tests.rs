//! Messages byte by byte, as the protocol's definition gives them.

use super::{Question, message, read};
use crate::tally::Answer;

fn descriptors(value: &str, cost: u32) -> Question {
    let entries = vec![("k".to_owned(), value.to_owned())];
    Question::Descriptors { domain: "d".to_owned(), descriptors: vec![entries.clone(), entries], cost }
}

fn written(question: &Question) -> Vec<u8> {
    let mut bytes = Vec::new();
    message(question).unwrap().write(5, &mut bytes);
    bytes
}

#[test]
fn a_message_is_what_its_definition_says() {
    let descriptor = b"\x12\x08\x0a\x06\x0a\x01k\x12\x01v";
    let expected = [b"\0\0\0\0\x1a\x0a\x01d".as_slice(), descriptor, descriptor, b"\x18\xac\x02"].concat();
    // 3 + 10 + 10 + 3 bytes: the length is the last of the prefix.
    assert_eq!(written(&descriptors("v", 300)), expected);
}

#[test]
fn a_key_stands_in_every_descriptor() {
    let bytes = written(&descriptors("{key}", 1));
    let text = String::from_utf8_lossy(&bytes);
    assert_eq!(text.matches("000000000005").count(), 2, "{text:?}");
    assert_eq!(bytes[4] as usize, bytes.len() - 5);
}

#[test]
fn long_values_have_long_lengths() {
    let bytes = written(&descriptors(&"v".repeat(300), 1));
    let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap());
    assert_eq!(length as usize, bytes.len() - 5);
    // 300 is 0xac 0x02, seven bits at a time.
    assert!(bytes.windows(3).any(|window| window == [0x12, 0xac, 0x02]));
}

#[test]
fn only_descriptors_can_be_asked() {
    assert!(message(&Question::throttle("k", 1, 1, 1)).is_none());
}

#[test]
fn the_overall_code_decides() {
    for (bytes, answer) in [
        (&b"\0\0\0\0\x02\x08\x01"[..], Some(Answer::Allowed)),
        (b"\0\0\0\0\x02\x08\x02", Some(Answer::Denied)),
        (b"\0\0\0\0\x06\x12\x02ab\x08\x02", Some(Answer::Denied)),
        (b"\0\0\0\0\x00", None),
        (b"\0\0\0\0\x02\x08\x00", None),
        (b"\0\0\0\0\x03\x12\x09a", None),
        (b"\0\0", None),
    ] {
        let read = read(bytes);
        match answer {
            Some(answer) => assert_eq!(read, answer, "{bytes:?}"),
            None => assert!(matches!(read, Answer::Refused(_)), "{bytes:?}: {read:?}"),
        }
    }
}

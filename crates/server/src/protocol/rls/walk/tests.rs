//! prost reads the same messages: it is the oracle.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::super::decode;
use super::super::wire::{Entry as SentEntry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest};
use super::*;

/// Everything that a question says, without borrowing.
fn told(request: &Request<'_>) -> String {
    format!("{request:?}")
}

/// What the walk reads, if it does.
fn walked(bytes: &[u8]) -> Option<String> {
    let (mut room, mut all) = (Room::default(), Vec::new());
    let mut questions = room.questions();
    let was_read = questions.read(bytes);
    room.ask(questions, |requests| all.extend(requests.iter().map(told)));
    assert_eq!(all.len(), usize::from(was_read));
    all.pop()
}

/// What prost reads, as long as all values are text.
fn oracle(bytes: &[u8]) -> Option<String> {
    let message = RateLimitRequest::decode(bytes).ok()?;
    let values = message.descriptors.iter().flat_map(|descriptor| &descriptor.entries);
    if values.into_iter().any(|entry| str::from_utf8(&entry.value).is_err()) {
        return None;
    }
    decode::with_request(&message, told).ok()
}

/// What is refused before prost reads a message is what has too many descriptors or entries afterwards.
fn check_counted(bytes: &[u8]) {
    let Ok(message) = RateLimitRequest::decode(bytes) else { return };
    let is_right = decode::with_request(&message, |_| ()).is_ok();
    assert_eq!(check_bounds(bytes).is_ok(), is_right, "{bytes:?}");
}

/// What is read is what prost reads.
fn check_harmless(bytes: &[u8]) {
    check_counted(bytes);
    if let Some(read) = walked(bytes) {
        assert_eq!(Some(read), oracle(bytes), "{bytes:?}");
    }
}

/// And nothing is left to prost that can be read.
fn check(bytes: &[u8]) {
    check_counted(bytes);
    assert_eq!(walked(bytes), oracle(bytes), "{bytes:?}");
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0..3_u64, any::<u32>().prop_map(u64::from), any::<u64>(), Just(u64::MAX)]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => "[a-zé]{0,12}".prop_map(String::into_bytes),
        1 => "a{120,300}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ]
}

fn sent_descriptor() -> impl Strategy<Value = RateLimitDescriptor> {
    let entry = ("[a-z_]{0,8}", value()).prop_map(|(key, value)| SentEntry { key, value }).boxed();
    let limit = (any::<u32>(), -1..9_i32)
        .prop_map(|(requests_per_unit, unit)| RateLimitOverride { requests_per_unit, unit });
    let entries = prop_oneof![
        20 => proptest::collection::vec(entry.clone(), 0..4),
        1 => proptest::collection::vec(entry, 30..36),
    ];
    let parts = (entries, proptest::option::of(limit), proptest::option::of(number()), any::<bool>());
    parts.prop_map(|(entries, limit, hits_addend, is_negative_hits)| RateLimitDescriptor {
        entries,
        limit,
        hits_addend,
        is_negative_hits,
    })
}

fn sent() -> impl Strategy<Value = RateLimitRequest> {
    let descriptors = prop_oneof![
        20 => proptest::collection::vec(sent_descriptor(), 0..5),
        1 => sent_descriptor().prop_flat_map(|one| (126..131_usize).prop_map(move |count| vec![one.clone(); count])),
    ];
    ("[a-zé]{0,8}", descriptors, any::<u32>())
        .prop_map(|(domain, descriptors, hits_addend)| RateLimitRequest { domain, descriptors, hits_addend })
}

/// Fields in any order, known and unknown, sent once or often, of the right type and now and then of a wrong one.
fn fields(depth: u32) -> BoxedStrategy<Vec<u8>> {
    let field = (prop_oneof![8 => 1..5_u32, 1 => Just(15_u32), 1 => Just(20_000_u32)], any::<u8>(), number());
    let message = if depth == 0 { value().boxed() } else { fields(depth - 1) };
    let field = (field, message, value()).prop_map(move |((tag, chance, number), message, text)| {
        // Text is never sent where a message is expected: by chance it reads as a group, which is left to prost on purpose.
        let nested = if matches!((depth, tag), (3, 1) | (1, _)) && chance >= 16 { text } else { message };
        let mut bytes = Vec::new();
        // At the top, two fields are messages or text and one is a number; further down, three and one.
        let is_number = matches!((depth, tag), (3, 3) | (2, 4) | (0, _)) != (chance < 8);
        match chance {
            240.. => {
                encode_key(tag + 20, WireType::ThirtyTwoBit, &mut bytes);
                bytes.extend_from_slice(&[7; 4]);
            }
            230..240 => {
                encode_key(tag + 20, WireType::SixtyFourBit, &mut bytes);
                bytes.extend_from_slice(&[7; 8]);
            }
            _ if is_number => {
                encode_key(tag, WireType::Varint, &mut bytes);
                encode_varint(number, &mut bytes);
            }
            _ => {
                encode_key(tag, WireType::LengthDelimited, &mut bytes);
                encode_varint(nested.len() as u64, &mut bytes);
                bytes.extend_from_slice(&nested);
            }
        }
        bytes
    });
    proptest::collection::vec(field, 0..5).prop_map(|fields| fields.concat()).boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn messages(message in sent()) {
        check(&message.encode_to_vec());
    }

    #[test]
    fn fields_in_any_order(bytes in fields(3)) {
        check(&bytes);
    }

    #[test]
    fn messages_with_bytes_changed(
        message in sent(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..4),
    ) {
        let mut bytes = message.encode_to_vec();
        for (index, byte, kind) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        check_harmless(&bytes);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        check_harmless(&bytes);
    }
}

#[test]
fn parts_of_one_message_are_merged() {
    let limit = [0x12, 2, 0x08, 9, 0x12, 2, 0x10, 2]; // 9 requests; then, a minute
    let cost = [0x1a, 2, 0x08, 7, 0x1a, 0]; // 7; then, nothing
    let descriptor = [limit.as_slice(), &cost].concat();
    let bytes =
        [&[0x0a, 1, b'd', 0x0a, 1, b'e', 0x12, 14], descriptor.as_slice(), &[0x18, 3, 0x18, 4]].concat();
    check(&bytes);
    let read = walked(&bytes).unwrap();
    for part in ["domain: \"e\"", "cost: Some(7)", "requests_per_unit: 9", "Minute", "cost: 4"] {
        assert!(read.contains(part), "{part} in {read}");
    }
}

#[test]
fn numbers_of_every_length() {
    for bits in 0..64 {
        let mut bytes = vec![0x18];
        encode_varint(1 << bits, &mut bytes);
        check(&bytes);
    }
    // Longer than it must be, as long as may be, and too long.
    for rest in [[0x00, 0x18], [0x01, 0x18], [0x02, 0x18], [0x80, 0x00]] {
        check(
            &[[0x18, 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80].as_slice(), &rest, &[0x01]]
                .concat(),
        );
    }
}

#[test]
fn groups_and_text_that_is_none_are_left_to_prost() {
    for bytes in [&[0x2b, 0x2c][..], &[0x0a, 1, 0xff], &[0x12, 5, 0x0a, 3, 0x12, 1, 0xff]] {
        assert_eq!(walked(bytes), None, "{bytes:?}");
    }
    // Only the last value counts.
    check(&[0x12, 8, 0x0a, 6, 0x12, 1, 0xff, 0x12, 1, b'v']);
}

#[test]
fn too_many_descriptors_or_entries_are_refused_whatever_stands_around_them() {
    let group = [0x7b, 0x78, 1, 0x7a, 2, 0x12, 0, 0x7b, 0x7c, 0x7d, 0, 0, 0, 0, 0x7c]; // another within it
    let descriptors = |count| [0x12, 0].repeat(count);
    let entries =
        |count: usize| [[0x12, u8::try_from(2 * count).unwrap()].to_vec(), [0x0a, 0].repeat(count)].concat();
    for before in [&[][..], &group, &[0x0a, 1, b'd']] {
        // What follows does not matter, not even that it is malformed.
        for after in [&[][..], &[0x12], &[0x0f]] {
            let around = |list: Vec<u8>| [before, &list, after].concat();
            assert!(check_bounds(&around(descriptors(DESCRIPTORS_MAX))).is_ok());
            assert!(check_bounds(&around(descriptors(DESCRIPTORS_MAX + 1))).is_err());
            assert!(check_bounds(&around(entries(ENTRIES_MAX))).is_ok());
            assert!(check_bounds(&around(entries(ENTRIES_MAX + 1))).is_err());
        }
        check_counted(&[before, &descriptors(DESCRIPTORS_MAX + 1)].concat());
        check_counted(&[before, &entries(ENTRIES_MAX + 1)].concat());
    }
    // Within a group, nothing is a descriptor.
    let hidden = [&[0x7b][..], &descriptors(DESCRIPTORS_MAX + 1), &[0x7c]].concat();
    assert!(check_bounds(&hidden).is_ok());
    check_counted(&hidden);
}

#[test]
fn a_message_that_cannot_be_read_leaves_nothing_behind() {
    let whole = RateLimitRequest {
        domain: "d".to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![SentEntry { key: "k".to_owned(), value: b"v".to_vec() }],
            ..RateLimitDescriptor::default()
        }],
        hits_addend: 0,
    };
    let bytes = whole.encode_to_vec();
    let (mut room, mut all) = (Room::default(), Vec::new());
    let mut questions = room.questions();
    assert!(!questions.read(&[&bytes, &[0x12, 9][..]].concat().leak()[..]));
    assert!(questions.read(&bytes));
    assert!(questions.read(&bytes));
    room.ask(questions, |requests| all.extend(requests.iter().map(told)));
    assert_eq!(all, [oracle(&bytes).unwrap(), oracle(&bytes).unwrap()]);
}

#[test]
fn lists_keep_their_memory() {
    let list: Vec<Entry<'_>> = Vec::with_capacity(KEPT_MAX);
    let address = list.as_ptr() as usize;
    let again: Vec<Entry<'static>> = emptied(list);
    assert_eq!((again.capacity(), again.as_ptr() as usize), (KEPT_MAX, address));
    let shrunk: Vec<Entry<'static>> = emptied(Vec::<Entry<'_>>::with_capacity(2 * KEPT_MAX));
    assert!(shrunk.capacity() <= KEPT_MAX);
}

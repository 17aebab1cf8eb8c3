//! The client's window, which h2 and we spend together, and the server's.

use super::*;

/// What every window is in the beginning.
const FIRST: usize = 65_535;

fn update(bytes: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes())
}

/// How much data frames hold.
fn data_bytes(frames: &[String]) -> usize {
    let sizes = frames.iter().filter_map(|frame| frame.strip_prefix("DATA ")?.split(['(', ')']).nth(1));
    sizes.map(|size| size.parse::<usize>().unwrap()).sum()
}

#[test]
fn answers_wait_for_the_client() {
    let (mut wire, answer_bytes) = (wire(), answer_bytes());
    let streams: Vec<u32> =
        (0..u32::try_from(FIRST / answer_bytes).unwrap() + 10).map(|at| 2 * at + 1).collect();
    let asked: Vec<u8> = streams.iter().flat_map(|&stream| question(stream)).collect();
    // One batch may be decided before it is clear that it does not fit. The calls after it are h2's.
    wire.send(&asked).unwrap();
    let told = wire.told();
    assert_eq!(data_bytes(&told), FIRST);
    assert_eq!(wire.front.outward().waits(), Some(0));
    let passed = wire.passed().iter().filter(|frame| frame.starts_with("HEADERS")).count();
    assert!(passed < streams.len());
    // What comes then is sent as far as it goes, to the byte.
    wire.send(&update(7)).unwrap();
    assert_eq!((data_bytes(&wire.told()), wire.front.outward().waits()), (7, Some(7)));
    wire.send(&update(u32::try_from(10 * answer_bytes).unwrap())).unwrap();
    let ended = [told, wire.told()].concat().iter().filter(|frame| frame.ends_with("end")).count();
    assert_eq!((ended, wire.front.outward().waits()), (streams.len() - passed, None));
}

#[test]
fn trailers_do_not_overtake_their_message() {
    let (mut wire, answer_bytes) = (wire(), answer_bytes());
    // h2 spends all but one byte of what an answer takes.
    for length in [16_384, 16_384, 16_384, FIRST - 3 * 16_384 - answer_bytes + 1] {
        wire.front.relay(&data(1, 0, &vec![0; length]));
    }
    wire.told();
    wire.send(&question(3)).unwrap();
    assert_eq!(wire.told(), ["HEADERS 3".to_owned(), format!("DATA 3 ({})", answer_bytes - 1)]);
    // What h2 says in streams waits as well; what it says about the connection does not.
    wire.front.relay(
        &[frame(kind::HEADERS, END | flag::END_HEADERS, 1, b""), frame(kind::PING, 0, 0, &[0; 8])].concat(),
    );
    assert_eq!(wire.told(), ["6 0"]);
    wire.send(&update(1)).unwrap();
    assert_eq!(wire.told(), ["DATA 3 (1)", "HEADERS 3 end", "HEADERS 1 end"]);
}

#[test]
fn a_frame_that_is_larger_than_the_window_is_sent_in_parts() {
    let mut wire = wire();
    wire.send(&question(1)).unwrap();
    let left = FIRST - data_bytes(&wire.told());
    wire.front.relay(&data(3, END, &vec![7; FIRST]));
    assert_eq!(wire.told(), [format!("DATA 3 ({left})")]);
    wire.send(&update(1)).unwrap();
    assert_eq!(wire.told(), ["DATA 3 (1)"]);
    wire.send(&update(1_000_000)).unwrap();
    let rest = wire.front.outward().bytes()[HEADER_BYTES..].to_vec();
    assert!(rest.iter().all(|&byte| byte == 7));
    assert_eq!(wire.told(), [format!("DATA 3 ({}) end", FIRST - left - 1)]);
    assert_eq!(rest.len(), FIRST - left - 1);
}

#[test]
fn what_waits_is_sent_byte_by_byte_if_the_window_widens_so() {
    let mut wire = wire();
    let numbered: Vec<u8> = (0..PAYLOAD_BYTES_MAX).map(|at| u8::try_from(at % 251).unwrap()).collect();
    wire.front.relay(&data(1, 0, &vec![7; FIRST - 1]));
    wire.told();
    wire.front.relay(&[data(1, 0, &numbered), data(1, END, &numbered)].concat());
    let mut sent = Vec::new();
    for _ in 0..2 * numbered.len() {
        sent.extend_from_slice(wire.front.outward().bytes().get(HEADER_BYTES..).unwrap());
        assert_eq!(wire.told().len(), 1);
        wire.send(&update(1)).unwrap();
    }
    assert_eq!(sent, [numbered.as_slice(), &numbered].concat());
    assert_eq!(wire.front.outward().waits(), None);
}

#[test]
fn h2_is_given_back_what_it_has_spent_and_no_more() {
    let spent = 20_000;
    let mut wire = wire();
    // There is room already, or there is as soon as the client says so.
    wire.send(&update(1_000_000)).unwrap();
    assert!(wire.passed().is_empty());
    wire.front.relay(&[data(1, 0, &vec![0; 10_000]), data(1, 0, &vec![0; 10_000])].concat());
    assert_eq!(wire.passed(), [format!("WINDOW_UPDATE 0 {spent}")]);
    wire.send(&question(1)).unwrap();
    wire.send(&update(600)).unwrap();
    assert!(wire.passed().is_empty());

    let mut wire = super::wire();
    let answered = 10 * answer_bytes();
    wire.send(&(0..10).flat_map(|at| question(2 * at + 1)).collect::<Vec<_>>()).unwrap();
    wire.front.relay(&data(31, 0, &vec![0; 20_000]));
    // The client has given nothing back yet, so h2 is not given anything either: it has more than there is.
    assert!(wire.passed().is_empty());
    wire.send(&update(u32::try_from(answered + 500).unwrap())).unwrap();
    assert_eq!(wire.passed(), ["WINDOW_UPDATE 0 500"]);
    wire.send(&update(1_000_000)).unwrap();
    assert_eq!(wire.passed(), [format!("WINDOW_UPDATE 0 {}", spent - 500)]);
}

#[test]
fn room_that_a_call_was_given_while_it_waited_is_passed_on() {
    let mut wire = wire();
    let more = frame(kind::WINDOW_UPDATE, 0, 1, &700_u32.to_be_bytes());
    wire.send(&[call(1), more, data(1, 0, &body()[..6])].concat()).unwrap();
    assert_eq!(wire.passed(), ["HEADERS 1", "WINDOW_UPDATE 1 700", "DATA 1 (6)"]);
}

#[test]
fn clients_that_remember_less_are_left_to_h2() {
    let mut wire = wire();
    let settings = |bytes: u32| {
        let value = [[0, 1].as_slice(), &bytes.to_be_bytes()].concat();
        frame(kind::SETTINGS, 0, 0, &value)
    };
    wire.send(
        &[settings(4096), question(1), settings(4095), question(3), settings(65_536), question(5)].concat(),
    )
    .unwrap();
    check_answered(&mut wire, &[1]);
    let passed: Vec<String> =
        wire.passed().into_iter().filter(|frame| frame.starts_with("HEADERS")).collect();
    assert_eq!(passed, ["HEADERS 3", "HEADERS 5"]);
}

#[test]
fn clients_with_little_room_for_each_answer_are_left_to_h2() {
    let mut wire = wire();
    let settings = |bytes: u32| {
        let value = [[0, 4].as_slice(), &bytes.to_be_bytes()].concat();
        frame(kind::SETTINGS, 0, 0, &[&[0, 3, 0, 0, 0, 9], value.as_slice()].concat())
    };
    wire.send(&[settings(65_534), question(1), settings(65_535), question(3)].concat()).unwrap();
    let message = |stream| format!("DATA {stream} ({}) end", body().len());
    assert_eq!(wire.passed(), ["4 0", "HEADERS 1", &message(1), "4 0"]);
    check_answered(&mut wire, &[3]);
    // What was asked before is answered as before, though it has come with it. What was begun before is not.
    wire.send(&[call(5), question(7), settings(0), data(5, END, &body())].concat()).unwrap();
    check_answered(&mut wire, &[7]);
    assert_eq!(wire.passed(), ["4 0", "HEADERS 5", &message(5)]);
}

#[test]
fn what_was_sent_is_given_back_by_whoever_takes_it() {
    let mut wire = wire();
    let (mut sent, mut stream, mut given) = (0, 1, Vec::new());
    while sent < 2 * WINDOW_BYTES as usize {
        // Taken here, in two ways; reset; for a stream that was answered. What h2 takes, it gives back itself.
        let (a, b, c) = (stream, stream + 2, stream + 4);
        let reset = frame(kind::RST_STREAM, 0, c, &[0; 4]);
        wire.send(&[question(a), call(b), data(b, 0, &body()), data(b, END, &[])].concat()).unwrap();
        wire.send(&[call(c), data(c, 0, &body()), reset, data(a, 0, &[0; 1000])].concat()).unwrap();
        wire.send(&[other_call(c + 2), data(c + 2, END, &[0; 500])].concat()).unwrap();
        wire.front.relay(&frame(kind::HEADERS, END | flag::END_HEADERS, c + 2, b""));
        wire.send(&update(100_000)).unwrap();
        sent += 3 * body().len() + 1000;
        stream += 8;
        wire.passed();
        given.extend(wire.told().into_iter().filter(|frame| frame.starts_with("WINDOW")));
    }
    let bytes: usize =
        given.iter().map(|frame| frame.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert!(given.iter().all(|frame| frame.starts_with("WINDOW_UPDATE 0 ")) && given.len() > 2, "{given:?}");
    assert!((0..=WINDOW_BYTES_LOW as usize).contains(&(sent - bytes)), "{sent} {bytes}");
}

#[test]
fn whoever_is_told_to_go_is_told_of_all_that_was_answered() {
    let mut wire = wire();
    wire.send(&[other_call(1), question(3), question(5)].concat()).unwrap();
    wire.told();
    let goaway = |last: u32| frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    wire.front.relay(&goaway(0x7fff_ffff));
    wire.send(&question(7)).unwrap();
    wire.front.relay(&goaway(1));
    let mut expected = vec!["GOAWAY 2147483647 0".to_owned()];
    expected.extend(answered(7));
    expected.push("GOAWAY 7 0".to_owned());
    assert_eq!(wire.told(), expected);
    wire.passed();
    // What comes then is not answered by anybody. What was begun is.
    wire.send(&[question(9), data(1, END, &[])].concat()).unwrap();
    assert!(wire.told().is_empty());
    assert_eq!(wire.passed(), ["DATA 1 (0) end"]);
}

#[test]
fn what_h2_will_not_take_up_any_more_is_for_the_client_to_ask_again() {
    let mut wire = wire();
    wire.send(&[other_call(1), other_call(3), call(5), call(7)].concat()).unwrap();
    let goaway = |last: u32| frame(kind::GOAWAY, 0, 0, &[last.to_be_bytes(), [0; 4]].concat());
    wire.front.relay(&goaway(1));
    assert_eq!(wire.told(), ["RST_STREAM 3 7", "GOAWAY 7 0"]);
    wire.passed();
    // A plain question can still be answered. One that is not plain cannot.
    wire.send(&[data(5, 0, &body()[..6]), data(7, END, &body()), other_call(9)].concat()).unwrap();
    let mut expected = vec!["RST_STREAM 5 7".to_owned()];
    expected.extend(answered(7));
    assert_eq!(wire.told(), expected);
    assert!(wire.passed().is_empty());
    // The last stream is never one that came later.
    wire.front.relay(&goaway(1));
    wire.front.end(Violation(code::PROTOCOL_ERROR));
    assert_eq!(wire.told(), ["GOAWAY 7 0", "GOAWAY 7 1"]);
}

#[test]
fn nothing_is_said_within_a_header_of_h2s() {
    let mut wire = wire();
    let begun = frame(kind::HEADERS, 0, 1, &[0; 10]);
    let end = frame(kind::CONTINUATION, flag::END_HEADERS, 1, &[0; 3]);
    wire.front.relay(&begun);
    wire.front.relay(&end[..4]);
    wire.send(&question(3)).unwrap();
    check_answered(&mut wire, &[3]);
    wire.front.relay(&end[4..]);
    assert_eq!(wire.told(), ["HEADERS 1", "9 1"]);
}

#[test]
fn streams_that_have_ended_are_forgotten() {
    let mut wire = wire();
    for stream in (1..2001).step_by(2) {
        wire.send(&[other_call(stream), data(stream, END, &[])].concat()).unwrap();
        wire.front.relay(&frame(kind::HEADERS, END | flag::END_HEADERS, stream, b""));
        assert!(wire.front.passed.get_mut(stream).is_none());
        wire.passed();
    }
    // What still comes in them is nobody's.
    wire.send(&[data(1, END, b"late"), frame(kind::RST_STREAM, 0, 3, &[0; 4])].concat()).unwrap();
    assert!(wire.passed().is_empty());
}

//! What sections 4, 5, 6 and 8 of RFC 9113 demand of a server: a row for each rule, with the bytes that break it and the error that must
//! come of it. Some rows break nothing, and must be served.

use super::floods;
use super::frames::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PADDED, PING, PREFACE,
    PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE, put_string,
};
use super::http1::QUESTION;
use super::raw::Raw;
use super::seen::{Tally, Want};
use super::{Attack, Field, Listener, grpc, quick};

/// The flag of HEADERS that says that a priority comes first.
const WITH_PRIORITY: u8 = 0x20;
/// The longest window, and the longest frame unless the server says otherwise.
const WINDOW_MAX: u32 = (1 << 31) - 1;
const FRAME_BYTES_MAX: usize = 16 << 10;
/// No stream: the connection's end is waited for.
const CONNECTION: u32 = u32::MAX;

const PROTOCOL: Want = Want::Told("GOAWAY PROTOCOL_ERROR");
const FRAME_SIZE: Want = Want::Told("GOAWAY FRAME_SIZE_ERROR");
const FLOW_CONTROL: Want = Want::Told("GOAWAY FLOW_CONTROL_ERROR");
const COMPRESSION: Want = Want::Told("GOAWAY COMPRESSION_ERROR");
const CLOSED: Want = Want::Told("GOAWAY STREAM_CLOSED");

pub(super) fn attacks() -> Vec<Attack> {
    [Listener::Grpc, Listener::Http, Listener::Admin]
        .map(|on| quick(on, "every rule of RFC 9113, broken", "the error that it demands", check))
        .into()
}

/// A stream error. Section 5.4.1 lets a server make a connection error of it: h2 does so here and there, the gRPC
/// listener must not.
fn stream_error(at: &Field, reset: &'static str, go_away: &'static str) -> Want {
    match at.on {
        Listener::Grpc => Want::Told(reset),
        _ => Want::ToldEither(reset, go_away),
    }
}

/// A connection error for which h2 says `PROTOCOL_ERROR`, though the RFC has a code of its own. `docs/hostile-input.md` lists them.
fn coded(at: &Field, want: Want) -> Want {
    match at.on {
        Listener::Grpc => want,
        _ => PROTOCOL,
    }
}

/// What must come of a malformed request.
fn malformed(at: &Field) -> Want {
    stream_error(at, "RST_STREAM PROTOCOL_ERROR", "GOAWAY PROTOCOL_ERROR")
}

/// One rule.
struct Row {
    /// Its section, and what is sent.
    rule: &'static str,
    /// What is sent after the client's preface and settings.
    frames: Frames,
    /// The stream whose answer is waited for.
    stream: u32,
    /// Whether an error is waited for, whatever is answered before it.
    is_after_answers: bool,
    /// What must come of it.
    want: Want,
}

impl Row {
    fn new(rule: &'static str, frames: Frames, stream: u32, want: Want) -> Row {
        Row { rule, frames, stream, is_after_answers: false, want }
    }

    fn after_answers(self) -> Row {
        Row { is_after_answers: true, ..self }
    }
}

fn check(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let tables = [frames(at), kinds(at), streams(at), settings(at), windows(at), requests(at), trailers(at)];
    for row in tables.into_iter().flatten() {
        let mut raw = Raw::sending(at.address, &Frames::opening(&[]).0);
        raw.send_frames(&row.frames);
        let seen = if row.is_after_answers { raw.http2_error(row.stream) } else { raw.http2(row.stream) };
        tally.see(row.rule, &seen, row.want);
    }
    let mut raw = Raw::sending(at.address, &[PREFACE, &ask(at, 1).0].concat());
    // A server may leave GOAWAY out here.
    let want = if at.on == Listener::Grpc { PROTOCOL } else { Want::Closed };
    tally.see("3.4: the first frame is not SETTINGS", &raw.http2(CONNECTION), want);
    let mut raw = Raw::sending(at.address, &Frames(PREFACE.to_vec()).add(SETTINGS, ACK, 0, &[]).0);
    tally.see("3.4: the first frame is an acknowledgement", &raw.http2(CONNECTION), Want::Refused);
    tally
}

/// The header fields of a request that is right. The content type comes fifth, `te` last.
fn fields(at: &Field) -> [(&'static str, &'static str); 6] {
    let (method, path) = match at.on {
        Listener::Grpc => return floods::fields(at),
        Listener::Admin => ("GET", "/healthz"),
        _ => ("POST", "/v1/check"),
    };
    [
        (":method", method),
        (":scheme", "http"),
        (":path", path),
        // Without tokens, the listener answers to the names of this machine alone.
        (":authority", "localhost"),
        ("content-type", "application/json"),
        ("te", "trailers"),
    ]
}

fn body(at: &Field) -> Vec<u8> {
    match at.on {
        Listener::Grpc => grpc::framed(&grpc::question(b"rfc9113")),
        _ => QUESTION.to_vec(),
    }
}

/// A request that is right.
fn ask(at: &Field, stream: u32) -> Frames {
    open(at, stream).add(DATA, END_STREAM, stream, &body(at))
}

/// The header of a request that is right.
fn open(at: &Field, stream: u32) -> Frames {
    Frames::none().headers(stream, END_HEADERS, &fields(at))
}

/// The same as a header block.
fn block(at: &Field) -> Vec<u8> {
    open(at, 1).0.split_off(9)
}

/// More frames.
fn then(frames: Frames, more: &Frames) -> Frames {
    Frames([frames.0, more.0.clone()].concat())
}

fn none() -> Frames {
    Frames::none()
}

/// Section 4, and 6.10: the forms of frames and of header blocks.
fn frames(at: &Field) -> Vec<Row> {
    let connection = |rule, frames, want| Row::new(rule, frames, CONNECTION, want);
    let compression = coded(at, COMPRESSION);
    let long = vec![0; FRAME_BYTES_MAX + 1];
    let begun = || none().add(HEADERS, 0, 1, &block(at));
    let served = |rule, frames: Frames| Row::new(rule, then(frames, &ask(at, 1)), 1, Want::Answered);
    let mut reserved = ask(at, 1);
    reserved.0[5] |= 0x80;
    vec![
        Row::new("4.1: a reserved bit is ignored", reserved, 1, Want::Answered),
        served("4.1, 5.5: a frame of an unknown type is ignored", none().add(0xfa, 0xff, 7, b"unknown")),
        served("4.1: flags that mean nothing are ignored", none().add(PING, 0xfe, 0, &[0; 8])),
        connection(
            "4.2: DATA longer than may be",
            then(open(at, 1), &none().add(DATA, 0, 1, &long)),
            FRAME_SIZE,
        ),
        connection("4.2: HEADERS longer than may be", none().add(HEADERS, END_HEADERS, 1, &long), FRAME_SIZE),
        connection(
            "4.2: a frame of an unknown type longer than may be",
            none().add(0xfa, 0, 0, &long),
            FRAME_SIZE,
        ),
        connection(
            "4.3: a block that cannot be read",
            none().add(HEADERS, END_HEADERS, 1, &[0x80]),
            compression,
        ),
        connection(
            "4.3: a table larger than may be",
            none().add(HEADERS, END_HEADERS, 1, &[0x3f, 0xe2, 0x1f]),
            compression,
        ),
        connection(
            "4.3, 6.10: another frame within a block",
            then(begun(), &none().add(PING, 0, 0, &[0; 8])),
            PROTOCOL,
        ),
        connection(
            "5.5: a frame of an unknown type within a block",
            then(begun(), &none().add(0xfa, 0, 1, &[])),
            PROTOCOL,
        ),
        connection("6.10: HEADERS within a block", then(begun(), &open(at, 3)), PROTOCOL),
        connection(
            "6.10: CONTINUATION of another stream",
            then(begun(), &none().add(CONTINUATION, 0, 3, &[])),
            PROTOCOL,
        ),
        connection(
            "6.10: CONTINUATION of nothing",
            none().add(CONTINUATION, END_HEADERS, 1, &block(at)),
            PROTOCOL,
        ),
        connection(
            "6.10: CONTINUATION after a block's end",
            then(open(at, 1), &none().add(CONTINUATION, END_HEADERS, 1, &[])),
            PROTOCOL,
        ),
        connection(
            "6.10: CONTINUATION on stream 0",
            then(begun(), &none().add(CONTINUATION, END_HEADERS, 0, &[])),
            PROTOCOL,
        ),
    ]
}

/// Section 6: what frames of each kind must not be.
fn kinds(at: &Field) -> Vec<Row> {
    let frame_size = coded(at, FRAME_SIZE);
    let connection = |rule, frames, want| Row::new(rule, frames, CONNECTION, want);
    let served = |rule, frames: Frames| Row::new(rule, then(frames, &ask(at, 1)), 1, Want::Answered);
    vec![
        connection("6.1: DATA on stream 0", none().add(DATA, 0, 0, b"x"), PROTOCOL),
        connection(
            "6.1: padding as long as DATA",
            then(open(at, 1), &none().add(DATA, PADDED, 1, &[2, 0])),
            PROTOCOL,
        ),
        connection(
            "6.1: padding of DATA without its length",
            then(open(at, 1), &none().add(DATA, PADDED, 1, &[])),
            frame_size,
        ),
        Row::new("6.1: padding is left out", padded(at), 1, Want::Answered),
        connection("6.2: HEADERS on stream 0", none().add(HEADERS, END_HEADERS, 0, &block(at)), PROTOCOL),
        connection(
            "6.2: padding longer than HEADERS",
            none().add(HEADERS, END_HEADERS | PADDED, 1, &[9, 0]),
            PROTOCOL,
        ),
        connection(
            "6.2: HEADERS too short for a priority",
            none().add(HEADERS, END_HEADERS | WITH_PRIORITY, 1, &[0; 4]),
            frame_size,
        ),
        connection("6.3: PRIORITY on stream 0", none().add(PRIORITY, 0, 0, &[0, 0, 0, 1, 0]), PROTOCOL),
        connection("6.3: a short PRIORITY", none().add(PRIORITY, 0, 1, &[0; 4]), frame_size),
        served("6.3: PRIORITY of a stream that is idle", none().add(PRIORITY, 0, 9, &[0, 0, 0, 1, 0])),
        connection("6.4: RST_STREAM on stream 0", none().add(RST_STREAM, 0, 0, &[0; 4]), PROTOCOL),
        connection(
            "6.4: a short RST_STREAM",
            then(open(at, 1), &none().add(RST_STREAM, 0, 1, &[0; 3])),
            frame_size,
        ),
        connection(
            "6.6, 8.4: PUSH_PROMISE from a client",
            then(open(at, 1), &none().add(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
            PROTOCOL,
        ),
        connection("6.7: PING on a stream", none().add(PING, 0, 1, &[0; 8]), PROTOCOL),
        connection("6.7: a short PING", none().add(PING, 0, 0, &[0; 7]), frame_size),
        connection("6.8: GOAWAY on a stream", none().add(GOAWAY, 0, 1, &[0; 8]), PROTOCOL),
        connection("6.8: a short GOAWAY", none().add(GOAWAY, 0, 0, &[0; 7]), frame_size),
    ]
}

/// A request whose DATA is padded.
fn padded(at: &Field) -> Frames {
    let payload = [&[3][..], &body(at), &[0; 3]].concat();
    open(at, 1).add(DATA, END_STREAM | PADDED, 1, &payload)
}

/// Section 5: the states of streams, and their numbers.
fn streams(at: &Field) -> Vec<Row> {
    let connection = |rule, frames, want| Row::new(rule, frames, CONNECTION, want);
    // A stream that the client has ended and the server cannot: a call without an end, or a response without a window.
    let half_closed = |more: Frames| {
        let open = match at.on {
            Listener::Grpc => {
                let watch = none().headers(1, END_HEADERS, &grpc::fields("/grpc.health.v1.Health/Watch"));
                watch.add(DATA, END_STREAM, 1, &grpc::framed(&[]))
            }
            _ => then(none().add(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]), &ask(at, 1)),
        };
        then(open, &more)
    };
    let closed = coded(at, CLOSED);
    // As long as the response is not sent, h2 takes the second header for trailers that do not end the stream.
    let ended = match at.on {
        Listener::Grpc => CLOSED,
        _ => Want::ToldEither("RST_STREAM PROTOCOL_ERROR", "RST_STREAM STREAM_CLOSED"),
    };
    vec![
        connection("5.1: DATA on an idle stream", none().add(DATA, 0, 5, b"x"), PROTOCOL),
        connection("5.1, 6.4: RST_STREAM on an idle stream", none().add(RST_STREAM, 0, 5, &[0; 4]), PROTOCOL),
        connection(
            "5.1: WINDOW_UPDATE on an idle stream",
            none().add(WINDOW_UPDATE, 0, 5, &[0, 0, 0, 1]),
            PROTOCOL,
        ),
        connection(
            "5.1: DATA on a stream that the client has ended",
            half_closed(none().add(DATA, 0, 1, b"x")),
            closed,
        ),
        connection(
            "5.1: HEADERS on a stream that the client has ended",
            half_closed(none().headers(1, END_HEADERS | END_STREAM, &[("x", "y")])),
            closed,
        ),
        Row::new("5.1: a request in a stream that has ended", then(ask(at, 1), &ask(at, 1)), 1, ended)
            .after_answers(),
        connection("5.1.1: a stream with an even number", ask(at, 2), PROTOCOL),
        connection("5.1.1: a stream before the last one", then(ask(at, 5), &ask(at, 3)), PROTOCOL),
        Row::new("5.1.1: numbers may be left out", then(ask(at, 5), &ask(at, 91)), 91, Want::Answered),
        Row::new("5.1: a frame after RST_STREAM is ignored", reset_then(at), 3, Want::Answered),
    ]
}

fn reset_then(at: &Field) -> Frames {
    let reset = open(at, 1).add(RST_STREAM, 0, 1, &[0, 0, 0, 8]).add(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]);
    then(reset, &ask(at, 3))
}

/// Section 6.5.
fn settings(at: &Field) -> Vec<Row> {
    let frame_size = coded(at, FRAME_SIZE);
    let connection = |rule, frames, want| Row::new(rule, frames, CONNECTION, want);
    let set =
        |name: u8, value: u32| none().add(SETTINGS, 0, 0, &[&[0, name][..], &value.to_be_bytes()].concat());
    let unknown = then(none().add(SETTINGS, 0, 0, &[0xff, 0xff, 1, 2, 3, 4]), &ask(at, 1));
    vec![
        connection("6.5: SETTINGS on a stream", none().add(SETTINGS, 0, 1, &[]), PROTOCOL),
        connection("6.5: half a setting", none().add(SETTINGS, 0, 0, &[0, 1, 0]), frame_size),
        connection(
            "6.5: an acknowledgement with settings",
            none().add(SETTINGS, ACK, 0, &[0, 1, 0, 0, 0, 0]),
            frame_size,
        ),
        connection("6.5.2: ENABLE_PUSH of 2", set(2, 2), PROTOCOL),
        connection("6.5.2: INITIAL_WINDOW_SIZE too large", set(4, WINDOW_MAX + 1), coded(at, FLOW_CONTROL)),
        connection("6.5.2: MAX_FRAME_SIZE too small", set(5, 16_383), PROTOCOL),
        connection("6.5.2: MAX_FRAME_SIZE too large", set(5, 1 << 24), PROTOCOL),
        Row::new("6.5.2: an unknown setting is ignored", unknown, 1, Want::Answered),
    ]
}

/// Section 6.9.
fn windows(at: &Field) -> Vec<Row> {
    let frame_size = coded(at, FRAME_SIZE);
    let update = |stream, bytes: u32| none().add(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes());
    let connection = |rule, frames, want| Row::new(rule, frames, CONNECTION, want);
    let health = || none().headers(1, END_HEADERS, &grpc::fields("/grpc.health.v1.Health/Check"));
    let wide = then(open(at, 1), &update(1, WINDOW_MAX - 65_535));
    let wider = wide.add(SETTINGS, 0, 0, &[0, 4, 0, 1, 0xff, 0xff]);
    let overflow = stream_error(at, "RST_STREAM FLOW_CONTROL_ERROR", "GOAWAY FLOW_CONTROL_ERROR");
    let mut rows = vec![
        connection("6.9: a short WINDOW_UPDATE", none().add(WINDOW_UPDATE, 0, 0, &[0; 3]), frame_size),
        connection("6.9: the connection's window by 0", update(0, 0), PROTOCOL),
        Row::new("6.9: a stream's window by 0", then(open(at, 1), &update(1, 0)), 1, malformed(at)),
        connection("6.9.1: the connection's window overflows", update(0, WINDOW_MAX), FLOW_CONTROL),
        Row::new(
            "6.9.1: a stream's window overflows",
            then(open(at, 1), &update(1, WINDOW_MAX)),
            1,
            overflow,
        ),
        connection("6.9.2: settings make a window overflow", wider, FLOW_CONTROL),
    ];
    if at.on == Listener::Grpc {
        rows.extend([
            Row::new(
                "6.9: a window by 0, of a stream that h2 has",
                then(health(), &update(1, 0)),
                1,
                malformed(at),
            ),
            Row::new(
                "6.9.1: a window of h2's overflows",
                then(health(), &update(1, WINDOW_MAX)),
                1,
                overflow,
            ),
        ]);
    }
    rows
}

/// Section 8: requests that are malformed.
fn requests(at: &Field) -> Vec<Row> {
    let all = fields(at);
    let [method, scheme, path, authority, ..] = all;
    let row = |rule, fields: &[(&str, &str)]| {
        let frames = none().headers(1, END_HEADERS, fields).add(DATA, END_STREAM, 1, &body(at));
        Row::new(rule, frames, 1, malformed(at))
    };
    let with = |rule, name, value| row(rule, &[&all[..], &[(name, value)]].concat());
    let of = |rule, method, path| row(rule, &[(":method", method), scheme, (":path", path), authority]);
    let length = |value| [&all[..], &[("content-length", value)]].concat();
    let right_length = body(at).len().to_string();
    let ended = none().headers(1, END_HEADERS | END_STREAM, &length("5"));
    let bare = |name: &[u8], value: &[u8]| {
        let mut block = block(at);
        block.push(0);
        put_string(&mut block, name);
        put_string(&mut block, value);
        none().add(HEADERS, END_HEADERS, 1, &block).add(DATA, END_STREAM, 1, &body(at))
    };
    let mut rows = vec![
        with("8.2.1: a name in capitals", "X-Upper", "1"),
        with("8.2.1: a name with a space", "x y", "1"),
        with("8.2.1: a name with a colon", "x:y", "1"),
        with("8.2.1: a name with a line feed", "x\ny", "1"),
        with("8.2.1: a name with a zero", "x\0y", "1"),
        with("8.2.1: a name with DEL", "x\u{7f}y", "1"),
        with("8.2.1: a name without letters", "", "1"),
        with("8.2.1: a value with a carriage return", "x", "a\rb"),
        with("8.2.1: a value with a line feed", "x", "a\nb: c"),
        with("8.2.1: a value with a zero", "x", "a\0b"),
        with("8.2.1: a value with a space before it", "x", " a"),
        with("8.2.1: a value with a tab after it", "x", "a\t"),
        with("8.2.2: connection", "connection", "close"),
        with("8.2.2: keep-alive", "keep-alive", "1"),
        with("8.2.2: proxy-connection", "proxy-connection", "close"),
        with("8.2.2: transfer-encoding", "transfer-encoding", "chunked"),
        with("8.2.2: upgrade", "upgrade", "h2c"),
        row("8.2.2: te that is not trailers", &[&all[..5], &[("te", "gzip")]].concat()),
        row("8.3: a pseudo-header after a field", &[method, scheme, ("x", "1"), path, authority]),
        with("8.3: an unknown pseudo-header", ":unknown", "1"),
        with("8.3: a pseudo-header of answers", ":status", "200"),
        row("8.3.1: no method", &[scheme, path, authority, all[4]]),
        row("8.3.1: no scheme", &[method, path, authority, all[4]]),
        row("8.3.1: no path", &[method, scheme, authority, all[4]]),
        row("8.3.1: two methods", &[method, method, scheme, path, authority, all[4]]),
        row("8.3.1: two schemes", &[method, scheme, scheme, path, authority, all[4]]),
        row("8.3.1: two paths", &[method, scheme, path, path, authority, all[4]]),
        row("8.3.1: two authorities", &[method, scheme, path, authority, authority, all[4]]),
        of("8.3.1: an empty path", "POST", ""),
        of("8.3.1: a path without a slash", "POST", "v1/check"),
        of("8.3.1: an asterisk that is not of OPTIONS", "POST", "*"),
        row("8.3.1: an authority with a user", &[method, scheme, path, (":authority", "u@host"), all[4]]),
        with("8.3.1: a host that is another", "host", "elsewhere"),
        of("8.5: CONNECT with a path", "CONNECT", "/"),
        row("8.5: CONNECT without an authority", &[(":method", "CONNECT")]),
        row("8.1.1: a content-length that is too small", &length("3")),
        row("8.1.1: a content-length that is too large", &length("500")),
        row("8.1.1: a content-length that is no number", &length("5x")),
        row(
            "8.1.1: two content-lengths that differ",
            &[&length(&right_length)[..], &[("content-length", "6")]].concat(),
        ),
        Row::new("8.1.1: a content-length without DATA", ended, 1, malformed(at)),
        Row::new(
            "8.2.1: a value of bytes beyond ASCII is served",
            bare(b"x", &[0xc3, 0xa9]),
            1,
            Want::Answered,
        ),
        Row::new("8.2.1: a name beyond ASCII", bare(&[0xc3, 0xa9], b"x"), 1, malformed(at)),
    ];
    // Fields of the table are judged as well, however often they are named.
    let mut remembered = block(at);
    remembered.push(0x40);
    put_string(&mut remembered, b"x");
    put_string(&mut remembered, b"a\r\nb");
    let named = [&block(at)[..], &[0xbe]].concat();
    let twice = none().add(HEADERS, END_HEADERS, 1, &remembered).add(HEADERS, END_HEADERS, 3, &named);
    rows.push(Row::new("8.2.1: a field of the table with a line feed", twice, 3, malformed(at)));
    rows
}

/// Section 8.1: what follows a request's header.
fn trailers(at: &Field) -> Vec<Row> {
    let begun = |flags, fields: &[(&str, &str)]| {
        let part = &body(at)[..3];
        then(open(at, 1).add(DATA, 0, 1, part), &none().headers(1, END_HEADERS | flags, fields))
    };
    let row = |rule, frames| Row::new(rule, frames, 1, malformed(at));
    // h2 drops the pseudo-header before hyper sees the trailers, which no handler reads.
    let with_pseudo = if at.on == Listener::Grpc { malformed(at) } else { Want::Spoken };
    let whole = open(at, 1).add(DATA, 0, 1, &body(at)).headers(1, END_HEADERS | END_STREAM, &[("x", "y")]);
    vec![
        row("8.1: fields within a request", begun(0, &[("x", "y")])),
        Row::new("8.1: trailers with a pseudo-header", begun(END_STREAM, &[(":path", "/")]), 1, with_pseudo),
        row("8.2.1: trailers with a name in capitals", begun(END_STREAM, &[("X", "y")])),
        row("8.2.1: trailers with a line feed", begun(END_STREAM, &[("x", "a\nb")])),
        row("8.2.2: trailers with a connection's field", begun(END_STREAM, &[("connection", "close")])),
        Row::new("8.1: trailers", whole, 1, Want::Answered),
    ]
}

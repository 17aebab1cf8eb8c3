//! Many streams at once on one connection: bodies that do not end, answers that nobody takes.

use super::floods::fields;
use super::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, INITIAL_WINDOW_SIZE, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE,
};
use super::raw::{Raw, Sent};
use super::seen::{Seen, Tally, Want};
use super::{Attack, Field, Listener, grpc, quick};

/// More streams than a connection may have at once.
const STREAMS: u32 = 1_100;
/// Bytes of bodies that are tried on a connection, times the force.
const BODIES_BYTES: usize = 256 << 20;
/// What fits into one frame.
const FRAME_BYTES: usize = 16 << 10;
/// What a server may hold for so many streams.
const PEAK_BYTES_MAX: u64 = 96 << 20;
/// A server that lets nothing be sent for so many rounds will not let anything more.
const IDLE_ROUNDS_MAX: usize = 50;

pub(super) fn attacks() -> Vec<Attack> {
    use Listener::{Admin, Grpc, Http};
    let unfinished = |on| quick(on, "1,100 bodies that do not end", "bounded, whatever is sent", unfinished);
    let unread = |on| {
        quick(
            on,
            "as many answers as may be, without a window",
            "answers wait, bounded, or the end",
            no_window,
        )
    };
    [unfinished(Grpc), unfinished(Http), unread(Http), unread(Grpc), unread(Admin)]
        .map(|attack| attack.costing(PEAK_BYTES_MAX))
        .into()
}

/// How much the server lets be sent on the connection, and on each stream.
struct Windows {
    connection: usize,
    streams: Vec<usize>,
}

impl Windows {
    fn of(&mut self, stream: u32) -> &mut usize {
        match stream {
            0 => &mut self.connection,
            _ => &mut self.streams[(stream / 2) as usize],
        }
    }

    /// Takes so much from the windows of a stream and of its connection, if both have it.
    fn take(&mut self, stream: u32, bytes: usize) -> bool {
        let has_room = *self.of(stream) >= bytes && self.connection >= bytes;
        if has_room {
            *self.of(stream) -= bytes;
            self.connection -= bytes;
        }
        has_room
    }
}

/// What a stream may send before the server says more.
const INITIAL_BYTES: usize = 65_535;

/// Bodies grow on all streams in turn, as far as the server's windows let them, and none ever ends.
fn unfinished(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raw = Raw::sending(at.address, &Frames::opening(&[]).0);
    let heads = |frames: Frames, index| frames.headers(2 * index + 1, END_HEADERS, &fields(at));
    raw.send_frames(&(0..STREAMS).fold(Frames::none(), heads));
    // The longest message that gRPC takes is announced; the others read this as any bytes.
    let beginning = [&[0, 0, 0x7f, 0xff, 0xff], &[b' '; FRAME_BYTES - 5][..]].concat();
    let mut windows = Windows { connection: INITIAL_BYTES, streams: vec![INITIAL_BYTES; STREAMS as usize] };
    let mut begun = vec![false; STREAMS as usize];
    let (mut next, mut taken_bytes, mut idle_rounds) = (0, 0, 0);
    // Everything that was sent before has been read when this comes back.
    while keep_up(&mut raw, &mut windows, &mut tally) {
        let taken_before = taken_bytes;
        // All streams in turn, each round from where the last one had to stop: so all bodies grow alike.
        for index in (0..STREAMS).cycle().skip(next as usize).take(STREAMS as usize) {
            let stream = 2 * index + 1;
            if windows.connection < FRAME_BYTES {
                next = index;
                break;
            }
            if windows.take(stream, FRAME_BYTES) {
                let begun = std::mem::replace(&mut begun[index as usize], true);
                let payload = if begun { &[b' '; FRAME_BYTES][..] } else { &beginning };
                raw.send_frames(&Frames::none().add(DATA, 0, stream, payload));
                taken_bytes += FRAME_BYTES;
            }
        }
        idle_rounds = if taken_bytes > taken_before { 0 } else { idle_rounds + 1 };
        if idle_rounds > IDLE_ROUNDS_MAX || taken_bytes > BODIES_BYTES * at.force {
            break;
        }
    }
    tally.note("MiB of bodies taken", (taken_bytes >> 20) as u64);
    tally
}

/// Reads until the server has seen everything, and notes what it allows and what it refuses. False if the connection is over.
fn keep_up(raw: &mut Raw, windows: &mut Windows, tally: &mut Tally) -> bool {
    raw.send_frames(&Frames::none().add(PING, 0, 0, b"how far?"));
    loop {
        let frame = match raw.frame() {
            Ok(frame) => frame,
            Err(seen) => {
                tally.see("the connection", &seen, Want::Refused);
                return false;
            }
        };
        match frame.kind {
            PING if frame.flags & ACK != 0 => return true,
            WINDOW_UPDATE => {
                let more = frame.payload.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                *windows.of(frame.stream) += more;
            }
            SETTINGS if frame.flags & ACK == 0 => {
                let size = frame.setting(INITIAL_WINDOW_SIZE).map_or(INITIAL_BYTES, |size| size as usize);
                windows.streams.iter_mut().for_each(|window| *window = *window + size - INITIAL_BYTES);
            }
            RST_STREAM => {
                *windows.of(frame.stream) = 0;
                tally.note(&format!("RST_STREAM {}", frame.reason(0)), 1);
            }
            GOAWAY => {
                tally.note(&format!("GOAWAY {}", frame.reason(4)), 1);
                return false;
            }
            _ => {}
        }
    }
}

/// Whole requests whose answers have nowhere to go.
fn no_window(at: &Field) -> Tally {
    let mut tally = Tally::default();
    let mut raws = Vec::new();
    for _ in 0..4 * at.force {
        let mut raw = Raw::sending(at.address, &Frames::opening(&[(INITIAL_WINDOW_SIZE, 0)]).0);
        for index in 0..raw.streams_max().min(STREAMS) {
            let stream = 2 * index + 1;
            let frames = match at.on {
                Listener::Grpc => {
                    grpc::ask(Frames::none(), stream, &grpc::framed(&grpc::question(b"window")))
                }
                Listener::Http => Frames::none().headers(stream, END_HEADERS, &fields(at)).add(
                    DATA,
                    END_STREAM,
                    stream,
                    super::http1::QUESTION,
                ),
                _ => Frames::none().headers(stream, END_HEADERS | END_STREAM, &METRICS),
            };
            if raw.send_frames(&frames) != Sent::All {
                break;
            }
        }
        raws.push(raw);
    }
    // A page of metrics is large: the server ends a connection whose pages find no room in the account.
    let want = if at.on == Listener::Admin { Want::Spoken } else { Want::Answered };
    for raw in &mut raws {
        raw.send_frames(&Frames::none().add(PING, 0, 0, b"and now?"));
        tally.see("the connection", &until_pong(raw), want);
    }
    tally
}

const METRICS: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "http"), (":path", "/metrics"), (":authority", "hostile")];

fn until_pong(raw: &mut Raw) -> Seen {
    loop {
        match raw.frame() {
            Ok(frame) if frame.kind == PING && frame.flags & ACK != 0 => {
                return Seen::Answer("still there".to_owned());
            }
            Ok(_) => {}
            Err(seen) => return seen,
        }
    }
}

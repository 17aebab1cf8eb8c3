//! More connections than there is room for.

use std::net::TcpStream;

use tollgate_testkit::real::{Client, Tollgate, until};

use super::{Watched, launch};

/// Room for so many connections at a listener.
const ROOM: usize = 64;

/// Those who were there before keep their service, and newcomers have theirs once the silent ones were sent away.
#[test]
fn silent_ones_do_not_keep_others_out_for_ever() {
    let watched = Watched::start(launch().flag("connections-max", &ROOM.to_string()));
    let address = watched.tollgate.http();
    let silent: Vec<TcpStream> = (0..2 * ROOM).map(|_| TcpStream::connect(address).unwrap()).collect();
    let newcomer = until("a newcomer is answered", || ask(&watched.tollgate));
    assert_eq!(newcomer, 200);
    drop(silent);
    watched.finish();
}

/// Asks on a new connection. None if nobody answers for a while.
fn ask(tollgate: &Tollgate) -> Option<u16> {
    let mut client = Client::connect(tollgate.http()).ok()?;
    Some(client.send("GET", "/healthz", &[], "").ok()?.status)
}

/// Thousands of connections that say nothing cost little, and go when they are told to.
#[test]
fn thousands_of_silent_ones_cost_little() {
    /// Not more than so much each, with what the kernel does not count.
    const BYTES_EACH_MAX: u64 = 8 << 10;
    const SILENT: usize = 4_000;
    let watched = Watched::start(launch());
    let addresses =
        [watched.tollgate.http(), watched.tollgate.grpc(), watched.tollgate.resp(), watched.tollgate.admin()];
    let silent: Vec<TcpStream> =
        (0..SILENT).map(|index| TcpStream::connect(addresses[index % 4]).unwrap()).collect();
    until("all are taken in", || (watched.vitals.files_left() >= SILENT).then_some(()));
    let peak_bytes = watched.vitals.peak_growth_bytes();
    println!("{SILENT} silent connections: {} KiB", peak_bytes >> 10);
    assert!(peak_bytes <= SILENT as u64 * BYTES_EACH_MAX, "{} KiB", peak_bytes >> 10);
    drop(silent);
    watched.finish();
}

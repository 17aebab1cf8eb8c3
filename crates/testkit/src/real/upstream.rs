//! The service behind Envoy: it answers 200 to everything, with the headers that the request asks for.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::http::{Head, read_body, read_head};

/// A request's header `x-reply-cost: 7` is answered with `x-cost: 7`: so a test chooses what a request turns out to cost.
const ASKED_FOR: &str = "x-reply-";

/// A service that runs until the test ends.
#[derive(Debug)]
pub(super) struct Upstream {
    address: SocketAddr,
}

impl Upstream {
    /// Starts it, with a thread per connection: Envoy opens few.
    pub(super) fn start() -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || serve(&stream));
            }
        });
        Upstream { address }
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

fn serve(stream: &TcpStream) {
    let mut reader = BufReader::new(stream);
    // Whoever goes away, in the middle of a request or between two, ends it.
    while let Ok(head) = read_head(&mut reader) {
        let answered = read_body(&mut reader, &head).and_then(|_| (&mut &*stream).write_all(&answer(&head)));
        if answered.is_err() {
            return;
        }
    }
}

fn answer(request: &Head) -> Vec<u8> {
    let mut answer = String::from("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n");
    for (name, value) in &request.headers {
        if let Some(name) = name.strip_prefix(ASKED_FOR) {
            answer += &format!("x-{name}: {value}\r\n");
        }
    }
    (answer + "\r\nok\n").into_bytes()
}

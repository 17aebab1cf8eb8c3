//! The service behind a proxy: it answers 200 to everything, with the headers that the request asks for.

use std::io::{self, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::http::{Head, read_body, read_head};

/// A request's header `x-reply-cost: 7` is answered with `x-cost: 7`: so a test chooses what a request turns out to cost.
const ASKED_FOR: &str = "x-reply-";

/// A service that runs until the test ends.
#[derive(Debug)]
pub struct Upstream {
    address: SocketAddr,
}

impl Upstream {
    /// Starts it, with a thread per connection: proxies open few.
    pub fn start() -> Upstream {
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
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Answers one request after the other. Whoever goes away, in the middle of one or between two, ends it.
fn serve(stream: &TcpStream) -> io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let head = read_head(&mut reader)?;
        read_body(&mut reader, &head)?;
        writer.write_all(&answer(&head)?)?;
    }
}

fn answer(request: &Head) -> io::Result<Vec<u8>> {
    let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n".to_vec();
    for (name, value) in &request.headers {
        if let Some(name) = name.strip_prefix(ASKED_FOR) {
            write!(answer, "x-{name}: {value}\r\n")?;
        }
    }
    answer.extend(b"\r\nok\n");
    Ok(answer)
}

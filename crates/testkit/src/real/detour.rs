//! A way to a server on which things go wrong: answers come late, connections are reset, answers are lost.
//!
//! Whoever is given its address instead of the server's talks to the server all the same, until the test says otherwise. All delay is put on
//! the way back, so what was asked has been done when its answer is late or lost.

#[cfg(test)]
mod tests;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

use super::wait::pause_for;

const CHUNK_BYTES: usize = 16 << 10;

/// A way to a server.
#[derive(Debug)]
pub struct Detour {
    address: SocketAddr,
    way: Arc<Way>,
}

#[derive(Debug)]
struct Way {
    target: SocketAddr,
    trouble: Mutex<Trouble>,
    connections: Mutex<Vec<Weak<Connection>>>,
    lost: AtomicU64,
    /// How many connections were made.
    made: AtomicU64,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct Trouble {
    delay: Duration,
    /// Every so many answers, one is lost with its connection.
    lose_every: Option<u64>,
    /// So many answers are lost before that.
    lose_next: u64,
    /// What comes instead of every answer.
    noise: Option<&'static [u8]>,
    /// Answers that came.
    answers: u64,
}

/// Both ends of a connection.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    is_reset: AtomicBool,
    /// Whether it carries nothing any more.
    is_silent: AtomicBool,
}

impl Detour {
    /// A way to this address, without trouble at first.
    pub fn to(target: SocketAddr) -> Detour {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a port of our own");
        let way = Arc::new(Way {
            target,
            trouble: Mutex::default(),
            connections: Mutex::default(),
            lost: AtomicU64::new(0),
            made: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&way);
        thread::spawn(move || accepting.accept(&listener));
        Detour { address, way }
    }

    /// Where it begins.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on every answer comes so much later.
    pub fn delay(&self, delay: Duration) {
        lock(&self.way.trouble).delay = delay;
    }

    /// From now on, of so many answers one is lost, and the connection is reset. Nothing is lost with `None`.
    pub fn lose_every(&self, answers: Option<u64>) {
        lock(&self.way.trouble).lose_every = answers;
    }

    /// The next answer is lost, and its connection reset.
    pub fn lose_next(&self) {
        lock(&self.way.trouble).lose_next = 1;
    }

    /// From now on this comes instead of every answer, or the answers themselves again.
    pub fn replace_answers(&self, noise: Option<&'static [u8]>) {
        lock(&self.way.trouble).noise = noise;
    }

    /// How many answers were lost so far.
    pub fn lost(&self) -> u64 {
        self.way.lost.load(Ordering::SeqCst)
    }

    /// How many connections were made so far.
    pub fn made(&self) -> u64 {
        self.way.made.load(Ordering::SeqCst)
    }

    /// From now on nothing is carried on the connections that there are, and nobody is told of that. New ones are made as before.
    pub fn silence(&self) {
        for connection in lock(&self.way.connections).iter().filter_map(Weak::upgrade) {
            connection.is_silent.store(true, Ordering::SeqCst);
        }
    }

    /// Resets every connection.
    pub fn reset(&self) {
        for connection in lock(&self.way.connections).drain(..).filter_map(|connection| connection.upgrade())
        {
            connection.reset();
        }
    }
}

impl Drop for Detour {
    fn drop(&mut self) {
        self.way.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address); // Wakes whoever accepts.
        self.reset();
    }
}

impl Way {
    fn accept(self: &Arc<Way>, listener: &TcpListener) {
        for client in listener.incoming() {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            // Who cannot be taken to the server is turned away, as the server itself would.
            let Ok(connection) = client.and_then(|client| Connection::open(client, self.target)) else {
                continue;
            };
            self.made.fetch_add(1, Ordering::SeqCst);
            let connection = Arc::new(connection);
            let mut connections = lock(&self.connections);
            connections.retain(|connection| connection.strong_count() > 0);
            connections.push(Arc::downgrade(&connection));
            drop(connections);
            let (there, back, way) = (Arc::clone(&connection), connection, Arc::clone(self));
            thread::spawn(move || there.carry_questions());
            thread::spawn(move || back.carry_answers(&way));
        }
    }

    /// What comes of an answer, after its delay. Nothing if it is lost.
    fn meet<'a>(&self, answer: &'a [u8]) -> Option<&'a [u8]> {
        let (delay, met) = {
            let mut trouble = lock(&self.trouble);
            trouble.answers += 1;
            let is_unlucky = trouble.lose_every.is_some_and(|every| trouble.answers.is_multiple_of(every));
            let is_lost = is_unlucky || trouble.lose_next > 0;
            trouble.lose_next = trouble.lose_next.saturating_sub(1);
            (trouble.delay, (!is_lost).then_some(trouble.noise.unwrap_or(answer)))
        };
        if !delay.is_zero() {
            pause_for(delay);
        }
        met
    }
}

impl Connection {
    fn open(client: TcpStream, target: SocketAddr) -> io::Result<Connection> {
        let server = TcpStream::connect(target)?;
        for stream in [&client, &server] {
            stream.set_nodelay(true)?;
        }
        Ok(Connection { client, server, is_reset: AtomicBool::new(false), is_silent: AtomicBool::new(false) })
    }

    fn carry_questions(&self) {
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(count @ 1..) = (&self.client).read(&mut chunk) {
            if !self.is_silent() && (&self.server).write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn carry_answers(&self, way: &Way) {
        let mut chunk = [0; CHUNK_BYTES];
        while let Ok(count @ 1..) = (&self.server).read(&mut chunk) {
            let Some(answer) = way.meet(&chunk[..count]) else {
                way.lost.fetch_add(1, Ordering::SeqCst);
                return self.reset();
            };
            if !self.is_silent() && (&self.client).write_all(answer).is_err() {
                break;
            }
        }
        // Who is to be told of a reset must not be told of an end first.
        if !self.is_reset.load(Ordering::SeqCst) {
            let _ = self.client.shutdown(Shutdown::Both);
        }
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::SeqCst)
    }

    /// Ends it so that the client is told of a reset: nothing is said now, and closing without lingering says it.
    fn reset(&self) {
        self.is_reset.store(true, Ordering::SeqCst);
        let _ = set_socket_linger(&self.client, Some(Duration::ZERO));
        let _ = self.client.shutdown(Shutdown::Read);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The threads that serve requests: one runtime each, so that a connection never changes cores.
//!
//! One acceptor per listener hands its connections out in turn. Letting the kernel spread them (`SO_REUSEPORT`) would be
//! simpler, but proxies open few connections, and two of them may well land on one thread.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tollgate::Clock;

use crate::drain::Drain;
use crate::room::{ConnectionLimit, Room};
use crate::seldom::Seldom;
use crate::serve::{BACKLOG, LISTENERS};
use crate::stream::{Peer, Stream};
use crate::tls::Door;

/// Connections that were accepted and not yet taken up by their thread.
const HANDED_OUT_MAX: usize = 256;
/// The system has no more file descriptors or memory: trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How many connections are accepted after SIGTERM: as many as the backlog holds.
const LATE_MAX: u32 = BACKLOG;

/// What becomes of a connection.
pub(crate) type Handler =
    Arc<dyn Fn(Stream, Drain) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    /// Which of the threads of its server this one is.
    static THIS_WORKER: Cell<usize> = const { Cell::new(0) };
}

/// Which of the threads of its server this one is; the first, if it is none of them.
pub(crate) fn this_worker() -> usize {
    THIS_WORKER.get()
}

/// Threads that serve connections until nobody hands them any.
pub(crate) struct Workers {
    inboxes: Vec<mpsc::Sender<Job>>,
    next: AtomicUsize,
}

impl Workers {
    /// Starts so many threads. They end some time after this value is gone.
    pub(crate) fn start(count: usize) -> io::Result<(Workers, Vec<JoinHandle<()>>)> {
        let (mut inboxes, mut threads) = (Vec::new(), Vec::new());
        for index in 0..count.max(1) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (sender, mut inbox) = mpsc::channel::<Job>(HANDED_OUT_MAX);
            let work = async move {
                THIS_WORKER.set(index);
                while let Some(job) = inbox.recv().await {
                    job();
                }
            };
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            threads.push(thread.spawn(move || runtime.block_on(work))?);
            inboxes.push(sender);
        }
        Ok((Workers { inboxes, next: AtomicUsize::new(0) }, threads))
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.inboxes.len()
    }

    /// Runs a job on every thread, inside its runtime.
    pub(crate) async fn on_each(&self, job: impl Fn() + Clone + Send + 'static) {
        for inbox in &self.inboxes {
            // Who cannot be handed anything serves nobody either.
            let _ = inbox.send(Box::new(job.clone())).await;
        }
    }

    /// Runs a job on the next thread, inside its runtime.
    pub(crate) async fn hand_out(&self, job: Job) {
        // Relaxed: any order of turns is fair.
        let turn = self.next.fetch_add(1, Ordering::Relaxed) % self.inboxes.len();
        if self.inboxes[turn].send(job).await.is_err() {
            tracing::error!(worker = turn, "a worker thread is gone");
        }
    }
}

/// Where clients connect, and what becomes of them.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// Where handshakes are made, if this listener speaks TLS.
    pub(crate) door: Option<Arc<Door>>,
    pub(crate) handler: Handler,
    pub(crate) limit: Arc<ConnectionLimit>,
    pub(crate) clock: Arc<Clock>,
}

/// Accepts connections and hands them to the workers, until the server stops. A connection that a limit
/// refuses is closed at once.
pub(crate) async fn accept(listener: Listener, workers: Arc<Workers>, mut drain: Drain) {
    let (not_accepted, mut suppressed) = (Seldom::default(), 0_u64);
    let mut late = 0;
    loop {
        let accepted = async {
            let place = listener.limit.wait_for_place().await;
            (place, listener.socket.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            accepted = accepted => accepted,
            () = drain.begun() => return,
        };
        // Clients that have connected before the server stops, and only they, are still served.
        late += u32::from(drain.has_begun());
        if late > LATE_MAX {
            return;
        }
        let (stream, peer) =
            match accepted.and_then(|(stream, address)| Ok((stream.into_std()?, Peer { address }))) {
                Ok(accepted) => accepted,
                Err(error) => {
                    if not_accepted.is_to_be_told(listener.clock.steady()) {
                        let listener = LISTENERS[listener.limit.listener()];
                        tracing::warn!(%error, listener, suppressed, "cannot accept a connection");
                        suppressed = 0;
                    } else {
                        suppressed += 1;
                    }
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
        let room = match listener.limit.admit(place, peer.address.ip(), listener.clock.steady()) {
            Ok(room) => Arc::new(room),
            Err(refusal) => {
                tracing::debug!(client = %peer.address, reason = refusal.name(), "connection refused");
                continue;
            }
        };
        let (handler, door, mut drain) =
            (Arc::clone(&listener.handler), listener.door.clone(), drain.clone());
        let job = move || {
            let serve = async move {
                match take_up(stream, peer, door, room, &mut drain).await {
                    Ok(Some(stream)) => handler(stream, drain).await,
                    Ok(None) => {}
                    Err(error) => tracing::warn!(%error, "cannot serve a connection"),
                }
            };
            tokio::spawn(serve);
        };
        workers.hand_out(Box::new(job)).await;
    }
}

/// Makes a connection of what was accepted, on the thread that is to serve it. Nothing if the client could not shake hands.
async fn take_up(
    stream: std::net::TcpStream,
    peer: Peer,
    door: Option<Arc<Door>>,
    room: Arc<Room>,
    drain: &mut Drain,
) -> io::Result<Option<Stream>> {
    let stream = TcpStream::from_std(stream)?;
    let _ = stream.set_nodelay(true); // Slower without, but no reason to refuse.
    match door {
        None => Ok(Some(Stream::plain(stream, peer, room))),
        // Boxed, so that only those who shake hands take the room for it.
        Some(door) => {
            let opened = Box::pin(door.open(stream, drain)).await;
            Ok(opened.map(|stream| Stream::tls(stream, peer, room)))
        }
    }
}

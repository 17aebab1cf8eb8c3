//! Stopping without cutting off requests: connections answer the requests that clients have sent, and close.
//!
//! A client of HTTP/1.1 may send its next request at the very moment at which the server closes an
//! idle connection, and then gets an end of file instead of an answer. So such a connection stays
//! open for [`GRACE`]: a request that arrives in that time is answered, with `Connection: close`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// How long a connection without a request stays open when the server stops: longer than a request
/// that was sent just before is on its way.
const GRACE: Duration = Duration::from_secs(1);

/// Tells connections that the server is about to stop.
#[derive(Debug)]
pub(crate) struct Stopper {
    sender: watch::Sender<()>,
    has_begun: Arc<AtomicBool>,
}

/// What a connection watches.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    receiver: watch::Receiver<()>,
    /// Beside the channel, whose value is behind a lock: requests look at it.
    has_begun: Arc<AtomicBool>,
}

impl Stopper {
    pub(crate) fn new() -> Stopper {
        Stopper { sender: watch::Sender::new(()), has_begun: Arc::default() }
    }

    pub(crate) fn drain(&self) -> Drain {
        Drain { receiver: self.sender.subscribe(), has_begun: Arc::clone(&self.has_begun) }
    }

    /// Tells all connections.
    pub(crate) fn stop(&self) {
        // Relaxed: the channel orders it before what its receivers see.
        self.has_begun.store(true, Ordering::Relaxed);
        self.sender.send_replace(());
    }
}

impl Drain {
    /// Comes back when the server is about to stop, or has lost its stopper.
    pub(crate) async fn begun(&mut self) {
        let Drain { receiver, has_begun } = self;
        // An error means that the sender is gone, which says the same.
        let _ = receiver.wait_for(|()| has_begun.load(Ordering::Relaxed)).await;
    }

    /// Comes back when the server is about to stop, and requests that were on their way have arrived.
    pub(crate) async fn grace_over(&mut self) {
        self.begun().await;
        tokio::time::sleep(GRACE).await;
    }

    /// Whether the server is about to stop.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun.load(Ordering::Relaxed)
    }
}

//! Stopping without cutting anybody off: connections are told, finish what they are at, and close.

use tokio::sync::watch;

/// Tells connections that the server is about to stop.
#[derive(Debug)]
pub(crate) struct Stopper(watch::Sender<bool>);

/// What a connection watches.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Receiver<bool>);

impl Stopper {
    pub(crate) fn new() -> Stopper {
        Stopper(watch::Sender::new(false))
    }

    pub(crate) fn drain(&self) -> Drain {
        Drain(self.0.subscribe())
    }

    /// Tells everybody.
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Drain {
    /// Comes back when the server is about to stop, or has lost its stopper.
    pub(crate) async fn begun(&mut self) {
        // An error means that the sender is gone, which says the same.
        let _ = self.0.wait_for(|stopping| *stopping).await;
    }

    /// Whether the server is about to stop.
    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }
}

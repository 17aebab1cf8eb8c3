//! How many connections a listener may have, how much they may hold together, and whether it gets crowded.
//!
//! Nobody is turned away: whoever connects when all places are taken waits for one. So that this does not take for ever, connections
//! that have nothing to say are closed early where few places are left: their clients can come back, if they ever have a question.

mod held;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::held::{AllHeld, Held};

/// A listener is crowded when less than one place in so many is free.
const CROWDED_SHARE: usize = 8;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Room {
    free: Arc<Semaphore>,
    places: u32,
    /// What connections hold beyond what each may.
    lent_bytes: AtomicUsize,
    lent_bytes_max: usize,
}

/// A place, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

impl Room {
    /// A room with so many places, at least one, and so much memory for the long requests of all.
    pub(crate) fn new(places: usize, lent_bytes_max: usize) -> Room {
        let places = u32::try_from(places.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        let free = Arc::new(Semaphore::new(places as usize));
        Room { free, places, lent_bytes: AtomicUsize::new(0), lent_bytes_max }
    }

    /// A room without bounds, for connections that share it with nobody.
    pub(crate) fn unbounded() -> Room {
        Room::new(usize::MAX, usize::MAX)
    }

    /// Waits for a place. Nothing, if there never will be one.
    pub(crate) async fn enter(&self) -> Option<Place> {
        Arc::clone(&self.free).acquire_owned().await.ok()
    }

    /// Whether few places are left, so that those who say nothing should not keep theirs.
    pub(crate) fn is_crowded(&self) -> bool {
        self.free.available_permits() * CROWDED_SHARE < self.places as usize
    }

    /// Waits until everybody has left.
    pub(crate) async fn emptied(&self) {
        let _ = self.free.acquire_many(self.places).await; // Never closed, so never an error.
    }

    /// Counts so much more as lent. An error if that is more than there is: it counts all the same.
    fn lend(&self, bytes: usize) -> Result<(), AllHeld> {
        let before = self.lent_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.lent_bytes_max { Ok(()) } else { Err(AllHeld) }
    }

    fn take_back(&self, bytes: usize) {
        if bytes > 0 {
            self.lent_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

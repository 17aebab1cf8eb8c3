//! How many connections a listener may have, and whether it gets crowded.
//!
//! Nobody is turned away: whoever connects when all places are taken waits for one. So that this does not take for ever, connections
//! that have nothing to say are closed early where few places are left: their clients can come back, if they ever have a question.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A listener is crowded when less than one place in so many is free.
const CROWDED_SHARE: usize = 8;

/// The places of one listener.
#[derive(Debug)]
pub(crate) struct Room {
    free: Arc<Semaphore>,
    places: u32,
}

/// A place, until it is dropped.
pub(crate) type Place = OwnedSemaphorePermit;

impl Room {
    /// A room with so many places, at least one.
    pub(crate) fn new(places: usize) -> Room {
        let places = u32::try_from(places.clamp(1, Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
        Room { free: Arc::new(Semaphore::new(places as usize)), places }
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
}

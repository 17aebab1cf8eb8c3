//! The streams that h2 answers, as long as anybody may still say something in them.

use std::collections::BTreeMap;

/// Who has said in a stream that nothing more will come.
#[derive(Debug, Default)]
struct Ended {
    client: bool,
    server: bool,
}

/// The open streams. There are hardly more than h2 allows, which resets those beyond.
#[derive(Debug, Default)]
pub(super) struct Passed(BTreeMap<u32, Ended>);

impl Passed {
    /// The client has opened a stream, and perhaps said all.
    pub(super) fn begin(&mut self, stream: u32, is_end: bool) {
        self.0.insert(stream, Ended { client: is_end, server: false });
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_open(&self, stream: u32) -> bool {
        self.0.contains_key(&stream)
    }

    /// The client has said something, perhaps the last.
    pub(super) fn hear(&mut self, stream: u32, is_end: bool) {
        self.mark(stream, |ended| ended.client |= is_end);
    }

    /// The server has said something, perhaps the last.
    pub(super) fn say(&mut self, stream: u32, is_end: bool) {
        self.mark(stream, |ended| ended.server |= is_end);
    }

    /// Somebody has reset a stream. False if it was not open.
    pub(super) fn end(&mut self, stream: u32) -> bool {
        self.0.remove(&stream).is_some()
    }

    /// Ends all streams after this one, and says which they were.
    pub(super) fn end_after(&mut self, stream: u32) -> Vec<u32> {
        self.0.split_off(&stream.saturating_add(1)).into_keys().collect()
    }

    fn mark(&mut self, stream: u32, mark: impl FnOnce(&mut Ended)) {
        let Some(ended) = self.0.get_mut(&stream) else { return };
        mark(ended);
        if ended.client && ended.server {
            self.0.remove(&stream);
        }
    }
}

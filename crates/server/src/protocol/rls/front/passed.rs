//! The calls that h2 answers, from their header to their end, with what they hold of the server's memory.

use std::collections::BTreeMap;

use super::super::account::Share;

/// A call that was passed on to h2.
#[derive(Debug)]
pub(super) struct Call {
    /// Whether it is a call of `ShouldRateLimit`. Of all others, a connection may have few at a time.
    pub(super) is_question: bool,
    /// Whether the client has said that nothing more will come.
    pub(super) has_client_ended: bool,
    has_server_ended: bool,
    /// What the client has sent after the header.
    body_bytes: usize,
    share: Share,
}

impl Call {
    pub(super) fn new(is_question: bool, has_client_ended: bool, share: Share) -> Call {
        Call { is_question, has_client_ended, has_server_ended: false, body_bytes: 0, share }
    }

    /// Counts what the client sends after the header. False if that is more than it may, or than the account has room for.
    pub(super) fn has_room_for(&mut self, bytes: usize, bytes_max: usize) -> bool {
        self.body_bytes += bytes;
        self.body_bytes <= bytes_max && self.share.grow(bytes).is_ok()
    }
}

/// The open calls. There are hardly more than h2 allows, which resets those beyond.
#[derive(Debug, Default)]
pub(super) struct Passed {
    calls: BTreeMap<u32, Call>,
    /// How many of them are not questions.
    others: usize,
}

impl Passed {
    /// The client has opened a stream.
    pub(super) fn begin(&mut self, stream: u32, call: Call) {
        self.others += usize::from(!call.is_question);
        self.calls.insert(stream, call);
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// How many calls are none of `ShouldRateLimit`.
    pub(super) fn others(&self) -> usize {
        self.others
    }

    pub(super) fn get_mut(&mut self, stream: u32) -> Option<&mut Call> {
        self.calls.get_mut(&stream)
    }

    /// The client has said something, perhaps the last.
    pub(super) fn hear(&mut self, stream: u32, is_end: bool) {
        self.mark(stream, |call| call.has_client_ended |= is_end);
    }

    /// The server has said something, perhaps the last.
    pub(super) fn say(&mut self, stream: u32, is_end: bool) {
        self.mark(stream, |call| call.has_server_ended |= is_end);
    }

    /// The client or the server has reset a stream. False if it was not open.
    pub(super) fn end(&mut self, stream: u32) -> bool {
        let ended = self.calls.remove(&stream);
        self.others -= usize::from(ended.as_ref().is_some_and(|call| !call.is_question));
        ended.is_some()
    }

    /// Ends all streams after this one, and says which they were.
    pub(super) fn end_after(&mut self, stream: u32) -> Vec<u32> {
        let ended = self.calls.split_off(&stream.saturating_add(1));
        self.others -= ended.values().filter(|call| !call.is_question).count();
        ended.into_keys().collect()
    }

    fn mark(&mut self, stream: u32, mark: impl FnOnce(&mut Call)) {
        let Some(call) = self.calls.get_mut(&stream) else { return };
        mark(call);
        if call.has_client_ended && call.has_server_ended {
            self.end(stream);
        }
    }
}

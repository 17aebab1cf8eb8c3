//! This node, as it tells of itself in the database.

use std::fs;

use tollgate_control::{NodeState, Version};

/// Who this is: one process, from its start to its end.
pub(super) struct Node {
    id: String,
    number: u64,
    name: String,
    started_at_ms: i64,
}

impl Node {
    pub(super) fn new(started_at_ms: i64) -> Node {
        // Without randomness the process has an id of its own all the same.
        let number = getrandom::u64().unwrap_or_else(|_| u64::from(std::process::id()));
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = match name.trim() {
            "" => "unknown",
            name => name,
        };
        let (id, name) = (format!("{number:016x}"), format!("{name}/{}", std::process::id()));
        Node { id, number, name, started_at_ms }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// A number that no other node has.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// How far it is at a moment.
    pub(super) fn state(&self, version: Version, rules: String, seen_at_ms: i64) -> NodeState {
        let (node, name) = (self.id.clone(), self.name.clone());
        NodeState { node, name, version, rules, started_at_ms: self.started_at_ms, seen_at_ms }
    }
}

//! This node, as it tells of itself in the database.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use tollgate_control::{NodeState, Version};

/// The first half of the numbers of all nodes of this process: usually there is one, in tests several.
static PROCESS: OnceLock<u32> = OnceLock::new();
/// How many digits of an id tell processes apart.
const PROCESS_DIGITS: usize = 8;

/// Who this is: one process, from its start to its end.
pub(super) struct Node {
    id: String,
    number: u64,
    host: String,
    name: String,
    started_at_ms: i64,
}

impl Node {
    pub(super) fn new(started_at_ms: i64) -> Node {
        // Without randomness the process has an id of its own all the same.
        let random = || getrandom::u32().unwrap_or_else(|_| std::process::id());
        let number = u64::from(*PROCESS.get_or_init(random)) << 32 | u64::from(random());
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = match name.trim() {
            "" => "unknown",
            name => name,
        };
        let (id, host) = (format!("{number:016x}"), name.to_owned());
        let name = format!("{host}/{}", std::process::id());
        Node { id, number, host, name, started_at_ms }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// A number that no other node has.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether this was a process of this machine that has ended without saying so. In a container, the process
    /// before this one had the same number.
    pub(super) fn has_crashed(&self, other: &NodeState) -> bool {
        let Some((host, process)) = other.name.rsplit_once('/') else { return false };
        let Ok(process) = process.parse::<u32>() else { return false };
        let is_running =
            process != std::process::id() && Path::new("/proc").join(process.to_string()).exists();
        let is_of_this_process = other.node.get(..PROCESS_DIGITS) == self.id.get(..PROCESS_DIGITS);
        !is_of_this_process && host == self.host && !is_running
    }

    /// How far it is at a moment.
    pub(super) fn state(&self, version: Version, rules: String, seen_at_ms: i64) -> NodeState {
        let (node, name) = (self.id.clone(), self.name.clone());
        NodeState { node, name, version, rules, started_at_ms: self.started_at_ms, seen_at_ms }
    }
}

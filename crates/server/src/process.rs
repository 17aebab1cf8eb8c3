//! What the operating system grants this process: file descriptors, memory, core files.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

/// Counters take no more than this unless the operator says so.
const MEMORY_DEFAULT_MAX: usize = 1 << 30;
/// Descriptors that connections of the data listeners never take: for the admin listener, files and the
/// database. Workers and their connections to the store come on top.
const DESCRIPTORS_RESERVED: usize = 192;
/// What the runtime of each worker takes: an epoll instance and its copy, an eventfd, and a socket for signals.
const DESCRIPTORS_PER_WORKER: usize = 4;
/// Connections of the admin listener. They are part of that reserve where descriptors are few.
const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Connections of each data listener, unless descriptors are fewer.
pub(crate) const CONNECTIONS_MAX_DEFAULT: usize = 16_384;
/// The least that a data listener gets, however few descriptors there are.
const CONNECTIONS_MIN: usize = 16;

/// Prepares this process to be a server: raises the limit of file descriptors to what the system allows,
/// and writes no core files, which would hold tokens and keys.
pub fn prepare() {
    // A process that may not change its limits serves with those that it has.
    let descriptors = getrlimit(Resource::Nofile);
    if descriptors.current < descriptors.maximum || descriptors.maximum.is_none() {
        let raised = Rlimit { current: descriptors.maximum, maximum: descriptors.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "cannot raise the limit of file descriptors");
        }
    }
    if let Err(error) = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }) {
        tracing::debug!(%error, "cannot turn core files off");
    }
}

/// Whether this process has all privileges, which a server does not need.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// How many file descriptors this process may have open.
pub(crate) fn descriptors_max() -> usize {
    let current = getrlimit(Resource::Nofile).current;
    current.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(usize::MAX))
}

/// How many connections each listener may have with so many descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionBudget {
    /// Of each of the data listeners.
    pub(crate) data: usize,
    /// Of the admin listener.
    pub(crate) admin: usize,
}

/// What takes descriptors besides connections of clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DescriptorUsers {
    pub(crate) workers: usize,
    /// Nodes of the store: each worker has a connection to each.
    pub(crate) store_nodes: usize,
}

impl DescriptorUsers {
    /// Descriptors that the data listeners leave free.
    pub(crate) fn reserved(self) -> usize {
        let per_worker = self.store_nodes.saturating_add(DESCRIPTORS_PER_WORKER);
        self.workers.max(1).saturating_mul(per_worker).saturating_add(DESCRIPTORS_RESERVED)
    }
}

impl ConnectionBudget {
    /// Splits descriptors evenly among the data listeners, so that a full one leaves the others theirs.
    pub(crate) fn new(
        descriptors_max: usize,
        users: DescriptorUsers,
        data_listeners: usize,
    ) -> ConnectionBudget {
        let for_data = descriptors_max.saturating_sub(users.reserved()) / data_listeners.max(1);
        ConnectionBudget { data: for_data.max(CONNECTIONS_MIN), admin: ADMIN_CONNECTIONS_MAX }
    }
}

/// What counters may take if the operator does not say: 1 GiB, or half of the memory of this machine or of
/// this control group where that is less.
pub fn default_memory_bytes() -> usize {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    default_within(&read("/proc/meminfo"), Path::new("/sys/fs/cgroup"), &read("/proc/self/cgroup"))
}

fn default_within(meminfo: &str, root: &Path, groups: &str) -> usize {
    let available = [machine_bytes(meminfo), limit_of_groups(root, groups)];
    let least = available.into_iter().flatten().min().unwrap_or(usize::MAX);
    (least / 2).min(MEMORY_DEFAULT_MAX)
}

/// The memory of the machine, from the text of `/proc/meminfo`.
fn machine_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1 << 10)
}

/// The least limit of this process's control group and of those around it, from the text of `/proc/self/cgroup`.
/// A container sees its own as the root.
fn limit_of_groups(root: &Path, groups: &str) -> Option<usize> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let own = root.join(path.trim_start_matches('/'));
        let around = own.ancestors().take_while(|folder| folder.starts_with(&root));
        around.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()).collect()
    });
    // Without a limit, the first version says a number larger than any machine has, the second `max`.
    limits.filter_map(|text| text.trim().parse().ok()).min()
}

//! Resident memory: what a process really occupies, as the kernel counts it.

use std::{fs, io};

/// Bytes of resident memory of this process.
pub(crate) fn resident_bytes() -> io::Result<u64> {
    read("/proc/self/statm")
}

/// Bytes of resident memory of another process.
pub(crate) fn resident_bytes_of(pid: u32) -> io::Result<u64> {
    read(&format!("/proc/{pid}/statm"))
}

fn read(path: &str) -> io::Result<u64> {
    let statm = fs::read_to_string(path)?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other(format!("{path} has no second column")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// The most that resident memory grew by since a start.
pub(crate) struct Growth {
    start_bytes: u64,
    max_bytes: u64,
}

impl Growth {
    /// Growth from now on.
    pub(crate) fn start() -> io::Result<Growth> {
        let start_bytes = resident_bytes()?;
        Ok(Growth { start_bytes, max_bytes: start_bytes })
    }

    /// Looks again, and says how much more than at the start is occupied now.
    pub(crate) fn sample(&mut self) -> io::Result<u64> {
        let bytes = resident_bytes()?;
        self.max_bytes = self.max_bytes.max(bytes);
        Ok(bytes.saturating_sub(self.start_bytes))
    }

    /// The most of all samples.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.max_bytes - self.start_bytes
    }
}

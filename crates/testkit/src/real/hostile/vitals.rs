//! How a server fares, seen from outside: its memory and its open files, as the kernel counts them.

use std::fs;

use super::super::tollgate::Tollgate;
use super::super::wait::holds_within;

/// The vitals of one process.
#[derive(Clone, Copy, Debug)]
pub struct Vitals {
    pid: u32,
    /// Resident when the watch began.
    start_bytes: u64,
    /// Open when the watch began.
    start_files: usize,
}

/// The file that makes the kernel forget the highest mark so far, and what to write there.
const FORGET_PEAK: (&str, &str) = ("clear_refs", "5");

impl Vitals {
    /// Watches a server from now on: the most memory it ever took counts from what it takes now.
    pub fn watch(tollgate: &Tollgate) -> Vitals {
        let pid = tollgate.pid();
        let (file, forget) = FORGET_PEAK;
        fs::write(format!("/proc/{pid}/{file}"), forget).expect("a process of ours");
        let vitals = Vitals { pid, start_bytes: 0, start_files: 0 };
        Vitals { start_bytes: vitals.resident_bytes(), start_files: vitals.open_files(), ..vitals }
    }

    /// How large it was at its largest.
    pub fn peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// By how much it grew at its largest.
    pub fn peak_growth_bytes(&self) -> u64 {
        self.peak_bytes().saturating_sub(self.start_bytes)
    }

    /// By how much it is larger now.
    pub fn growth_bytes(&self) -> u64 {
        self.resident_bytes().saturating_sub(self.start_bytes)
    }

    /// Connections and other files that were opened since, and are still open.
    pub fn files_left(&self) -> usize {
        self.open_files().saturating_sub(self.start_files)
    }

    /// Whether all connections that came since are gone again, now or within this time.
    pub fn settles_within(&self, time: std::time::Duration) -> bool {
        holds_within(time, || self.files_left() == 0)
    }

    fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).expect("a process that lives").count()
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).expect("a process that lives");
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"));
        1024 * value.and_then(|value| value.trim().parse::<u64>().ok()).expect("a line of /proc/status")
    }
}

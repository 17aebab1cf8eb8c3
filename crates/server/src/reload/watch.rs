//! Which files have changed since they were last read, without reading them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Files younger than this may have changed again without a new time stamp.
const SETTLED_NS: i128 = 1_000_000_000;

/// What was last seen of some files.
#[derive(Debug, Default)]
pub(super) struct Watch {
    stamps: Vec<Stamp>,
    /// Whether something has changed that was not read yet.
    is_pending: bool,
    settled: bool,
}

/// What tells a changed file from an unchanged one without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    path: PathBuf,
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
    /// Also moves when only the rights of a file change.
    changed_ns: i128,
}

impl Watch {
    /// Whether the files may say something else than when they were last read. What changes between two looks is still being written, and
    /// is left alone until it holds still: half a file may be a file too. What `failed` is tried again: not everything that stands in
    /// the way has a stamp.
    pub(super) fn look(
        &mut self,
        files: impl IntoIterator<Item = PathBuf>,
        now_ns: i128,
        failed: bool,
    ) -> bool {
        let stamps: Vec<Stamp> = files.into_iter().filter_map(stamp).collect();
        let holds_still = stamps == self.stamps;
        let wants_reading = self.is_pending || !self.settled || failed;
        self.settled =
            stamps.iter().all(|stamp| now_ns - stamp.changed_ns.max(stamp.modified_ns) > SETTLED_NS);
        self.is_pending = !holds_still;
        self.stamps = stamps;
        holds_still && wants_reading
    }
}

fn stamp(path: PathBuf) -> Option<Stamp> {
    let metadata = fs::metadata(&path).ok()?;
    let ns = |seconds: i64, nanoseconds: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    Some(Stamp {
        path,
        device: metadata.dev(),
        inode: metadata.ino(),
        bytes: metadata.size(),
        modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
    })
}

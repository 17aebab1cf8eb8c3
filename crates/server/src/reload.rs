//! Rules that change while the server runs: noticed within half a second, taken over whole or not at all.
//!
//! The files are looked at four times a second rather than watched through the system: that also sees what watchers miss, such as
//! network file systems, bind mounts, a directory that is replaced, and the swapped symbolic links of Kubernetes. A few
//! `stat` calls cost nothing. What has changed is read at the next look, if it holds still by then: it may be half written. Time stamps
//! are coarse, so files that have only just changed are read again.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tollgate::policy::{Consistency, Place, PlacedLimit, Problems, Source, rule_files, sources};

use crate::drain::Drain;
use crate::gate::Gate;

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Files younger than this may have changed again without a new time stamp.
const SETTLED_NS: i128 = 1_000_000_000;

/// Where rules come from, and what was last read there.
pub(crate) struct Rules {
    path: PathBuf,
    stamps: Vec<Stamp>,
    /// Whether something has changed that was not read yet.
    is_pending: bool,
    settled: bool,
    /// What was last read, or why nothing could be.
    read: Result<Vec<Source>, String>,
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

impl Rules {
    /// Reads the rules for the first time.
    pub(crate) fn load(path: PathBuf, gate: &Gate) -> Result<Rules, Problems> {
        let mut rules =
            Rules { path, stamps: Vec::new(), is_pending: false, settled: false, read: Ok(Vec::new()) };
        rules.look(gate);
        let texts = sources(&rules.path);
        rules.take_over(texts, gate)?;
        Ok(rules)
    }

    /// Takes over what the files say, if that has changed or `asked` for. What is wrong with them leaves those before in force, and
    /// is reported once.
    fn refresh(&mut self, asked: bool, gate: &Gate) -> Option<Result<(), Problems>> {
        if !self.look(gate) && !asked {
            return None;
        }
        let texts = sources(&self.path);
        let changed = match (&texts, &self.read) {
            (Ok(texts), Ok(before)) => texts != before,
            (Err(problems), Err(before)) => problems.to_string() != *before,
            _ => true,
        };
        (changed || asked).then(|| self.take_over(texts, gate))
    }

    fn take_over(&mut self, texts: Result<Vec<Source>, Problems>, gate: &Gate) -> Result<(), Problems> {
        self.read = match &texts {
            Ok(texts) => Ok(texts.clone()),
            Err(problems) => Err(problems.to_string()),
        };
        let loaded = texts.and_then(|texts| gate.load(&texts));
        gate.metrics().observe_reload(loaded.is_ok());
        if loaded.is_ok() {
            warn_of_promises(gate);
        }
        loaded
    }

    /// Whether the files may say something else than when they were last read. What changes between two looks is still being written, and
    /// is left alone until it holds still: half a file may be a file too.
    fn look(&mut self, gate: &Gate) -> bool {
        let stamps = stamps(&self.path);
        let now_ns = i128::from(gate.now().ticks());
        let holds_still = stamps == self.stamps;
        // What could not be read is tried again: not everything that stands in the way has a stamp.
        let wants_reading = self.is_pending || !self.settled || self.read.is_err();
        self.settled =
            stamps.iter().all(|stamp| now_ns - stamp.changed_ns.max(stamp.modified_ns) > SETTLED_NS);
        self.is_pending = !holds_still;
        self.stamps = stamps;
        holds_still && wants_reading
    }
}

/// Takes over changed rules until the server stops.
pub(crate) async fn keep_up(mut rules: Rules, gate: Arc<Gate>, mut drain: Drain) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::error!(%error, "rules will not be reloaded: no signals"),
    };
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let asked = tokio::select! {
            _ = looks.tick() => false,
            _ = hangups.recv() => true,
            () = drain.begun() => return,
        };
        let gate = Arc::clone(&gate);
        let look = tokio::task::spawn_blocking(move || {
            let outcome = rules.refresh(asked, &gate);
            (rules, outcome)
        });
        let outcome;
        (rules, outcome) = match look.await {
            Ok(looked) => looked,
            Err(error) => return tracing::error!(%error, "rules will not be reloaded any more"),
        };
        match outcome {
            Some(Ok(())) => tracing::info!(path = %rules.path.display(), "rules reloaded"),
            Some(Err(problems)) => {
                tracing::error!("rules not reloaded, the last good ones stay in force:\n{problems}");
            }
            None => {}
        }
    }
}

/// Says which rules ask for more than a store in memory can give.
fn warn_of_promises(gate: &Gate) {
    let Some(snapshot) = gate.snapshot() else { return };
    let shared = |limit: &&PlacedLimit| !matches!(limit.consistency(), None | Some(Consistency::Local));
    let rules = snapshot.places().flat_map(Place::limits).filter(shared).count();
    if rules > 0 {
        tracing::warn!(
            rules,
            "rules ask for a shared count, but the store is `memory`: this process alone decides"
        );
    }
}

/// The stamps of the files that rules are read from.
fn stamps(path: &Path) -> Vec<Stamp> {
    rule_files(path).unwrap_or_default().into_iter().filter_map(stamp).collect()
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

#[cfg(test)]
mod tests;

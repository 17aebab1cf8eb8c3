//! Rules, certificates and tokens that change while the server runs: noticed within half a second, taken over whole or not at all.
//!
//! The files are looked at four times a second rather than watched through the system: that also sees what watchers miss, such as
//! network file systems, bind mounts, a directory that is replaced, and the swapped symbolic links of Kubernetes. A few
//! `stat` calls cost nothing. What has changed is read at the next look, if it holds still by then: it may be half written. Time stamps
//! are coarse, so files that have only just changed are read again.

mod kept;
#[cfg(test)]
mod tests;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tollgate::policy::{Consistency, Place, PlacedLimit, Problems, Source, rule_files, sources};

pub(crate) use self::kept::Kept;
use self::watch::Watch;
use crate::control::Control;
use crate::drain::Drain;
use crate::gate::Gate;

/// How often the files are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Where rules come from, and what was last read there.
pub(crate) struct Rules {
    path: PathBuf,
    watch: Watch,
    /// What was last read, or why nothing could be.
    read: Result<Vec<Source>, String>,
}

impl Rules {
    /// Reads the rules for the first time.
    pub(crate) fn load(path: PathBuf, gate: &Gate) -> Result<Rules, Problems> {
        let mut rules = Rules { path, watch: Watch::default(), read: Ok(Vec::new()) };
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

    /// Logs what came of a look.
    fn keep(&mut self, asked: bool, gate: &Gate) {
        match self.refresh(asked, gate) {
            Some(Ok(())) => {
                tracing::info!(path = %self.path.display(), "rules reloaded");
                gate.log_replaced();
            }
            Some(Err(problems)) => {
                tracing::error!("rules not reloaded, the last good ones stay in force:\n{problems}");
            }
            None => {}
        }
    }

    fn look(&mut self, gate: &Gate) -> bool {
        let files = rule_files(&self.path).unwrap_or_default();
        self.watch.look(files, now_ns(gate), self.read.is_err())
    }
}

fn now_ns(gate: &Gate) -> i128 {
    i128::from(gate.now().ticks())
}

/// Everything that comes from files and may change.
pub(crate) struct Reloaded {
    pub(crate) rules: Rules,
    pub(crate) secrets: Vec<Kept>,
}

/// Takes over what has changed until the server stops.
pub(crate) async fn keep_up(
    mut reloaded: Reloaded,
    gate: Arc<Gate>,
    control: Option<Arc<Control>>,
    mut drain: Drain,
) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return tracing::error!(%error, "nothing will be reloaded: no signals"),
    };
    let mut looks = tokio::time::interval(LOOK_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let asked = tokio::select! {
            _ = looks.tick() => false,
            _ = hangups.recv() => true,
            () = asked_by_operator(control.as_deref()) => true,
            () = drain.begun() => return,
        };
        let gate = Arc::clone(&gate);
        let look = tokio::task::spawn_blocking(move || {
            reloaded.rules.keep(asked, &gate);
            for kept in &mut reloaded.secrets {
                kept.keep(asked, now_ns(&gate));
            }
            gate.metrics().certificates().inspect(|certificates| certificates.warn(gate.now()));
            reloaded
        });
        reloaded = match look.await {
            Ok(reloaded) => reloaded,
            Err(error) => return tracing::error!(%error, "nothing will be reloaded any more"),
        };
    }
}

/// Comes back when an operator wants everything read again; never, where nobody can.
async fn asked_by_operator(control: Option<&Control>) {
    match control {
        Some(control) => control.reload_asked().await,
        None => std::future::pending().await,
    }
}

/// Says how many rules ask for more than this server can give.
fn warn_of_promises(gate: &Gate) {
    let Some(snapshot) = gate.snapshot() else { return };
    let limits = || snapshot.places().flat_map(Place::limits);
    let shared =
        |limit: &&PlacedLimit| matches!(limit.consistency(), Some(Consistency::Exact | Consistency::Leased));
    let rules = limits().filter(|limit| limit.is_durable()).count();
    if rules > 0 && gate.durable().is_none() {
        tracing::warn!(
            rules,
            "rules ask for a durable count, but there is no database: this process alone decides, and forgets"
        );
    }
    let rules = limits().filter(shared).count();
    if rules > 0 && gate.store().is_none() {
        tracing::warn!(
            rules,
            "rules ask for a shared count, but the store is `memory`: this process alone decides"
        );
    }
}

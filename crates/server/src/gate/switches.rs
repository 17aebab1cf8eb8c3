//! The kill switch of a server: names that operators have switched off, until when and why.
//!
//! It is written under the lock of the rules, since rules come and go and their names stay switched
//! off; and read without one, by metrics and `/config`.

use std::collections::HashMap;
use std::fmt;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use tollgate::Switched;
use tollgate::core::Time;
use tollgate::policy::RuleId;

use super::Gate;

/// What can be switched off, by the name that operators give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SwitchTarget {
    All,
    Domain(String),
    /// As rules are shown: `DOMAIN: PATH`, or `policy NAME`.
    Rule(String),
}

/// One thing that is switched off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SwitchedOff {
    pub(crate) target: SwitchTarget,
    /// Until just before this moment; [`Time::MAX`] until an operator switches it on.
    pub(crate) until: Time,
    pub(crate) reason: Option<String>,
}

/// All that is switched off.
#[derive(Debug)]
pub(super) struct Switches {
    off: ArcSwap<Vec<SwitchedOff>>,
    /// When the first of it ends, in ticks.
    first_end: AtomicU64,
}

impl Default for Switches {
    fn default() -> Switches {
        Switches { off: ArcSwap::default(), first_end: AtomicU64::new(Time::MAX.ticks()) }
    }
}

impl fmt::Display for SwitchTarget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwitchTarget::All => formatter.write_str("all"),
            SwitchTarget::Domain(name) => write!(formatter, "domain {name}"),
            SwitchTarget::Rule(name) => write!(formatter, "rule {name}"),
        }
    }
}

impl SwitchedOff {
    /// When it ends in RFC 3339, if it ends by itself.
    pub(crate) fn until_text(&self) -> Option<String> {
        let milliseconds = i64::try_from(self.until.ticks() / 1_000_000).ok();
        let milliseconds = milliseconds.filter(|_| self.until < Time::MAX)?;
        jiff::Timestamp::from_millisecond(milliseconds).ok().map(|moment| moment.to_string())
    }

    fn log_off(&self) {
        let (switch, until) = (self.target.to_string(), self.until_text());
        let until = until.as_deref().unwrap_or("an operator switches it on");
        let reason = self.reason.as_deref().unwrap_or_default();
        tracing::warn!(switch, until, reason, "limits are switched off: requests pass uncounted");
    }

    fn log_on(&self) {
        tracing::warn!(switch = self.target.to_string(), "limits are switched on again");
    }
}

impl Gate {
    /// Switches off the listed names, and on all others.
    pub(crate) fn switch(&self, off: Vec<SwitchedOff>) {
        let _writer = self.sources();
        self.replace_switches(off);
    }

    /// The names that are switched off at present.
    pub(crate) fn switched_off(&self) -> Vec<SwitchedOff> {
        let now = self.now();
        self.switches.off.load().iter().filter(|off| now < off.until).cloned().collect()
    }

    /// How much of it is everything, how many domains, how many rules.
    pub(super) fn switched_off_by_scope(&self) -> [u64; 3] {
        let off = self.switched_off();
        let count = |is: fn(&SwitchTarget) -> bool| off.iter().filter(|off| is(&off.target)).count() as u64;
        [
            count(|target| matches!(target, SwitchTarget::All)),
            count(|target| matches!(target, SwitchTarget::Domain(_))),
            count(|target| matches!(target, SwitchTarget::Rule(_))),
        ]
    }

    /// Logs and forgets what has ended. It is passed over if rules are being loaded: decisions
    /// know the end themselves.
    pub(crate) fn end_switches(&self) {
        let now = self.now();
        // Relaxed: a thread that reads an old end comes back a moment later.
        if now.ticks() < self.switches.first_end.load(Ordering::Relaxed) {
            return;
        }
        let _writer = match self.sources.try_lock() {
            Ok(writer) => writer,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let off = self.switches.off.load_full();
        self.replace_switches(off.iter().filter(|off| now < off.until).cloned().collect());
    }

    /// Has the lock of the rules.
    fn replace_switches(&self, off: Vec<SwitchedOff>) {
        let before = self.switches.off.load_full();
        for switched in off.iter().filter(|switched| !before.contains(switched)) {
            switched.log_off();
        }
        let is_on = |switched: &&SwitchedOff| off.iter().all(|other| other.target != switched.target);
        before.iter().filter(is_on).for_each(SwitchedOff::log_on);
        let first_end = off.iter().map(|switched| switched.until.ticks()).min();
        self.switches.first_end.store(first_end.unwrap_or(Time::MAX.ticks()), Ordering::Relaxed);
        self.switches.off.store(off.into());
        self.apply_switches();
    }

    /// Tells the engine, which knows rules by their numbers.
    pub(super) fn apply_switches(&self) {
        let off = self.switches.off.load();
        let has_rules = off.iter().any(|switched| matches!(switched.target, SwitchTarget::Rule(_)));
        let snapshot = self.engine.snapshot().filter(|_| has_rules);
        let places = snapshot.iter().flat_map(|snapshot| snapshot.places());
        let ids: HashMap<String, RuleId> = places.map(|place| (place.to_string(), place.id())).collect();
        let mut engine = Switched::default();
        for SwitchedOff { target, until, .. } in off.iter() {
            match target {
                SwitchTarget::All => engine.all = Some(*until),
                SwitchTarget::Domain(name) => drop(engine.domains.insert(name.as_str().into(), *until)),
                SwitchTarget::Rule(name) => {
                    engine.rules.extend(ids.get(name).map(|id| (*id, *until)));
                }
            }
        }
        self.engine.switch(engine);
    }
}

//! The rules of a gate: from files and from documents, and what of them is switched off.

use std::collections::{BTreeMap, HashMap};
use std::sync::{MutexGuard, PoisonError};

use tollgate::Switched;
use tollgate::policy::{Problems, RuleId, Source};

use super::Gate;
use crate::rulebook::Rulebook;

/// What is switched off, by the names that people give it. Rules come and go; their names stay switched off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SwitchedNames {
    /// Everything.
    pub(crate) all: bool,
    /// These domains.
    pub(crate) domains: Vec<String>,
    /// These rules, as they are shown: `DOMAIN: PATH`, or `policy NAME`.
    pub(crate) rules: Vec<String>,
}

/// Where rules come from, and what of them is off.
#[derive(Debug, Default)]
pub(super) struct Sources {
    book: Rulebook,
    switched: SwitchedNames,
}

impl Gate {
    /// Reads rules of files and puts them in the place of those before. If anything is wrong with them, those before stay.
    pub fn load(&self, files: &[Source]) -> Result<(), Problems> {
        self.rewrite(|book| book.with_files(files))
    }

    /// Changes some documents of rules, or takes them away.
    pub(crate) fn change_documents(&self, changes: BTreeMap<String, Option<Source>>) -> Result<(), Problems> {
        self.rewrite(|book| book.with_documents(changes))
    }

    /// Puts documents of rules in the place of all before.
    pub(crate) fn set_documents(&self, documents: BTreeMap<String, Source>) -> Result<(), Problems> {
        self.rewrite(|book| book.with_all_documents(documents))
    }

    /// What would be wrong if a document were changed so.
    pub(crate) fn check_document(&self, id: &str, source: Source) -> Result<(), Problems> {
        let book = self.sources().book.with_documents([(id.to_owned(), Some(source))]);
        book.read(self.settings.engine.default_algorithm).map(drop)
    }

    /// Switches off what has these names, and on what has not.
    pub(crate) fn switch(&self, switched: SwitchedNames) {
        let mut sources = self.sources();
        sources.switched = switched;
        self.apply_switches(&sources.switched);
    }

    /// A name for the rules in force: nodes that decide by the same rules have the same.
    pub(crate) fn rules_fingerprint(&self) -> String {
        self.sources().book.fingerprint()
    }

    /// What was denied before need not be any more.
    pub(crate) fn forget_denials(&self) {
        if let Some(store) = &self.store {
            store.forget_denials();
        }
    }

    fn rewrite(&self, rewrite: impl FnOnce(&Rulebook) -> Rulebook) -> Result<(), Problems> {
        // One after the other, so that none of them brings back what another has replaced.
        let mut sources = self.sources();
        let book = rewrite(&sources.book);
        let default_algorithm = self.settings.engine.default_algorithm;
        let rules = match book.read(default_algorithm) {
            Ok(rules) => rules,
            Err(problems) => {
                let (readable, unreadable) = book.readable(default_algorithm);
                if unreadable.is_empty() {
                    return Err(problems);
                }
                let rules = readable.read(default_algorithm)?;
                for problems in unreadable {
                    tracing::error!("a policy of the database is not in force:\n{problems}");
                }
                rules
            }
        };
        sources.book = book;
        self.install(rules);
        self.apply_switches(&sources.switched);
        Ok(())
    }

    fn apply_switches(&self, names: &SwitchedNames) {
        let snapshot = self.engine.snapshot().filter(|_| !names.rules.is_empty());
        let places = snapshot.iter().flat_map(|snapshot| snapshot.places());
        let ids: HashMap<String, RuleId> = places.map(|place| (place.to_string(), place.id())).collect();
        self.engine.switch(Switched {
            all: names.all,
            domains: names.domains.iter().map(|name| name.as_str().into()).collect(),
            rules: names.rules.iter().filter_map(|name| ids.get(name)).copied().collect(),
        });
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

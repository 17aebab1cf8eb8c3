//! The rules of a gate: from files and from documents.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use tollgate::policy::{Problems, Source};

use super::Gate;
use crate::rulebook::{Content, Origin, Origins, Rulebook};

/// Where rules come from.
#[derive(Debug, Default)]
pub(super) struct Sources {
    book: Rulebook,
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
        let Content { rules, origins } = match book.read(default_algorithm) {
            Ok(content) => content,
            Err(problems) => {
                let (readable, unreadable) = book.readable(default_algorithm);
                if unreadable.is_empty() {
                    return Err(problems);
                }
                let content = readable.read(default_algorithm)?;
                for problems in unreadable {
                    tracing::error!("a policy of the database is not in force:\n{problems}");
                }
                content
            }
        };
        sources.book = book;
        self.install(rules);
        let before = self.origins.swap(Arc::new(origins));
        let is_known = |(name, origin): &(&String, &Origin)| before.get(*name) == Some(*origin);
        log_replaced(self.origins().iter().filter(|named| !is_known(named)));
        self.apply_switches();
        Ok(())
    }

    /// Where all domains and policies come from.
    pub(crate) fn origins(&self) -> Arc<Origins> {
        self.origins.load_full()
    }

    /// Says which files have no effect, because the database says something else about the same domain or policy.
    pub(crate) fn log_replaced(&self) {
        log_replaced(self.origins().iter());
    }

    pub(super) fn sources(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn log_replaced<'o>(origins: impl Iterator<Item = (&'o String, &'o Origin)>) {
    for (name, Origin { source, replaces }) in origins {
        if let Some(file) = replaces {
            tracing::warn!(
                name,
                source,
                file,
                "the file is not in force for this name, and editing it changes nothing: the database's document replaces it"
            );
        }
    }
}

//! Rules from two hands: files, and documents that operators write while the server runs.
//!
//! Files are versioned elsewhere and change rarely; documents are for what cannot wait. A document that names the same policy or the same domain takes
//! the place of what the files say about it, as a whole, and when it is deleted, the files count again.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tollgate::policy::{DefaultAlgorithm, FileSpec, Problems, Source, read_all};

/// Where rules come from that no file says.
pub(crate) const DATABASE: &str = "database";

/// Where a domain or a policy comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// A file, or [`DATABASE`].
    pub(crate) source: String,
    /// The file that says something else about it, which is not in force.
    pub(crate) replaces: Option<String>,
}

/// The origins of all domains and policies, by `domain NAME` and `policy NAME`.
pub(crate) type Origins = BTreeMap<String, Origin>;

/// All that a book says.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) rules: Vec<FileSpec>,
    pub(crate) origins: Origins,
}

/// What all rules are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rulebook {
    files: Vec<Source>,
    /// By their ids.
    documents: BTreeMap<String, Source>,
}

impl Rulebook {
    /// The same with other files.
    pub(crate) fn with_files(&self, files: &[Source]) -> Rulebook {
        Rulebook { files: files.to_vec(), documents: self.documents.clone() }
    }

    /// The same with these documents changed, or taken away.
    pub(crate) fn with_documents(
        &self,
        changes: impl IntoIterator<Item = (String, Option<Source>)>,
    ) -> Rulebook {
        let mut book = self.clone();
        for (id, source) in changes {
            match source {
                Some(source) => drop(book.documents.insert(id, source)),
                None => drop(book.documents.remove(&id)),
            }
        }
        book
    }

    /// The same with no documents but these.
    pub(crate) fn with_all_documents(&self, documents: BTreeMap<String, Source>) -> Rulebook {
        Rulebook { files: self.files.clone(), documents }
    }

    /// All that it says, or all that is wrong with it.
    pub(crate) fn read(&self, default_algorithm: DefaultAlgorithm) -> Result<Content, Problems> {
        let mut rules = read_all(&self.files, default_algorithm)?;
        let documents: Vec<Source> = self.documents.values().cloned().collect();
        let documents = read_all(&documents, default_algorithm)?;
        let mut origins = Origins::new();
        for name in documents.iter().flat_map(names) {
            origins.insert(name, Origin { source: DATABASE.to_owned(), replaces: None });
        }
        // There is one for each file.
        for (file, source) in rules.iter_mut().zip(&self.files) {
            for name in names(file) {
                match origins.entry(name) {
                    // No two files have the same: it is a document's.
                    Entry::Occupied(mut origin) => origin.get_mut().replaces = Some(source.name.clone()),
                    Entry::Vacant(vacant) => {
                        vacant.insert(Origin { source: source.name.clone(), replaces: None });
                    }
                }
            }
            let is_replaced =
                |name: String| origins.get(&name).is_some_and(|origin| origin.replaces.is_some());
            file.domain.take_if(|domain| is_replaced(domain_name(&domain.name)));
            file.policies.retain(|policy| !is_replaced(policy_name(&policy.name)));
        }
        rules.extend(documents);
        Ok(Content { rules, origins })
    }

    /// The same without those documents that nobody can read, and what is wrong with each of them: they may be of a version of this program that knows more.
    pub(crate) fn readable(&self, default_algorithm: DefaultAlgorithm) -> (Rulebook, Vec<Problems>) {
        let (mut book, mut unreadable) = (self.clone(), Vec::new());
        book.documents.retain(|_, source| {
            let read = read_all(std::slice::from_ref(source), default_algorithm);
            read.map_err(|problems| unreadable.push(problems)).is_ok()
        });
        (book, unreadable)
    }

    /// A name for all that it says: two books with the same texts have the same, wherever their files lie.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for source in self.files.iter().chain(self.documents.values()) {
            hasher.update(&(source.text.len() as u64).to_le_bytes()).update(source.text.as_bytes());
        }
        hasher.finalize().to_hex()[..16].to_owned()
    }
}

/// What origins call a domain.
pub(crate) fn domain_name(name: &str) -> String {
    format!("domain {name}")
}

/// What origins call a policy.
pub(crate) fn policy_name(name: &str) -> String {
    format!("policy {name}")
}

/// What origins call all that a file or a document says.
fn names(file: &FileSpec) -> Vec<String> {
    let domain = file.domain.iter().map(|domain| domain_name(&domain.name));
    domain.chain(file.policies.iter().map(|policy| policy_name(&policy.name))).collect()
}

//! Rules from two hands: files, and documents that operators write while the server runs.
//!
//! Files are versioned elsewhere and change rarely; documents are for what cannot wait. A document that names the same policy or the same domain takes
//! the place of what the files say about it, as a whole, and when it is deleted, the files count again.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};

use tollgate::policy::{DefaultAlgorithm, FileSpec, Problems, Source, read_all};

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
    pub(crate) fn read(&self, default_algorithm: DefaultAlgorithm) -> Result<Vec<FileSpec>, Problems> {
        let mut files = read_all(&self.files, default_algorithm)?;
        if self.documents.is_empty() {
            return Ok(files);
        }
        let documents: Vec<Source> = self.documents.values().cloned().collect();
        let documents = read_all(&documents, default_algorithm)?;
        let domains: HashSet<&str> =
            documents.iter().filter_map(|file| file.domain.as_ref()).map(|domain| &*domain.name).collect();
        let policies: HashSet<&str> =
            documents.iter().flat_map(|file| &file.policies).map(|policy| &*policy.name).collect();
        for file in &mut files {
            file.domain.take_if(|domain| domains.contains(&*domain.name));
            file.policies.retain(|policy| !policies.contains(&*policy.name));
        }
        files.extend(documents);
        Ok(files)
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

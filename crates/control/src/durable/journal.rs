//! Files in which a process keeps what it owes the database.
//!
//! A file belongs to one process, which holds a lock on it for as long as it runs. It is a header and batches, each with a number and a
//! checksum; a batch is on the disk when [`Journal::append`] comes back. A process that starts takes over the files whose owners have
//! gone. Each batch is told to the database under its number, which the database takes once: see [`super::backlog`]. The file is deleted when all of
//! it is told.

#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;

use super::owed::Owed;

/// What a file begins with. Another layout has another word.
const LAYOUT: &str = "tollgate-owed-1";
const PREFIX: &str = "owed-";
const SUFFIX: &str = ".log";
/// A file that is larger was not written by this program: 65,536 things that are owed take less.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Some things that are told in one transaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) number: i64,
    /// The number of a transaction of the process that wrote this, if it is not known whether that was committed.
    pub(super) doubt: Option<i64>,
    pub(super) owed: Vec<Owed>,
}

/// Where files are, and of which database they speak.
#[derive(Clone, Debug)]
pub(super) struct Journals {
    pub(super) folder: PathBuf,
    pub(super) fleet: Arc<str>,
}

/// A file that no other process writes to.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    /// Who wrote it: the name of its process among those that write to the database.
    pub(super) writer: Arc<str>,
}

impl Journals {
    /// A new file of this process.
    pub(super) fn create(&self, writer: &Arc<str>) -> io::Result<Journal> {
        let path = self.folder.join(format!("{PREFIX}{writer}{SUFFIX}"));
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let begun = file.try_lock().map_err(io::Error::from).and_then(|()| {
            file.write_all(format!("{LAYOUT}\t{}\t{writer}\n", self.fleet).as_bytes())?;
            file.sync_all()?;
            sync_folder(&self.folder)
        });
        if let Err(error) = begun {
            let _ = fs::remove_file(&path); // Nothing is in it.
            return Err(error);
        }
        Ok(Journal { path, file, writer: Arc::clone(writer) })
    }

    /// Takes over the files whose owners have gone, with what is in them.
    pub(super) fn take_over(&self) -> io::Result<Vec<(Journal, Vec<Batch>)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.starts_with(PREFIX) || !name.ends_with(SUFFIX) {
                continue;
            }
            match self.open(&path) {
                Ok(opened) => found.extend(opened),
                Err(error) => {
                    warn!(path = %path.display(), %error, "cannot read what was owed to the database");
                }
            }
        }
        Ok(found)
    }

    /// None if its owner runs, or it speaks of another database.
    fn open(&self, path: &Path) -> io::Result<Option<(Journal, Vec<Batch>)>> {
        let mut file = OpenOptions::new().read(true).append(true).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => return Err(error),
        }
        if file.metadata()?.len() > FILE_BYTES_MAX {
            return Err(io::Error::other("it is too large to be what this program has written"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes); // What is damaged fails its checksum.
        let damaged = || io::Error::other("its first line is damaged");
        let (header, rest) = text.split_once('\n').ok_or_else(damaged)?;
        let mut fields = header.split('\t');
        let (layout, fleet, writer) = (fields.next(), fields.next(), fields.next());
        let writer: Arc<str> = writer.filter(|_| layout == Some(LAYOUT)).ok_or_else(damaged)?.into();
        if fleet != Some(&*self.fleet) {
            return Err(io::Error::other("it is owed to another database than this"));
        }
        let (batches, unread) = read_batches(rest);
        if !unread.is_empty() {
            warn!(path = %path.display(), bytes = unread.len(), "the end of what was owed to the database is damaged, and not told");
        }
        Ok(Some((Journal { path: path.to_owned(), file, writer }, batches)))
    }
}

impl Journal {
    /// Adds a batch. It survives a loss of power when this comes back.
    pub(super) fn append(&mut self, batch: &Batch) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        let written = self.file.write_all(write_batch(batch).as_bytes()).and_then(|()| self.file.sync_data());
        if written.is_err() {
            let _ = self.file.set_len(length); // Half a batch would hide those that follow.
        }
        written
    }

    /// No server sends it. It stays under another name.
    pub(super) fn set_aside(self) -> io::Result<PathBuf> {
        let path = self.path.with_extension("refused");
        fs::rename(&self.path, &path)?;
        Ok(path)
    }

    /// All of it is told. Only now does another process not find it any more.
    pub(super) fn delete(self) -> io::Result<()> {
        fs::remove_file(&self.path)?;
        self.path.parent().map_or(Ok(()), sync_folder)
    }
}

/// A file that was made or deleted is so after a loss of power too.
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// `batch`, number, doubt, count and checksum; then a line for each thing that is owed.
fn write_batch(batch: &Batch) -> String {
    let lines: Vec<String> = batch.owed.iter().filter_map(Owed::to_line).collect();
    let doubt = batch.doubt.map(|number| number.to_string()).unwrap_or_default();
    let head = format!("batch\t{}\t{doubt}\t{}", batch.number, lines.len());
    let body = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
    format!("{head}\t{}\n{body}", checksum(&head, &body))
}

/// The batches that are whole, and the rest that is not.
fn read_batches(mut text: &str) -> (Vec<Batch>, &str) {
    let mut batches = Vec::new();
    while let Some((batch, rest)) = read_batch(text) {
        batches.push(batch);
        text = rest;
    }
    (batches, text)
}

fn read_batch(text: &str) -> Option<(Batch, &str)> {
    let (line, rest) = text.split_once('\n')?;
    let (head, sum) = line.rsplit_once('\t')?;
    let mut fields = head.strip_prefix("batch\t")?.split('\t');
    let number = fields.next()?.parse().ok()?;
    let doubt = match fields.next()? {
        "" => None,
        doubt => Some(doubt.parse().ok()?),
    };
    let count: usize = fields.next()?.parse().ok()?;
    let end = if count == 0 { 0 } else { rest.match_indices('\n').nth(count - 1)?.0 + 1 };
    let (body, rest) = rest.split_at(end);
    if checksum(head, body) != sum {
        return None;
    }
    let owed = body.lines().map(Owed::from_line).collect::<Option<Vec<_>>>()?;
    Some((Batch { number, doubt, owed }, rest))
}

fn checksum(head: &str, body: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(head.as_bytes()).update(b"\n").update(body.as_bytes());
    hasher.finalize().to_hex()[..32].to_owned()
}

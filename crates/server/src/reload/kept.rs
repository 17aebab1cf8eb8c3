//! Files with secrets that are kept up to date: read whole, taken over whole or not at all. What belongs together, as a certificate and
//! its key, is looked at together.

use std::hash::{BuildHasher, RandomState};

use super::watch::Watch;
use crate::secret::{NamedFile, SecretError};

type TakeOver = Box<dyn Fn(&[Vec<u8>]) -> Result<(), SecretError> + Send>;

/// Files that are kept up to date.
pub(crate) struct Kept {
    /// What they are, for logs.
    what: &'static str,
    files: Vec<NamedFile>,
    watch: Watch,
    hasher: RandomState,
    /// What was last read, as a hash: secrets have no place here. Or why nothing could be taken over.
    read: Result<u64, SecretError>,
    take_over: TakeOver,
}

impl Kept {
    /// The contents of files, in their order.
    pub(crate) fn read(files: &[NamedFile]) -> Result<Vec<Vec<u8>>, SecretError> {
        files.iter().map(NamedFile::read).collect()
    }

    /// Files whose contents are in force already, and what takes over new ones.
    pub(crate) fn new(
        what: &'static str,
        files: Vec<NamedFile>,
        contents: &[Vec<u8>],
        take_over: impl Fn(&[Vec<u8>]) -> Result<(), SecretError> + Send + 'static,
    ) -> Kept {
        let hasher = RandomState::new();
        let read = Ok(hasher.hash_one(contents));
        Kept { what, files, watch: Watch::default(), hasher, read, take_over: Box::new(take_over) }
    }

    /// Takes over what the files say, if that has changed or is `asked` for. What is wrong with them leaves in force what was, and is
    /// told once.
    pub(crate) fn refresh(&mut self, asked: bool, now_ns: i128) -> Option<Result<(), SecretError>> {
        let paths = self.files.iter().map(|file| file.path.clone());
        if !self.watch.look(paths, now_ns, self.read.is_err()) && !asked {
            return None;
        }
        let contents = Kept::read(&self.files);
        if let (Ok(contents), Ok(before), false) = (&contents, &self.read, asked)
            && self.hasher.hash_one(contents) == *before
        {
            return None;
        }
        let taken = contents.and_then(|contents| {
            (self.take_over)(&contents)?;
            Ok(self.hasher.hash_one(&contents))
        });
        let is_told = matches!((&taken, &self.read), (Err(now), Err(before)) if now == before);
        self.read = taken;
        (!is_told || asked).then(|| self.read.clone().map(drop))
    }

    /// Looks, and logs what came of it.
    pub(super) fn keep(&mut self, asked: bool, now_ns: i128) {
        let what = self.what;
        match self.refresh(asked, now_ns) {
            Some(Ok(())) => tracing::info!("{what} reloaded"),
            Some(Err(error)) => {
                tracing::error!("{what} not reloaded, the last good ones stay in force: {error}");
            }
            None => {}
        }
    }
}

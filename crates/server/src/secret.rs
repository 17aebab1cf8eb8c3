//! Files that settings name and that must be right: certificates, keys, tokens. What is wrong with one is told with its setting and
//! its path, and never with what stands in it.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use thiserror::Error;

/// The longest of these files: bundles of authorities are the largest, and have some hundred KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The rights of those who are neither the owner of a file nor in its group, and of the group.
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_READ: u32 = 0o004;
const GROUP_WRITE: u32 = 0o020;
const ROOT: u32 = 0;

/// A file, and the setting that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The setting.
    pub setting: &'static str,
    /// The file.
    pub path: PathBuf,
}

/// Why a server cannot prove who it is, or tell who others are.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// One setting is of no use without another.
    #[error("`{setting}` needs `{missing}` too")]
    Incomplete {
        /// The one that is given.
        setting: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A listener is to speak TLS, and cannot.
    #[error("`{listener}_tls` is `{mode}`, which needs `{missing}`")]
    Unsupported {
        /// Which listener.
        listener: &'static str,
        /// What it was told.
        mode: &'static str,
        /// The setting that is not given.
        missing: &'static str,
    },
    /// A file cannot be read, or says nothing of use.
    #[error("{file}: {reason}")]
    Unusable {
        /// Which.
        file: NamedFile,
        /// Why.
        reason: String,
    },
    /// Two files that do not belong together.
    #[error("{key}: this key does not belong to the certificate of {certificate}")]
    Mismatch {
        /// The private key.
        key: NamedFile,
        /// The certificate.
        certificate: NamedFile,
    },
}

impl NamedFile {
    /// All bytes of the file.
    pub(crate) fn read(&self) -> Result<Vec<u8>, SecretError> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path)
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| self.unusable(format!("cannot be read: {error}")))?;
        if read as u64 > FILE_BYTES_MAX {
            return Err(self.unusable(format!("larger than {FILE_BYTES_MAX} bytes")));
        }
        Ok(bytes)
    }

    /// Refuses a file of tokens that every user of this machine may write, and warns of what else is wrong with its rights.
    pub(crate) fn check_rights(&self) -> Result<(), SecretError> {
        let metadata =
            fs::metadata(&self.path).map_err(|error| self.unusable(format!("cannot be read: {error}")))?;
        let (mode, owner) = (metadata.mode(), metadata.uid());
        if mode & OTHERS_WRITE != 0 {
            return Err(
                self.unusable("every user of this machine may write it: `chmod o-w` takes that right away")
            );
        }
        let server = rustix::process::geteuid().as_raw();
        for problem in doubtful_rights(mode, owner, server) {
            tracing::warn!(setting = self.setting, path = %self.path.display(), problem, "doubtful rights of a token file");
        }
        Ok(())
    }

    pub(crate) fn unusable(&self, reason: impl Into<String>) -> SecretError {
        SecretError::Unusable { file: self.clone(), reason: reason.into() }
    }
}

/// What is worth a warning about a file with this mode and owner, for a server that runs as this user.
fn doubtful_rights(mode: u32, owner: u32, server: u32) -> impl Iterator<Item = &'static str> {
    let readable = "every user of this machine may read it: `chmod o-r` takes that right away";
    let writable = "its group may write it: `chmod g-w` takes that right away";
    let foreign = "it belongs neither to the server's user nor to root, so its owner can let clients in";
    [
        (mode & OTHERS_READ != 0, readable),
        (mode & GROUP_WRITE != 0, writable),
        (owner != ROOT && owner != server, foreign),
    ]
    .into_iter()
    .filter_map(|(is_so, problem)| is_so.then_some(problem))
}

impl fmt::Display for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.setting, self.path.display())
    }
}

#[cfg(test)]
mod tests {
    //! Which token files are refused, and of which the log warns.
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_file_that_every_user_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = NamedFile { setting: "http_tokens", path: folder.path().join("tokens") };
        fs::write(&file.path, "x").unwrap();
        let check = |mode: u32| {
            fs::set_permissions(&file.path, fs::Permissions::from_mode(mode)).unwrap();
            file.check_rights().map_err(|error| error.to_string())
        };
        for mode in [0o400, 0o600, 0o640, 0o644, 0o664] {
            assert_eq!(check(mode), Ok(()), "{mode:o}");
        }
        for mode in [0o602, 0o666, 0o777] {
            let refused = check(mode).unwrap_err();
            assert!(refused.starts_with("`http_tokens` ") && refused.contains("may write it"), "{refused}");
        }
    }

    #[test]
    fn doubtful_rights_of_a_token_file_are_warned_of() {
        let count = |mode, owner, server| doubtful_rights(mode, owner, server).count();
        assert_eq!(count(0o100_600, 1000, 1000), 0);
        assert_eq!(count(0o100_640, ROOT, 1000), 0, "as a container gets its secrets");
        assert_eq!(count(0o100_644, 1000, 1000), 1);
        assert_eq!(count(0o100_660, 1000, 1000), 1);
        assert_eq!(count(0o100_600, 1001, 1000), 1);
        assert_eq!(count(0o100_600, 1001, ROOT), 1);
        assert_eq!(count(0o100_664, 1001, 1000), 3);
    }
}

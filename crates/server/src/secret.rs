//! Files that settings name and that must be right: certificates, keys, tokens. What is wrong with one is told with its setting and
//! its path, and never with what stands in it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use thiserror::Error;

/// The longest of these files: bundles of authorities are the largest, and have some hundred KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

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

    pub(crate) fn unusable(&self, reason: impl Into<String>) -> SecretError {
        SecretError::Unusable { file: self.clone(), reason: reason.into() }
    }
}

impl fmt::Display for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` {}", self.setting, self.path.display())
    }
}

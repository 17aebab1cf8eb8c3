//! The token that a server makes for itself, when nobody has given it one: it lies in a file that only its user can read, and stays the same
//! from start to start.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::str;

use super::AdminToken;
use crate::access::Token;
use crate::secret::{NamedFile, SecretError};

/// As many random bytes as nobody guesses.
const RANDOM_BYTES: usize = 32;

/// Writes a token, unless there is one already.
pub(super) fn make(file: &NamedFile) -> Result<(), SecretError> {
    let path = &file.path;
    if fs::metadata(path).is_ok() {
        return Ok(());
    }
    write_new(path).map_err(|error| {
        let advice = "name another directory with `data`, or tokens with `admin_tokens`";
        file.unusable(format!("no admin token can be written: {error}; {advice}"))
    })
}

/// Another process may do the same at this moment: one of them wins, and nobody reads half a token.
fn write_new(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let draft = path.with_extension(format!("token.{}", std::process::id()));
    let _ = fs::remove_file(&draft); // Left by a process of the same number, if at all.
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    writeln!(written, "{}", random_token()?)?;
    written.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(blake3::Hash::from_bytes(bytes).to_hex().to_string())
}

/// The token of such a file: its one line.
pub(super) fn read(file: &NamedFile, content: &[u8]) -> Result<Vec<AdminToken>, SecretError> {
    let text = str::from_utf8(content).map_err(|_| file.unusable("not a text in UTF-8"))?;
    let token = Token::new(text.trim()).map_err(|error| file.unusable(error.to_string()))?;
    Ok(vec![AdminToken::of_server(token)])
}

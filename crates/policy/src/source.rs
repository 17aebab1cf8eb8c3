//! The files that rules are read from.
//!
//! A path names one file, or a directory of them. Kubernetes mounts a `ConfigMap` as a directory whose files are links
//! into a hidden one that is swapped as a whole: links are followed, and names that begin with a dot passed by.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::problem::{Position, Problem, Problems};

/// A text, and what to call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name that problems give: a path, as a rule.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// The longest text that is read.
    pub const TEXT_BYTES_MAX: usize = 4 << 20;

    /// A text, and what to call it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Source {
        Source { name: name.into(), text: text.into() }
    }
}

/// The most files that a directory of rules may hold.
const FILES_MAX: usize = 10_000;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The file that `path` names, or those of the directory that it names, sorted by name: every one that ends in
/// `.yaml`, `.yml` or `.json` or has no extension. Directories inside it are not entered.
pub fn sources(path: &Path) -> Result<Vec<Source>, Problems> {
    let is_dir = fs::metadata(path).map_err(|e| unreadable(path, &e))?.is_dir();
    let paths = if is_dir { files_of(path)? } else { vec![path.to_owned()] };
    let mut problems = Problems::new();
    let mut sources = Vec::with_capacity(paths.len());
    for path in paths {
        match read_text(&path) {
            Ok(text) => sources.push(Source::new(path.display().to_string(), text)),
            Err(more) => problems.extend(more),
        }
    }
    problems.or(sources)
}

fn files_of(directory: &Path) -> Result<Vec<PathBuf>, Problems> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| unreadable(directory, &e))? {
        let path = entry.map_err(|e| unreadable(directory, &e))?.path();
        // A link that leads nowhere is a file that cannot be read, not one that may be left out.
        if is_rules_name(&path) && fs::metadata(&path).map_or(true, |metadata| metadata.is_file()) {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            let what = format!("the directory holds more than {FILES_MAX} files of rules");
            return Err(whole(directory, what).into());
        }
    }
    if paths.is_empty() {
        return Err(whole(directory, "the directory holds no rules").hint(
            "rules are in files that end in `.yaml`, `.yml` or `.json`, or have no extension; put one here",
        ).into());
    }
    paths.sort();
    Ok(paths)
}

fn is_rules_name(path: &Path) -> bool {
    let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().map(OsStr::to_ascii_lowercase);
    !hidden && extension.is_none_or(|extension| EXTENSIONS.iter().any(|known| extension == *known))
}

fn read_text(path: &Path) -> Result<String, Problems> {
    let file = fs::File::open(path).map_err(|e| unreadable(path, &e))?;
    let mut bytes = Vec::new();
    let bytes_max = Source::TEXT_BYTES_MAX as u64 + 1;
    file.take(bytes_max).read_to_end(&mut bytes).map_err(|e| unreadable(path, &e))?;
    if bytes.len() > Source::TEXT_BYTES_MAX {
        return Err(too_large(&path.display().to_string()).into());
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        let line = e.as_bytes()[..at].split(|byte| *byte == b'\n').count();
        whole(path, format!("line {line} is not UTF-8 text (byte {at} of the file)"))
            .hint("save the file in the encoding UTF-8")
            .into()
    })
}

/// What is said of a text beyond the bound.
pub(crate) fn too_large(name: &str) -> Problem {
    let mebibytes = Source::TEXT_BYTES_MAX >> 20;
    Problem::new(Position::file(name), format!("the file is larger than {mebibytes} MiB"))
        .hint("put the rules into several files of one directory, one domain each")
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problems {
    let what = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "reading it is not permitted".to_owned(),
        _ => format!("cannot be read: {error}"),
    };
    whole(path, what).into()
}

fn whole(path: &Path, what: impl Into<String>) -> Problem {
    Problem::new(Position::file(&path.display().to_string()), what)
}

//! The files that rules are read from.
//!
//! A path names one file, or a directory of them, with those inside it. Kubernetes mounts a `ConfigMap` as a directory whose
//! files are links into a hidden one that is swapped as a whole: links are followed, and names that begin with a dot
//! passed by.

use std::collections::HashSet;
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

/// The most files that a directory of rules may hold, and the most directories.
const FILES_MAX: usize = 10_000;
/// How deep directories of rules may be nested below the one that is named.
const DIRECTORIES_DEEP_MAX: usize = 8;
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// The texts of the [`rule_files`] of a path.
pub fn sources(path: &Path) -> Result<Vec<Source>, Problems> {
    let paths = rule_files(path)?;
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

/// The file that `path` names; or those of the directory that it names and of the directories inside it, sorted: every one
/// that ends in `.yaml`, `.yml` or `.json` or has no extension. Each begins with `path`. A name that begins with a dot is
/// passed by, and a directory that several links lead to is entered once.
pub fn rule_files(path: &Path) -> Result<Vec<PathBuf>, Problems> {
    let metadata = fs::metadata(path).map_err(|e| unreadable(path, &e))?;
    if metadata.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    if !metadata.is_dir() {
        // A pipe would be waited for.
        return Err(whole(path, "neither a file nor a directory")
            .hint("name a file of rules, or a directory of them")
            .into());
    }
    let mut walk = Walk { root: path, files: Vec::new(), entered: HashSet::new() };
    walk.enter(path, 0)?;
    let mut files = walk.files;
    if files.is_empty() {
        return Err(whole(path, "the directory holds no rules").hint(
            "rules are in files that end in `.yaml`, `.yml` or `.json`, or have no extension; put one here",
        ).into());
    }
    files.sort_unstable();
    Ok(files)
}

/// A way through directories.
struct Walk<'a> {
    root: &'a Path,
    files: Vec<PathBuf>,
    /// The directories that were entered, by what they are called without links.
    entered: HashSet<PathBuf>,
}

impl Walk<'_> {
    /// Looks into a directory that is so many levels below the root.
    fn enter(&mut self, directory: &Path, depth: usize) -> Result<(), Problems> {
        let real = fs::canonicalize(directory).map_err(|e| unreadable(directory, &e))?;
        if !self.entered.insert(real) {
            return Ok(());
        }
        // To leave out what is deeper would be to leave out rules.
        if depth > DIRECTORIES_DEEP_MAX {
            let what = format!("directories of rules are nested more than {DIRECTORIES_DEEP_MAX} deep");
            return Err(whole(directory, what).hint("move its files up").into());
        }
        let mut inner = Vec::new();
        for entry in fs::read_dir(directory).map_err(|e| unreadable(directory, &e))? {
            let path = entry.map_err(|e| unreadable(directory, &e))?.path();
            if is_passed_by(&path) {
                continue;
            }
            match fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => inner.push(path),
                Ok(metadata) if !metadata.is_file() => {}
                // A link that leads nowhere is a file that cannot be read, not one that may be left out.
                _ if is_rules_name(&path) => self.files.push(path),
                _ => {}
            }
            self.check_count(self.files.len(), "files of rules")?;
            self.check_count(self.entered.len() + inner.len(), "directories")?;
        }
        // Which of several links is followed must not depend on the order of the file system.
        inner.sort_unstable();
        inner.iter().try_for_each(|path| self.enter(path, depth + 1))
    }

    fn check_count(&self, count: usize, what: &str) -> Result<(), Problems> {
        if count <= FILES_MAX {
            return Ok(());
        }
        let problem = whole(self.root, format!("the directory holds more than {FILES_MAX} {what}"));
        Err(problem.hint("name a directory that holds nothing but rules").into())
    }
}

/// Whether it is hidden, or the file system's own.
fn is_passed_by(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b".") || name == "lost+found")
}

fn is_rules_name(path: &Path) -> bool {
    let extension = path.extension().map(OsStr::to_ascii_lowercase);
    extension.is_none_or(|extension| EXTENSIONS.iter().any(|known| extension == *known))
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

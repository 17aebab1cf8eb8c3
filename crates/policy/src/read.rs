//! From text to what it says: every mistake in it is found and told, not only the first.
//!
//! A part that is wrong is left out and the rest is still checked. What is returned is of use only if no problem was
//! added.

mod allowance;
mod descriptor;
mod fields;
mod file;
mod forward_auth;
mod guess;
mod leasing;
mod limit;
mod matcher;
mod metadata;
mod numbers;
mod policy;
mod reach;
mod terms;
mod value;

use std::collections::{BTreeMap, HashMap};

use crate::problem::{Mark, Page, Position, Problem, Problems};
use crate::rule::DefaultAlgorithm;
use crate::source::{Source, too_large};
use crate::spec::{FileSpec, PolicySpec};
use crate::yaml::{self, Entry, Node};

use file::FileRead;
use guess::Guesses;
pub use terms::read_terms;

/// Reads one file of rules. Everything that is wrong with it is added to `problems`; nothing is returned where the file
/// as a whole says nothing.
pub fn read(
    source: &Source,
    default_algorithm: DefaultAlgorithm,
    problems: &mut Problems,
) -> Option<FileSpec> {
    read_one(source, default_algorithm, problems).map(|file| file.spec)
}

/// Reads all files of rules together: beyond what is wrong with each, no domain and no policy may be in two of them.
pub fn read_all(sources: &[Source], default_algorithm: DefaultAlgorithm) -> Result<Vec<FileSpec>, Problems> {
    let mut problems = Problems::new();
    let mut domains = HashMap::new();
    let mut policies = HashMap::new();
    let mut specs = Vec::with_capacity(sources.len());
    for source in sources {
        let Some(file) = read_one(source, default_algorithm, &mut problems) else { continue };
        if let (Some(domain), Some(position)) = (&file.spec.domain, file.domain_position) {
            check_unique("domain", &domain.name, position, &mut domains, &mut problems);
        }
        for (policy, position) in file.spec.policies.iter().zip(file.policy_positions) {
            check_unique("policy", &policy.name, position, &mut policies, &mut problems);
        }
        specs.push(file.spec);
    }
    problems.or(specs)
}

/// Reads one named policy that stands in a text of its own: what otherwise stands behind its name under `policies`.
pub fn read_policy(
    name: &str,
    source: &Source,
    default_algorithm: DefaultAlgorithm,
) -> Result<PolicySpec, Problems> {
    let mut problems = Problems::new();
    let rule = read_root(source, default_algorithm, &mut problems, |reader, root| {
        let entry = Entry { key: name.into(), key_mark: root.mark, value: root.clone() };
        let is_named = reader.check_name(name, root.mark);
        reader.policy(&entry).filter(|_| is_named)
    });
    match rule {
        Some(rule) => problems.or(PolicySpec { name: name.to_owned(), rule }),
        None => Err(problems),
    }
}

fn check_unique(
    kind: &str,
    name: &str,
    position: Position,
    seen: &mut HashMap<String, Position>,
    problems: &mut Problems,
) {
    if let Some(first) = seen.get(name) {
        let what = format!("the {kind} {} is in two files", crate::problem::quote(name));
        let hint = match kind {
            "domain" => "put all its rules into one file",
            _ => "give one of them another name",
        };
        problems.push(Problem::new(position, what).also(first.clone(), "the first is here").hint(hint));
        return;
    }
    seen.insert(name.to_owned(), position);
}

fn read_one(
    source: &Source,
    default_algorithm: DefaultAlgorithm,
    problems: &mut Problems,
) -> Option<FileRead> {
    #[allow(clippy::redundant_closure_for_method_calls, reason = "the method alone is of one lifetime only")]
    read_root(source, default_algorithm, problems, |reader, root| reader.file(root))
}

fn read_root<T>(
    source: &Source,
    default_algorithm: DefaultAlgorithm,
    problems: &mut Problems,
    read: impl FnOnce(&mut Reader<'_, '_>, &Node) -> Option<T>,
) -> Option<T> {
    if source.text.len() > Source::TEXT_BYTES_MAX {
        problems.push(too_large(&source.name));
        return None;
    }
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let page = Page::new(&source.name, text);
    let told = problems.len();
    let root = yaml::parse(text, &page, problems);
    let is_understood = problems.len() == told;
    let mut reader = reader(&page, problems, default_algorithm);
    match root {
        Some(root) if !root.is_null() => read(&mut reader, &root),
        // What could not be parsed has been said already; an empty file is not wrong in any of its parts.
        Some(_) => reader.empty(),
        None if is_understood => reader.empty(),
        None => None,
    }
}

fn reader<'p, 't>(
    page: &'p Page<'t>,
    problems: &'p mut Problems,
    default_algorithm: DefaultAlgorithm,
) -> Reader<'p, 't> {
    Reader {
        page,
        problems,
        default_algorithm,
        tiers_seen: BTreeMap::new(),
        keys_seen: Vec::new(),
        ways_bytes: 0,
        guesses: Guesses::default(),
    }
}

/// What reads the nodes of one file.
pub(crate) struct Reader<'p, 't> {
    page: &'p Page<'t>,
    problems: &'p mut Problems,
    default_algorithm: DefaultAlgorithm,
    /// The tiers that limits have named so far, and where first.
    tiers_seen: BTreeMap<String, Mark>,
    /// The keys that descriptors have named so far.
    keys_seen: Vec<String>,
    /// The length of the ways to all descriptors so far.
    ways_bytes: usize,
    guesses: Guesses,
}

impl Reader<'_, '_> {
    /// Something is wrong at a place.
    fn wrong(&mut self, mark: Mark, what: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(Problem::new(self.page.position(mark), what).hint(hint));
    }

    /// Whether a problem at a place would only be counted; then it is, and need not be worded.
    fn is_only_counted(&mut self, mark: Mark) -> bool {
        self.problems.only_counts(self.page.file(), mark.line, mark.column)
    }

    fn empty<T>(&mut self) -> Option<T> {
        let hint = "write at least `domain: NAME`, and its rules under `descriptors:`; or `policies:`";
        self.problems.push(Problem::new(self.page.whole(), "the file says nothing").hint(hint));
        None
    }
}

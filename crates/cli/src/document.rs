//! Documents for the admin API, made of files that people write.

use std::path::Path;

use serde_json::{Map, Value};
use tollgate::policy::{DefaultAlgorithm, Problems, Source, read_all, read_policy, to_json};

use crate::failure::Failure;

/// What a file says, in JSON or YAML.
pub(crate) fn read(path: &Path) -> Result<Value, Failure> {
    to_json(&source(path)?).map_err(Failure::Problems)
}

fn source(path: &Path) -> Result<Source, Failure> {
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::Read { path: path.to_owned(), error })?;
    Ok(Source::new(path.display().to_string(), text))
}

/// The policy of this name that a file holds: the policy alone, or a file of rules with it or with a domain of that name.
pub(crate) fn policy(id: &str, path: &Path) -> Result<Value, Failure> {
    let source = source(path)?;
    let whole = to_json(&source).map_err(Failure::Problems)?;
    if whole.get("domain").is_none() && whole.get("policies").is_none() {
        read_policy(id, &source, DefaultAlgorithm::default()).map_err(Failure::Problems)?;
        return Ok(whole);
    }
    let mut found = documents(&source, DefaultAlgorithm::default())?;
    let names: Vec<String> = found.iter().map(|document| document.id.clone()).collect();
    match found.iter().position(|document| document.id == id) {
        Some(at) => Ok(found.swap_remove(at).body),
        None => Err(Failure::Failed(format!(
            "{} has no domain and no policy \"{id}\"; it has {}",
            path.display(),
            names.join(", ")
        ))),
    }
}

/// A domain or a named policy, as the admin API takes it.
#[derive(Debug, PartialEq)]
pub(crate) struct Document {
    pub(crate) id: String,
    /// The file that it is from.
    pub(crate) file: String,
    pub(crate) body: Value,
}

/// All domains and policies of a file of rules, each a document of its own that means what it means in the file.
pub(crate) fn documents(source: &Source, algorithm: DefaultAlgorithm) -> Result<Vec<Document>, Failure> {
    let specs = read_all(std::slice::from_ref(source), algorithm).map_err(Failure::Problems)?;
    let mut domain = match to_json(source).map_err(Failure::Problems)? {
        Value::Object(whole) => whole,
        _ => Map::new(),
    };
    let policies = match domain.remove("policies") {
        Some(Value::Object(policies)) => policies,
        _ => Map::new(),
    };
    let mut documents = Vec::new();
    let mut add = |id: &str, body: Value, is_same: &dyn Fn(&Source) -> Result<bool, Problems>| {
        let again = Source::new(format!("{} as JSON", source.name), body.to_string());
        if !is_same(&again).map_err(Failure::Problems)? {
            return Err(Failure::Failed(format!(
                "{}: \"{id}\" would mean something else in JSON: put quotes around its texts, and none around its numbers",
                source.name
            )));
        }
        documents.push(Document { id: id.to_owned(), file: source.name.clone(), body });
        Ok(())
    };
    for spec in &specs {
        if let Some(read) = &spec.domain {
            add(&read.name, Value::Object(domain.clone()), &|again| {
                let specs = read_all(std::slice::from_ref(again), algorithm)?;
                Ok(specs.first().and_then(|spec| spec.domain.as_ref()) == Some(read))
            })?;
        }
        for read in &spec.policies {
            let body = policies.get(&read.name).cloned().unwrap_or_default();
            add(&read.name, body, &|again| Ok(read_policy(&read.name, again, algorithm)? == *read))?;
        }
    }
    Ok(documents)
}

#[cfg(test)]
mod tests;

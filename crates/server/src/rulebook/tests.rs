//! Files, documents, and both.

use tollgate::policy::{DefaultAlgorithm, FileSpec, Source};

use super::{DATABASE, Rulebook};

const FILE: &str = "
domain: shop
descriptors:
- {key: path, rate_limit: {unit: minute, requests_per_unit: 5}}
policies:
  search: {requests: 1, period: 1m}
  login: {requests: 2, period: 1m}
";

fn source(text: &str) -> Source {
    Source::new("source", text)
}

/// The names of all policies and domains, with how many units the first of their limits has.
fn told(rules: &[FileSpec]) -> Vec<String> {
    let domains = rules.iter().filter_map(|file| file.domain.as_ref());
    let domains = domains.map(|domain| format!("{} with {}", domain.name, domain.descriptors.len()));
    let policies = rules.iter().flat_map(|file| &file.policies);
    let policies = policies.map(|policy| match &policy.rule.limits[0].allowance {
        tollgate::policy::Allowance::Quota(quota) => format!("{}: {}", policy.name, quota.units),
        tollgate::policy::Allowance::Unlimited => policy.name.clone(),
    });
    let mut told: Vec<String> = domains.chain(policies).collect();
    told.sort();
    told
}

fn check(book: &Rulebook, expected: &[&str]) {
    assert_eq!(told(&book.read(DefaultAlgorithm::default()).unwrap().rules), expected);
}

#[test]
fn documents_take_the_place_of_files_until_they_are_gone() {
    let book = Rulebook::default().with_files(&[source(FILE)]);
    check(&book, &["login: 2", "search: 1", "shop with 1"]);
    let document = |text: &str| Some(source(text));
    let changed = book.with_documents([
        ("search".to_owned(), document("policies: {search: {requests: 9, period: 1m}}")),
        ("shop".to_owned(), document("domain: shop")),
        ("new".to_owned(), document("policies: {new: {requests: 3, period: 1m}}")),
    ]);
    check(&changed, &["login: 2", "new: 3", "search: 9", "shop with 0"]);
    check(
        &changed.with_documents([("search".to_owned(), None)]),
        &["login: 2", "new: 3", "search: 1", "shop with 0"],
    );
    check(&changed.with_all_documents([].into()), &["login: 2", "search: 1", "shop with 1"]);
    check(&changed.with_files(&[]), &["new: 3", "search: 9", "shop with 0"]);
}

#[test]
fn origins_say_which_source_is_in_force_and_which_file_it_replaces() {
    let file = Source::new("shop.yaml", FILE);
    let book = Rulebook::default().with_files(&[file]);
    let documents = [("search".to_owned(), Some(source("policies: {search: {requests: 9, period: 1m}}")))];
    let new = ("new".to_owned(), Some(source("policies: {new: {requests: 3, period: 1m}}")));
    let book = book.with_documents(documents.into_iter().chain([new]));
    let origins = book.read(DefaultAlgorithm::default()).unwrap().origins;
    let told = |name: &str| (origins[name].source.as_str(), origins[name].replaces.as_deref());
    assert_eq!(told("policy search"), (DATABASE, Some("shop.yaml")));
    assert_eq!(told("policy new"), (DATABASE, None));
    assert_eq!(told("policy login"), ("shop.yaml", None));
    assert_eq!(told("domain shop"), ("shop.yaml", None));
}

#[test]
fn what_is_wrong_with_either_is_said() {
    let book = Rulebook::default().with_files(&[source(FILE)]);
    let wrong =
        book.with_documents([("search".to_owned(), Some(source("policies: {search: {requests: x}}")))]);
    assert!(wrong.read(DefaultAlgorithm::default()).is_err());
    let wrong = book.with_files(&[source("domain: ")]);
    assert!(wrong.read(DefaultAlgorithm::default()).is_err());
}

#[test]
fn a_fingerprint_is_of_all_texts_and_nothing_else() {
    let book = Rulebook::default().with_files(&[source(FILE)]);
    assert_eq!(book.fingerprint(), book.clone().fingerprint());
    let other = book.with_documents([("x".to_owned(), Some(source("domain: x")))]);
    assert_ne!(book.fingerprint(), other.fingerprint());
    assert_eq!(book.fingerprint(), other.with_documents([("x".to_owned(), None)]).fingerprint());
}

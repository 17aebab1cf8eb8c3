//! The commands against a real server: what they say is done is done.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tollgate_testkit::real::{Finished, Launch, Tollgate, fetch, run, until};

use crate::{TOLLGATE, bare};

const SHOP: &str = "domain: shop
tenant_key: customer
descriptors:
  - key: customer
    rate_limit: {name: hourly, unit: hour, requests_per_unit: 2, tiers: {pro: {requests_per_unit: 5}, free: {requests_per_unit: 1}}}
    descriptors:
      - {key: endpoint, rate_limit: {unit: hour, requests_per_unit: 1}}
";
const POLICIES: &str = "policies: {three-an-hour: {requests: 3, period: 1h}}\n";
const TOKENS: &str =
    "admin:root:token-of-an-admin-0001,operator:ann:token-of-an-operator-1,reader:bob:token-of-a-reader-0001";

/// A server, and whoever operates it from its directory, where it leaves its token.
struct Place {
    server: Tollgate,
    folder: PathBuf,
}

impl Place {
    fn new() -> Place {
        Place::with(Launch::new(TOLLGATE))
    }

    fn with(launch: Launch) -> Place {
        let folder = launch.folder().to_owned();
        let server = launch.rules("shop.yaml", SHOP).rules("policies.yaml", POLICIES).start();
        Place { server, folder }
    }

    fn run(&self, words: &[&str]) -> Finished {
        let server = format!("--server=http://{}", self.server.admin());
        bare(&self.folder, &[words, &[&server]].concat())
    }

    /// A command with nothing to complain about, and what it prints.
    fn check(&self, words: &[&str]) -> String {
        let finished = self.run(words);
        assert_eq!((finished.code, finished.stderr.as_str()), (Some(0), ""), "{words:?}");
        finished.stdout
    }

    fn json(&self, words: &[&str]) -> Value {
        serde_json::from_str(&self.check(&[words, &["--json"]].concat())).unwrap()
    }

    fn fails(&self, words: &[&str]) -> String {
        let finished = self.run(words);
        assert_eq!((finished.code, finished.stdout.as_str()), (Some(1), ""), "{words:?} {finished:?}");
        finished.stderr
    }

    /// What is left after a request, or that it was denied.
    fn ask(&self, words: &[&str]) -> String {
        let server = format!("--server=http://{}", self.server.http());
        let finished = bare(&self.folder, &[&["check"], words, &[&server]].concat());
        assert_eq!(finished.stderr, "", "{words:?}");
        finished.stdout.split(", retry").next().unwrap().trim().to_owned()
    }
}

const ACME: [&str; 3] = ["--domain", "shop", "customer=acme"];

#[test]
fn a_quota_is_in_force_as_soon_as_the_command_is_back() {
    let place = Place::new();
    assert_eq!(place.ask(&ACME), "allowed: 1 of 2 left");
    let told = place.check(&["quota", "set", "acme", "--tier", "pro"]);
    assert!(told.contains("none -> pro"), "{told}");
    assert_eq!(place.ask(&ACME), "allowed: 3 of 5 left");
    place.check(&["quota", "set", "acme", "--override", "=100/hour"]);
    let told = place.check(&["quota", "get", "acme"]);
    assert!(told.contains("pro") && told.contains("the tenant alone = 100/hour"), "{told}");
    assert_eq!(place.ask(&ACME), "allowed: 97 of 100 left");
    assert!(place.check(&["quota", "list"]).contains("acme"));
    let stale = place.fails(&["quota", "delete", "acme", "--if-match", "1"]);
    assert!(stale.contains("(412)"), "{stale}");
    place.check(&["quota", "delete", "acme"]);
    assert!(place.fails(&["quota", "get", "acme"]).contains("(404)"));
    assert_eq!(place.ask(&ACME), "denied: 0 of 2 left");
}

#[test]
fn a_quota_for_later_leaves_what_is_in_force() {
    let place = Place::new();
    place.check(&["quota", "set", "acme", "--tier", "pro"]);
    place.check(&["quota", "set", "acme", "--override", "=100/hour", "--effective-at", "1h", "--for", "1h"]);
    let said = place.json(&["quota", "get", "acme"]);
    assert_eq!(said["in_force"], json!({"tier": "pro", "overrides": []}));
    assert_eq!(said["scheduled"]["overrides"].as_array().unwrap().len(), 1);
    assert_eq!(place.ask(&ACME), "allowed: 4 of 5 left");
}

#[test]
fn what_does_nothing_at_present_is_warned_of() {
    let place = Place::new();
    let finished = place.run(&["quota", "set", "acme", "--override", "nowhere:x=5/hour"]);
    assert!(finished.code == Some(0) && finished.stderr.starts_with("warning: "), "{finished:?}");
    let said = place.fails(&["quota", "set", "acme", "--override", "endpoint:x=5/hour;limit=\u{e9}"]);
    assert!(said.contains("(422)") && said.contains("line 1"), "{said}");
}

#[test]
fn usage_is_shown_and_forgotten() {
    let place = Place::new();
    place.ask(&ACME);
    let used = || {
        let said = place.json(&["usage", "acme"]);
        let limits = said["limits"].as_array().unwrap().clone();
        limits.iter().find(|limit| limit["title"] == json!("hourly")).unwrap()["used"].as_u64().unwrap()
    };
    assert_eq!(used(), 1);
    assert!(place.check(&["usage", "acme"]).contains("hourly"));
    place.check(&["usage", "reset", "acme"]);
    assert_eq!(used(), 0);
}

#[test]
fn a_key_is_banned_boosted_and_let_go() {
    let place = Place::new();
    let key = ["--policy", "three-an-hour", "--key", "ann"];
    let with = |words: &[&'static str]| [words, &key[..]].concat();
    place.ask(&key);
    let told = place.check(&[&with(&["key", "ban"])[..], &["--for", "1h", "--reason", "a job"]].concat());
    assert!(told.contains("banned until") && told.contains("a job"), "{told}");
    let server = format!("--server=http://{}", place.server.http());
    let told = bare(&place.folder, &[&["check", &server], &key[..]].concat()).stdout;
    assert!(told.starts_with("denied, retry after 3"), "{told}");
    assert!(told.contains("\nan operator has banned this key until 20"), "{told}");
    assert_eq!(place.server.metric("ratelimit_banned_total{protocol=\"http\"}"), 1);
    assert!(place.check(&with(&["key", "inspect"])).contains("banned until"));
    assert!(place.check(&["key", "list"]).contains("three-an-hour ann"));
    place.check(&with(&["key", "lift"]));
    assert_eq!(place.ask(&key), "allowed: 1 of 3 left");
    place.check(&[&with(&["key", "boost"])[..], &["--for", "1h", "--percent", "200"]].concat());
    assert_eq!(place.ask(&key), "allowed: 3 of 6 left");
    let id = place.json(&["key", "list"])["items"][0]["id"].as_str().unwrap().to_owned();
    place.check(&["key", "lift", &id]);
    place.check(&with(&["key", "reset"]));
    assert_eq!(place.ask(&key), "allowed: 2 of 3 left");
    let entries = ["key", "ban", "--domain", "shop", "customer=acme", "--for", "1h"];
    place.check(&entries);
    assert!(place.ask(&ACME).starts_with("denied"));
    place.check(&["key", "lift", "--domain", "shop", "customer=acme"]);
    assert!(place.ask(&ACME).starts_with("allowed"));
    let finished = place.run(&with(&["key", "lift"]));
    assert!(finished.code == Some(1) && finished.stderr.contains("neither banned"), "{finished:?}");
}

#[test]
fn limiting_is_switched_off_and_on() {
    let place = Place::new();
    for what in [&["all"][..], &["domain", "shop"], &["rule", "shop: customer"]] {
        let told = place.check(&[&["switch", "off"], what].concat());
        assert!(told.contains("off"), "{told}");
        let told = place.ask(&ACME);
        assert!(told.starts_with("allowed: no limit applies\nan operator has switched limits off"), "{told}");
        place.check(&[&["switch", "on"], what].concat());
        assert_eq!(place.check(&["switch", "show"]), "Everything is on.\n");
        assert!(place.ask(&[&ACME[..], &["--peek"]].concat()).contains("of 2 left"), "{what:?}");
    }
    let finished = place.run(&["switch", "off", "domain", "nowhere"]);
    assert!(finished.code == Some(0) && finished.stderr.starts_with("warning: "), "{finished:?}");
}

#[test]
fn a_kill_switch_is_shown_everywhere() {
    let place = Place::new();
    let gauge = |scope: &str| place.server.metric(&format!("ratelimit_kill_switch{{scope=\"{scope}\"}}"));
    assert_eq!((gauge("all"), gauge("domain")), (0, 0));
    let told = place.check(&["switch", "off", "domain", "shop", "--for", "1h", "--reason", "incident 4711"]);
    assert!(told.starts_with("off: domain shop, until 20") && told.ends_with(": incident 4711\n"), "{told}");
    assert_eq!(place.check(&["switch", "show"]), told);
    assert_eq!((gauge("all"), gauge("domain")), (0, 1));
    place.ask(&ACME);
    assert_eq!(place.server.metric("ratelimit_kill_switch_passed_total{protocol=\"http\"}"), 1);
    let config = fetch(place.server.admin(), "/config").unwrap().body;
    assert!(config.contains(r#"{"what":"domain shop","until":"20"#), "{config}");
    assert!(config.contains(r#"{"name":"shop","enabled":false"#), "{config}");
    for part in
        ["limits are switched off", "switch=\"domain shop\"", "reason=\"incident 4711\"", "admin change"]
    {
        place.server.wait_for_log(part);
    }
    let changed = place.json(&["audit", "list"]);
    assert_eq!(
        changed["items"][0]["after"]["details"]["domain shop"]["reason"], "incident 4711",
        "{changed}"
    );
}

#[test]
fn a_kill_switch_with_an_end_switches_itself_on() {
    let place = Place::new();
    place.check(&["switch", "off", "all", "--for", "1s"]);
    place.server.wait_for_log("limits are switched on again");
    assert_eq!(place.check(&["switch", "show"]), "Everything is on.\n");
    assert!(place.ask(&ACME).contains("of 2 left"));
    assert_eq!(place.server.metric("ratelimit_kill_switch{scope=\"all\"}"), 0);
}

#[test]
fn a_ban_of_a_misspelt_policy_or_domain_is_warned_of() {
    let place = Place::new();
    for (words, warning) in [
        (
            &["--policy", "three-an-huor", "--key", "ann"][..],
            "there is no policy \"three-an-huor\" at present",
        ),
        (&["--domain", "shpo", "customer=acme"], "there is no domain \"shpo\" at present"),
        (&["--domain", "shop", "custmer=acme"], "no rule of domain \"shop\" applies to these entries"),
    ] {
        let finished = place.run(&[&["key", "ban", "--for", "1h"], words].concat());
        assert_eq!(finished.code, Some(0));
        assert!(finished.stderr.starts_with(&format!("warning: {warning}")), "{finished:?}");
    }
}

#[test]
fn policies_take_the_place_of_files_and_give_it_back() {
    let place = Place::new();
    let ann = ["--policy", "three-an-hour", "--key", "ann", "--peek"];
    fs::write(place.folder.join("p.yaml"), "requests: 30 # more\nperiod: 1h\n").unwrap();
    let told = place.check(&["policy", "set", "three-an-hour", "--file", "p.yaml"]);
    assert!(told.starts_with("three-an-hour: created, version "), "{told}");
    assert_eq!(place.ask(&ann), "allowed: 30 of 30 left");
    assert!(place.check(&["policy", "list"]).contains("three-an-hour"));
    let body: Value = serde_json::from_str(&place.check(&["policy", "get", "three-an-hour"])).unwrap();
    assert_eq!(body, json!({"requests": 30, "period": "1h"}));
    place.check(&["policy", "delete", "three-an-hour"]);
    assert_eq!(place.ask(&ann), "allowed: 3 of 3 left");
}

#[test]
fn a_directory_is_imported_once() {
    let place = Place::new();
    let more: String =
        (0..300).map(|i| format!("  p{i}: {{requests: {}, period: 1m}}", i + 1) + "\n").collect();
    fs::create_dir(place.folder.join("more")).unwrap();
    fs::write(place.folder.join("more/policies.yaml"), format!("policies:\n{more}")).unwrap();
    fs::write(
        place.folder.join("more/shop.yaml"),
        SHOP.replace("requests_per_unit: 2", "requests_per_unit: 20"),
    )
    .unwrap();
    let told = |words: &[&str]| place.check(words).lines().last().unwrap().to_owned();
    assert!(told(&["import", "more", "--dry-run"]).starts_with("301 created"));
    // More than a server lets one token ask at once: the command waits.
    assert_eq!(told(&["import", "more"]), "301 created, 0 changed, 0 unchanged");
    assert_eq!(told(&["import", "more"]), "0 created, 0 changed, 301 unchanged");
    assert_eq!(place.ask(&ACME), "allowed: 19 of 20 left");
    assert_eq!(place.ask(&["--policy", "p41", "--key", "k"]), "allowed: 41 of 42 left");
}

#[test]
fn the_audit_says_who_did_it_and_shows_when_it_was_touched() {
    let place = Place::with(Launch::new(TOLLGATE).flag("admin-tokens", TOKENS));
    let [root, ann] = ["--token=token-of-an-admin-0001", "--token=token-of-an-operator-1"];
    place.check(&["quota", "set", "acme", "--tier", "pro", ann]);
    place.check(&["quota", "set", "acme", "--tier", "free", "--override", "=7/hour", root]);
    place.check(&["quota", "delete", "acme", ann]);
    let rows = place.json(&["audit", "list", "--kind", "quota", "--id", "acme", root]);
    let who: Vec<&str> =
        rows["items"].as_array().unwrap().iter().map(|row| row["who"].as_str().unwrap()).collect();
    assert_eq!(who, ["ann", "root", "ann"]);
    let told = place.check(&["audit", "list", "--who", "root", "--from", "1h", root]);
    assert!(told.contains("tier pro -> free") && !told.contains("ann"), "{told}");
    assert!(!place.check(&["audit", "export", root]).contains("token-of"));
    let exported = place.run(&["audit", "export", "--output", "audit.jsonl", root]);
    assert_eq!((exported.code, exported.stdout.as_str()), (Some(0), ""));
    assert_eq!(fs::read_to_string(place.folder.join("audit.jsonl")).unwrap().lines().count(), 3);
    let told = place.check(&["audit", "verify", root]);
    let head = told.lines().find_map(|line| line.strip_prefix("head ")).unwrap().to_owned();
    place.check(&["quota", "set", "acme", "--tier", "pro", ann]);
    place.check(&["audit", "verify", "--head", &head, root]);
    let script = "import sqlite3; c = sqlite3.connect('data/tollgate.db'); c.execute(\"UPDATE audit SET who = 'eve' WHERE version = 2\"); c.commit()";
    let touched = run(Command::new("python3").args(["-c", script]).current_dir(&place.folder));
    assert_eq!(touched.code, Some(0), "{touched:?}");
    let said = place.fails(&["audit", "verify", root]);
    assert!(said.starts_with("the audit was touched") && said.contains("version 2"), "{said}");
}

#[test]
fn who_may_not_is_told_so_and_no_token_is_shown() {
    let place = Place::with(Launch::new(TOLLGATE).flag("admin-tokens", TOKENS));
    let said = place.fails(&["quota", "list"]);
    assert!(said.contains("(401)") && said.contains("TOLLGATE_ADMIN_TOKEN"), "{said}");
    let bob = "--token=token-of-a-reader-0001";
    place.check(&["quota", "list", bob]);
    let said = place.fails(&["quota", "set", "acme", "--tier", "pro", bob]);
    assert!(said.contains("(403)") && !said.contains("token-of"), "{said}");
    let said = place.fails(&["quota", "list", "--token=token-of-nobody-0001"]);
    assert!(said.contains("(401)") && !said.contains("token-of-nobody"), "{said}");
    assert!(!place.server.logs().contains("token-of"));
}

#[test]
fn a_node_is_listed() {
    let place = Place::new();
    place.check(&["quota", "set", "acme", "--tier", "pro"]);
    let said = place.json(&["node", "list"]);
    assert_eq!(said["items"].as_array().unwrap().len(), 1);
    assert!(place.check(&["node", "list"]).starts_with("NODE"));
}

#[test]
fn a_file_that_the_database_replaces_is_named_everywhere() {
    let place = Place::new();
    place.check(&["import", "rules"]);
    let told = place.check(&["explain", "--running", "--domain", "shop", "customer=acme"]);
    assert!(told.contains("2 per hour"), "{told}");
    assert!(
        told.contains("\nsource: database, which replaces /") && told.ends_with("/rules/shop.yaml\n"),
        "{told}"
    );
    assert!(place.check(&["explain", "--domain", "shop", "customer=acme"]).ends_with("\nsource: rules\n"));
    place.server.wait_for_log("name=\"domain shop\" source=\"database\" file=");
    let before = place.server.logs().matches("editing it changes nothing").count();
    place.server.write_rules("shop.yaml", &SHOP.replace("requests_per_unit: 2,", "requests_per_unit: 7,"));
    place.server.wait_for_log("rules reloaded");
    until("the reload names the file that has no effect", || {
        (place.server.logs().matches("editing it changes nothing").count() > before).then_some(())
    });
    assert!(place.ask(&ACME).contains("of 2 left"), "the database's document is in force");
    let config = fetch(place.server.admin(), "/config").unwrap().body;
    assert!(config.contains(r#""name":"shop","enabled":true,"source":"database","replaces":"#), "{config}");
    let listed = place.json(&["policy", "list"]);
    let replaced = listed["items"].as_array().unwrap().iter().filter(|item| item["replaces"].is_string());
    assert_eq!(replaced.count(), 2, "{listed}");
}

#[test]
fn a_server_knows_its_own_version_at_once() {
    let place = Place::new();
    for _ in 0..3 {
        place.check(&["key", "ban", "--policy", "three-an-hour", "--key", "ann", "--for", "1h"]);
        let said = place.json(&["node", "list"]);
        assert_eq!(said["items"][0]["version"], said["head"], "{said}");
    }
    assert_eq!(place.json(&["node", "list"])["head"], json!(3));
}

//! Documents that come to be in force: here at once, elsewhere soon, and again after a start.

mod history;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::timeout;
use tollgate::core::Span;
use tollgate::policy::{Source, read_terms};
use tollgate::{DecidedBy, Descriptor, Request, Verdict};
use tollgate_control::{Action, Change, Changed, Condition, DatabaseAddress, Kind, Replica, Who};

use super::{Bounds, Control, NoRoom, Refused};
use crate::drain::Stopper;
use crate::gate::{Gate, GateSettings};

const FILE: &str = "
domain: shop
descriptors:
- key: path
  rate_limit: {unit: hour, requests_per_unit: 5}
policies:
  search: {requests: 5, period: 1h}
";

/// A server without listeners.
struct Server {
    gate: Arc<Gate>,
    control: Arc<Control>,
}

async fn server(folder: &Path) -> Server {
    server_within(folder, Bounds::default()).await
}

async fn server_within(folder: &Path, bounds: Bounds) -> Server {
    server_of(DatabaseAddress::Sqlite(folder.join("tollgate.db")), folder, bounds).await
}

async fn server_of(address: DatabaseAddress, folder: &Path, bounds: Bounds) -> Server {
    let gate = Arc::new(Gate::new(GateSettings::default()).unwrap());
    gate.load(&[Source::new("rules.yaml", FILE)]).unwrap();
    let control = Control::open_within(bounds, address, folder.join("replica.db"), &gate).await.unwrap();
    Server { gate, control: Arc::new(control) }
}

impl Server {
    async fn change(&self, kind: Kind, id: &str, body: Option<&str>) {
        self.try_change(kind, id, body).await.unwrap();
    }

    async fn try_change(&self, kind: Kind, id: &str, body: Option<&str>) -> Result<Changed, Refused> {
        let change = Change {
            who: Who { name: "test".to_owned(), role: "admin".to_owned() },
            action: if body.is_some() { Action::PUT } else { Action::DELETE },
            kind,
            id: id.to_owned(),
            body: body.map(str::to_owned),
            condition: Condition::Any,
            repeat: None,
        };
        self.control.change(change).await
    }

    /// How much it has no room for.
    fn unheld(&self) -> u64 {
        let text = self.gate.metrics_text().unwrap();
        let count = text.lines().find_map(|line| line.strip_prefix("ratelimit_config_unheld_total "));
        count.unwrap().parse().unwrap()
    }

    fn is_banned(&self, key: &str) -> bool {
        self.peek("search", key).decided_by() == DecidedBy::Ban
    }

    fn peek(&self, policy: &str, key: &str) -> Verdict {
        let request = Request::policy(policy, key.as_bytes()).peek();
        self.gate.engine().decide(&request, self.gate.now()).unwrap()
    }

    fn limit(&self, policy: &str, key: &str) -> u64 {
        self.peek(policy, key).tightest().unwrap().decision.limit
    }

    fn take(&self, policy: &str, key: &str) -> Verdict {
        self.gate.engine().decide(&Request::policy(policy, key.as_bytes()), self.gate.now()).unwrap()
    }

    fn is_limited(&self, path: &str) -> bool {
        let entries = [("path", path)];
        let descriptors = [Descriptor::new(&entries)];
        let request = Request::new("shop", &descriptors).peek();
        self.gate.engine().decide(&request, self.gate.now()).unwrap().tightest().is_some()
    }
}

/// Waits until something holds.
async fn until(mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.expect("it comes to be in force");
}

const QUOTA: &str = r#"{"overrides": [{"policy": "search", "requests": 50, "period": "1h"}]}"#;
const BAN: &str = r#"{"act": "ban", "policy": "search", "key": "bad", "until": "2099-01-01T00:00:00Z"}"#;
const SWITCHES: &str = r#"{"all": false, "domains": [], "rules": ["shop: path"]}"#;

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn a_change_is_in_force_here_at_once() {
    let folder = folder();
    let server = server(folder.path()).await;
    assert_eq!(server.limit("search", "acme"), 5);
    server.change(Kind::Quota, "acme", Some(QUOTA)).await;
    assert_eq!(server.limit("search", "acme"), 50);
    server.change(Kind::Quota, "acme", None).await;
    assert_eq!(server.limit("search", "acme"), 5);
    server.change(Kind::Key, "id", Some(BAN)).await;
    assert_eq!(server.take("search", "bad").decided_by(), DecidedBy::Ban);
    server.change(Kind::Key, "id", None).await;
    assert!(server.take("search", "bad").allowed());
    server.change(Kind::Policy, "search", Some(r#"{"requests": 7, "period": "1h"}"#)).await;
    assert_eq!(server.limit("search", "x"), 7);
    server.change(Kind::Policy, "search", None).await;
    assert_eq!(server.limit("search", "x"), 5);
    assert_eq!(server.control.applied(), 6);
}

#[tokio::test]
async fn what_is_switched_off_stays_off_when_rules_are_read_again() {
    let folder = folder();
    let server = server(folder.path()).await;
    assert!(server.is_limited("/"));
    server.change(Kind::Switch, "switches", Some(SWITCHES)).await;
    assert!(!server.is_limited("/"));
    server.gate.load(&[Source::new("rules.yaml", FILE)]).unwrap();
    assert!(!server.is_limited("/"));
    server.change(Kind::Switch, "switches", Some("{}")).await;
    assert!(server.is_limited("/"));
}

#[tokio::test]
async fn all_of_it_is_in_force_again_after_a_start() {
    let folder = folder();
    let first = server(folder.path()).await;
    first.change(Kind::Quota, "acme", Some(QUOTA)).await;
    first.change(Kind::Policy, "new", Some(r#"{"requests": 3, "period": "1h"}"#)).await;
    first.change(Kind::Key, "id", Some(BAN)).await;
    first.change(Kind::Switch, "switches", Some(SWITCHES)).await;
    drop(first);
    let second = server(folder.path()).await;
    assert_eq!((second.limit("search", "acme"), second.limit("new", "x")), (50, 3));
    assert_eq!(second.take("search", "bad").decided_by(), DecidedBy::Ban);
    assert!(!second.is_limited("/"));
    assert_eq!(second.control.applied(), 4);
}

#[tokio::test]
async fn what_others_change_is_heard_of_and_none_of_it_is_passed_over() {
    let folder = folder();
    let (one, other) = (server(folder.path()).await, server(folder.path()).await);
    let stopper = Stopper::new();
    let following = tokio::spawn(Arc::clone(&other.control).follow(stopper.drain()));
    one.change(Kind::Quota, "acme", Some(QUOTA)).await;
    until(|| other.limit("search", "acme") == 50).await;
    // Who takes a change has first to hear of those before.
    for turn in 0..20 {
        one.change(Kind::Policy, &format!("one-{turn}"), Some(r#"{"requests": 3, "period": "1h"}"#)).await;
        other
            .change(Kind::Policy, &format!("other-{turn}"), Some(r#"{"requests": 4, "period": "1h"}"#))
            .await;
        assert_eq!(other.limit(&format!("one-{turn}"), "x"), 3);
    }
    let nodes = one.control.database().await.unwrap().nodes(super::now_ms(&one.gate)).await.unwrap();
    assert_eq!(nodes.len(), 1, "the other one tells that it is there");
    stopper.stop();
    following.await.unwrap();
    let nodes = one.control.database().await.unwrap().nodes(super::now_ms(&one.gate)).await.unwrap();
    assert_eq!(nodes, [], "and that it goes");
}

#[tokio::test]
async fn counts_are_forgotten_by_everybody_who_counts_alone() {
    let folder = folder();
    let (one, other) = (server(folder.path()).await, server(folder.path()).await);
    for server in [&one, &other] {
        (0..3).for_each(|_| drop(server.take("search", "acme")));
        assert_eq!(server.peek("search", "acme").tightest().unwrap().decision.remaining, 2);
    }
    let stopper = Stopper::new();
    let following = tokio::spawn(Arc::clone(&other.control).follow(stopper.drain()));
    one.change(Kind::Usage, "key", Some(r#"{"policy": "search", "key": "acme"}"#)).await;
    assert_eq!(one.peek("search", "acme").tightest().unwrap().decision.remaining, 5);
    until(|| other.peek("search", "acme").tightest().unwrap().decision.remaining == 5).await;
    (0..3).for_each(|_| drop(other.take("search", "tenant")));
    one.change(Kind::Usage, "tenant", Some(r#"{"api_key": "tenant"}"#)).await;
    until(|| other.peek("search", "tenant").tightest().unwrap().decision.remaining == 5).await;
    stopper.stop();
    following.await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_read_keeps_nothing_else_from_being_in_force() {
    let folder = folder();
    let first = server(folder.path()).await;
    for kind in [Kind::Quota, Kind::Key, Kind::Switch, Kind::Usage, Kind::Policy] {
        first.change(kind, "broken", Some(r#"{"from": "a later version"}"#)).await;
    }
    first.change(Kind::Quota, "acme", Some(QUOTA)).await;
    first.change(Kind::Policy, "new", Some(r#"{"requests": 3, "period": "1h"}"#)).await;
    assert_eq!((first.limit("search", "acme"), first.limit("new", "x")), (50, 3));
    drop(first);
    let second = server(folder.path()).await;
    assert_eq!((second.limit("search", "acme"), second.limit("new", "x")), (50, 3));
    second.gate.load(&[Source::new("rules.yaml", FILE)]).unwrap();
    assert_eq!(second.limit("new", "x"), 3);
}

#[tokio::test]
async fn a_damaged_secret_in_the_copy_keeps_no_server_from_starting() {
    let folder = folder();
    let copy = folder.path().join("replica.db");
    drop(Replica::open(&copy).await.unwrap());
    let file = rusqlite::Connection::open(&copy).unwrap();
    let damage = "UPDATE settings SET value = 'damaged' WHERE name = 'fleet_secret'";
    assert_eq!(file.execute(damage, []).unwrap(), 1);
    drop(file);
    // No server listens there.
    let away = "postgres://tollgate:pw@127.0.0.1:1/tollgate?sslmode=disable".parse().unwrap();
    let server = server_of(away, folder.path(), Bounds::default()).await;
    assert_eq!(server.control.applied(), 0);
}

#[tokio::test]
async fn a_node_never_goes_back() {
    let folder = folder();
    let server = server(folder.path()).await;
    server.change(Kind::Quota, "acme", Some(QUOTA)).await;
    let mut row = server.control.database().await.unwrap().since(0, 1).await.unwrap().remove(0);
    row.after = None;
    let turn = server.control.turns.take().await.make(vec![row.into()]).await.unwrap();
    assert_eq!((turn.head().version, server.limit("search", "acme")), (1, 50));
}

#[tokio::test]
async fn the_thread_goes_on_with_other_things_while_rules_are_put_in_force() {
    let folder = folder();
    let server = server(folder.path()).await;
    // No two alike, so that all of them have to be made again for other rules.
    let tenants = (0..100_000).map(|tenant| {
        let quota = QUOTA.replace("50", &(100 + tenant).to_string());
        (format!("tenant-{tenant}"), read_terms("quota", &quota).unwrap())
    });
    server.gate.engine().set_tenants(tenants, server.gate.now()).unwrap();
    // Whoever is kept waiting is so every time; a machine that has other things to do is not.
    let mut told = Vec::new();
    for requests in 3..8 {
        let (longest, whole) = longest_pause(&server, requests).await;
        if longest.ticks() < whole.ticks() / 4 {
            return;
        }
        told.push(format!("{longest:?} of {whole:?} without a decision"));
    }
    panic!("{told:?}");
}

/// The longest time without a decision while a policy is put in force, and how long that took.
async fn longest_pause(server: &Server, requests: u64) -> (Span, Span) {
    let started = server.gate.now();
    let body = format!(r#"{{"requests": {requests}, "period": "1h"}}"#);
    let change = server.change(Kind::Policy, "new", Some(&body));
    let (mut last, mut longest) = (started, Span::ZERO);
    let decide = async {
        loop {
            assert_eq!(server.limit("search", "tenant-7"), 107);
            let now = server.gate.now();
            longest = longest.max(now.since(last));
            last = now;
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        () = change => {}
        () = decide => {}
    }
    assert_eq!((server.limit("new", "x"), server.limit("search", "tenant-7")), (requests, 107));
    (longest, server.gate.now().since(started))
}

const FEW: Bounds = Bounds { tenants_max: 3, key_acts_max: 3 };

fn ban(key: &str, until: &str) -> String {
    BAN.replace("\"bad\"", &format!("{key:?}")).replace("2099-01-01T00:00:00Z", until)
}

/// One kind of what there is a bound for: how one of a name is written.
type Writes = fn(&str) -> String;

async fn check_bound(kind: Kind, writes: Writes, refusal: NoRoom) {
    let folder = folder();
    let server = server_within(folder.path(), FEW).await;
    let put = async |id: &str| server.try_change(kind, id, Some(&writes(id))).await.map(drop);
    // However many come at once, as many pass as there is room for.
    let tried = tokio::join!(put("a"), put("b"), put("c"), put("d"), put("e"));
    let refused: Vec<Refused> = <[_; 5]>::from(tried).into_iter().filter_map(Result::err).collect();
    assert!(refused.iter().all(|refused| matches!(refused, Refused::NoRoom(why) if *why == refusal)));
    let database = server.control.database().await.unwrap();
    let kept = database.documents(kind, None, 10).await.unwrap().rows;
    assert_eq!((refused.len(), kept.len(), server.control.applied()), (2, 3, 3), "nothing else was written");
    // Whoever is there may be written again, and who goes makes room.
    put(&kept[0].id).await.unwrap();
    assert!(matches!(put("f").await, Err(Refused::NoRoom(_))));
    server.change(kind, &kept[0].id, None).await;
    put("f").await.unwrap();
    assert!(matches!(put("g").await, Err(Refused::NoRoom(_))));
    assert_eq!(server.unheld(), 0);
}

#[tokio::test]
async fn one_ban_too_many_is_refused_and_not_written() {
    Box::pin(check_bound(Kind::Key, |id| ban(id, "2099-01-01T00:00:00Z"), NoRoom::KeyActs(3))).await;
}

#[tokio::test]
async fn one_tenant_too_many_is_refused_and_not_written() {
    Box::pin(check_bound(Kind::Quota, |_| QUOTA.to_owned(), NoRoom::Tenants(3))).await;
}

#[tokio::test]
async fn what_is_over_takes_no_room() {
    let folder = folder();
    let server = server_within(folder.path(), FEW).await;
    for id in ["a", "b", "c", "d", "e"] {
        server.change(Kind::Key, id, Some(&ban(id, "2001-01-01T00:00:00Z"))).await;
        let over = QUOTA.replace("]}", r#"], "expires_at": "2001-01-01T00:00:00Z"}"#);
        server.change(Kind::Quota, &id.to_uppercase(), Some(&over)).await;
    }
    for id in ["a", "b", "z"] {
        server.change(Kind::Key, id, Some(&ban(id, "2099-01-01T00:00:00Z"))).await;
        server.change(Kind::Quota, &id.to_uppercase(), Some(QUOTA)).await;
        assert!(server.is_banned(id));
    }
    assert_eq!((server.limit("search", "Z"), server.unheld()), (50, 0));
}

#[tokio::test]
async fn what_a_node_cannot_hold_is_counted_and_touches_nothing_else() {
    let folder = folder();
    let (one, other) = (server(folder.path()).await, server_within(folder.path(), FEW).await);
    let stopper = Stopper::new();
    let following = tokio::spawn(Arc::clone(&other.control).follow(stopper.drain()));
    for id in ["a", "b", "c", "d", "e"] {
        one.change(Kind::Key, id, Some(&ban(id, "2099-01-01T00:00:00Z"))).await;
        one.change(Kind::Quota, &id.to_uppercase(), Some(QUOTA)).await;
    }
    one.change(Kind::Key, "a", None).await;
    one.change(Kind::Policy, "new", Some(r#"{"requests": 3, "period": "1h"}"#)).await;
    until(|| other.control.applied() == 12).await;
    assert_eq!((other.limit("new", "x"), other.unheld()), (3, 4));
    assert_eq!(["a", "b", "c", "d", "e"].map(|id| other.is_banned(id)), [false, true, true, false, false]);
    assert_eq!(["A", "B", "C", "D", "E"].map(|id| other.limit("search", id)), [50, 50, 50, 5, 5]);
    stopper.stop();
    following.await.unwrap();
    drop(other);
    let again = server_within(folder.path(), FEW).await;
    assert_eq!((again.limit("new", "x"), again.unheld()), (3, 3), "of four bans one, of five quotas two");
    assert_eq!(["b", "e"].map(|id| again.is_banned(id)), [true, false]);
}

#[tokio::test]
async fn a_request_that_is_broken_off_lets_nobody_overtake() {
    let folder = folder();
    let server = server(folder.path()).await;
    for turn in 0..200_u64 {
        let quota = QUOTA.replace("50", &(100 + turn).to_string());
        let change = server.change(Kind::Quota, "acme", Some(&quota));
        let patience = async {
            for _ in 0..turn * 7 % 199 * 100 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            () = change => {}
            () = patience => {}
        }
    }
    // Behind all of those that were taken, whether anybody waited for them or not.
    server.change(Kind::Policy, "new", Some(r#"{"requests": 3, "period": "1h"}"#)).await;
    let database = server.control.database().await.unwrap();
    assert_eq!(server.control.applied(), database.version().await.unwrap());
    let kept = database.document(Kind::Quota, "acme").await.unwrap().map(|document| document.body);
    let limit = server.limit("search", "acme").to_string();
    assert!(kept.as_ref().is_some_and(|kept| kept.contains(&limit)), "{limit} of {kept:?}");
}

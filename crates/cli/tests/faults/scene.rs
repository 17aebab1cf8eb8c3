//! A server whose counters are in Redis, under load, and what is true of it before, during and after a fault.

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisClient;
use tollgate_testkit::real::{Launch, Reply, Tollgate, fetch, until};

use crate::load::{Load, Subject};

/// One unit comes back in an hour: whatever is missing was taken. Nobody asks for as many as there are.
const RULES: &str = "
policies:
  open: {requests: 1, period: 1h, burst: 10000, fail_mode: open}
  closed: {requests: 1, period: 1h, burst: 10000, fail_mode: closed}
  local: {requests: 1, period: 1h, burst: 10000, fail_mode: local}
  held: {requests: 3, period: 1h, algorithm: concurrency, fail_mode: closed}
domain: d
descriptors:
  - {key: user, rate_limit: {requests: 1, period: 1h, burst: 10000, fail_mode: closed}}
";
const BURST: u64 = 10_000;
/// As many nodes as make each one's share small enough to be seen used up.
const NODES: u64 = 500;
/// What one node admits of a local rule while nobody can be asked.
pub(crate) const SHARE: u64 = BURST / NODES;

pub(crate) const OPEN: Subject = ("open", "ann");
pub(crate) const CLOSED: Subject = ("closed", "ann");
pub(crate) const LOCAL: Subject = ("local", "ann");

/// The key of what is asked over HTTP, so that the load's own keys count nothing else.
const BYSTANDER: &str = "bob";

/// The deadline where it is how a server learns of a fault: no shorter, since a busy machine is none.
pub(crate) const IMPATIENT: &str = "1s";

/// So many connections are taken by all threads of the server, some of them twice.
const ASKS_OF_ALL_THREADS: usize = 6;

/// So many rounds show what becomes of requests: more than a node's share.
const ROUNDS: usize = 50;

/// The server, and the load on it.
pub(crate) struct Scene {
    // Before the server: fields are dropped in order.
    pub(crate) load: Load,
    pub(crate) tollgate: Tollgate,
}

/// A server with these counters. It waits for them for longer than a busy machine lets it wait without any fault.
pub(crate) fn launch(store: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate"))
        .rules("rules.yaml", RULES)
        .flag("store", store)
        .flag("store-deadline", "5s")
        .flag("workers", "2")
        .flag("store-nodes", &NODES.to_string())
}

/// What is counted of whatever this question is about, as Redis says.
pub(crate) fn counted(tollgate: &Tollgate, question: &Value) -> u64 {
    until("Redis says what is counted", || {
        let body: Value = serde_json::from_str(&tollgate.post("/v1/peek", question).body).unwrap();
        let decision = &body["decisions"][0];
        let number = |name: &str| decision[name].as_u64().unwrap();
        (decision["decided_by"] == "authority").then(|| number("limit") - number("remaining"))
    })
}

impl Scene {
    /// A server with its counters here, asked for one key under every rule. All of it is well when this comes back.
    pub(crate) fn start(store: &str) -> Scene {
        Scene::of(launch(store), &[OPEN, CLOSED, LOCAL])
    }

    /// The same of a server that waits for them for less, where that is how it learns of the fault.
    pub(crate) fn impatient(store: &str) -> Scene {
        Scene::of(launch(store).flag("store-deadline", IMPATIENT), &[OPEN, CLOSED, LOCAL])
    }

    /// The same of a server that cannot reach its counters.
    pub(crate) fn without_store(launch: Launch) -> Scene {
        let tollgate = launch.start();
        Scene { load: Load::start(&tollgate, &[OPEN, CLOSED, LOCAL]), tollgate }
    }

    /// The same of a server that is started so, asked for these.
    pub(crate) fn of(launch: Launch, subjects: &[Subject]) -> Scene {
        let tollgate = launch.start();
        let load = Load::start(&tollgate, subjects);
        let scene = Scene { load, tollgate };
        scene.check_exact();
        scene
    }

    /// Asks once over HTTP, on a connection of its own.
    pub(crate) fn ask(&self, (policy, key): Subject) -> Reply {
        self.tollgate.post("/v1/check", &json!({"policy": policy, "key": key}))
    }

    /// A connection for whoever else asks.
    pub(crate) fn resp(&self) -> RedisClient {
        RedisClient::connect(self.tollgate.resp()).unwrap()
    }

    /// What is counted of a subject, as Redis says.
    pub(crate) fn counted(&self, (policy, key): Subject) -> u64 {
        counted(&self.tollgate, &json!({"policy": policy, "key": key}))
    }

    /// The sum of a metric over all shards, or of those lines that name this one.
    pub(crate) fn metric(&self, name: &str, shard: &str) -> u64 {
        let text = fetch(self.tollgate.admin(), "/metrics").unwrap().body;
        let lines =
            text.lines().filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(shard));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum()
    }

    pub(crate) fn openings(&self) -> u64 {
        self.metric("ratelimit_circuit_openings_total", "")
    }

    /// Redis cannot be asked, from now on: every rule does what it says for that, and says so.
    pub(crate) fn check_away(&self) {
        let rounds = self.load.pass(ROUNDS);
        assert_eq!(self.load.admitted(&rounds, OPEN), ROUNDS as u64, "open rules admit");
        assert_eq!(self.load.admitted(&rounds, CLOSED), 0, "closed rules deny");
        assert!(self.load.admitted(&rounds, LOCAL) <= SHARE, "local rules admit the node's share at most");
        for (policy, status) in [("open", 200), ("closed", 503), ("local", 200)] {
            let reply = self.ask((policy, BYSTANDER));
            let reason = reply.the("x-tollgate-reason");
            assert!(reason.starts_with(&format!("fail_{policy}: ")), "{reply:#?}");
            assert_eq!(reply.status, status, "{reply:#?}");
        }
        until("the breaker opens", || (self.openings() > 0).then_some(()));
    }

    /// Redis can be asked again: the breakers close, and what it decides is exact.
    pub(crate) fn check_recovers(&self) {
        self.check_reached();
        self.check_exact();
    }

    /// The breakers close by themselves.
    pub(crate) fn check_reached(&self) {
        until("every thread asks again", || {
            // A breaker closes only if somebody asks.
            (self.is_decided_by_redis() && self.metric("ratelimit_circuit_state", "") == 0).then_some(())
        });
    }

    /// Whether Redis decides, whichever thread is asked: connections take turns with them.
    pub(crate) fn is_decided_by_redis(&self) -> bool {
        let is_decided = |_| self.ask(("closed", BYSTANDER)).header("x-tollgate-reason").is_none();
        (0..ASKS_OF_ALL_THREADS).all(is_decided)
    }

    /// Asks nothing more. What Redis has admitted, and nobody else could, is what it has counted: once what came too late is given back.
    pub(crate) fn check_counted(&mut self) {
        let rounds = self.load.finish();
        let [closed, local] = [CLOSED, LOCAL].map(|subject| self.load.admitted(&rounds, subject));
        // Of what is undone, a bucket keeps the time that has passed since it was taken. All those seconds are less than one unit, which takes an hour.
        until("what was admitted is what is counted", || {
            (closed..=closed + 1).contains(&self.counted(CLOSED)).then_some(())
        });
        until("what was admitted is what is counted, or the node's share", || {
            (local - SHARE..=local + 1).contains(&self.counted(LOCAL)).then_some(())
        });
    }

    /// The same where answers were lost: then more may be counted than admitted, never less, and nothing twice.
    pub(crate) fn check_counted_at_least(&mut self) {
        let rounds = self.load.finish();
        let [closed, local] = [CLOSED, LOCAL].map(|subject| self.load.admitted(&rounds, subject));
        let counted = self.counted(CLOSED);
        assert!((closed..=rounds.len() as u64).contains(&counted), "{closed} admitted, {counted} counted");
        let counted = self.counted(LOCAL);
        assert!(local <= counted + SHARE, "{local} admitted, {counted} counted");
    }

    /// Asks nothing more. A replica has taken over that knew of so many units of a subject: those are counted, and so is all that was admitted
    /// since it decides, and nothing twice.
    pub(crate) fn check_taken_over(&mut self, subject: Subject, known: u64) {
        let first = self.load.pass(1).start;
        let rounds = self.load.finish();
        let since = self.load.admitted(&(first..rounds.end), subject);
        let counted = self.counted(subject);
        // One more may have been asked to find where it is kept.
        assert!(
            (known + since..=rounds.end as u64 + 1).contains(&counted),
            "{known} known, {since} admitted since, {counted} counted of {} asked",
            rounds.end
        );
    }

    /// What is admitted is what is counted, and all of it is decided by Redis.
    pub(crate) fn check_exact(&self) {
        let bystander = ("closed", BYSTANDER);
        let before = self.counted(bystander);
        let rounds = self.load.pass(ROUNDS);
        for subject in self.load.subjects().iter().filter(|(policy, _)| *policy == "closed") {
            let admitted = self.load.admitted(&rounds, *subject);
            assert_eq!(admitted, ROUNDS as u64, "closed rules admit what Redis admits: {subject:?}");
        }
        for _ in 0..5 {
            let reply = self.ask(bystander);
            assert_eq!((reply.status, reply.header("x-tollgate-reason")), (200, None), "{reply:#?}");
        }
        assert_eq!(self.counted(bystander) - before, 5);
    }
}

//! A server whose counters are in Redis, under load, and what is true of it before, during and after a fault.

use std::ops::RangeInclusive;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::RedisClient;
use tollgate_testkit::real::{Launch, Reply, Tollgate, fetch, until};

use crate::load::{Load, Subject};

/// One unit comes back in an hour: whatever is missing was taken. Nobody asks for as many as there are. Places that are held cannot be leased.
const RULES: &str = "
policies:
  open: {requests: 1, period: 1h, burst: 10000, fail_mode: open, consistency: CONSISTENCY}
  closed: {requests: 1, period: 1h, burst: 10000, fail_mode: closed, consistency: CONSISTENCY}
  local: {requests: 1, period: 1h, burst: 10000, fail_mode: local, consistency: CONSISTENCY}
  strict: {requests: 1, period: 1h, burst: 10000, fail_mode: closed, consistency: leased, strict: true}
  watched: {requests: 1, period: 1h, burst: 10000, fail_mode: closed, consistency: exact}
  held: {requests: 3, period: 1h, algorithm: concurrency, fail_mode: closed}
domain: d
descriptors:
  - {key: user, rate_limit: {requests: 1, period: 1h, burst: 10000, fail_mode: closed, consistency: CONSISTENCY}}
";
const BURST: u64 = 10_000;
/// As many nodes as make each one's share small enough to be seen used up.
const NODES: u64 = 500;
/// What one node admits of a local rule while nobody can be asked.
pub(crate) const SHARE: u64 = BURST / NODES;
/// More than one node ever has in leases, so that a look at so many asks Redis.
pub(crate) const MORE_THAN_LEASED: u64 = 1_000;

pub(crate) const OPEN: Subject = ("open", "ann");
pub(crate) const CLOSED: Subject = ("closed", "ann");
pub(crate) const LOCAL: Subject = ("local", "ann");
const STRICT: Subject = ("strict", "ann");

/// The key of what is asked over HTTP, so that the load's own keys count nothing else.
const BYSTANDER: &str = "bob";
/// Who is asked for to see whether Redis decides.
const WATCHED: Subject = ("watched", BYSTANDER);

/// The deadline where it is how a server learns of a fault: no shorter, since a busy machine is none.
pub(crate) const IMPATIENT: &str = "1s";

/// So many connections are taken by all threads of the server, some of them twice.
const ASKS_OF_ALL_THREADS: usize = 6;

/// So many rounds show what becomes of requests: more than a node's share.
const ROUNDS: usize = 50;

/// So many decisions show that leases are spent.
const LEASED_DECISIONS: u64 = 20;

/// How the rules of a scene are decided while all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    Exact,
    Leased,
}

impl Consistency {
    /// What the load asks for.
    fn subjects(self) -> Vec<Subject> {
        match self {
            Consistency::Exact => vec![OPEN, CLOSED, LOCAL],
            Consistency::Leased => vec![OPEN, CLOSED, LOCAL, STRICT],
        }
    }

    /// The most units that a server has in hand: its part of half of the burst, or of the quarter that a strict limit reserves. Redis has counted them. So
    /// many more than it is asked for are admitted while it is away, and so many more than are admitted may be counted.
    pub(crate) fn in_hand_max(self, (policy, _): Subject) -> u64 {
        match (self, policy) {
            (Consistency::Exact, _) => 0,
            (Consistency::Leased, "strict") => BURST / 4 / NODES,
            (Consistency::Leased, _) => BURST / 2 / NODES,
        }
    }

    fn rules(self) -> String {
        let word = match self {
            Consistency::Exact => "exact",
            Consistency::Leased => "leased",
        };
        RULES.replace("CONSISTENCY", word)
    }
}

/// Plays scenes with rules that ask Redis every time, and with rules that lease. Each is a test of either module.
macro_rules! played {
    ($($scene:ident)*) => {
        mod exact {
            $(#[test] fn $scene() { super::$scene(crate::scene::Consistency::Exact); })*
        }
        mod leased {
            $(#[test] fn $scene() { super::$scene(crate::scene::Consistency::Leased); })*
        }
    };
}
pub(crate) use played;

/// The server, and the load on it.
pub(crate) struct Scene {
    // Before the server: fields are dropped in order.
    pub(crate) load: Load,
    pub(crate) tollgate: Tollgate,
    pub(crate) consistency: Consistency,
}

/// A server with these counters. It waits for them for longer than a busy machine lets it wait without any fault. It need not be counted before it leases,
/// because it is told how many servers there are.
pub(crate) fn launch(consistency: Consistency, store: &str) -> Launch {
    Launch::new(env!("CARGO_BIN_EXE_tollgate"))
        .rules("rules.yaml", &consistency.rules())
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
    pub(crate) fn start(consistency: Consistency, store: &str) -> Scene {
        Scene::of(consistency, launch(consistency, store))
    }

    /// The same of a server that waits for them for less, where that is how it learns of the fault.
    pub(crate) fn impatient(consistency: Consistency, store: &str) -> Scene {
        Scene::of(consistency, launch(consistency, store).flag("store-deadline", IMPATIENT))
    }

    /// The same of a server that cannot reach its counters.
    pub(crate) fn without_store(consistency: Consistency, store: &str) -> Scene {
        Scene::under_load(consistency, launch(consistency, store).start(), &consistency.subjects())
    }

    /// The same of a server that is started so.
    pub(crate) fn of(consistency: Consistency, launch: Launch) -> Scene {
        let scene = Scene::under_load(consistency, launch.start(), &consistency.subjects());
        scene.check_well();
        scene
    }

    /// A server that is asked for these.
    pub(crate) fn under_load(consistency: Consistency, tollgate: Tollgate, subjects: &[Subject]) -> Scene {
        Scene { load: Load::start(&tollgate, subjects), tollgate, consistency }
    }

    /// Asks once over HTTP, on a connection of its own.
    pub(crate) fn ask(&self, (policy, key): Subject) -> Reply {
        self.tollgate.post("/v1/check", &json!({"policy": policy, "key": key}))
    }

    /// A connection for whoever else asks.
    pub(crate) fn resp(&self) -> RedisClient {
        RedisClient::connect(self.tollgate.resp()).unwrap()
    }

    /// What is counted of a subject, as Redis says: with leases, what was granted and is not given back, spent or not.
    pub(crate) fn counted(&self, (policy, key): Subject) -> u64 {
        counted(&self.tollgate, &json!({"policy": policy, "key": key, "cost": MORE_THAN_LEASED}))
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

    /// How many were decided by leases.
    fn leased_decisions(&self) -> u64 {
        self.metric("ratelimit_shared_decisions_total", "decided_by=\"lease\"")
    }

    /// The most units of a subject that the server has in hand.
    pub(crate) fn in_hand_max(&self, subject: Subject) -> u64 {
        self.consistency.in_hand_max(subject)
    }

    /// The most units of a subject that Redis may have granted in vain: where a question for a block fails, nobody knows whether it was granted.
    fn lost_max(&self, subject: Subject) -> u64 {
        self.in_hand_max(subject) * (1 + self.metric("ratelimit_redis_errors_total", ""))
    }

    /// What the load asks for under rules that admit only what Redis has granted.
    fn closed_subjects(&self) -> Vec<Subject> {
        let is_closed = |subject: &&Subject| matches!(subject.0, "closed" | "strict");
        self.load.subjects().iter().filter(is_closed).copied().collect()
    }

    /// Redis cannot be asked, from now on: what is in hand is spent, then every rule does what it says for that, and says so.
    pub(crate) fn check_away(&self) {
        let rounds = self.load.pass(ROUNDS);
        assert_eq!(self.load.admitted(&rounds, OPEN), ROUNDS as u64, "open rules admit");
        for subject in self.closed_subjects() {
            let admitted = self.load.admitted(&rounds, subject);
            let in_hand_max = self.in_hand_max(subject);
            assert!(
                admitted <= in_hand_max,
                "closed rules deny: {admitted} of {in_hand_max} in hand, {subject:?}"
            );
        }
        assert!(
            self.load.admitted(&rounds, LOCAL) <= SHARE + self.in_hand_max(LOCAL),
            "local rules admit the node's share at most"
        );
        for (policy, status) in [("open", 200), ("closed", 503), ("local", 200)] {
            let reply = self.ask((policy, BYSTANDER));
            let reason = reply.the("x-tollgate-reason");
            assert!(reason.starts_with(&format!("fail_{policy}: ")), "{reply:#?}");
            assert_eq!(reply.status, status, "{reply:#?}");
        }
        until("the breaker opens", || (self.openings() > 0).then_some(()));
    }

    /// Redis can be asked again: the breakers close, and all is well.
    pub(crate) fn check_recovers(&self) {
        self.check_reached();
        self.check_well();
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
        let is_decided = |_| self.ask(WATCHED).header("x-tollgate-reason").is_none();
        (0..ASKS_OF_ALL_THREADS).all(is_decided)
    }

    /// Asks nothing more. What Redis has admitted, and nobody else could, is what it has counted: once what came too late is given back, and what is
    /// in hand and nobody wants.
    pub(crate) fn check_counted(&mut self) {
        let rounds = self.load.finish();
        for subject in self.closed_subjects() {
            let admitted = self.load.admitted(&rounds, subject);
            // Of what is undone, a bucket keeps the time that has passed since it was taken. All those seconds are less than one unit, which takes an hour.
            self.wait_for_count(subject, &(admitted..=admitted + 1));
        }
        let local = self.load.admitted(&rounds, LOCAL);
        self.wait_for_count(LOCAL, &(local - SHARE..=local + 1));
    }

    /// Waits until what was admitted is what is counted. Until then it is never less.
    pub(crate) fn wait_for_count(&self, subject: Subject, expected: &RangeInclusive<u64>) {
        until(&format!("what was admitted is what is counted: {expected:?} of {subject:?}"), || {
            let counted = self.counted(subject);
            assert!(counted >= *expected.start(), "{expected:?} admitted, {counted} counted, {subject:?}");
            expected.contains(&counted).then_some(())
        });
    }

    /// The same where answers were lost: then more may be counted than admitted, never less, and nothing twice.
    pub(crate) fn check_counted_at_least(&mut self) {
        let rounds = self.load.finish();
        for subject in self.closed_subjects() {
            let admitted = self.load.admitted(&rounds, subject);
            let counted = self.counted(subject);
            let counted_max = rounds.len() as u64 + self.lost_max(subject);
            assert!((admitted..=counted_max).contains(&counted), "{admitted} admitted, {counted} counted");
        }
        let (local, counted) = (self.load.admitted(&rounds, LOCAL), self.counted(LOCAL));
        assert!(local <= counted + SHARE, "{local} admitted, {counted} counted");
    }

    /// Asks nothing more. A replica has taken over that knew of so many units of a subject: those are counted, and so is all that was admitted
    /// since it decides, except of what was in hand and is counted among the former; and nothing twice.
    pub(crate) fn check_taken_over(&mut self, subject: Subject, known: u64) {
        let first = self.load.pass(1).start;
        let rounds = self.load.finish();
        let since = self.load.admitted(&(first..rounds.end), subject);
        let counted = self.counted(subject);
        let counted_min = known + since.saturating_sub(self.in_hand_max(subject));
        // One more may have been asked to find where it is kept.
        let counted_max = rounds.end as u64 + 1 + self.lost_max(subject);
        assert!(
            (counted_min..=counted_max).contains(&counted),
            "{known} known, {since} admitted since, {counted} counted of {} asked",
            rounds.end
        );
    }

    /// What is admitted is what is counted. All of it is decided by Redis, or of what it has granted.
    pub(crate) fn check_well(&self) {
        let before = self.counted(WATCHED);
        let leased_before = self.leased_decisions();
        let rounds = self.load.pass(ROUNDS);
        for subject in self.closed_subjects() {
            let admitted = self.load.admitted(&rounds, subject);
            assert_eq!(admitted, ROUNDS as u64, "closed rules admit what Redis admits: {subject:?}");
        }
        for _ in 0..5 {
            let reply = self.ask(WATCHED);
            assert_eq!((reply.status, reply.header("x-tollgate-reason")), (200, None), "{reply:#?}");
        }
        assert_eq!(self.counted(WATCHED) - before, 5);
        if self.consistency == Consistency::Leased {
            until("leases are spent", || {
                (self.leased_decisions() >= leased_before + LEASED_DECISIONS).then_some(())
            });
        }
    }
}

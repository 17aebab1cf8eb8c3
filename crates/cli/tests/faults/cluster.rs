//! A Cluster that loses a shard, whose replicas take over, whose slots move.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::{Value, json};
use tollgate_testkit::real::redis::{RedisCluster, RedisServer, Reply};
use tollgate_testkit::real::{Tollgate, until};

use crate::load::Subject;
use crate::scene::{MORE_THAN_LEASED, SHARE, counted, launch};
use crate::{Consistency, Scene, played};

played! {
    the_loss_of_a_shard_concerns_its_own_keys_alone
    the_replica_of_a_shard_that_is_lost_takes_over
    a_replica_that_takes_over_in_good_order_forgets_nothing
    slots_that_move_under_load_lose_and_double_nothing
    what_one_shard_gave_is_given_back_where_another_is_lost
}

/// A subject whose counter is kept by one master, and under which name.
struct Placed {
    subject: Subject,
    name: String,
}

impl Placed {
    /// A name that is kept in the same place and counts nothing.
    fn slot_mate(&self) -> String {
        let tag = self.name.split_inclusive('}').next().and_then(|name| name.find('{').map(|at| &name[at..]));
        format!("waited-for:{}", tag.unwrap())
    }
}

/// The names of all counters that a node keeps.
fn names(server: &RedisServer) -> BTreeSet<String> {
    match server.client().run("KEYS *") {
        Reply::Array(names) => names.iter().map(Reply::text).collect(),
        other => panic!("no names: {other:?}"),
    }
}

/// Asks about one key after the other until a counter is kept by this master, and says about which and under which name. It is counted
/// once then.
fn find(
    tollgate: &Tollgate,
    master: &RedisServer,
    question: impl Fn(&str) -> Value,
) -> (&'static str, String) {
    let before = names(master);
    for number in 0.. {
        let key: &'static str = Box::leak(format!("{}-{number}", master.port()).into_boxed_str());
        assert_eq!(tollgate.post("/v1/check", &question(key)).status, 200);
        if let Some(name) = names(master).difference(&before).next() {
            return (key, name.clone());
        }
    }
    unreachable!("keys are spread");
}

/// A subject of this policy that this master keeps.
fn place(tollgate: &Tollgate, policy: &'static str, master: &RedisServer) -> Placed {
    let (key, name) = find(tollgate, master, |key| json!({"policy": policy, "key": key}));
    Placed { subject: (policy, key), name }
}

/// A server with its counters in this Cluster, asked for these.
fn scene(consistency: Consistency, tollgate: Tollgate, placed: &[&Placed]) -> Scene {
    let subjects: Vec<Subject> = placed.iter().map(|placed| placed.subject).collect();
    let scene = Scene::under_load(consistency, tollgate, &subjects);
    scene.check_well();
    scene
}

/// All that was admitted by Redis is counted, and nothing else: that is, besides the load, the question that found the place.
fn check_counted(scene: &Scene, rounds: &Range<usize>, placed: &Placed) {
    let admitted = scene.load.admitted(rounds, placed.subject);
    scene.wait_for_count(placed.subject, &(admitted + 1..=admitted + 1));
}

fn the_loss_of_a_shard_concerns_its_own_keys_alone(consistency: Consistency) {
    let mut cluster = RedisCluster::start(3);
    let tollgate = launch(consistency, &cluster.address()).start();
    let [open, closed, local] =
        ["open", "closed", "local"].map(|policy| place(&tollgate, policy, &cluster.masters[1]));
    let kept = [0, 2].map(|number| place(&tollgate, "closed", &cluster.masters[number]));
    let mut scene = scene(consistency, tollgate, &[&open, &closed, &local, &kept[0], &kept[1]]);
    let [first, lost, third] = [0, 1, 2].map(|number| cluster.masters[number].address().to_string());

    cluster.masters[1].kill();
    let rounds = scene.load.pass(50);
    let admitted = |placed: &Placed| scene.load.admitted(&rounds, placed.subject);
    let in_hand_max = consistency.in_hand_max(closed.subject);
    assert_eq!(admitted(&open), 50);
    assert!(admitted(&closed) <= in_hand_max);
    assert!(admitted(&local) <= SHARE + in_hand_max);
    assert_eq!([admitted(&kept[0]), admitted(&kept[1])], [50, 50], "other shards are concerned");

    cluster.masters[1].restart();
    scene.check_recovers();
    let openings = |shard: &str| scene.metric("ratelimit_circuit_openings_total", shard);
    assert!(openings(&lost) > 0);
    assert_eq!((openings(&first), openings(&third)), (0, 0), "other shards were given up");
    let rounds = scene.load.finish();
    for placed in &kept {
        check_counted(&scene, &rounds, placed);
    }
}

fn the_replica_of_a_shard_that_is_lost_takes_over(consistency: Consistency) {
    let mut cluster = RedisCluster::with_replicas(3);
    let tollgate = launch(consistency, &cluster.address()).start();
    let [open, closed, local] =
        ["open", "closed", "local"].map(|policy| place(&tollgate, policy, &cluster.masters[0]));
    let kept = place(&tollgate, "closed", &cluster.masters[1]);
    let mut scene = scene(consistency, tollgate, &[&open, &closed, &local, &kept]);
    let known = scene.counted(closed.subject);
    cluster.masters[0].wait_for_replica(&closed.slot_mate());
    // Nobody takes over before it was seen what becomes of requests meanwhile.
    cluster.replicas[0].freeze();
    cluster.masters[0].kill();
    scene.load.pass(1); // What was on its way.
    let rounds = scene.load.pass(50);
    let admitted = |placed: &Placed| scene.load.admitted(&rounds, placed.subject);
    let in_hand_max = consistency.in_hand_max(closed.subject);
    assert_eq!(admitted(&open), 50);
    assert!(admitted(&closed) <= in_hand_max);
    assert!(admitted(&local) <= SHARE + in_hand_max);
    assert!(scene.openings() > 0);

    cluster.replicas[0].thaw();
    cluster.wait_for_failover(0);
    let successor = cluster.replicas[0].address().to_string();
    until("the replica is asked", || {
        let rounds = scene.load.pass(10);
        let is_admitted = scene.load.admitted(&rounds, closed.subject) == 10 && scene.is_decided_by_redis();
        (is_admitted && scene.metric("ratelimit_circuit_state", &successor) == 0).then_some(())
    });
    scene.check_well();
    scene.check_taken_over(closed.subject, known);
    let rounds = 0..scene.load.answered();
    let admitted = scene.load.admitted(&rounds, kept.subject);
    assert_eq!(admitted, rounds.len() as u64, "another shard is concerned");
    check_counted(&scene, &rounds, &kept);
}

fn a_replica_that_takes_over_in_good_order_forgets_nothing(consistency: Consistency) {
    let cluster = RedisCluster::with_replicas(1);
    let tollgate = launch(consistency, &cluster.address()).start();
    let closed = place(&tollgate, "closed", &cluster.masters[0]);
    let mut scene = scene(consistency, tollgate, &[&closed]);
    let known = scene.counted(closed.subject);
    assert!(known > 0);
    cluster.fail_over(0);
    scene.load.pass(20);
    scene.check_recovers();
    scene.check_taken_over(closed.subject, known);
    let rounds = 0..scene.load.answered();
    let admitted = scene.load.admitted(&rounds, closed.subject);
    assert!(scene.counted(closed.subject) > admitted, "something was forgotten");
}

fn slots_that_move_under_load_lose_and_double_nothing(consistency: Consistency) {
    let cluster = RedisCluster::start(3);
    let tollgate = launch(consistency, &cluster.address()).start();
    let closed = place(&tollgate, "closed", &cluster.masters[0]);
    let slot = cluster.masters[0].client().run(&format!("CLUSTER KEYSLOT {}", closed.name)).integer();
    let slot = u16::try_from(slot).unwrap();
    let mut scene = scene(consistency, tollgate, &[&closed]);
    for (from, to) in [(0, 1), (1, 2), (2, 0)] {
        cluster.begin_move(slot, from, to);
        scene.load.pass(10);
        cluster.move_keys(slot, from, to);
        scene.load.pass(10);
        cluster.end_move(slot, to);
        scene.load.pass(10);
        assert!(names(&cluster.masters[to]).contains(&closed.name), "it has not moved");
    }
    let rounds = scene.load.finish();
    let admitted = scene.load.admitted(&rounds, closed.subject);
    assert_eq!(admitted, rounds.len() as u64, "something was not asked");
    check_counted(&scene, &rounds, &closed);
    assert_eq!(scene.openings(), 0);
}

fn what_one_shard_gave_is_given_back_where_another_is_lost(consistency: Consistency) {
    let mut cluster = RedisCluster::start(3);
    let tollgate = launch(consistency, &cluster.address()).start();
    let descriptor = |user: &str| json!({"entries": [{"key": "user", "value": user}]});
    let one = |user: &str| json!({"domain": "d", "descriptors": [descriptor(user)]});
    let [(first, _), (second, _)] = [0, 1].map(|number| find(&tollgate, &cluster.masters[number], one));
    let both = json!({"domain": "d", "descriptors": [descriptor(first), descriptor(second)]});
    assert_eq!(tollgate.post("/v1/check", &both).status, 200);
    let look = |user: &str| {
        let mut question = one(user);
        question["hits_addend"] = MORE_THAN_LEASED.into();
        counted(&tollgate, &question)
    };
    let in_hand_max = consistency.in_hand_max(("user", first));
    assert!((2..=2 + in_hand_max).contains(&look(first)));
    cluster.masters[1].kill();
    // What is in hand of the second passes, with as much of the first.
    let is_admitted = |_: &i32| match tollgate.post("/v1/check", &both).status {
        200 => true,
        503 => false,
        other => panic!("{other}"),
    };
    let admitted = (0..30).filter(is_admitted).count() as u64;
    assert!(admitted <= in_hand_max, "{admitted} admitted");
    until("what was taken is given back", || (look(first) == 2 + admitted).then_some(()));
}

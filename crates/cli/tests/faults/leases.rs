//! What servers have in hand when something breaks: how long it lasts, and how much it adds to the limit at the very most.

use std::thread;

use serde_json::{Value, json};
use tollgate::Clock;
use tollgate_testkit::real::redis::{RedisClient, RedisServer, Reply};
use tollgate_testkit::real::{Detour, Launch, Signal, Tollgate, until};
use tollgate_testkit::{Admission, Admissions};

/// Of the first, hardly anything comes back. The others are full again in a few seconds, which leases outlive.
const RULES: &str = "
policies:
  scarce: {requests: 1, period: 1h, burst: 100000, fail_mode: closed, consistency: leased}
  leased: {requests: 250, period: 1s, burst: 1000, fail_mode: closed, consistency: leased}
  strict: {requests: 250, period: 1s, burst: 1000, fail_mode: closed, consistency: leased, strict: true}
";
const BURST: u64 = 1_000;
const INTERVAL_US: u64 = 4_000;
const SERVERS: usize = 2;
/// So many are under way at once on a connection.
const TOGETHER: usize = 50;
/// The life of a lease.
const LIFE_NS: u64 = 10_000_000_000;
/// More than there are, whoever grants them.
const ALL: usize = 1_500;

/// Servers that share a limit, and the way to what they share.
struct Fleet {
    servers: Vec<Tollgate>,
    clock: Clock,
    detour: Detour,
    redis: RedisServer,
}

impl Fleet {
    fn start() -> Fleet {
        let redis = RedisServer::start();
        let detour = Detour::to(redis.address());
        let start = |_| {
            Launch::new(env!("CARGO_BIN_EXE_tollgate"))
                .rules("rules.yaml", RULES)
                .flag("store", &format!("redis://{}", detour.address()))
                .flag("store-deadline", "1s")
                .flag("workers", "1")
                .flag("store-nodes", &SERVERS.to_string())
                .start()
        };
        Fleet { servers: (0..SERVERS).map(start).collect(), clock: Clock::new(), detour, redis }
    }

    /// Asks a server so often for one unit, and tells what it admitted.
    fn ask(&self, server: &Tollgate, policy: &str, asks: usize) -> Vec<Admission> {
        let mut client = RedisClient::connect(server.resp()).unwrap();
        let now_us = || self.clock.now().ticks() / 1_000;
        let mut admitted = Vec::new();
        for asked in (0..asks).step_by(TOGETHER) {
            let (from_us, count) = (now_us(), TOGETHER.min(asks - asked));
            for _ in 0..count {
                client.send(&[b"TG.CHECK", policy.as_bytes(), b"ann"]).unwrap();
            }
            for _ in 0..count {
                let Reply::Array(answer) = client.receive().unwrap() else { panic!("no answer") };
                let units = u64::try_from(answer[0].integer()).unwrap();
                admitted.extend((units > 0).then(|| Admission { from_us, to_us: now_us(), units }));
            }
        }
        admitted
    }

    /// All servers are asked for all there is, at the same time.
    fn ask_all(&self, policy: &str) -> Vec<Admission> {
        thread::scope(|scope| {
            let ask = |server| scope.spawn(move || self.ask(server, policy, ALL));
            let asking: Vec<_> = self.servers.iter().map(ask).collect();
            asking.into_iter().flat_map(|asked| asked.join().unwrap()).collect()
        })
    }

    /// Asks a server until it has so many units in hand.
    fn hoard(&self, server: &Tollgate, policy: &str, units: u64) -> Vec<Admission> {
        let mut admitted = Vec::new();
        until("a server has enough in hand", || {
            admitted.extend(self.ask(server, policy, 20));
            // What it has not got, Redis would have to be asked for.
            (look(server, policy, units)["decided_by"] == "lease").then_some(())
        });
        admitted
    }

    fn leased_decisions(&self) -> u64 {
        let series = "ratelimit_shared_decisions_total{decided_by=\"lease\"}";
        self.servers.iter().map(|server| server.metric(series)).sum()
    }
}

/// What a server says about so many units.
fn look(server: &Tollgate, policy: &str, units: u64) -> Value {
    let reply = server.post("/v1/peek", &json!({"policy": policy, "key": "ann", "cost": units}));
    serde_json::from_str::<Value>(&reply.body).unwrap()["decisions"][0].clone()
}

#[test]
fn what_is_in_hand_is_spent_until_its_deadline_also_by_who_stood_still() {
    // More than are asked for while anybody waits here.
    const ENOUGH: u64 = 4_000;
    let fleet = Fleet::start();
    let [frozen, awake] = &fleet.servers[..] else { panic!("two") };
    let mut admitted = fleet.hoard(frozen, "scarce", ENOUGH);
    admitted.extend(fleet.hoard(awake, "scarce", ENOUGH)); // Later, and so its leases end later.
    fleet.redis.freeze();
    frozen.signal(Signal::STOP);
    let (before, stood_still_at) = (admitted.len(), fleet.clock.now());
    until("leases end", || {
        let more = fleet.ask(awake, "scarce", 1);
        let has_ended = more.is_empty();
        admitted.extend(more);
        has_ended.then_some(())
    });
    assert!(admitted.len() > before + 100, "nothing was in hand");
    // The other one has stopped before its deadline, to give back what was left: nobody knows the deadline better than the life of a lease.
    until("the life of every lease has passed", || {
        (fleet.clock.now().since(stood_still_at).ticks() > LIFE_NS).then_some(())
    });
    frozen.signal(Signal::CONT);
    assert_eq!(fleet.ask(frozen, "scarce", TOGETHER), [], "it has slept beyond the deadline");
    fleet.redis.thaw();
    let counted = until("Redis says what is counted", || {
        let decision = look(awake, "scarce", 90_000);
        let number = |name: &str| decision[name].as_u64().unwrap();
        (decision["decided_by"] == "authority").then(|| number("limit") - number("remaining"))
    });
    assert!(counted >= admitted.len() as u64, "{} admitted, {counted} counted", admitted.len());
}

/// Servers have as much in hand as they can. Something happens to the fleet, meanwhile the shared count becomes full again, and then all of it is
/// asked for at once: that is the most that leases can add to a limit.
fn check_bound(happen: impl FnOnce(&mut Fleet)) {
    const IN_HAND: [(&str, u64); 2] = [("leased", 200), ("strict", 100)];
    let mut fleet = Fleet::start();
    let mut admitted = IN_HAND.map(|(policy, units)| {
        fleet.servers.iter().flat_map(|server| fleet.hoard(server, policy, units)).collect::<Vec<_>>()
    });
    happen(&mut fleet);
    let mut turns = 0..;
    until("the shared counts are full again", || {
        // Now and then somebody asks, or what is in hand would be given back.
        if turns.next().is_some_and(|turn| turn % 50 == 0) {
            for ((policy, _), admitted) in IN_HAND.iter().zip(&mut admitted) {
                admitted.extend(fleet.servers.iter().flat_map(|server| fleet.ask(server, policy, 1)));
            }
        }
        let is_full = |(policy, _): &(&str, u64)| {
            let decision = look(&fleet.servers[0], policy, BURST);
            decision["decided_by"] == "authority" && decision["remaining"] == decision["limit"]
        };
        IN_HAND.iter().all(is_full).then_some(())
    });
    for ((policy, in_hand), mut admitted) in IN_HAND.into_iter().zip(admitted) {
        let before = fleet.leased_decisions();
        admitted.extend(fleet.ask_all(policy));
        let by_lease = fleet.leased_decisions() - before;
        assert!(by_lease >= in_hand, "{policy}: only {by_lease} were in hand");
        let slack = if policy == "strict" { 0 } else { BURST / 2 };
        let burst = admitted.into_iter().collect::<Admissions>().least_burst(INTERVAL_US);
        assert!(burst <= BURST + slack, "{policy}: {burst} at once, beyond {BURST} and {slack} more");
    }
}

#[test]
fn a_node_that_stood_still_adds_no_more_than_the_bound() {
    check_bound(|fleet| {
        fleet.redis.freeze();
        for policy in ["leased", "strict"] {
            assert!(!fleet.ask(&fleet.servers[0], policy, 1).is_empty(), "nothing is in hand");
        }
        fleet.redis.thaw();
    });
}

#[test]
fn connections_that_are_cut_add_no_more_than_the_bound() {
    check_bound(|fleet| {
        fleet.detour.lose_every(Some(2));
        until("answers are lost", || {
            // More than is in hand, so that Redis is asked.
            for policy in ["leased", "strict"] {
                look(&fleet.servers[0], policy, BURST);
            }
            (fleet.detour.lost() > 3).then_some(())
        });
        fleet.detour.lose_every(None);
    });
}

#[test]
fn a_server_that_is_killed_adds_no_more_than_the_bound() {
    check_bound(|fleet| fleet.servers[1].restart());
}

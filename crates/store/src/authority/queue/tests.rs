//! The queue against a naive one, and at its bounds.

use std::collections::{HashMap, HashSet};

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate_core::{Concurrency, Cost, FixedWindow, Holder, Rate, SlidingWindow, Span};

use super::*;

const LIMITS: FlightLimits = FlightLimits { keys_max: 100, asks_max: 1_000 };

fn fixed_window(units: u64) -> Arc<SharedLimit> {
    let rate = Rate::new(units, Span::from_ticks(60_000_000_000)).unwrap();
    Arc::new(SharedLimit::new(&FixedWindow::new(rate).into()).unwrap())
}

fn sliding_window(units: u64) -> Arc<SharedLimit> {
    let rate = Rate::new(units, Span::from_ticks(60_000_000_000)).unwrap();
    Arc::new(SharedLimit::new(&SlidingWindow::new(rate).into()).unwrap())
}

fn question(key: u64, limit: &Arc<SharedLimit>) -> Question {
    Question {
        key: SharedKey(u128::from(key)),
        limit: Arc::clone(limit),
        act: Act::Take(Cost::ONE),
        account: None,
    }
}

/// Per key in order of leaving, the tickets in order of arrival.
type Taken = Vec<(u128, Vec<u64>)>;

fn take(queue: &mut Queue<u64>, limits: FlightLimits) -> (Option<Flight<u64>>, Taken) {
    let flight = queue.take_flight(limits, |_| true);
    let lists = flight.iter().flat_map(Flight::lists);
    let taken =
        lists.map(|list| (list.key().0, list.asks.iter().map(|asked| asked.ticket).collect())).collect();
    (flight, taken)
}

#[test]
fn keys_leave_by_their_first_ask_with_all_that_waits() {
    let (mut queue, limit) = (Queue::default(), fixed_window(10));
    for (ticket, key) in [7, 3, 7, 9, 3, 7].into_iter().enumerate() {
        queue.push(question(key, &limit), ticket as u64).unwrap();
    }
    let (_flight, taken) = take(&mut queue, LIMITS);
    assert_eq!(taken, [(7, vec![0, 2, 5]), (3, vec![1, 4]), (9, vec![3])]);
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_key_that_landed_leaves_before_those_that_asked_later() {
    let (mut queue, limit) = (Queue::default(), fixed_window(10));
    queue.push(question(1, &limit), 0).unwrap();
    let (flight, _) = take(&mut queue, LIMITS);
    for (ticket, key) in [(1, 1), (2, 2), (3, 1)] {
        queue.push(question(key, &limit), ticket).unwrap();
    }
    let (second, taken) = take(&mut queue, FlightLimits { keys_max: 1, ..LIMITS });
    assert_eq!(taken, [(2, vec![2])], "1 is in the air");
    queue.push(question(4, &limit), 4).unwrap();
    queue.land(flight.unwrap());
    queue.land(second.unwrap());
    assert_eq!(take(&mut queue, LIMITS).1, [(1, vec![1, 3]), (4, vec![4])]);
}

#[test]
fn who_waits_for_others_of_its_key_is_in_line() {
    let (mut queue, was, is) = (Queue::default(), fixed_window(10), fixed_window(20));
    let push = |queue: &mut Queue<u64>, key, limit| queue.push(question(key, limit), 0).unwrap();
    let first = push(&mut queue, 1, &was);
    let second = push(&mut queue, 1, &is);
    let in_line = |queue: &Queue<u64>| [first, second].map(|arrival| queue.is_in_line(SharedKey(1), arrival));
    assert_eq!(in_line(&queue), [false, false], "nothing is in the air");
    let (flight, _) = take(&mut queue, LIMITS);
    assert_eq!(in_line(&queue), [false, true]);
    assert!(!queue.is_in_line(SharedKey(2), second), "another key");
    queue.land(flight.unwrap());
    assert_eq!(in_line(&queue), [false, false], "it may leave");
    let (_flight, _) = take(&mut queue, LIMITS);
    assert_eq!(in_line(&queue), [false, false], "all have left");
}

#[test]
fn one_script_is_one_call() {
    let mut queue = Queue::default();
    for key in 0..6 {
        let limit = if key % 2 == 0 { sliding_window(10 + key) } else { fixed_window(10) };
        queue.push(question(key, &limit), key).unwrap();
    }
    let flight = queue.take_flight(LIMITS, |_| true).unwrap();
    let calls: Vec<Vec<u128>> =
        flight.calls().map(|lists| lists.iter().map(|list| list.key().0).collect()).collect();
    assert_eq!(calls, [[1, 3, 5], [0, 2, 4]]);
}

#[test]
fn other_numbers_of_a_limit_wait_for_the_next_flight() {
    let (mut queue, was, is) = (Queue::default(), fixed_window(10), fixed_window(20));
    let same = fixed_window(10);
    for (ticket, limit) in [(0, &was), (1, &same), (2, &is), (3, &was)] {
        queue.push(question(1, limit), ticket).unwrap();
    }
    for tickets in [vec![0, 1], vec![2], vec![3]] {
        let (flight, taken) = take(&mut queue, LIMITS);
        assert_eq!(taken, [(1, tickets)]);
        assert!(queue.take_flight(LIMITS, |_| true).is_none(), "the key is in the air");
        queue.land(flight.unwrap());
    }
    assert!(queue.lanes.is_empty());
}

/// As many come and go at a hot key, whoever releases knows the key and the hold, not the numbers of the rule.
#[test]
fn releases_travel_with_those_who_take() {
    let concurrency = |units| {
        let limit = Concurrency::new(units, Span::from_ticks(60_000_000_000)).unwrap();
        Arc::new(SharedLimit::new(&limit.into()).unwrap())
    };
    let (rule, other, any, fixed) = (concurrency(10), concurrency(20), concurrency(1), fixed_window(10));
    let release = Act::Release(Holder::from_number(1));
    let take_one = Act::Take(Cost::ONE);
    let check = |asks: &[(&Arc<SharedLimit>, Act)], lists: &[(usize, &Arc<SharedLimit>)]| {
        let mut queue = Queue::default();
        for (ticket, (limit, act)) in asks.iter().enumerate() {
            queue.push(Question { act: *act, ..question(1, limit) }, ticket as u64).unwrap();
        }
        for (length, limit) in lists {
            let flight = queue.take_flight(LIMITS, |_| true).unwrap();
            let list = &flight.lists()[0];
            assert_eq!((list.asks.len(), list.limit()), (*length, *limit), "{asks:?}");
            queue.land(flight);
        }
        assert_eq!(queue.waiting(), 0);
    };
    check(&[(&rule, take_one), (&any, release), (&rule, take_one), (&any, release)], &[(4, &rule)]);
    check(&[(&any, release), (&any, release), (&rule, take_one), (&any, release)], &[(4, &rule)]);
    check(&[(&any, release), (&rule, take_one), (&other, take_one)], &[(2, &rule), (1, &other)]);
    check(&[(&rule, take_one), (&any, take_one)], &[(1, &rule), (1, &any)]);
    check(&[(&fixed, take_one), (&any, release)], &[(1, &fixed), (1, &any)]);
}

#[test]
fn a_list_longer_than_a_flight_goes_on_in_the_next() {
    let (mut queue, limit) = (Queue::default(), fixed_window(10));
    for ticket in 0..5 {
        queue.push(question(1, &limit), ticket).unwrap();
    }
    for tickets in [vec![0, 1], vec![2, 3], vec![4]] {
        let (flight, taken) = take(&mut queue, FlightLimits { keys_max: 9, asks_max: 2 });
        assert_eq!(taken, [(1, tickets)]);
        queue.land(flight.unwrap());
    }
    assert_eq!(queue.waiting(), 0);
}

/// Whoever makes up a lease chooses the names in it.
#[test]
fn keys_that_somebody_chose_do_not_meet() {
    let [one, other] = [(); 2].map(|()| KeyHashing::default());
    let choices: [fn(u128) -> u128; 3] = [|n| n << 64 | 7, |n| 7 << 64 | n, |n| n << 64 | n];
    for chosen in choices {
        let hashes: HashSet<u64> = (0..10_000).map(|n| one.hash_one(SharedKey(chosen(n)))).collect();
        assert!(hashes.len() > 9_990, "{} hashes of 10000 keys", hashes.len());
    }
    assert_ne!(one.hash_one(SharedKey(7)), other.hash_one(SharedKey(7)), "nobody else knows them");
}

#[test]
fn refuses_more_than_may_wait() {
    let (mut queue, limit) = (Queue::default(), fixed_window(10));
    for ticket in 0..WAITING_MAX as u64 {
        queue.push(question(ticket % 1_000, &limit), ticket).unwrap();
    }
    assert_eq!(queue.push(question(1, &limit), 42), Err(42));
    let (_flight, taken) = take(&mut queue, FlightLimits { keys_max: 1, asks_max: 1 });
    assert_eq!(taken, [(0, vec![0])]);
    queue.push(question(1, &limit), 43).unwrap();
    assert_eq!(queue.push(question(1, &limit), 44), Err(44));
}

#[test]
fn who_gave_up_is_not_asked_for() {
    let (mut queue, limit) = (Queue::default(), fixed_window(10));
    for (ticket, key) in [(1, 1), (2, 1), (3, 2), (5, 3), (6, 1)] {
        queue.push(question(key, &limit), ticket).unwrap();
    }
    let flight = queue.take_flight(LIMITS, |ticket| ticket % 2 == 0).unwrap();
    let [list] = flight.lists() else { panic!("{flight:?}") };
    assert_eq!((list.key().0, list.asks[0].ticket, list.asks[1].ticket), (1, 2, 6));
    assert_eq!((queue.waiting(), queue.lanes.len()), (0, 1), "the others are forgotten");
    queue.push(question(2, &limit), 7).unwrap();
    assert!(queue.take_flight(LIMITS, |_| false).is_none());
    queue.land(flight);
    assert_eq!((queue.waiting(), queue.lanes.len()), (0, 0));
    assert!(queue.ready.is_empty() && queue.ready_again.is_empty());
}

#[test]
fn what_waits_can_be_withdrawn() {
    let (mut queue, limit) = (Queue::default(), fixed_window(10));
    queue.push(question(1, &limit), 0).unwrap();
    let (flight, _) = take(&mut queue, LIMITS);
    for (ticket, key) in [(1, 1), (2, 2), (3, 2)] {
        queue.push(question(key, &limit), ticket).unwrap();
    }
    let mut tickets: Vec<_> = queue.withdraw().into_iter().map(|(_, ticket)| ticket).collect();
    tickets.sort_unstable();
    assert_eq!((tickets, queue.waiting()), (vec![1, 2, 3], 0));
    queue.push(question(1, &limit), 4).unwrap();
    queue.push(question(2, &limit), 5).unwrap();
    let (_second, taken) = take(&mut queue, LIMITS);
    assert_eq!(taken, [(2, vec![5])], "1 is still in the air");
    queue.land(flight.unwrap());
    assert_eq!(take(&mut queue, LIMITS).1, [(1, vec![4])]);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Push { key: u64, units: u64 },
    Take(FlightLimits),
    Land(usize),
    Withdraw,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let take = (1usize..4, 1usize..6)
        .prop_map(|(keys_max, asks_max)| Event::Take(FlightLimits { keys_max, asks_max }));
    let push = (0u64..5, 0u64..8)
        .prop_map(|(key, change)| Event::Push { key, units: if change == 0 { 20 } else { 10 } });
    vec(
        prop_oneof![8 => push, 4 => take, 4 => (0usize..4).prop_map(Event::Land), 1 => Just(Event::Withdraw)],
        1..200,
    )
}

/// The same in the plainest way: one list of all that waits, searched from its beginning.
#[derive(Default)]
struct Naive {
    waiting: Vec<(u64, u64, u64)>,
    in_the_air: HashSet<u64>,
}

impl Naive {
    fn take(&mut self, limits: FlightLimits) -> Taken {
        let mut taken: Vec<(u64, u64, Vec<u64>)> = Vec::new();
        let (mut left, mut asks, mut ended) = (Vec::new(), 0, HashSet::new());
        // A key whose list was begun takes its asks before the next key begins.
        let mut keys: Vec<u64> = Vec::new();
        for &(key, ..) in &self.waiting {
            if !keys.contains(&key) && !self.in_the_air.contains(&key) {
                keys.push(key);
            }
        }
        for key in keys {
            for &(_, units, ticket) in self.waiting.iter().filter(|&&(other, ..)| other == key) {
                let begun = taken.last().is_some_and(|&(last, ..)| last == key);
                if asks == limits.asks_max || ended.contains(&key) || !begun && taken.len() == limits.keys_max
                {
                    continue;
                }
                match taken.last_mut() {
                    Some(last) if begun && last.1 != units => drop(ended.insert(key)),
                    Some(last) if begun => {
                        asks += 1;
                        last.2.push(ticket);
                    }
                    _ => {
                        asks += 1;
                        taken.push((key, units, vec![ticket]));
                    }
                }
            }
        }
        let gone: HashSet<u64> = taken.iter().flat_map(|(_, _, tickets)| tickets.clone()).collect();
        left.extend(self.waiting.iter().filter(|(_, _, ticket)| !gone.contains(ticket)));
        self.waiting = left;
        self.in_the_air.extend(taken.iter().map(|&(key, ..)| key));
        taken.into_iter().map(|(key, _, tickets)| (u128::from(key), tickets)).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn answers_like_a_naive_queue(events in events()) {
        let limits: HashMap<u64, _> = [10, 20].map(|units| (units, fixed_window(units))).into();
        let (mut queue, mut naive) = (Queue::default(), Naive::default());
        let (mut flights, mut pushed, mut out) = (Vec::new(), 0, Vec::new());
        let drain = (0..200).flat_map(|_| [Event::Land(0), Event::Take(LIMITS)]);
        for event in events.into_iter().chain(drain) {
            match event {
                Event::Push { key, units } => {
                    queue.push(question(key, &limits[&units]), pushed).unwrap();
                    naive.waiting.push((key, units, pushed));
                    pushed += 1;
                }
                Event::Take(bounds) => {
                    let (flight, taken) = take(&mut queue, bounds);
                    prop_assert_eq!(&taken, &naive.take(bounds));
                    out.extend(taken.into_iter().flat_map(|(_, tickets)| tickets));
                    flights.extend(flight);
                }
                Event::Land(index) if index < flights.len() => {
                    let flight = flights.swap_remove(index);
                    for list in flight.lists() {
                        prop_assert!(naive.in_the_air.remove(&list.key().low_half()));
                    }
                    queue.land(flight);
                }
                Event::Land(_) => {}
                Event::Withdraw => {
                    out.extend(queue.withdraw().into_iter().map(|(_, ticket)| ticket));
                    naive.waiting.clear();
                }
            }
            prop_assert_eq!(queue.waiting(), naive.waiting.len());
        }
        out.sort_unstable();
        prop_assert!(out.iter().copied().eq(0..pushed), "every ticket once: {:?}", out);
        prop_assert!(queue.lanes.is_empty() && queue.ready.is_empty() && queue.ready_again.is_empty());
    }
}

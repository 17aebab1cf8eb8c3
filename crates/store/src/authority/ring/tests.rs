//! How even the ring is, what moves when it changes, and that it is the same everywhere.

use super::*;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|node| format!("redis-{node}.example:6379")).collect()
}

fn keys() -> impl Iterator<Item = SharedKey> {
    (0..20_000u64).map(|number| SharedKey(u128::from(mix(number)) << 64 | u128::from(mix(!number))))
}

fn nodes_of(names: &[String]) -> Vec<String> {
    let ring = Ring::new(names).unwrap();
    keys().map(|key| names[ring.node_of(key)].clone()).collect()
}

/// How much of the ring each node has, as a multiple of its fair part.
fn parts(ring: &Ring, nodes: usize) -> Vec<f64> {
    let mut parts = vec![0.0; nodes];
    let mut before = *ring.places.last().unwrap();
    for (&place, &node) in ring.places.iter().zip(&ring.owners) {
        #[allow(clippy::cast_precision_loss)] // A few digits are enough.
        let part = place.wrapping_sub(before) as f64 / 2f64.powi(64) * nodes as f64;
        parts[usize::from(node)] += part;
        before = place;
    }
    parts
}

#[test]
fn every_node_has_about_its_part() {
    let named: [fn(usize) -> String; 4] = [
        |node| format!("redis-{node}.example:6379"),
        |node| format!("10.0.0.{node}:6379"),
        |node| format!("127.0.0.1:{}", 7_000 + node),
        |node| char::from_u32(u32::from(b'a') + u32::try_from(node).unwrap()).unwrap().to_string(),
    ];
    for nodes in 3..=16 {
        for name in named {
            let ring = Ring::new(&(0..nodes).map(name).collect::<Vec<_>>()).unwrap();
            let parts = parts(&ring, nodes);
            let worst = parts.iter().fold(0f64, |worst, part| worst.max((part - 1.0).abs()));
            println!("{nodes} nodes: at most {:.1} % from the fair part ({})", worst * 100.0, name(0));
            assert!(worst < 0.1, "{nodes}: {parts:?}");
        }
    }
}

#[test]
fn a_new_node_takes_its_part_and_nothing_else_moves() {
    for nodes in [1, 3, 8, 15] {
        let (before, after) = (nodes_of(&names(nodes)), nodes_of(&names(nodes + 1)));
        let new = &names(nodes + 1)[nodes];
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        let moved: Vec<_> = moved.map(|(_, after)| after).collect();
        assert!(moved.iter().all(|&after| after == new));
        let fair = before.len() / (nodes + 1);
        assert!(moved.len() * 10 > fair * 8 && moved.len() * 10 < fair * 12, "{} of {fair}", moved.len());
    }
}

#[test]
fn only_the_keys_of_a_removed_node_move() {
    let all = names(5);
    for gone in 0..5 {
        let mut left = all.clone();
        let gone = left.remove(gone);
        for (before, after) in nodes_of(&all).into_iter().zip(nodes_of(&left)) {
            assert!(before == gone || before == after, "{before} to {after}");
        }
    }
}

#[test]
fn the_order_of_the_names_does_not_matter() {
    let (mut backwards, mut mixed) = (names(7), names(7));
    backwards.reverse();
    mixed.swap(1, 4);
    assert_eq!(nodes_of(&names(7)), nodes_of(&backwards));
    assert_eq!(nodes_of(&names(7)), nodes_of(&mixed));
}

#[test]
fn a_key_belongs_to_the_next_place() {
    for names in [["a", "b"], ["b", "a"]] {
        let ring = Ring::new(&names).unwrap();
        let check = |place: u64, owner: usize| {
            let node = ring.node_of(SharedKey(u128::from(place) << 64));
            assert_eq!(node, usize::from(ring.owners[owner]), "{names:?} {owner}");
        };
        for (index, &place) in ring.places.iter().enumerate() {
            check(place, index);
            check(place + 1, (index + 1) % ring.places.len());
        }
        check(u64::MAX, 0); // After the last comes the first.
    }
}

/// Whoever changes these numbers moves every key of every fleet.
#[test]
fn is_the_same_in_every_process_and_version() {
    assert_eq!(name_hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(name_hash("foobar"), 0x8594_4171_f739_67e8);
    assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    let ring = Ring::new(&names(3)).unwrap();
    let nodes: Vec<usize> = keys().take(24).map(|key| ring.node_of(key)).collect();
    assert_eq!(nodes, [0, 1, 0, 2, 1, 1, 1, 0, 1, 1, 0, 2, 1, 0, 1, 2, 1, 2, 1, 2, 0, 2, 0, 1]);
    let sum = ring.places.iter().zip(&ring.owners);
    let sum = sum.fold(0, |sum, (&place, &node)| mix(sum ^ place ^ u64::from(node)));
    assert_eq!(sum, 0x54b4_ad2a_434b_0e5b, "all places and their owners");
}

#[test]
fn refuses_what_makes_no_ring() {
    assert_eq!(Ring::new(&[] as &[&str]).unwrap_err(), RingError::NoNodes);
    assert_eq!(Ring::new(&["a", "b", "a"]).unwrap_err(), RingError::SameName { name: "a".to_owned() });
    assert!(Ring::new(&names(NODES_MAX)).is_ok());
    assert_eq!(
        Ring::new(&names(NODES_MAX + 1)).unwrap_err(),
        RingError::TooManyNodes { nodes: NODES_MAX + 1 }
    );
}

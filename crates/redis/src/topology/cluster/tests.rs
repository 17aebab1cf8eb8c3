//! What is left of a node that has left.
#![allow(clippy::unwrap_used)] // A test stops at the first surprise.

use super::*;
use crate::fleet::Settings;
use crate::shard::ShardStats;
use crate::topology::Topology;

/// Nobody listens there, so all that is counted is attempts to connect.
const LEAVES: u16 = 1;
const STAYS: u16 = 2;

fn told(port: u16) -> Vec<Range> {
    vec![(0, SLOTS - 1, None, port)]
}

/// How often no connection could be made to a node.
fn breaks(fleet: &Fleet, port: u16) -> Option<u64> {
    let name = format!("127.0.0.1:{port}");
    let breaks = |stats: ShardStats| (stats.name == name).then_some(stats.breaks);
    fleet.stats().into_iter().find_map(breaks)
}

#[tokio::test]
async fn what_was_counted_of_a_node_that_leaves_is_not_forgotten() {
    let settings = Settings::new("redis+cluster://127.0.0.1:1".parse().unwrap());
    let fleet = Fleet::new(settings, Arc::default()).unwrap();
    let cluster = Cluster::start(&fleet);
    let thread = Arc::new(Topology::Cluster(Arc::clone(&cluster)));
    fleet.join(&thread);
    let teller = Node { host: "127.0.0.1".to_owned(), port: LEAVES };
    let now = fleet.clock.steady();
    let later = |times: u64| now.plus(Span::from_ticks(SLOTLESS_MAX.ticks() * times));

    cluster.update(&teller, told(LEAVES), now);
    while breaks(&fleet, LEAVES).unwrap() < 2 {
        sleep(Duration::from_millis(1)).await;
    }
    let before = breaks(&fleet, LEAVES);
    cluster.update(&teller, told(STAYS), now);
    cluster.update(&teller, told(STAYS), later(1));
    assert_eq!(thread.shards().len(), 1, "it has not left");
    assert!(breaks(&fleet, LEAVES) >= before, "{before:?}, then {:?}", breaks(&fleet, LEAVES));

    // And comes back.
    let before = breaks(&fleet, LEAVES);
    cluster.update(&teller, told(LEAVES), later(2));
    while breaks(&fleet, LEAVES) == before {
        sleep(Duration::from_millis(1)).await;
    }
    assert!(breaks(&fleet, LEAVES) > before, "it was counted from nothing");
}

//! Slots as the Redis Cluster specification has them, and the map of who owns them.

use super::*;

#[test]
fn the_checksum_is_the_one_of_the_specification() {
    assert_eq!(crc16(b"123456789"), 0x31c3);
    assert_eq!(crc16(b""), 0);
}

#[test]
fn slots_are_those_that_redis_computes() {
    let check = |key: &str, slot: u16| assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
    check("123456789", 0x31c3);
    check("foo", 12_182);
    check("bar", 5_061);
    check("hello", 866);
    check("somekey", 11_058);
    check("", 0);
}

#[test]
fn a_hash_tag_is_hashed_alone() {
    let check = |key: &str, hashed: &str| {
        assert_eq!(slot_of(key.as_bytes()), crc16(hashed.as_bytes()) % SLOTS, "{key}");
    };
    check("{user1000}.following", "user1000");
    check("{user1000}.followers", "user1000");
    check("foo{}{bar}", "foo{}{bar}");
    check("foo{{bar}}zap", "{bar");
    check("foo{bar}{zap}", "bar");
    check("foo}{bar}", "bar");
    check("foo{bar", "foo{bar");
    check("{}", "{}");
    check("tollgate:1:{a3f}:HASH", "a3f");
}

/// Tags of three hexadecimal digits are what keys are spread by.
#[test]
fn three_digits_spread_over_all_shards() {
    for shards in 3..=16 {
        let mut keys = vec![0u32; shards];
        for tag in 0..4_096 {
            let slot = slot_of(format!("tollgate:1:{{{tag:03x}}}:key").as_bytes());
            keys[usize::from(slot) * shards / usize::from(SLOTS)] += 1;
        }
        let fair = 4_096 / u32::try_from(shards).unwrap();
        assert!(keys.iter().all(|&keys| keys * 10 > fair * 8 && keys * 10 < fair * 12), "{shards}: {keys:?}");
    }
}

#[test]
fn knows_who_owns_a_slot() {
    let mut map = SlotMap::new([(0..=5_460, 0), (5_461..=10_922, 1), (10_924..=SLOTS - 1, 2)]).unwrap();
    let check = |map: &SlotMap, slot, shard| assert_eq!(map.shard_of(slot), shard, "{slot}");
    for (slot, shard) in [(0, 0), (5_460, 0), (5_461, 1), (10_922, 1), (10_924, 2), (SLOTS - 1, 2)] {
        check(&map, slot, Some(shard));
    }
    check(&map, 10_923, None);
    check(&map, SLOTS, None);
    map.set(5_461, 2).unwrap();
    check(&map, 5_461, Some(2));
    check(&map, 5_462, Some(1));
}

#[test]
fn refuses_what_cannot_be() {
    let no_such_slot = Some(SlotError::NoSuchSlot { slot: SLOTS });
    assert_eq!(SlotMap::new([(0..=SLOTS, 0)]).err(), no_such_slot);
    let mut map = SlotMap::new([(0..=0, SHARDS_MAX - 1)]).unwrap();
    assert_eq!(map.set(SLOTS, 0).err(), no_such_slot);
    for shard in [SHARDS_MAX, usize::from(u16::MAX), usize::MAX] {
        assert_eq!(map.set(0, shard), Err(SlotError::TooManyShards));
    }
    assert_eq!(map.shard_of(0), Some(SHARDS_MAX - 1));
}

//! Budgets of descriptors and memory, from what the system says.
#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn listeners_share_few_descriptors_and_leave_a_reserve() {
    let users = DescriptorUsers { workers: 2, store_nodes: 0 };
    let ConnectionBudget { data, admin } = ConnectionBudget::new(1_024, users, 3);
    assert_eq!((data, admin), (274, 64));
    assert!(3 * data + admin + 2 * 4 + 128 <= 1_024);
    assert_eq!(ConnectionBudget::new(0, users, 3).data, CONNECTIONS_MIN);
    assert_eq!(ConnectionBudget::new(10_000, users, 0).data, 10_000 - DESCRIPTORS_RESERVED - 2 * 4);
}

#[test]
fn the_reserve_covers_workers_and_their_connections_to_the_store() {
    let data =
        |workers, store_nodes| ConnectionBudget::new(1_024, DescriptorUsers { workers, store_nodes }, 3).data;
    assert_eq!(data(64, 0), (1_024 - 192 - 64 * 4) / 3);
    assert_eq!(data(64, 3), (1_024 - 192 - 64 * (4 + 3)) / 3);
    assert_eq!(data(usize::MAX, usize::MAX), CONNECTIONS_MIN);
}

#[test]
fn the_memory_of_the_machine_is_read() {
    assert_eq!(machine_bytes("MemTotal:       24624452 kB\nMemFree: 1 kB\n"), Some(24_624_452 << 10));
    assert_eq!(machine_bytes("MemFree: 1 kB\n"), None);
    assert_eq!(machine_bytes(""), None);
}

#[test]
fn the_least_limit_of_the_groups_around_this_process_counts() {
    let root = tempfile::tempdir().unwrap();
    let inner = root.path().join("outer/inner");
    fs::create_dir_all(&inner).unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), None);
    fs::write(inner.join("memory.max"), "max\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), None);
    fs::write(root.path().join("outer/memory.max"), "536870912\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), Some(512 << 20));
    fs::write(inner.join("memory.max"), "1048576\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "0::/outer/inner\n"), Some(1 << 20));
    assert_eq!(limit_of_groups(root.path(), "0::/elsewhere\n"), None);
}

#[test]
fn limits_of_the_first_version_of_control_groups_are_read() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("memory/box")).unwrap();
    fs::write(root.path().join("memory/box/memory.limit_in_bytes"), "268435456\n").unwrap();
    assert_eq!(limit_of_groups(root.path(), "5:cpu:/box\n4:memory:/box\n"), Some(256 << 20));
}

#[test]
fn the_default_is_half_of_what_the_machine_or_the_group_has_and_one_gibibyte_at_most() {
    let root = tempfile::tempdir().unwrap();
    let default = |mebibytes: usize| {
        default_within(&format!("MemTotal: {} kB\n", mebibytes << 10), root.path(), "0::/box\n") >> 20
    };
    assert_eq!([16_384, 2_048, 512].map(default), [1_024, 1_024, 256]);
    fs::create_dir(root.path().join("box")).unwrap();
    fs::write(root.path().join("box/memory.max"), (768_usize << 20).to_string()).unwrap();
    assert_eq!([16_384, 2_048, 512].map(default), [384, 384, 256]);
    assert_eq!(default_within("", Path::new("nosuch"), ""), MEMORY_DEFAULT_MAX);
}

#[test]
fn the_default_is_at_most_one_gibibyte() {
    assert!((1..=MEMORY_DEFAULT_MAX).contains(&default_memory_bytes()));
}

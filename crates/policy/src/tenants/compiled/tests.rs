//! How much memory compiled terms take.

use std::sync::OnceLock;

use super::*;

/// What is read of one tenant. Every cache line more is one more that a decision waits for.
const SLOT_BYTES_MAX: usize = 3 * 64;

#[test]
fn the_terms_of_a_tenant_fill_three_cache_lines_at_most() {
    let bytes = size_of::<OnceLock<Compiled>>();
    assert!(bytes <= SLOT_BYTES_MAX, "{bytes}");
    println!("{bytes}");
}

//! The maps of a snapshot: read for every request, written when rules are loaded.
//!
//! Their keys come from rules, not from requests, so nobody can fill them with colliding keys: a fast hash is safe, and the
//! standard library's, made to withstand that, would cost more than all the rest of a step.

/// A map whose keys come from rules.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, rapidhash::fast::RandomState>;

//! Which of several independent nodes keeps a key.
//!
//! Every node of a fleet has to come to the same answer without asking anybody, and when a node is added only about 1/n of the keys may
//! move, since a key that moves starts anew. So both keys and nodes have places on a ring, and a key belongs to the next node after
//! it. A node has many places ([`PLACES`]), or chance would give one node twice what another has.
//!
//! Places come from the names alone, not from the order in which they are written. How they are computed never changes: two versions
//! that disagree would count one key twice.

#[cfg(test)]
mod tests;

use thiserror::Error;

use super::{SharedKey, mix};

/// How many places a node has on the ring. With so many, 3 to 16 nodes each have within a tenth of their fair part.
pub const PLACES: u16 = 1_024;
/// The most nodes of one ring.
pub const NODES_MAX: usize = 128;

/// A ring of named nodes.
#[derive(Clone, Debug)]
pub struct Ring {
    /// In order; beside each, at the same index, whose it is.
    places: Vec<u64>,
    owners: Vec<u16>,
}

/// A ring that cannot be built, and why.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RingError {
    /// Nowhere to keep anything.
    #[error("a ring needs at least one node")]
    NoNodes,
    /// More than [`NODES_MAX`].
    #[error("a ring may have at most {NODES_MAX} nodes, not {nodes}")]
    TooManyNodes {
        /// How many there are.
        nodes: usize,
    },
    /// Two nodes would have the same places.
    #[error("two nodes of a ring are named \"{name}\"")]
    SameName {
        /// The name of both.
        name: String,
    },
}

impl Ring {
    /// The ring of these nodes.
    pub fn new(names: &[impl AsRef<str>]) -> Result<Ring, RingError> {
        if names.is_empty() {
            return Err(RingError::NoNodes);
        }
        if names.len() > NODES_MAX {
            return Err(RingError::TooManyNodes { nodes: names.len() });
        }
        let mut by_name: Vec<(&str, u16)> = names.iter().map(AsRef::as_ref).zip(0..).collect();
        by_name.sort_unstable();
        if let Some(twice) = by_name.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RingError::SameName { name: twice[0].0.to_owned() });
        }
        let mut owned: Vec<(u64, u16)> = by_name
            .iter()
            .flat_map(|&(name, node)| places_of(name).map(move |place| (place, node)))
            .collect();
        // Stable: where two nodes share a place, the first by name has it.
        owned.sort_by_key(|&(place, _)| place);
        let (places, owners) = owned.into_iter().unzip();
        Ok(Ring { places, owners })
    }

    /// The node that keeps a key, by its index among the names.
    pub fn node_of(&self, key: SharedKey) -> usize {
        let place = key.high_half();
        let next = self.places.partition_point(|&other| other < place);
        // After the last place comes the first.
        self.owners.get(next).or(self.owners.first()).map_or(0, |&node| usize::from(node))
    }
}

fn places_of(name: &str) -> impl Iterator<Item = u64> + use<> {
    let name_hash = name_hash(name);
    (0..PLACES).map(move |number| mix(name_hash.wrapping_add(mix(u64::from(number)))))
}

/// FNV-1a. Names are few, short and chosen by the operator; what matters is that it is the same everywhere.
fn name_hash(name: &str) -> u64 {
    let add = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, add)
}

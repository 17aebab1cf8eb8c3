//! The nodes of the fleet, as they tell of themselves.

use crate::document::Version;
use crate::driver::Row;
use crate::error::DatabaseError;

/// A node that was not heard of for so long is forgotten.
pub const NODES_KEPT_MS: i64 = 24 * 3_600 * 1_000;

/// What a node tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Who it is: no other has the same.
    pub node: String,
    /// What people call it.
    pub name: String,
    /// The last change that it has applied.
    pub version: Version,
    /// The rules that it decides by, as a digest.
    pub rules: String,
    /// Since when it runs, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// When it was last heard of. A node that tells of itself need not say: it is now.
    pub seen_at_ms: i64,
}

impl NodeState {
    pub(crate) fn read(mut row: Row) -> Result<NodeState, DatabaseError> {
        Ok(NodeState {
            node: row.text(0)?,
            name: row.text(1)?,
            version: row.version(2)?,
            rules: row.text(3)?,
            started_at_ms: row.integer(4)?,
            seen_at_ms: row.integer(5)?,
        })
    }
}

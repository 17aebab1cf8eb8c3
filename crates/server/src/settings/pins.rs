//! What is kept on a node of its own: `acme=10.0.0.9:6379, big=10.0.0.10`.

use thiserror::Error;
use tollgate_redis::Node;

use super::value::SettingError;

/// The most pins: each may be one more node that every thread is connected to.
const PINS_MAX: usize = 256;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Why something cannot be pinned.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PinError {
    /// It does not say what or where.
    #[error(
        "pin {0} has to be NAME=HOST:PORT, with commas between pins, and a name of 1 to {NAME_BYTES_MAX} bytes"
    )]
    Form(usize),
    /// The node is none.
    #[error(
        "pin {0} names no node: write HOST:PORT, with an IPv6 address in brackets; user and password are those of the store"
    )]
    Node(usize),
    /// Twice the same name.
    #[error("\"{0}\" is pinned twice: a key lives on one node")]
    Twice(String),
    /// More than anybody has.
    #[error("more than {PINS_MAX} pins")]
    TooMany,
}

/// A list of names and their nodes; or nothing.
pub(super) fn pins(text: &str) -> Result<Vec<(String, Node)>, SettingError> {
    let mut pins: Vec<(String, Node)> = Vec::new();
    if text.trim().is_empty() {
        return Ok(pins);
    }
    for (index, pin) in text.split(',').enumerate() {
        if index == PINS_MAX {
            return Err(PinError::TooMany.into());
        }
        // Names may have `=` in them, nodes have not.
        let (name, node) = pin.rsplit_once('=').ok_or(PinError::Form(index + 1))?;
        let (name, node) = (name.trim(), node.trim());
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(PinError::Form(index + 1).into());
        }
        // What stands before an `@` may be a password, which has no place in the name of a node.
        let node = Some(node).filter(|node| !node.contains('@')).and_then(|node| node.parse().ok());
        let node = node.ok_or(PinError::Node(index + 1))?;
        if pins.iter().any(|(other, _)| other == name) {
            return Err(PinError::Twice(name.to_owned()).into());
        }
        pins.push((name.to_owned(), node));
    }
    Ok(pins)
}

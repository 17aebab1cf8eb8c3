//! What a key is called in Redis: `PREFIX:1:{TAG}:HASH`.
//!
//! The hash is all that is known of a key, and keyed: nobody outside can choose where it is kept. The tag is three hexadecimal digits of
//! it, so that a Cluster spreads keys over 4,096 places and what belongs together could still share one. The version lets two layouts live
//! side by side.

use thiserror::Error;
use tollgate_store::authority::SharedKey;
use tollgate_store::authority::slots::slot_of;

use crate::wire::Arguments;

/// The version of the layout of keys and of what is stored under them.
const LAYOUT: &str = "1";
/// The longest prefix.
pub const PREFIX_BYTES_MAX: usize = 64;
/// A hash in base64.
const HASH_BYTES: usize = 22;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Why keys cannot be named so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a prefix has 1 to {PREFIX_BYTES_MAX} letters, digits or any of `.`, `-`, `_`, `/` and `:`")]
pub struct PrefixError;

/// Names keys.
#[derive(Debug)]
pub(crate) struct Keys {
    prefix: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Result<Keys, PrefixError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_/:".contains(&byte);
        if !(1..=PREFIX_BYTES_MAX).contains(&prefix.len()) || !prefix.bytes().all(is_plain) {
            return Err(PrefixError);
        }
        Ok(Keys { prefix: format!("{prefix}:{LAYOUT}:{{") })
    }

    /// The name of a counter, as an argument.
    pub(crate) fn write(&self, key: SharedKey, arguments: &mut Arguments) {
        let mut hash = [0; HASH_BYTES];
        let mut rest = key.0;
        for digit in hash.iter_mut().rev() {
            *digit = DIGITS[(rest & 63) as usize];
            rest >>= 6;
        }
        arguments.joined(&[self.prefix.as_bytes(), &tag(key), b"}:", &hash]);
    }

    /// The slot of a counter in a Cluster: that of its tag.
    pub(crate) fn slot(key: SharedKey) -> u16 {
        slot_of(&tag(key))
    }

    /// Where nodes tell that they are there.
    pub(crate) fn nodes(&self) -> String {
        format!("{}nodes}}", self.prefix)
    }

    /// Since when somebody always was.
    pub(crate) fn nodes_since(&self) -> String {
        format!("{}nodes}}:since", self.prefix)
    }
}

/// The first three hexadecimal digits.
fn tag(key: SharedKey) -> [u8; 3] {
    let digit = |shift: u32| b"0123456789abcdef"[(key.0 >> shift & 15) as usize];
    [digit(124), digit(120), digit(116)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Commands;

    #[test]
    fn names_have_their_layout() {
        let keys = Keys::new("tollgate").unwrap();
        let check = |key: u128, expected: &str| {
            let (mut arguments, mut commands) = (Arguments::default(), Commands::default());
            keys.write(SharedKey(key), &mut arguments);
            commands.command_with(&[], &arguments);
            let text = String::from_utf8_lossy(commands.bytes()).into_owned();
            assert_eq!(text, format!("*1\r\n$39\r\n{expected}\r\n"));
            assert_eq!(Keys::slot(SharedKey(key)), slot_of(expected.as_bytes()));
        };
        check(0, "tollgate:1:{000}:AAAAAAAAAAAAAAAAAAAAAA");
        check(1, "tollgate:1:{000}:AAAAAAAAAAAAAAAAAAAAAB");
        check(u128::MAX, "tollgate:1:{fff}:D_____________________");
        check(0x1a2 << 116, "tollgate:1:{1a2}:AaIAAAAAAAAAAAAAAAAAAA");
        assert_eq!(keys.nodes(), "tollgate:1:{nodes}");
    }

    #[test]
    fn a_prefix_cannot_choose_a_slot() {
        for prefix in ["", "a{b}", "a b", "é", &"x".repeat(PREFIX_BYTES_MAX + 1)] {
            assert_eq!(Keys::new(prefix).err(), Some(PrefixError), "{prefix}");
        }
        assert!(Keys::new(&"x".repeat(PREFIX_BYTES_MAX)).is_ok());
    }
}

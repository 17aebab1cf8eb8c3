//! Descriptors on a command line: `key=value` words.

use crate::failure::Failure;

/// The entries of one descriptor.
pub(crate) fn entries(words: &[String]) -> Result<Vec<(&str, &str)>, Failure> {
    words.iter().map(|word| entry(word)).collect()
}

fn entry(word: &str) -> Result<(&str, &str), Failure> {
    match word.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(Failure::Usage(format!(
            "\"{word}\" is not an entry of a descriptor: write key=value, such as path=/login"
        ))),
    }
}

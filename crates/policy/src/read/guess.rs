//! What a wrong word was meant to be, looked for a bounded number of times.
//!
//! To look for it is to compare it with every word that is right. A file may hold a wrong word at every step, by aliases
//! the same one again and again, and as many words of its own that are right; so what was found is remembered, and after
//! very many nothing is looked for any more. The same word gets the same advice wherever it stands.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

/// The most wrong words of a file that are looked for.
const GUESSES_MAX: usize = 500;

/// What was found for the wrong words of a file.
#[derive(Default)]
pub(super) struct Guesses {
    /// By the words that they were compared with, and the wrong one.
    made: HashMap<(&'static str, String), Guess>,
}

/// What to say of a wrong word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Guess {
    /// The key that was probably meant, where it is one.
    pub(super) meant: Option<&'static str>,
    pub(super) hint: String,
}

impl Guesses {
    /// What to say of a word that is none `of` these: what `look` finds, or `plain` once too many were looked for.
    pub(super) fn guess(
        &mut self,
        of: &'static str,
        wrong: &str,
        look: impl FnOnce() -> Guess,
        plain: impl FnOnce() -> String,
    ) -> Guess {
        let key = (of, wrong.to_owned());
        if let Some(guess) = self.made.get(&key) {
            return guess.clone();
        }
        if self.made.len() == GUESSES_MAX {
            return Guess { meant: None, hint: plain() };
        }
        self.made.entry(key).or_insert_with(look).clone()
    }
}

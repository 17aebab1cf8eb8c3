//! Wrong words are looked for so many times and no more.

use super::{GUESSES_MAX, Guess, Guesses};

fn hint(guesses: &mut Guesses, wrong: &str) -> String {
    let look = || Guess { meant: None, hint: format!("not {wrong}") };
    guesses.guess("keys", wrong, look, || "plain".to_owned()).hint
}

#[test]
fn the_same_word_gets_the_same_advice_and_very_many_get_none() {
    let mut guesses = Guesses::default();
    for i in 0..GUESSES_MAX {
        assert_eq!(hint(&mut guesses, &i.to_string()), format!("not {i}"));
    }
    assert_eq!(hint(&mut guesses, "another"), "plain");
    assert_eq!(hint(&mut guesses, "0"), "not 0");
}

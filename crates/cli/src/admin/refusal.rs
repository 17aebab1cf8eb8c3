//! What the admin API says when it does not do what it was asked (RFC 9457, problem details), in words for a person.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::client::Answer;
use crate::table::{shown, shown_lines};

/// The most of an answer that nobody understands that is shown.
const SHOWN_CHARS_MAX: usize = 500;

/// Why the server has not done it.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: u16,
    /// Whether it is an answer of the admin API, and not of something else that listens there.
    is_ours: bool,
    told: String,
}

impl Refusal {
    /// What an answer says. The token is not in it; whether one was shown is known.
    pub(super) fn of(answer: &Answer, has_token: bool) -> Refusal {
        let status = answer.status;
        let problem = serde_json::from_str::<Value>(&answer.body).unwrap_or_default();
        let Some(title) = problem["title"].as_str() else {
            let body: String = answer.body.chars().take(SHOWN_CHARS_MAX).collect();
            let told = format!(
                "status {status}, and nothing that the admin API says: is this Tollgate's admin listener?\n{}",
                shown_lines(&body)
            );
            return Refusal { status, is_ours: false, told: told.trim_end().to_owned() };
        };
        let mut told = format!("the server refuses ({status}): {}", shown(title));
        let mut line = |text: String| {
            told.push('\n');
            told.push_str(&text);
        };
        if let Some(detail) = problem["detail"].as_str().filter(|detail| *detail != title) {
            line(shown_lines(detail));
        }
        for error in problem["errors"].as_array().into_iter().flatten() {
            line(one(error));
        }
        if let Some(hint) = problem["hint"].as_str() {
            line(format!("   = {}", shown(hint)));
        }
        if let Some(seconds) = answer.fields.get("retry-after").and_then(|field| field.to_str().ok()) {
            line(format!("Try again in {} s.", shown(seconds)));
        }
        if let Some(advice) = advice(status, has_token) {
            line(advice.to_owned());
        }
        Refusal { status, is_ours: true, told }
    }

    /// An answer that is no refusal, and is not understood.
    pub(super) fn not_understood(body: &Value) -> Refusal {
        let body: String = body.to_string().chars().take(SHOWN_CHARS_MAX).collect();
        Refusal {
            status: 200,
            is_ours: false,
            told: format!("an answer without a list in it: {}", shown(&body)),
        }
    }

    /// The server asks to come back later, again and again.
    pub(super) fn too_busy() -> Refusal {
        let told = "the server says again and again that it is asked too often (429)".to_owned();
        Refusal { status: 429, is_ours: true, told }
    }

    /// Whether there is no such thing.
    pub(crate) fn is_missing(&self) -> bool {
        self.status == 404 && self.is_ours
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told)
    }
}

/// One of several things that are wrong.
fn one(error: &Value) -> String {
    let mut told = String::from("  ");
    if let (Some(line), Some(column)) = (error["line"].as_u64(), error["column"].as_u64()) {
        // Writing to a text cannot fail.
        let _ = write!(told, "line {line}, column {column}: ");
    }
    told.push_str(&shown(error["message"].as_str().unwrap_or("something is wrong here")));
    if let Some(hint) = error["hint"].as_str() {
        let _ = write!(told, "\n     = {}", shown(hint));
    }
    told
}

fn advice(status: u16, has_token: bool) -> Option<&'static str> {
    match status {
        401 if has_token => Some("The token that was shown is not one of the server's."),
        401 => Some(
            "No token was shown: name its file with --token-file, or put it into TOLLGATE_ADMIN_TOKEN. A server without \
             `admin_tokens` writes one to data/admin.token when it starts; without --token-file, that file is shown only to a \
             server at 127.0.0.1, ::1 or localhost.",
        ),
        412 => Some("It was changed since you looked: look again, and decide again."),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

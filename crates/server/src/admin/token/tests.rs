//! Which texts are tokens of the admin API, whose they are, and that nothing shows them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const ANN: &str = "ann-0123456789abcdef";
const BOB: &str = "bob:0123456789abcdef";

fn file() -> NamedFile {
    NamedFile { setting: SETTING, path: "tokens".into() }
}

fn whose(callers: &Callers, shown: &str) -> Option<String> {
    callers.whose(shown.as_bytes(), Time::default()).map(|caller| format!("{} {}", caller.role, caller.name))
}

#[test]
fn a_token_says_who_asks_and_what_that_one_may() {
    let text = format!("reader:ann:{ANN}, admin:bob@example.com:{BOB}");
    let Ok(AdminTokenSource::Listed(tokens)) = AdminTokenSource::parse(&text) else { panic!("no list") };
    let callers = Callers::new(tokens);
    assert_eq!(whose(&callers, ANN).unwrap(), "reader ann");
    assert_eq!(whose(&callers, BOB).unwrap(), "admin bob@example.com");
    for shown in ["", &ANN[1..], &format!("reader:ann:{ANN}"), "ann-0123456789abcdeF"] {
        assert_eq!(whose(&callers, shown), None, "{shown}");
    }
}

#[test]
fn what_is_wrong_is_said_without_the_token() {
    for (text, error) in [
        (ANN.to_owned(), AdminTokenError::Form),
        (format!("ann:{ANN}"), AdminTokenError::Form),
        (format!("root:ann:{ANN}"), AdminTokenError::Form),
        (format!("Admin:ann:{ANN}"), AdminTokenError::Form),
        (format!("admin::{ANN}"), AdminTokenError::Name),
        (format!("admin:a b:{ANN}"), AdminTokenError::Name),
        (format!("admin:{}:{ANN}", "n".repeat(65)), AdminTokenError::Name),
        ("admin:ann:short".to_owned(), TokenError::Short.into()),
        ("admin:ann:0123456789 abcdef".to_owned(), TokenError::Characters.into()),
        (" , ".to_owned(), TokenError::None.into()),
        (vec![format!("admin:ann:{ANN}"); TOKENS_MAX + 1].join(","), TokenError::Many.into()),
    ] {
        assert_eq!(AdminTokenSource::parse(&text), Err(error), "{text}");
        assert!(!error.to_string().contains("0123"));
    }
    assert!(AdminToken::parse(&format!("admin:{}:{ANN}", "n".repeat(64))).is_ok());
    assert_eq!(AdminTokenSource::parse("@a/b"), Ok(AdminTokenSource::File("a/b".into())));
}

#[test]
fn nothing_shows_a_token() {
    let source = AdminTokenSource::parse(&format!("admin:ann:{ANN}")).unwrap();
    let AdminTokenSource::Listed(tokens) = &source else { panic!("no list") };
    let shown = format!("{source:?} {source:#?} {:?}", Callers::new(tokens.clone()));
    assert!(!shown.contains("0123"), "{shown}");
}

#[test]
fn files_have_a_token_on_each_line() {
    let read = |text: &str| read_tokens(&file(), text.as_bytes()).map_err(|error| error.to_string());
    let text = format!("# ours\nreader:ann:{ANN}\n\n  admin:bob:{BOB}  \r\n");
    assert_eq!(read(&text).unwrap().len(), 2);
    assert_eq!(read("# nobody\n").unwrap_err(), "`admin_tokens` tokens: no token");
    let refused = read(&format!("reader:ann:{ANN}\n{BOB}\n")).unwrap_err();
    assert_eq!(
        refused,
        "`admin_tokens` tokens: line 2: a token of the admin API is written ROLE:NAME:TOKEN, where the role is reader, operator or admin; in a file, a space and expires=TIME may follow"
    );
}

#[test]
fn a_token_with_two_roles_is_an_error_with_both_line_numbers() {
    let text = format!("reader:ann:{ANN}\n\nadmin:bob:{ANN}\n");
    let refused = read_tokens(&file(), text.as_bytes()).unwrap_err().to_string();
    assert_eq!(refused, "`admin_tokens` tokens: line 3: the same token as on line 1: remove one of them");
}

#[test]
fn a_server_without_tokens_makes_one_and_keeps_it() {
    let folder = std::env::temp_dir().join(format!("tollgate-{}-made", std::process::id()));
    let path = folder.join("deep/admin.token");
    let first = Callers::load(None, path.clone()).unwrap();
    assert_eq!(first.made.as_deref(), Some(&*path));
    let token = fs::read_to_string(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(path.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(token.trim().len(), 2 * 32);
    assert_eq!(whose(&first.callers, token.trim()).unwrap(), "admin admin");
    let second = Callers::load(None, path.clone()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), token);
    assert_eq!(whose(&second.callers, token.trim()).unwrap(), "admin admin");
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left");
    fs::write(&path, "").unwrap();
    assert!(Callers::load(None, path.clone()).is_err(), "an empty file is no token");
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "in the way").unwrap();
    let Err(refused) = Callers::load(None, path) else { panic!("no directory, and yet a token") };
    assert!(refused.to_string().contains("or tokens with `admin_tokens`"), "{refused}");
    fs::remove_file(&folder).unwrap();
}

#[test]
fn a_token_of_a_file_may_be_a_hash_and_may_expire() {
    // The SHA-256 of `ann-0123456789abcdef`.
    let hash = "4aebd70d3e9413c91f66417e4fea3d65096e0723b1d5b84093132287a974a2bd";
    let text = format!("reader:ann:sha256:{hash} expires=2027-01-01T00:00:00Z\nadmin:bob:{BOB}\n");
    let callers = Callers::new(read_tokens(&file(), text.as_bytes()).unwrap());
    let at = |second: u64| Time::from_ticks(second * 1_000_000_000);
    let whose = |shown: &str, now| callers.whose(shown.as_bytes(), now).map(|caller| caller.name);
    assert_eq!(whose(ANN, at(1_798_761_599)).as_deref(), Some("ann"));
    assert_eq!(whose(ANN, at(1_798_761_600)), None, "from its expiry on");
    assert_eq!(whose(BOB, at(1_798_761_600)).as_deref(), Some("bob"));
    assert_eq!(whose(&format!("sha256:{hash}"), at(0)), None, "the hash is not the token");
    for line in [
        format!("reader:ann:{ANN} expires=tomorrow"),
        format!("reader:ann:{ANN} scopes=check"),
        format!("reader:ann:{ANN} expires=2027-01-01T00:00:00Z x"),
        format!("reader:ann:sha256:{}", &hash[1..]),
    ] {
        let refused = read_tokens(&file(), line.as_bytes()).unwrap_err().to_string();
        assert!(
            refused.starts_with("`admin_tokens` tokens: line 1: ") && !refused.contains("0123"),
            "{refused}"
        );
    }
}

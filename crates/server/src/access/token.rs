//! Tokens: secrets that a client and the server share, of which the server keeps only SHA-256 hashes.
//!
//! A hash cannot be turned back into its token, so neither a core file nor a copy of a token file with `sha256:` lines lets a reader
//! in. Tokens are long and random, so one round of SHA-256 without a salt is enough: there is no dictionary to try.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use thiserror::Error;
use tollgate::core::Time;

use super::scope::{Patterns, Scope, Verb, Verbs};

/// The shortest token. So many random characters cannot be guessed.
pub(super) const TOKEN_BYTES_MIN: usize = 16;
pub(super) const TOKEN_BYTES_MAX: usize = 512;
/// The most tokens of one listener. What a client shows is compared with all of them.
pub(crate) const TOKENS_MAX: usize = 256;
const NAME_BYTES_MAX: usize = 64;

/// What a hash in place of a token begins with.
const HASH_PREFIX: &str = "sha256:";

/// A secret that a client shows. Only its hash is kept, and that is not printed either.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(TokenHash);

/// The SHA-256 of what a client has shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TokenHash([u8; SHA256_OUTPUT_LEN]);

/// Why a text is not a token. The text is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// Easy to guess.
    #[error("a token has at least {TOKEN_BYTES_MIN} characters; `openssl rand -hex 32` makes a good one")]
    Short,
    /// Longer than is useful.
    #[error("a token has at most {TOKEN_BYTES_MAX} characters")]
    Long,
    /// Header fields could not carry it.
    #[error("a token has letters, digits and signs of ASCII only, without spaces and commas")]
    Characters,
    /// `sha256:` without a hash.
    #[error("`sha256:` is followed by 64 hexadecimal digits; `printf %s \"$TOKEN\" | sha256sum` prints them")]
    Hash,
    /// Not an attribute.
    #[error(
        "after a token come attributes with spaces between them: name=, expires=, scopes=, domains= or policies=, each at most once"
    )]
    Attribute,
    /// A name that logs could not carry.
    #[error("`name` has 1 to {NAME_BYTES_MAX} letters, digits and signs of `-_.@`")]
    Name,
    /// Not a time.
    #[error("`expires` is an RFC 3339 timestamp such as 2027-01-01T00:00:00Z")]
    Expiry,
    /// Not a scope.
    #[error("`scopes` is a list of check, refund, override, tier and reserve, with commas between them")]
    Scope,
    /// Not a list of names.
    #[error(
        "`domains` and `policies` are lists of 1 to 64 names with commas between them; a `*` may end a name"
    )]
    Pattern,
    /// Too many to compare with.
    #[error("more than {TOKENS_MAX} tokens")]
    Many,
    /// No client could ask.
    #[error("no token")]
    None,
}

impl Token {
    /// A token of this text, or of this hash if the text is `sha256:` and 64 hexadecimal digits.
    pub fn new(text: &str) -> Result<Token, TokenError> {
        if let Some(digits) = text.strip_prefix(HASH_PREFIX) {
            // blake3 reads 64 hexadecimal digits of any 32 bytes.
            let hash = blake3::Hash::from_hex(digits).map_err(|_| TokenError::Hash)?;
            return Ok(Token(TokenHash(*hash.as_bytes())));
        }
        match text.len() {
            0..TOKEN_BYTES_MIN => Err(TokenError::Short),
            TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX
                if text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') =>
            {
                Ok(Token(TokenHash::of(text.as_bytes())))
            }
            TOKEN_BYTES_MIN..=TOKEN_BYTES_MAX => Err(TokenError::Characters),
            _ => Err(TokenError::Long),
        }
    }

    /// Whether this is the token that a client has shown. The time that it takes does not depend on where they differ.
    pub(crate) fn is(&self, shown: &TokenHash) -> bool {
        let differing = |differing: u8, (ours, theirs): (&u8, &u8)| differing | (ours ^ theirs);
        black_box(self.0.0.iter().zip(&shown.0).fold(0, differing)) == 0
    }
}

impl TokenHash {
    /// The hash of what a client shows.
    fn of(shown: &[u8]) -> TokenHash {
        let mut hash = [0; SHA256_OUTPUT_LEN];
        hash.copy_from_slice(digest(&SHA256, shown).as_ref());
        TokenHash(hash)
    }

    /// The hash of what a client shows; nothing if no token is so short or so long, which need not be hashed then.
    pub(crate) fn of_shown(shown: &[u8]) -> Option<TokenHash> {
        // A token that a file gives as a hash may be shorter than `TOKEN_BYTES_MIN`.
        (1..=TOKEN_BYTES_MAX).contains(&shown.len()).then(|| TokenHash::of(shown))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A token of a data listener, with what it may do and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DataToken {
    pub(super) token: Token,
    pub(super) attributes: Attributes,
}

/// What a line of a token file says after the token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) expires: Option<Time>,
    /// Nothing for a token that may do everything.
    pub(super) scope: Option<Arc<Scope>>,
}

impl From<Token> for DataToken {
    fn from(token: Token) -> DataToken {
        DataToken { token, attributes: Attributes::default() }
    }
}

impl FromStr for DataToken {
    type Err = TokenError;

    /// A line of a token file: a token, then attributes.
    fn from_str(line: &str) -> Result<DataToken, TokenError> {
        let mut words = line.split_ascii_whitespace();
        let token = Token::new(words.next().ok_or(TokenError::None)?)?;
        let (mut name, mut expires, mut verbs) = (None, None, None);
        let (mut domains, mut policies) = (None, None);
        for word in words {
            let (key, value) = word.split_once('=').ok_or(TokenError::Attribute)?;
            let is_repeated = match key {
                "name" => name.replace(read_name(value)?).is_some(),
                "expires" => expires.replace(read_expiry(value)?).is_some(),
                "scopes" => verbs.replace(read_verbs(value)?).is_some(),
                "domains" => domains.replace(Patterns::read(value).ok_or(TokenError::Pattern)?).is_some(),
                "policies" => policies.replace(Patterns::read(value).ok_or(TokenError::Pattern)?).is_some(),
                _ => return Err(TokenError::Attribute),
            };
            if is_repeated {
                return Err(TokenError::Attribute);
            }
        }
        let is_bounded = verbs.is_some() || domains.is_some() || policies.is_some();
        let scope =
            is_bounded.then(|| Arc::new(Scope::new(name.unwrap_or_default(), verbs, domains, policies)));
        Ok(DataToken { token, attributes: Attributes { expires, scope } })
    }
}

/// The name of a token's owner, as logs show it.
fn read_name(value: &str) -> Result<&str, TokenError> {
    if is_owner_name(value) { Ok(value) } else { Err(TokenError::Name) }
}

/// Whether logs and the audit can carry this name of a token's owner.
pub(crate) fn is_owner_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte);
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

/// A moment from which on a token is not valid any more.
pub(crate) fn read_expiry(value: &str) -> Result<Time, TokenError> {
    let moment = value.parse::<Timestamp>().map_err(|_| TokenError::Expiry)?;
    let ticks = u64::try_from(moment.as_nanosecond()).map_err(|_| TokenError::Expiry)?;
    Ok(Time::from_ticks(ticks))
}

fn read_verbs(value: &str) -> Result<Verbs, TokenError> {
    let verbs = value.split(',').map(|word| Verb::named(word).ok_or(TokenError::Scope));
    verbs.collect::<Result<Verbs, TokenError>>()
}

//! The tokens of the admin API: each has the name of its owner and a role.
//!
//! They are given in the settings or in a file that is kept up to date; where neither is, the server makes one of its own, writes it
//! where only its user can read it, and keeps it from then on. As with all tokens, nothing ever shows them: see [`crate::access`].

mod made;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::str;
use std::sync::Arc;

use arc_swap::ArcSwap;
use thiserror::Error;
use tollgate::core::Time;

use super::role::Role;
use crate::access::{TOKENS_MAX, Token, TokenError, TokenHash, check_unique, is_owner_name, read_expiry};
use crate::reload::Kept;
use crate::secret::{NamedFile, SecretError};

const SETTING: &str = "admin_tokens";

/// A token, whose it is, and what it lets that one do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    role: Role,
    name: Arc<str>,
    token: Token,
    /// From when on it is not valid any more.
    expires: Option<Time>,
}

/// Why a text is no token of the admin API. It does not say the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AdminTokenError {
    /// Not three parts, or no role.
    #[error(
        "a token of the admin API is written ROLE:NAME:TOKEN, where the role is reader, operator or admin; in a file, a space and expires=TIME may follow"
    )]
    Form,
    /// A name that logs and the audit could not carry.
    #[error("the name of a token's owner has 1 to 64 letters, digits and signs of `-_.@`")]
    Name,
    /// The token itself.
    #[error(transparent)]
    Token(#[from] TokenError),
}

/// Where the tokens of the admin API come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminTokenSource {
    /// The settings themselves.
    Listed(Vec<AdminToken>),
    /// A file, with one on each line.
    File(PathBuf),
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
}

impl Caller {
    /// Somebody whom nobody has asked.
    pub(super) fn nobody() -> Caller {
        Caller { name: "".into(), role: Role::Reader }
    }
}

/// Those who may ask.
#[derive(Debug)]
pub(crate) struct Callers {
    tokens: ArcSwap<Vec<AdminToken>>,
}

/// Those who may ask, and where their tokens came from.
pub(crate) struct LoadedCallers {
    pub(crate) callers: Arc<Callers>,
    /// Keeps them up to date, where they come from a file.
    pub(crate) kept: Option<Kept>,
    /// Where the server's own token is, if it has made one.
    pub(crate) made: Option<PathBuf>,
}

impl AdminToken {
    /// `ROLE:NAME:TOKEN`.
    pub fn parse(text: &str) -> Result<AdminToken, AdminTokenError> {
        let (role, rest) = text.split_once(':').ok_or(AdminTokenError::Form)?;
        let (name, token) = rest.split_once(':').ok_or(AdminTokenError::Form)?;
        let role = Role::named(role).ok_or(AdminTokenError::Form)?;
        if !is_owner_name(name) {
            return Err(AdminTokenError::Name);
        }
        Ok(AdminToken { role, name: name.into(), token: Token::new(token)?, expires: None })
    }

    /// A line of a file: `ROLE:NAME:TOKEN`, and `expires=TIME` if it is not valid for ever.
    fn parse_line(line: &str) -> Result<AdminToken, AdminTokenError> {
        let mut words = line.split_ascii_whitespace();
        let token = AdminToken::parse(words.next().unwrap_or_default())?;
        let attribute = words.next();
        if words.next().is_some() {
            return Err(AdminTokenError::Form);
        }
        let expires = attribute.map(|word| word.strip_prefix("expires=").ok_or(AdminTokenError::Form));
        let expires = expires.transpose()?.map(read_expiry).transpose()?;
        Ok(AdminToken { expires, ..token })
    }

    /// The server's own: whoever can read its file may do everything.
    fn of_server(token: Token) -> AdminToken {
        AdminToken { role: Role::Admin, name: "admin".into(), token, expires: None }
    }
}

impl AdminTokenSource {
    /// `@PATH`, or tokens with commas between them.
    pub(crate) fn parse(text: &str) -> Result<AdminTokenSource, AdminTokenError> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(AdminTokenSource::File(path.into()));
        }
        let tokens = text.split(',').map(str::trim).filter(|text| !text.is_empty()).map(AdminToken::parse);
        bounded(tokens.take(TOKENS_MAX + 1).collect::<Result<_, _>>()?).map(AdminTokenSource::Listed)
    }
}

fn bounded(tokens: Vec<AdminToken>) -> Result<Vec<AdminToken>, AdminTokenError> {
    match tokens.len() {
        0 => Err(TokenError::None.into()),
        1..=TOKENS_MAX => Ok(tokens),
        _ => Err(TokenError::Many.into()),
    }
}

/// The tokens of a file: one a line; lines that begin with `#` are comments.
fn read_tokens(file: &NamedFile, content: &[u8]) -> Result<Vec<AdminToken>, SecretError> {
    let text = str::from_utf8(content).map_err(|_| file.unusable("not a text in UTF-8"))?;
    let lines = (1..).zip(text.lines().map(str::trim));
    let tokens = lines
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        .take(TOKENS_MAX + 1)
        .map(|(number, line)| match AdminToken::parse_line(line) {
            Ok(token) => Ok((number, token)),
            Err(error) => Err(file.unusable(format!("line {number}: {error}"))),
        })
        .collect::<Result<Vec<(usize, AdminToken)>, _>>()?;
    check_unique(file, tokens.iter().map(|(number, token)| (*number, &token.token)))?;
    let tokens = tokens.into_iter().map(|(_, token)| token).collect();
    bounded(tokens).map_err(|error| file.unusable(error.to_string()))
}

/// Reads all that a file of tokens says.
type Read = fn(&NamedFile, &[u8]) -> Result<Vec<AdminToken>, SecretError>;

impl LoadedCallers {
    /// Nobody has a token.
    pub(crate) fn nobody() -> LoadedCallers {
        LoadedCallers { callers: Arc::new(Callers::new(Vec::new())), kept: None, made: None }
    }
}

impl Callers {
    /// Those of the settings. Where these name none, the one whose token is in `made_at`; it is made if it is not there.
    pub(crate) fn load(
        source: Option<&AdminTokenSource>,
        made_at: PathBuf,
    ) -> Result<LoadedCallers, SecretError> {
        match source {
            Some(AdminTokenSource::Listed(tokens)) => {
                let callers = Arc::new(Callers::new(tokens.clone()));
                Ok(LoadedCallers { callers, kept: None, made: None })
            }
            Some(AdminTokenSource::File(path)) => {
                Callers::of_file(NamedFile { setting: SETTING, path: path.clone() }, read_tokens)
            }
            None => {
                let file = NamedFile { setting: "data", path: made_at.clone() };
                made::make(&file)?;
                let loaded = Callers::of_file(file, made::read)?;
                Ok(LoadedCallers { made: Some(made_at), ..loaded })
            }
        }
    }

    fn new(tokens: Vec<AdminToken>) -> Callers {
        Callers { tokens: ArcSwap::from_pointee(tokens) }
    }

    fn of_file(file: NamedFile, read: Read) -> Result<LoadedCallers, SecretError> {
        file.check_rights()?;
        let content = file.read()?;
        let callers = Arc::new(Callers::new(read(&file, &content)?));
        let (kept_callers, kept_file) = (Arc::clone(&callers), file.clone());
        let kept = Kept::new("admin tokens", vec![file], &[content], move |contents| {
            kept_file.check_rights()?;
            let content = contents.first().map(Vec::as_slice).unwrap_or_default();
            kept_callers.tokens.store(Arc::new(read(&kept_file, content)?));
            Ok(())
        });
        Ok(LoadedCallers { callers, kept: Some(kept), made: None })
    }

    /// Whose token this is, unless it has expired.
    pub(crate) fn whose(&self, shown: &[u8], now: Time) -> Option<Caller> {
        let (shown, tokens) = (TokenHash::of_shown(shown)?, self.tokens.load());
        // With all of them, wherever the right one stands.
        let found =
            tokens.iter().fold(None, |found, token| if token.token.is(&shown) { Some(token) } else { found });
        let found = found.filter(|token| token.expires.is_none_or(|expires| expires > now));
        found.map(|token| Caller { name: Arc::clone(&token.name), role: token.role })
    }
}

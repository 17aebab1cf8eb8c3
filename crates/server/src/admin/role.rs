//! What whoever shows a token may do: each role may do what those before it may.

use std::fmt;

/// What a token lets its owner do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look.
    Reader,
    /// Change quotas, keys and switches.
    Operator,
    /// Change policies too.
    Admin,
}

impl Role {
    /// All of them, the least first.
    pub const ALL: [Role; 3] = [Role::Reader, Role::Operator, Role::Admin];

    /// In a word.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Reader => "reader",
            Role::Operator => "operator",
            Role::Admin => "admin",
        }
    }

    /// The role of this name.
    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

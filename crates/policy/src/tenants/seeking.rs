//! Looking for a tenant's terms step by step, so that whoever has other things to do meanwhile need not wait for memory.
//!
//! With a million tenants neither the index nor the terms are in a cache, and the one is only known from the other. So the first step says where the
//! index will be read, the second where the terms are, and the third reads them. What is fetched between the steps is asked for without waiting;
//! this crate has no unsafe code, so it is told how ([`Prefetch`]).

use std::sync::OnceLock;

use tollgate_core::Time;

use super::compiled::Compiled;
use super::index::TenantHash;
use super::{Book, Standing};
use crate::snapshot::Snapshot;

/// Has memory fetched that is about to be read, without waiting for it.
pub trait Prefetch {
    /// The memory of a value.
    fn prefetch<T>(value: &T);
}

/// A tenant that is being looked for.
#[derive(Clone, Copy)]
pub struct Seeking<'a> {
    book: &'a Book,
    hash: TenantHash,
}

/// A tenant that has terms, or had some. What they say is not looked at yet.
#[derive(Clone, Copy)]
pub struct Sought<'a> {
    terms: Option<&'a OnceLock<Compiled>>,
}

impl Snapshot {
    /// Begins to look for a tenant. Nothing, where no tenant has terms.
    #[inline]
    pub fn seek<P: Prefetch>(&self, tenant: &[u8]) -> Option<Seeking<'_>> {
        let seeking = self.book.get()?.seek(tenant);
        if let Some(slot) = seeking.book.index.home(seeking.hash) {
            P::prefetch(slot);
        }
        Some(seeking)
    }
}

impl Book {
    #[inline]
    pub(super) fn seek(&self, tenant: &[u8]) -> Seeking<'_> {
        Seeking { book: self, hash: self.hasher.hash(tenant) }
    }
}

impl<'a> Seeking<'a> {
    /// Finds it, if it ever had terms, and has them fetched.
    #[inline]
    pub fn find_ahead<P: Prefetch>(self) -> Option<Sought<'a>> {
        let sought = self.find()?;
        if let Some(terms) = sought.terms {
            P::prefetch(terms);
        }
        Some(sought)
    }

    /// Finds it, if it ever had terms.
    #[inline]
    pub(super) fn find(self) -> Option<Sought<'a>> {
        let number = self.book.index.find(self.hash)? as usize;
        Some(Sought { terms: number.checked_sub(1).and_then(|at| self.book.arena.slot(at)) })
    }
}

impl<'a> Sought<'a> {
    /// How it stands at a moment.
    #[inline]
    pub fn standing(self, now: Time) -> Standing<'a> {
        Standing { in_force: self.terms.and_then(OnceLock::get).and_then(|compiled| compiled.at(now)) }
    }
}

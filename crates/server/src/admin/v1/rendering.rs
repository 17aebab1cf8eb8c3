//! Large responses, a few at a time: a page is up to a megabyte of rows, and takes several while it is made.

use tokio::sync::{Semaphore, SemaphorePermit};

use super::ask::Ask;
use super::problem::Problem;
use crate::body::BodyError;
use crate::connection::Budget;
use crate::room::Share;

/// Pages that are made at the same time.
const RENDERINGS_MAX: usize = 2;
/// What a page is charged as until it is made. It shows that the account is not full, and is more than the
/// first buffers of a connection.
const PAGE_BYTES: usize = 64 << 10;

static RENDERINGS: Semaphore = Semaphore::const_new(RENDERINGS_MAX);

/// A page that is being made, until this is dropped.
pub(super) struct Rendering {
    _permit: Option<SemaphorePermit<'static>>,
    _share: Option<Share>,
}

impl Rendering {
    /// Waits for its turn. An error if the memory account has no room for the page of this request.
    pub(super) async fn begin(ask: &Ask) -> Result<Rendering, Problem> {
        Rendering::begin_within(ask.budget()).await
    }

    /// The same for a request on a connection with this budget.
    pub(super) async fn begin_within(budget: Option<&Budget>) -> Result<Rendering, Problem> {
        // An error if it were closed, which it never is.
        let permit = RENDERINGS.acquire().await.ok();
        let share = budget.map(|budget| charged(budget, PAGE_BYTES)).transpose()?;
        Ok(Rendering { _permit: permit, _share: share })
    }
}

/// Charges what a request holds besides its response.
pub(super) fn charged(budget: &Budget, bytes: usize) -> Result<Share, Problem> {
    let mut share = budget.share();
    share.grow(bytes).map_err(BodyError::Busy)?;
    Ok(share)
}

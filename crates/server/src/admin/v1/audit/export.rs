//! The audit as JSON lines, written as it is read: however long it is, a page of it is in memory.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tollgate_control::{AuditFilter, AuditRow, Database};

use super::super::problem::Problem;
use super::super::rendering::{Rendering, charged};
use super::told;
use crate::aside::aside;
use crate::connection::Budget;
use crate::room::Share;

pub(super) const MEDIA_TYPE: &str = "application/jsonl";
const PAGE_ROWS: usize = 500;
/// A client that takes nothing makes the server hold so much more than a page.
const CHUNK_BYTES: usize = 16 << 10;

/// Lines that a task writes.
struct Lines {
    chunks: mpsc::Receiver<Result<Bytes, BoxError>>,
}

/// A page of the audit, written and charged.
struct Written {
    lines: String,
    _share: Option<Share>,
}

/// Reads and writes the audit, a page at a time.
struct Export {
    database: Arc<Database>,
    /// Where the next page begins. Nothing after the last one.
    filter: Option<AuditFilter>,
    budget: Option<Budget>,
}

/// Starts to write. What goes wrong with the first page is told as a problem; later, the answer breaks off.
pub(super) async fn start(
    database: Arc<Database>,
    filter: AuditFilter,
    budget: Option<Budget>,
) -> Result<Response, Problem> {
    let filter = Some(AuditFilter { limit: PAGE_ROWS, ..filter });
    let mut export = Export { database, filter, budget };
    let first = export.next().await?;
    let (sender, chunks) = mpsc::channel(1);
    tokio::spawn(async move { export.write(first, &sender).await });
    let fields = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
    Ok((fields, Body::new(Lines { chunks })).into_response())
}

impl Export {
    /// Sends all pages, beginning with this one, as fast as the client takes them.
    async fn write(mut self, first: Option<Written>, sender: &mpsc::Sender<Result<Bytes, BoxError>>) {
        let mut page = first;
        while let Some(written) = page.take() {
            for chunk in written.lines.as_bytes().chunks(CHUNK_BYTES) {
                // A copy, because a part of the page would keep all of it.
                if sender.send(Ok(Bytes::copy_from_slice(chunk))).await.is_err() {
                    return;
                }
            }
            drop(written);
            page = match self.next().await {
                Ok(page) => page,
                Err(problem) => {
                    let told = format!("the audit was not read to its end: {problem:?}");
                    let _ = sender.send(Err(told.into())).await; // The client may be gone.
                    return;
                }
            };
        }
    }

    async fn next(&mut self) -> Result<Option<Written>, Problem> {
        let Some(filter) = self.filter.take() else { return Ok(None) };
        let _rendering = Rendering::begin_within(self.budget.as_ref()).await?;
        let page = self.database.audit(&filter).await?;
        let Some(last) = page.rows.last() else { return Ok(None) };
        self.filter = page.has_more.then_some(AuditFilter { after: Some(last.version), ..filter });
        let lines = aside(move || lines(&page.rows)).await?;
        let share = self.budget.as_ref().map(|budget| charged(budget, lines.capacity())).transpose()?;
        Ok(Some(Written { lines, _share: share }))
    }
}

fn lines(rows: &[AuditRow]) -> String {
    let mut lines = String::new();
    for row in rows {
        lines.push_str(&told(row).to_string());
        lines.push('\n');
    }
    lines
}

impl HttpBody for Lines {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.chunks.poll_recv(context).map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

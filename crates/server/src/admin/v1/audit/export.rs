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
use tollgate_control::{AuditFilter, AuditRow, Database, DatabaseError, Page};

use super::told;
use crate::aside::aside;

pub(super) const MEDIA_TYPE: &str = "application/jsonl";
const PAGE_ROWS: usize = 500;

/// Lines that somebody else writes.
struct Lines {
    pages: mpsc::Receiver<Result<Bytes, BoxError>>,
}

/// Starts to write. What goes wrong with the first page is told as a problem; later, the answer breaks off.
pub(super) async fn start(database: Arc<Database>, filter: AuditFilter) -> Result<Response, DatabaseError> {
    let filter = AuditFilter { limit: PAGE_ROWS, ..filter };
    let first = database.audit(&filter).await?;
    let (sender, pages) = mpsc::channel(1);
    tokio::spawn(async move {
        if let Err(error) = write(&database, filter, first, &sender).await {
            let _ = sender.send(Err(error.into())).await; // Nobody may want to know any more.
        }
    });
    let fields = [(CONTENT_TYPE, MEDIA_TYPE), (CACHE_CONTROL, "no-store")];
    Ok((fields, Body::new(Lines { pages })).into_response())
}

async fn write(
    database: &Database,
    mut filter: AuditFilter,
    mut page: Page<AuditRow>,
    sender: &mpsc::Sender<Result<Bytes, BoxError>>,
) -> Result<(), DatabaseError> {
    while let Some(last) = page.rows.last() {
        filter.after = Some(last.version);
        let (rows, has_more) = (page.rows, page.has_more);
        let lines = aside(move || lines(&rows)).await;
        let lines = lines.map_err(|error| DatabaseError::Other(error.to_string()))?;
        if sender.send(Ok(lines.into())).await.is_err() || !has_more {
            break;
        }
        page = database.audit(&filter).await?;
    }
    Ok(())
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
        self.pages.poll_recv(context).map(|page| page.map(|page| page.map(Frame::data)))
    }
}

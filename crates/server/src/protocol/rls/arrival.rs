//! Bodies that come in pieces: each is waited for in a task of its own, so that nobody else has to.
//!
//! All that a connection has sent and not finished is bounded, in bytes and in time.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use tokio::time::timeout;
use tonic::Status;

use super::PREFIX_BYTES;
use super::account::Message;

/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bodies are kept in pieces of this length.
const BLOCK_BYTES: usize = 16 << 10;

/// A body that is there, with its part of the account.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) body: Bytes,
    pub(super) message: Message,
}

/// Waits for all of a body whose message has at most so many bytes. `Ok(None)` if the client has gone.
pub(super) async fn wait(
    body: &mut RecvStream,
    message_bytes_max: usize,
    message: Message,
) -> Result<Option<Whole>, Status> {
    let too_slow = || Status::deadline_exceeded(format!("no whole message within {BODY_TIMEOUT:?}"));
    timeout(BODY_TIMEOUT, wait_for_all(body, message_bytes_max, message)).await.map_err(|_| too_slow())?
}

async fn wait_for_all(
    body: &mut RecvStream,
    message_bytes_max: usize,
    mut message: Message,
) -> Result<Option<Whole>, Status> {
    let mut parts = Parts::default();
    loop {
        match poll_fn(|context| body.poll_data(context)).await {
            Some(Ok(data)) => {
                parts.add(&data);
                check_length(&parts, message_bytes_max)?;
                message.grow(data.len())?;
                // An error means that there is no such stream any more.
                let _ = body.flow_control().release_capacity(data.len());
            }
            Some(Err(_)) => return Ok(None),
            None => return Ok(Some(Whole { body: parts.whole(), message })),
        }
    }
}

/// What has come of a body. In blocks, because a thousand bodies that grow would otherwise leave behind the memory that each of them
/// has grown out of; and copied, because whoever keeps a part of what was read would keep all of it.
#[derive(Debug, Default)]
struct Parts {
    full: Vec<Vec<u8>>,
    last: Vec<u8>,
}

impl Parts {
    fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let (fitting, rest) = data.split_at(data.len().min(BLOCK_BYTES - self.last.len()));
            self.last.extend_from_slice(fitting);
            if self.last.len() == BLOCK_BYTES {
                self.full.push(std::mem::take(&mut self.last));
            }
            data = rest;
        }
    }

    fn first(&self) -> &[u8] {
        self.full.first().unwrap_or(&self.last)
    }

    fn length(&self) -> usize {
        self.full.len() * BLOCK_BYTES + self.last.len()
    }

    fn whole(self) -> Bytes {
        if self.full.is_empty() {
            return self.last.into();
        }
        let mut whole = Vec::with_capacity(self.length());
        // Each block is given back as soon as it is copied.
        self.full.into_iter().chain([self.last]).for_each(|part| whole.extend_from_slice(&part));
        whole.into()
    }
}

/// Whether a body may go on as it has begun. The words are tonic's.
fn check_length(parts: &Parts, limit: usize) -> Result<(), Status> {
    let told = match parts.first() {
        [_, a, b, c, d, ..] => usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).unwrap_or(usize::MAX),
        _ => 0,
    };
    let found = told.max(parts.length().saturating_sub(PREFIX_BYTES));
    if found <= limit {
        return Ok(());
    }
    let text =
        format!("Error, decoded message length too large: found {found} bytes, the limit is: {limit} bytes");
    Err(Status::out_of_range(text))
}

//! How h2's answers leave: as errors that are nothing but a header, or as whatever tonic has to say.
//!
//! h2 takes any amount of data and keeps it until the client has room for it. A client that never has any must not make it keep any,
//! so answers wait for room, but not for ever: an answer has to be taken at a rate, so that a client cannot keep it by taking a byte now
//! and then. What waits is counted in the account.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderName, Response, StatusCode};
use hyper::body::{Body, Frame};
use tokio::time::{Sleep, timeout};
use tonic::Status;
use tonic::metadata::GRPC_CONTENT_TYPE;

use super::account::Account;

/// How long a client may take for a message, and how much longer if it is a long one: a second for so many bytes.
const TAKE_TIMEOUT: Duration = Duration::from_secs(10);
const TAKE_BYTES_A_SECOND: u64 = 64 << 10;

/// Sends an error.
pub(super) fn refuse(caller: &mut SendResponse<Bytes>, status: Status) {
    let (parts, ()) = status.into_http::<()>().into_parts();
    let _ = caller.send_response(Response::from_parts(parts, ()), true);
}

/// Tells a client that does not speak gRPC at all.
pub(super) fn refuse_content_type(caller: &mut SendResponse<Bytes>) {
    let accept = HeaderName::from_static("accept-post");
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    response.headers_mut().insert(accept, GRPC_CONTENT_TYPE);
    let _ = caller.send_response(response, true);
}

/// Sends an answer piece by piece, as they come, until the call is overdue. The account is told whether it answers a question.
pub(super) async fn stream<B>(
    mut caller: SendResponse<Bytes>,
    response: Response<B>,
    account: (&Account, bool),
    mut overdue: Pin<&mut Sleep>,
) where
    B: Body<Data = Bytes> + Unpin,
{
    let (parts, mut body) = response.into_parts();
    let is_all = body.is_end_stream();
    let Ok(mut stream) = caller.send_response(Response::from_parts(parts, ()), is_all) else { return };
    if is_all {
        return;
    }
    loop {
        let frame = tokio::select! {
            biased;
            frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)) => frame,
            // The client has gone. Without this, a call that only waits for changes would not notice.
            _ = poll_fn(|context| stream.poll_reset(context)) => return,
            () = &mut overdue => {
                tracing::debug!("a call has taken too long");
                return stream.send_reset(Reason::CANCEL);
            }
        };
        let Some(Ok(frame)) = frame else { break };
        match frame.into_data().map_err(Frame::into_trailers) {
            Ok(data) => {
                if let Err(reason) = send(&mut stream, data, account).await {
                    return stream.send_reset(reason);
                }
            }
            Err(Ok(trailers)) => {
                let _ = stream.send_trailers(trailers);
                return;
            }
            Err(Err(_)) => {}
        }
    }
    let _ = stream.send_data(Bytes::new(), true);
}

/// Sends data as there is room for it. An error says how the stream ends if the client does not take the data, or has gone.
async fn send(
    stream: &mut SendStream<Bytes>,
    data: Bytes,
    (account, is_question): (&Account, bool),
) -> Result<(), Reason> {
    let share = if is_question { Ok(account.owe(data.len())) } else { account.take(false, data.len()) };
    let Ok(_share) = share else { return Err(Reason::ENHANCE_YOUR_CALM) };
    let time = TAKE_TIMEOUT + Duration::from_secs(data.len() as u64 / TAKE_BYTES_A_SECOND);
    if let Ok(sent) = timeout(time, send_with_room(stream, data)).await {
        return sent;
    }
    tracing::debug!("a client does not take its answers");
    Err(Reason::CANCEL)
}

async fn send_with_room(stream: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), Reason> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        match poll_fn(|context| stream.poll_capacity(context)).await {
            Some(Ok(room)) => {
                let part = data.split_to(room.min(data.len()));
                stream.send_data(part, false).map_err(|_| Reason::CANCEL)?;
            }
            _ => return Err(Reason::CANCEL),
        }
    }
    Ok(())
}

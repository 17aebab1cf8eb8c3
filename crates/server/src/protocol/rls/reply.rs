//! How h2's answers leave: as errors that are nothing but a header, or as whatever tonic has to say.
//!
//! h2 takes any amount of data and keeps it until the client has room for it. A client that never has any must not make it keep any,
//! so answers wait for room, but not for ever.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderName, Response, StatusCode};
use hyper::body::{Body, Frame};
use tokio::time::timeout;
use tonic::Status;
use tonic::metadata::GRPC_CONTENT_TYPE;

/// How long an answer waits for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(10);

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

/// Sends an answer piece by piece, as they come.
pub(super) async fn stream<B>(mut caller: SendResponse<Bytes>, response: Response<B>)
where
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
            frame = poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)) => frame,
            // The client has gone: whoever only watches would not notice otherwise.
            _ = poll_fn(|context| stream.poll_reset(context)) => return,
        };
        let Some(Ok(frame)) = frame else { break };
        match frame.into_data().map_err(Frame::into_trailers) {
            Ok(data) => {
                if !send_with_room(&mut stream, data).await {
                    return;
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

/// Sends data as there is room for it. False if the client has gone or makes no room.
async fn send_with_room(stream: &mut SendStream<Bytes>, mut data: Bytes) -> bool {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let has_room = poll_fn(|context| stream.poll_capacity(context));
        match timeout(ROOM_TIMEOUT, has_room).await {
            Ok(Some(Ok(room))) => {
                let part = data.split_to(room.min(data.len()));
                if stream.send_data(part, false).is_err() {
                    return false;
                }
            }
            Ok(_) => return false,
            Err(_) => {
                tracing::debug!("a client does not take its answers");
                stream.send_reset(Reason::CANCEL);
                return false;
            }
        }
    }
    true
}

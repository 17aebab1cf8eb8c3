//! Calls that tonic answers: health, reflection, methods that do not exist, and questions that are out of the ordinary.
//!
//! A client may take its time, but not for ever. A message has to arrive within a time ([`arrival`]), an answer has to be taken within a
//! time ([`reply`]), and all calls but `Health/Watch` have to end within a time.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request};
use http_body_util::Full;
use hyper::body::{Body, Frame};
use tokio::time::sleep;
use tonic::Status;
use tower::Service;

use super::account::{Account, Message};
use super::arrival::Whole;
use super::{
    HEALTH, HEALTH_WATCH, MESSAGE_BYTES_MAX, SHOULD_RATE_LIMIT, SMALL_MESSAGE_BYTES_MAX, Services, arrival,
    check_bounds, messages_of, reply,
};

/// How long a call may take, from its header to its last byte.
const CALL_TIMEOUT: Duration = Duration::from_mins(1);
/// As long as anything can be waited for.
const FOR_EVER: Duration = Duration::MAX;

/// A body as it arrives.
struct Arriving(RecvStream);

impl Body for Arriving {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let body = &mut self.0;
        match ready!(body.poll_data(context)) {
            Some(Ok(data)) => {
                // What was read makes room for more.
                let _ = body.flow_control().release_capacity(data.len());
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(error))),
            None => {
                let trailers: Result<Option<HeaderMap>, h2::Error> = ready!(body.poll_trailers(context));
                Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }
}

/// How the messages of a method come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// One message of so many bytes at most, and one answer.
    Unary { message_bytes_max: usize },
    /// One message, and answers without an end.
    Watch,
    /// As many messages and answers as the client likes, for a while: reflection. Methods that do not exist are answered at once.
    Stream,
}

impl Form {
    fn of(path: &str) -> Form {
        match path {
            SHOULD_RATE_LIMIT => Form::Unary { message_bytes_max: MESSAGE_BYTES_MAX },
            HEALTH_WATCH => Form::Watch,
            _ if path.starts_with(HEALTH) => Form::Unary { message_bytes_max: SMALL_MESSAGE_BYTES_MAX },
            _ => Form::Stream,
        }
    }
}

/// Answers a call whose body may still be on its way.
pub(super) async fn answer(
    services: Arc<Services>,
    request: Request<RecvStream>,
    mut caller: SendResponse<Bytes>,
    account: Account,
) {
    let router = services.router.clone();
    let form = Form::of(request.uri().path());
    let is_question = request.uri().path() == SHOULD_RATE_LIMIT;
    let message_bytes_max = match form {
        Form::Unary { message_bytes_max } => message_bytes_max,
        Form::Watch => SMALL_MESSAGE_BYTES_MAX,
        Form::Stream => {
            let request = request.map(Arriving);
            return call(router, (request, None), caller, (&account, false), CALL_TIMEOUT).await;
        }
    };
    let (parts, mut body) = request.into_parts();
    let arrived = arrival::wait(&mut body, message_bytes_max, account.message(is_question)).await;
    drop(body);
    match arrived {
        Ok(Some(Whole { body, message })) => {
            let check = |message| check_bounds(&services.gate, message);
            if is_question && let Err(refusal) = messages_of(&body).try_for_each(check) {
                return reply::refuse(&mut caller, refusal.into());
            }
            let request = Request::from_parts(parts, Full::new(body));
            let time = if form == Form::Watch { FOR_EVER } else { CALL_TIMEOUT };
            call(router, (request, Some(message)), caller, (&account, is_question), time).await;
        }
        Ok(None) => {}
        Err(status) => reply::refuse(&mut caller, status),
    }
}

/// Answers a call. What its message holds is given back when it is answered, before the client takes the answer.
async fn call<B>(
    mut router: Router,
    (request, message): (Request<B>, Option<Message>),
    mut caller: SendResponse<Bytes>,
    (account, is_question): (&Account, bool),
    time: Duration,
) where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut overdue = pin!(sleep(time));
    let answered = tokio::select! {
        biased;
        answered = router.call(request) => answered,
        _ = std::future::poll_fn(|context| caller.poll_reset(context)) => return,
        () = &mut overdue => {
            let text = format!("the call has taken longer than {time:?}");
            return reply::refuse(&mut caller, Status::deadline_exceeded(text));
        }
    };
    drop(message);
    let Ok(response) = answered;
    reply::stream(caller, response, (account, is_question), overdue).await;
}

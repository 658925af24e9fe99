//! Requests and responses: which path does what, what is refused, and how it is written.
//!
//! Called by `server` for each request. Every response is JSON; `X-Request-Id` comes back as it was sent.
//!
//! | request | response |
//! |---|---|
//! | `POST /classify` | 200 with the answer; 400, 408, 413, 415 for what is no image; 503 with `Retry-After` and a reason |
//! | `GET /health` | 200 while there is a lane, 503 otherwise; the same body |
//! | another method, another path | 405 with `Allow`, 404 |

use crate::answer::{Answer, Unavailable};
use crate::health;
use crate::image::{Image, ImageError, PIXELS};
use crate::lane::{Door, NoPlace};
use crate::supervisor::State;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use std::error::Error;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// Longest body that is read, bytes: 64 pixels as JSON with much white space.
const MAX_BODY: usize = 4096;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the answering of requests needs to know.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    pub(crate) state: watch::Receiver<State>,
    /// How long a request may wait for a slot.
    pub(crate) wait: Duration,
    /// How long a client may take to send a body.
    pub(crate) body_limit: Duration,
}

/// A request that is answered with anything but 200.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("there is nothing at {0}")]
    NotFound(String),
    #[error("{method} is not allowed here, only {allowed}")]
    Method {
        method: Method,
        allowed: &'static str,
    },
    #[error("content type {0:?} is not known: application/json or application/octet-stream")]
    ContentType(HeaderValue),
    #[error("the body is longer than {MAX_BODY} bytes")]
    TooLong,
    #[error("the body did not arrive within {} ms", .0.as_millis())]
    TooSlow(Duration),
    #[error("the body did not arrive: {0}")]
    Body(Box<dyn Error + Send + Sync>),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl Routes {
    /// Exactly one response to each request.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let id = request.headers().get(&REQUEST_ID).cloned();
        let mut response = match (request.uri().path(), request.method()) {
            ("/classify", &Method::POST) => match self.classify(request).await {
                Ok(answer) => json(StatusCode::OK, &answer.to_json()),
                Err(refusal) => refusal.to_response(),
            },
            ("/classify", method) => Refusal::method(method, "POST").to_response(),
            ("/health", &Method::GET) => self.health(),
            ("/health", method) => Refusal::method(method, "GET").to_response(),
            (path, _) => Refusal::NotFound(path.to_owned()).to_response(),
        };
        if let Some(id) = id {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }

    async fn classify<B>(&self, request: Request<B>) -> Result<Answer, Refusal>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let image = image(request, self.body_limit).await?;
        let door = self.door()?;
        let waits = Instant::now();
        let (door, place) = match door.place(self.wait).await {
            // The lane has ended meanwhile, but the next one may serve already. Tried once: a client is not kept for lane
            // after lane.
            Err(NoPlace::Shut) => {
                let next = self.door()?;
                let left = self.wait.saturating_sub(waits.elapsed());
                let place = next.place(left).await;
                (next, place)
            }
            place => (door, place),
        };
        let place = place.map_err(|reason| match reason {
            NoPlace::Busy => Unavailable::Busy { waited: self.wait },
            NoPlace::Shut => self.door().err().unwrap_or(Unavailable::abandoned()),
        })?;
        Ok(door.classify(image, place).await?)
    }

    fn door(&self) -> Result<Door, Unavailable> {
        self.state.borrow().door()
    }

    fn health(&self) -> Response<Full<Bytes>> {
        let (serves, report) = health::report(&self.state.borrow());
        let status = if serves {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        json(status, &report)
    }
}

/// The image in a request's body, in the form that its content type says.
async fn image<B>(request: Request<B>, limit: Duration) -> Result<Image, Refusal>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let is_raw = is_raw(request.headers())?;
    let body = Limited::new(request.into_body(), MAX_BODY);
    let body = match timeout(limit, body.collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(Refusal::TooLong),
        Ok(Err(error)) => return Err(Refusal::Body(error)),
        Err(_) => return Err(Refusal::TooSlow(limit)),
    };
    Ok(match is_raw {
        true => Image::from_bytes(&body)?,
        false => Image::from_json(&body)?,
    })
}

/// Whether the body is one byte per pixel rather than JSON.
fn is_raw(headers: &HeaderMap) -> Result<bool, Refusal> {
    let Some(given) = headers.get(CONTENT_TYPE) else {
        return Ok(false);
    };
    // What follows a semicolon says nothing of importance about either of them.
    let name = given.to_str().unwrap_or_default().split(';').next();
    match name.unwrap_or_default().trim() {
        "application/json" => Ok(false),
        "application/octet-stream" => Ok(true),
        _ => Err(Refusal::ContentType(given.clone())),
    }
}

impl Refusal {
    fn method(method: &Method, allowed: &'static str) -> Self {
        let method = method.clone();
        Self::Method { method, allowed }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Method { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::ContentType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(_) | Self::Image(_) => StatusCode::BAD_REQUEST,
            Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn to_response(&self) -> Response<Full<Bytes>> {
        let body = match self {
            Self::Unavailable(unavailable) => unavailable.to_json(),
            other => json!({ "error": other.to_string() }),
        };
        let mut response = json(self.status(), &body);
        let headers = response.headers_mut();
        match self {
            Self::Unavailable(_) => {
                headers.insert(RETRY_AFTER, Unavailable::RETRY_AFTER.into());
            }
            Self::Method { allowed, .. } => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            _ => {}
        }
        response
    }
}

fn json(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

const _: () = assert!(MAX_BODY > 4 * PIXELS, "every image fits, as JSON too");

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::lane;
    use crate::options::Options;
    use futures::poll;
    use std::pin::pin;
    use std::sync::Arc;

    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn f6_a_request_that_waited_for_a_lane_that_ended_is_served_by_the_next_one() {
        let options = Options {
            depth: Some(1),
            ..Options::default()
        };
        let (first, _workings) = lane::open(&options, 1, None).unwrap();
        let (second, workings) = lane::open(&options, 2, None).unwrap();
        let door = first.door.clone();
        let only_place = door.place(LONG).await.unwrap();
        let (states, state) = watch::channel(State::Serving(first));
        let routes = Routes {
            state,
            wait: LONG,
            body_limit: LONG,
        };
        let request = Request::post("/classify").header(CONTENT_TYPE, "application/octet-stream");
        let request = request.body(Full::new(Bytes::from_static(&[0; PIXELS])));
        let mut answer = pin!(routes.answer(request.unwrap()));
        assert!(poll!(answer.as_mut()).is_pending());

        // The next lane serves before the request hears of the end of the first.
        let ended = states.send_replace(State::Serving(second));
        door.shut();
        for slot in workings.slots {
            tokio::spawn(slot.serve(Arc::clone(&workings.jobs)));
        }
        assert_eq!(answer.await.status(), StatusCode::OK);
        drop((ended, only_place));
    }
}

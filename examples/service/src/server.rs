//! Connections: accept them, no more than allowed at once, and end them well.
//!
//! Run by [`service`](crate::service) as one task, with one task for each connection.
//!
//! A client may keep its connection and send one request after the other. When the service is told to stop:
//!
//! | a connection | |
//! |---|---|
//! | waits to be accepted | is accepted, as one that has sent nothing |
//! | has sent no whole request yet | has a moment to do so |
//! | is idle between two requests | closes |
//! | is at a request | closes behind its response |
//! | comes later | is refused |

use crate::http::Routes;
use crate::log;
use crate::options::{Limits, Options};
use crate::supervisor::stopped;
use crate::write_limit::WriteLimited;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Pause when the system has no descriptor for a connection.
const PAUSE: Duration = Duration::from_millis(50);
/// Connections that are accepted after the service was told to stop. The system's queue has no more.
const MOST_WAITING: usize = 4096;

/// Accepts and serves until told to stop, and then until the last response is written.
pub(crate) async fn run(
    listener: TcpListener,
    options: Arc<Options>,
    routes: Routes,
    mut stop: watch::Receiver<bool>,
) {
    let limits = options.limits;
    let room = Arc::new(Semaphore::new(options.connections));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accept(&listener, &room) => match accepted {
                Ok((stream, permit)) => {
                    let connection = serve(stream, limits, routes.clone(), stop.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    log::say(format_args!("a connection was not accepted: {error}"));
                    sleep(PAUSE).await;
                }
            },
            // Those that have ended are not kept.
            Some(_) = connections.join_next() => {}
            () = stopped(&mut stop) => break,
        }
    }
    match waiting(listener) {
        Ok(streams) => {
            for stream in streams {
                connections.spawn(serve(stream, limits, routes.clone(), stop.clone()));
            }
        }
        Err(error) => log::say(format_args!("who waited was not accepted: {error}")),
    }
    let all_end = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.connections_end, all_end).await.is_err() {
        connections.shutdown().await;
    }
}

/// The next connection, as soon as there is room for it. Clients that come before wait in the system's queue.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await;
    let permit = permit.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Who waits in the system's queue when the service is told to stop, whether there is room or not: closing the listener would
/// reset them, and with them requests that were sent already.
fn waiting(listener: TcpListener) -> io::Result<Vec<TcpStream>> {
    // The standard library's does not wait, and asks the system each time.
    let listener = listener.into_std()?;
    let mut streams = Vec::new();
    while streams.len() < MOST_WAITING
        && let Ok((stream, _)) = listener.accept()
    {
        stream.set_nonblocking(true)?;
        streams.push(TcpStream::from_std(stream)?);
    }
    Ok(streams)
}

async fn serve(stream: TcpStream, limits: Limits, routes: Routes, mut stop: watch::Receiver<bool>) {
    // A response is one packet, and nothing follows that it could wait for. Without it a connection is slow, but well.
    let _ = stream.set_nodelay(true);
    let (asks, mut asked) = watch::channel(false);
    let service = service_fn(|request| {
        asks.send_replace(true);
        async { Ok::<_, Infallible>(routes.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    // The limit also counts while a connection is idle.
    let stream = TokioIo::new(WriteLimited::new(stream, limits.write));
    let connection = http
        .timer(TokioTimer::new())
        .header_read_timeout(limits.headers)
        .serve_connection(stream, service);
    let mut connection = pin!(connection);
    // A connection that breaks is its client's affair.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stopped(&mut stop) => {}
    }
    // A first request may be on its way, or wait unread in the system. Later ones need no such care: between two requests a
    // connection may always close.
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = asked.wait_for(|asked| *asked) => {}
        () = sleep(limits.last_request) => return,
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

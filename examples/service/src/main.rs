//! `digits-service`: the service as a program.
//!
//! Prints where it listens, serves until SIGTERM or Ctrl-C, and closes. When the service ends by itself it says why and fails,
//! so that whoever runs it starts it again.
#![forbid(unsafe_code)]

use digits_service::options::HELP;
use digits_service::{Options, Service};
use std::error::Error;
use std::io::{Write, stdout};
use std::process::ExitCode;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("digits-service: {error}");
            return ExitCode::from(2);
        }
    };
    let tokio = match Runtime::new() {
        Ok(tokio) => tokio,
        Err(error) => {
            eprintln!("digits-service: {error}");
            return ExitCode::FAILURE;
        }
    };
    let ended = tokio.block_on(run(options));
    // What has leaked a runtime may block a thread for ever.
    tokio.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("digits-service: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(options: Options) -> Result<(), Box<dyn Error>> {
    // Before anybody is told the address: from then on a signal ends the service in order.
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut service = Service::start(options).await?;
    writeln!(stdout(), "listening at http://{}", service.address())?;
    tokio::select! {
        _ = interrupted.recv() => {}
        _ = terminated.recv() => {}
        // Not shut down: its parts are not to be trusted.
        ended = service.ended() => return Err(ended.into()),
    }
    let summary = service.shut_down().await;
    // It has closed, whether somebody reads that or not.
    let lanes = match summary.generations {
        1 => "1 lane".to_owned(),
        more => format!("{more} lanes"),
    };
    let _ = writeln!(stdout(), "closed: {lanes}, {} leaked", summary.leaked);
    Ok(())
}

//! The command line of `nrta doctor`.

use super::{Command, path, usage};
use crate::Failure;
use crate::doctor::{Host, Scope};
use lexopt::prelude::*;

/// What to examine.
#[derive(Debug, Default)]
pub(crate) struct DoctorArgs {
    pub(crate) host: Host,
    pub(crate) scope: Scope,
    pub(crate) json: bool,
}

pub(super) fn parse(parser: &mut lexopt::Parser, json: bool) -> Result<Command, Failure> {
    let mut args = DoctorArgs {
        json,
        ..DoctorArgs::default()
    };
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("json") => args.json = true,
            Long("deep") => args.scope.deep = true,
            Long("device") => {
                let device = super::device(parser)?;
                args.scope.needs_device = device == nrta::Backend::RealDriver;
            }
            Long("dev") => args.host.dev = path(parser)?,
            Long("sys") => args.host.sys = path(parser)?,
            Long("proc") => args.host.proc = path(parser)?,
            other => return Err(usage(other.unexpected())),
        }
    }
    Ok(Command::Doctor(args))
}

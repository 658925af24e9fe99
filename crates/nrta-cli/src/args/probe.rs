//! The command line of `nrta probe`.

use super::{Command, number, path, usage};
use crate::Failure;
use crate::probe::ProbeArgs;
use lexopt::prelude::*;
use nrta::neuron::abi::{MAX_CORES_PER_DEVICE, MAX_DEVICES};

pub(super) fn parse(parser: &mut lexopt::Parser, json: bool) -> Result<Command, Failure> {
    let mut args = ProbeArgs {
        json,
        ..ProbeArgs::default()
    };
    while let Some(arg) = parser.next().map_err(usage)? {
        match arg {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("json") => args.json = true,
            Long("json-file") => args.json_file = Some(path(parser)?),
            Long("list") => args.list = true,
            Long("no-reset") => args.reset = false,
            Long("dev") => args.dev = path(parser)?,
            Long("execute") => args.execute = Some(path(parser)?),
            Long("index") => args.index = Some(number(parser, "--index", 0..=MAX_DEVICES - 1)?),
            Long("core") => {
                let core = number(parser, "--core", 0..=MAX_CORES_PER_DEVICE - 1)?;
                // CAST: at most 7.
                args.core = Some(core as u8);
            }
            other => return Err(usage(other.unexpected())),
        }
    }
    Ok(Command::Probe(args))
}

//! That the machine without hardware works: a runtime is opened on it, and a tensor goes there and back.

use super::finding::Finding;
use nrta::Runtime;
use std::error::Error;

/// Tries it.
pub(super) fn examine(findings: &mut Vec<Finding>) {
    let topic = "simulated";
    findings.push(match round_trip() {
        Ok(()) => Finding::ok(
            topic,
            "the simulated machine works: `nrta run examples/digits`",
        ),
        Err(error) => Finding::problem(
            topic,
            format!("the simulated machine does not work: {error}"),
            "look at the limits and the memory above, and report this line",
        ),
    });
}

fn round_trip() -> Result<(), Box<dyn Error>> {
    let sent: Vec<u8> = (0..64).collect();
    let runtime = Runtime::builder().cores(1).open()?;
    let core = runtime.core(0)?;
    let tensor = core.allocate(sent.len() as u64)?;
    let moves = core.tensor_op(0)?;
    moves.write(&tensor, 0, sent.clone())?.wait()?;
    let received = moves.read(&tensor, 0, vec![0; sent.len()])?.wait()?;
    if received != sent {
        return Err("a tensor came back changed".into());
    }
    Ok(())
}

//! Print the result of a run, for people or as JSON.

use crate::Failure;
use crate::args::RunArgs;
use crate::dataset::{Dataset, Verdict};
use crate::pipeline::RunResult;
use crate::stats::{Confusion, Latencies};
use nrta::Backend;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _, stdout};

/// Writes `text` to standard output. A reader that has gone away is not an error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::Run(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

fn correct(dataset: &Dataset, result: &RunResult) -> usize {
    dataset
        .labels()
        .iter()
        .zip(&result.predictions)
        .filter(|(label, class)| label == class)
        .count()
}

fn stages(result: &RunResult) -> [(&'static str, &Latencies); 5] {
    let measured = &result.measured;
    [
        ("write", &measured.write),
        ("execute", &measured.execute),
        ("device", &measured.device),
        ("read", &measured.read),
        ("total", &measured.total),
    ]
}

/// The report for people.
pub(crate) fn text(
    args: &RunArgs,
    model: &nrta::Model,
    dataset: &Dataset,
    result: &RunResult,
    verdict: Option<&Verdict>,
) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, args, model, dataset, result, verdict);
    out
}

fn write_text(
    out: &mut String,
    args: &RunArgs,
    model: &nrta::Model,
    dataset: &Dataset,
    result: &RunResult,
    verdict: Option<&Verdict>,
) -> std::fmt::Result {
    let (correct, images) = (correct(dataset, result), dataset.len());
    writeln!(
        out,
        "model      {} on {} {} core{}, batch {}, {} batch{} in flight per core",
        model.name().escape_debug(),
        args.cores,
        match args.device {
            Backend::Simulated => "simulated",
            _ => "Neuron",
        },
        if args.cores == 1 { "" } else { "s" },
        args.batch,
        args.depth,
        if args.depth == 1 { "" } else { "es" }
    )?;
    writeln!(
        out,
        "accuracy   {:.2} %  ({correct} of {images} held-out images)",
        100.0 * correct as f64 / images as f64
    )?;
    match verdict {
        Some(Verdict {
            equal: true, crc32, ..
        }) => {
            writeln!(
                out,
                "check      predictions equal the independent forward pass (crc32 {crc32})"
            )?;
        }
        Some(verdict) => writeln!(
            out,
            "check      PREDICTIONS DIFFER: crc32 {}, expected {} ({} of {} correct)",
            verdict.crc32,
            verdict.expected_crc32,
            verdict.expected_correct,
            verdict.expected_images
        )?,
        None => writeln!(out, "check      no expected.json to compare with")?,
    }
    let seconds = result.elapsed.as_secs_f64();
    writeln!(
        out,
        "speed      {:.0} images/s  ({} images, {} requests in {:.3} s)",
        result.images as f64 / seconds,
        result.images,
        result.requests,
        seconds
    )?;
    writeln!(out, "queue full {} times", result.measured.queue_full)?;
    writeln!(
        out,
        "\nlatency per batch, us        p50       p90       p99"
    )?;
    for (name, latencies) in stages(result) {
        write!(out, "  {name:<20}")?;
        for percent in [50.0, 90.0, 99.0] {
            match latencies.percentile(percent) {
                Some(micros) => write!(out, "{micros:>10.1}")?,
                None => write!(out, "{:>10}", "-")?,
            }
        }
        writeln!(out)?;
    }
    write_depth(out, result)?;
    write_confusion(out, dataset, result)
}

fn write_depth(out: &mut String, result: &RunResult) -> std::fmt::Result {
    let depth = &result.measured.depth;
    let max = depth.max().max(1) as f64;
    let bars = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let line: String = depth
        .means()
        .into_iter()
        .map(|mean| match mean {
            // CAST: between 0 and 7.
            Some(mean) => bars[((mean / max * 8.0).ceil() as usize).clamp(1, 8) - 1],
            None => ' ',
        })
        .collect();
    writeln!(
        out,
        "\ncompute queue depth over time, mean {:.1}, max {}",
        depth.mean(),
        depth.max()
    )?;
    writeln!(out, "  [{line}]")
}

fn write_confusion(out: &mut String, dataset: &Dataset, result: &RunResult) -> std::fmt::Result {
    let confusion = Confusion::new(dataset.labels(), &result.predictions);
    let rows: Vec<&[u64]> = confusion.rows().collect();
    if rows.len() > 20 {
        return writeln!(
            out,
            "\n{} classes: too many for a confusion matrix",
            rows.len()
        );
    }
    write!(
        out,
        "\nconfusion (rows: true class, columns: predicted)\n     "
    )?;
    for class in 0..rows.len() {
        write!(out, "{class:>4}")?;
    }
    writeln!(out)?;
    for (class, row) in rows.iter().enumerate() {
        write!(out, "  {class:>2} ")?;
        for count in *row {
            match count {
                0 => write!(out, "   .")?,
                count => write!(out, "{count:>4}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// The report as one JSON object on one line.
pub(crate) fn json(
    args: &RunArgs,
    dataset: &Dataset,
    result: &RunResult,
    verdict: Option<&Verdict>,
) -> String {
    let correct = correct(dataset, result);
    let latency: serde_json::Map<String, Value> = stages(result)
        .into_iter()
        .map(|(name, latencies)| {
            let at = |percent| latencies.percentile(percent);
            (
                name.into(),
                json!({ "p50": at(50.0), "p90": at(90.0), "p99": at(99.0) }),
            )
        })
        .collect();
    let confusion = Confusion::new(dataset.labels(), &result.predictions);
    let value = json!({
        "device": args.device.to_string(),
        "cores": args.cores,
        "depth": args.depth,
        "batch": args.batch,
        "repeat": args.repeat,
        "held_out_images": dataset.len(),
        "correct": correct,
        "accuracy": correct as f64 / dataset.len() as f64,
        "predictions_crc32": format!("{:08x}", crc32fast::hash(&result.predictions)),
        "as_expected": verdict.map(|verdict| verdict.equal),
        "changed_predictions": result.changed_predictions,
        "images": result.images,
        "requests": result.requests,
        "seconds": result.elapsed.as_secs_f64(),
        "images_per_second": result.images as f64 / result.elapsed.as_secs_f64(),
        "queue_full": result.measured.queue_full,
        "latency_us": latency,
        "compute_depth": {
            "mean": result.measured.depth.mean(),
            "max": result.measured.depth.max(),
            "over_time": result.measured.depth.means(),
        },
        "confusion": confusion.rows().collect::<Vec<_>>(),
    });
    format!("{value}\n")
}

//! The whole lane on real data: every held-out image, and the predictions of an independent program.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use lane_tests::{DIGITS, Rig};
use nrta::{Model, PollPolicy, SkipConfig};

lane_tests::on_both! {
    predictions_equal_the_independent_forward_pass,
    batch_size_seed_policy_and_skipped_loads_change_nothing,
    two_physical_cores_share_every_batch,
}

struct HeldOut {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

fn held_out() -> HeldOut {
    let bytes = std::fs::read(format!("{DIGITS}/heldout.xud")).unwrap();
    let count = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let (pixels, labels) = bytes[24..].split_at(count * 64);
    HeldOut {
        pixels: pixels.to_vec(),
        labels: labels.to_vec(),
    }
}

/// Classifies every image with requests that wait for each other.
fn predict(builder: nrta::Builder, batch: usize) -> Vec<u8> {
    let images = held_out();
    let runtime = builder.open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{DIGITS}/model.xum")).unwrap();
    let loaded = core.load(&model, batch as u32).unwrap();
    let image = loaded.allocate_input(0).unwrap();
    let (scores, label) = (
        loaded.allocate_output(0).unwrap(),
        loaded.allocate_output(1).unwrap(),
    );
    let moves = core.tensor_op(0).unwrap();
    let mut predictions = Vec::new();
    for pixels in images.pixels.chunks(batch * 64) {
        let mut padded = pixels.to_vec();
        padded.resize(batch * 64, 0);
        moves.write(&image, 0, padded).unwrap().wait().unwrap();
        core.compute()
            .execute(&loaded, &[&image], &[&scores, &label])
            .unwrap()
            .wait()
            .unwrap();
        let labels = moves
            .read(&label, 0, vec![0; batch * 4])
            .unwrap()
            .wait()
            .unwrap();
        predictions.extend(
            labels
                .chunks(4)
                .take(pixels.len() / 64)
                .map(|label| label[0]),
        );
    }
    predictions
}

fn expected_crc32() -> String {
    let text = std::fs::read_to_string(format!("{DIGITS}/expected.json")).unwrap();
    let (_, rest) = text.split_once("\"predictions_crc32\": \"").unwrap();
    rest[..8].to_owned()
}

fn predictions_equal_the_independent_forward_pass(rig: &Rig) {
    let predictions = predict(rig.builder(), 32);
    assert_eq!(
        format!("{:08x}", crc32fast::hash(&predictions)),
        expected_crc32()
    );
    let correct = held_out()
        .labels
        .iter()
        .zip(&predictions)
        .filter(|(a, b)| a == b)
        .count();
    assert!(
        correct * 100 > predictions.len() * 95,
        "{correct} of {}",
        predictions.len()
    );
}

fn batch_size_seed_policy_and_skipped_loads_change_nothing(rig: &Rig) {
    let expected = expected_crc32();
    for (batch, seed, policy, skip) in [
        (1, 1, PollPolicy::Adaptive, SkipConfig::WhenEqual),
        (7, 2, PollPolicy::Reference, SkipConfig::Never),
        (497, 3, PollPolicy::Busy, SkipConfig::WhenEqual),
    ] {
        let builder = rig
            .builder()
            .simulated_seed(seed)
            .poll_policy(policy)
            .skip_config(skip);
        let predictions = predict(builder, batch);
        assert_eq!(
            format!("{:08x}", crc32fast::hash(&predictions)),
            expected,
            "batch {batch}"
        );
    }
}

fn two_physical_cores_share_every_batch(rig: &Rig) {
    for batch in [1, 2, 7, 64] {
        let predictions = predict(rig.builder().tpbs_per_core(2), batch);
        assert_eq!(
            format!("{:08x}", crc32fast::hash(&predictions)),
            expected_crc32(),
            "batch {batch}"
        );
    }
}

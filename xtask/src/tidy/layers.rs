//! Which crate may use which: the layering of the architecture, as a table that is checked.
//!
//! Called by `tidy` with the manifests of all crates.
//! A new dependency needs a line here as well as in a manifest, and so a second thought.

use super::Finding;
use super::manifest::{self, Dependency, Kind};

/// What one crate may depend on.
struct Layer {
    name: &'static str,
    /// Crates of this workspace.
    ours: &'static [&'static str],
    /// Crates of other people.
    others: &'static [&'static str],
    /// The same, for tests, examples and benches.
    others_in_tests: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer {
        name: "xu-abi",
        ours: &[],
        others: &["zerocopy"],
        others_in_tests: &["proptest"],
    },
    Layer {
        name: "xu-ring",
        ours: &["xu-abi"],
        others: &["atomic-waker", "loom", "thiserror"],
        others_in_tests: &["proptest"],
    },
    Layer {
        name: "xu-worker",
        ours: &["xu-abi", "xu-ring"],
        others: &["loom", "mio", "nix", "parking_lot", "thiserror", "tracing"],
        others_in_tests: &["proptest"],
    },
    Layer {
        name: "xu-device",
        ours: &["xu-abi"],
        others: &[
            "half",
            "nix",
            "parking_lot",
            "serde",
            "thiserror",
            "zerocopy",
        ],
        others_in_tests: &["proptest", "serde_json"],
    },
    Layer {
        name: "xu-model",
        ours: &["xu-abi", "xu-device"],
        others: &[
            "bytemuck",
            "crc32fast",
            "safetensors",
            "serde",
            "serde_json",
            "thiserror",
            "zerocopy",
        ],
        others_in_tests: &["proptest"],
    },
    Layer {
        name: "nrta",
        ours: &["xu-abi", "xu-ring", "xu-worker", "xu-device", "xu-model"],
        others: &[
            "bytes",
            "futures-core",
            "half",
            "metrics",
            "nix",
            "parking_lot",
            "serde_json",
            "thiserror",
            "tokio",
            "tracing",
            "zerocopy",
        ],
        // An event loop of the operating system's own.
        others_in_tests: &["futures", "nix", "proptest", "smol"],
    },
    Layer {
        name: "nrta-cli",
        ours: &["nrta"],
        others: &["crc32fast", "futures", "lexopt", "serde_json", "thiserror"],
        others_in_tests: &["neuron-emu"],
    },
    // The driver in user space: for tests and for people without the hardware, and for no product crate.
    Layer {
        name: "neuron-emu",
        ours: &["xu-abi", "xu-device"],
        others: &[
            "lexopt",
            "nix",
            "parking_lot",
            "serde_json",
            "thiserror",
            "zerocopy",
        ],
        others_in_tests: &["nix"],
    },
    Layer {
        name: "neuron-emu-preload",
        ours: &["xu-abi", "neuron-emu"],
        others: &["nix"],
        others_in_tests: &[],
    },
    // What people copy: the facade, and what a service on tokio uses.
    Layer {
        name: "examples/service",
        ours: &["nrta"],
        others: &[
            "futures",
            "http-body-util",
            "hyper",
            "hyper-util",
            "lexopt",
            "serde_json",
            "thiserror",
            "tokio",
        ],
        others_in_tests: &["nix"],
    },
    // No crate, but the one package that may know the peers of the ring and of the worker.
    Layer {
        name: "benches",
        ours: &[
            "xu-abi",
            "xu-ring",
            "xu-worker",
            "xu-device",
            "xu-model",
            "nrta",
        ],
        others: &[
            // The device that costs nothing writes records.
            "zerocopy",
            // Binds the two threads to processors; eventfd and epoll, the least that a worker asleep can cost.
            "nix",
            // Peers of the ring. One by one, since each brings its own tree:
            "crossbeam-queue", // `ArrayQueue`, for many threads: the bystander.
            "disruptor",       // Publishes in place.
            "gil",             // Without `std`, which would bring another licence.
            "omango",          // A number in each slot.
            "oneringbuf",      // Fast with small items.
            "ringbuf",         // The one that most people use.
            "rtrb",            // The one that the bars refer to.
            // Peers of the worker:
            "crossbeam-channel", // What most programs with threads use.
            "io-uring",          // Requests without a second thread.
            "tokio",             // What most programs with tasks use.
        ],
        others_in_tests: &["criterion"],
    },
];

pub(super) fn check<'a>(
    manifests: impl Iterator<Item = (&'a str, &'a str)>,
    findings: &mut Vec<Finding>,
) {
    for (path, text) in manifests {
        let Some(name) = manifest::crate_directory(path) else {
            continue;
        };
        let mut find = |line: usize, message: String| {
            findings.push(Finding {
                path: path.to_owned(),
                line,
                rule: "layers",
                message,
            });
        };
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == name) else {
            find(
                1,
                format!("`{name}` has no row in the table of xtask/src/tidy/layers.rs"),
            );
            continue;
        };
        for dependency in manifest::dependencies(text) {
            if !layer.allows(&dependency) {
                let used = dependency.name;
                find(
                    dependency.line,
                    format!("`{name}` may not depend on `{used}`"),
                );
            }
        }
    }
}

impl Layer {
    fn allows(&self, dependency: &Dependency<'_>) -> bool {
        let named_in = |names: &[&str]| names.contains(&dependency.name);
        named_in(self.ours)
            || named_in(self.others)
            || (dependency.kind == Kind::Development && named_in(self.others_in_tests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check([(path, text)].into_iter(), &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_lower_crate_does_not_know_a_higher_one() {
        assert_eq!(
            messages(
                "crates/xu-ring/Cargo.toml",
                "[dependencies]\nxu-worker.workspace = true\n"
            ),
            ["crates/xu-ring/Cargo.toml:2: [layers] `xu-ring` may not depend on `xu-worker`"]
        );
        assert!(
            messages(
                "crates/xu-worker/Cargo.toml",
                "[dependencies]\nxu-ring = \"0\"\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_crate_for_tests_is_for_tests_only() {
        let path = "crates/xu-device/Cargo.toml";
        assert!(messages(path, "[dev-dependencies]\nproptest.workspace = true\n").is_empty());
        assert_eq!(
            messages(path, "[dependencies]\nproptest.workspace = true\n").len(),
            1
        );
    }

    #[test]
    fn peers_of_the_ring_are_for_the_benches() {
        let peer = "[dev-dependencies]\nrtrb.workspace = true\n";
        assert!(messages("benches/Cargo.toml", peer).is_empty());
        assert_eq!(messages("crates/xu-ring/Cargo.toml", peer).len(), 1);
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let found = messages("crates/xu-new/Cargo.toml", "");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("no row"), "{found:?}");
    }

    #[test]
    fn the_table_goes_one_way() {
        for (index, layer) in LAYERS.iter().enumerate() {
            for name in layer.ours {
                let below = LAYERS.iter().position(|other| other.name == *name);
                assert!(
                    below.is_some_and(|below| below < index),
                    "{} uses {name}",
                    layer.name
                );
            }
        }
    }
}

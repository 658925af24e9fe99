//! Benchmarks: see `benches/`. Run them with `cargo bench -p lane-benches`; nothing here is a test.

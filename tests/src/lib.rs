//! Tests that cross crates: see `tests/`.

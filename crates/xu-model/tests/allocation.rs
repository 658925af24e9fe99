//! What a hostile file costs before it is refused: at most 6 MiB at any moment, whatever it claims.
//!
//! The allocator of this test counts the bytes of the thread that is measured, and fails an allocation that
//! exceeds the limit, so that a claim that is believed shows as an abort and not as a slow test.

mod fixture;

use fixture::{MANIFEST, header, manifest_of, no_weights, safetensors, seal};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use xu_model::limits::{MAX_LAYERS, MAX_MANIFEST_BYTES, MAX_TENSORS, MAX_WEIGHTS_HEADER_BYTES};
use xu_model::{Container, ModelError};

/// Most that a refused file may hold at one time. The costliest are legal but for the last layer: 4,096 tensors
/// or inputs of high rank need about 4 MiB.
const BUDGET: usize = 6 << 20;

thread_local! {
    /// Bytes that are allocated now, and the most there have been, while the thread measures.
    static METER: Cell<Option<(usize, usize)>> = const { Cell::new(None) };
}

struct Metered;

/// Takes `old` bytes away and adds `new` ones; false when that exceeds the budget.
fn charge(old: usize, new: usize) -> bool {
    METER.with(|meter| match meter.get() {
        Some((now, most)) => {
            // What was allocated before the measurement may be freed during it.
            let now = now.saturating_sub(old) + new;
            meter.set(Some((now, most.max(now))));
            now <= BUDGET
        }
        None => true,
    })
}

// SAFETY: every call is passed to the system's allocator with the arguments it came with; a null pointer,
//   which is returned instead when the budget is exceeded, is how an allocator fails.
unsafe impl GlobalAlloc for Metered {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !charge(0, layout.size()) {
            return core::ptr::null_mut();
        }
        // SAFETY: the caller promises what `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        charge(layout.size(), 0);
        // SAFETY: `ptr` came from `System` with this layout.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may exist side by side while the content moves.
        if !charge(0, size) {
            return core::ptr::null_mut();
        }
        charge(layout.size(), 0);
        // SAFETY: `ptr` came from `System` with this layout, and the caller promises the rest.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Metered = Metered;

/// Parses `bytes` and gives the most that was allocated meanwhile.
fn measure(bytes: &[u8]) -> (Result<Container, ModelError>, usize) {
    METER.set(Some((0, 0)));
    let result = Container::parse(bytes);
    let most = METER.take().map_or(0, |(_, most)| most);
    (result, most)
}

fn assert_cheap(what: &str, bytes: &[u8]) {
    let (result, most) = measure(bytes);
    let error = result.expect_err(what);
    println!("{what}: {most} bytes, {error}");
    assert!(most <= BUDGET, "{what}: {most} bytes");
}

/// `item(0), item(1), ...` for as long as they fit into `limit` bytes, `count` of them at most.
fn fill(limit: u64, count: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for index in 0..count {
        let next = item(index);
        if limit < (text.len() + next.len() + 1) as u64 {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&next);
    }
    text
}

/// Room for a list inside a manifest.
const ROOM: u64 = MAX_MANIFEST_BYTES - 1_024;

/// Room for a list inside a header of weights.
const HEADER_ROOM: u64 = MAX_WEIGHTS_HEADER_BYTES - 1_024;

#[test]
fn the_meter_counts() {
    METER.set(Some((0, 0)));
    let held = vec![0u8; 1_000];
    drop(vec![0u8; 2_000]);
    let meter = METER.take();
    assert_eq!(meter, Some((1_000, 3_000)));
    drop(held);
}

#[test]
fn lengths_that_lie_cost_nothing() {
    for (manifest_len, weights_len) in [
        (0, u64::MAX),
        (u32::MAX, 0),
        (u32::MAX, u64::MAX),
        (1 << 20, 512 << 20),
        (0, 512 << 20),
    ] {
        let (result, most) = measure(&header(manifest_len, weights_len, 0));
        assert!(result.is_err());
        assert_eq!(most, 0, "lengths {manifest_len} and {weights_len}");
    }
    for length in [0, 1 << 20, 1 << 40, u64::MAX] {
        let section = u64::to_le_bytes(length);
        assert_cheap(
            "header of weights that lies",
            &seal(MANIFEST.as_bytes(), &section),
        );
    }
}

#[test]
fn manifests_full_of_something_cost_little() {
    let all = usize::MAX;
    let manifest = |what: &str, text: &str| {
        assert!(text.len() as u64 <= MAX_MANIFEST_BYTES);
        assert_cheap(what, &seal(text.as_bytes(), &no_weights()));
    };
    let tensors = |shape: &str| {
        format!(
            r#"{{"name":"m","inputs":[{{"name":"x","dtype":"f32","shape":[{shape}]}}],"outputs":[],"layers":[]}}"#
        )
    };
    manifest(
        "empty layers",
        &manifest_of(&fill(ROOM, all, |_| "{}".into())),
    );
    manifest(
        "numbers for layers",
        &manifest_of(&fill(ROOM, all, |_| "0".into())),
    );
    manifest("dimensions", &tensors(&fill(ROOM, all, |_| "1".into())));
    manifest(
        "empty strings",
        &format!("[{}]", fill(ROOM, all, |_| r#""""#.into())),
    );
    manifest(
        "keys",
        &format!("{{{}}}", fill(ROOM, all, |i| format!(r#""{i}":0"#))),
    );
    manifest("nesting", &manifest_of(&"[".repeat(1_000_000)));
    manifest(
        "nesting in a field",
        &manifest_of(&format!(r#"{{"op":{}"#, "[".repeat(1_000_000))),
    );
    manifest(
        "one string",
        &format!(r#"{{"name":"{}""#, "x".repeat(1_000_000)),
    );
    manifest(
        "one escaped string",
        &format!(r#"{{"name":"{}""#, r"\n".repeat(500_000)),
    );
    manifest("unknown fields", &{
        let fields = fill(ROOM, all, |i| format!(r#""field{i}":[1,2,{{"a":"b"}}]"#));
        manifest_of(&format!(r#"{{"op":"relu",{fields}}}"#))
    });

    // As much as the limits allow, wrong only in the last layer.
    let chain = fill(ROOM, MAX_LAYERS - 1, |i| {
        let (name, before) = (format!("{i:0>90}"), format!("{:0>90}", i.wrapping_sub(1)));
        let before = if i == 0 { "x" } else { &before };
        format!(r#"{{"op":"relu","input":"{before}","output":"{name}"}}"#)
    });
    manifest(
        "a long chain",
        &manifest_of(&format!(r#"{chain},{{"op":"nothing","output":"y"}}"#)),
    );
    let inputs = fill(ROOM, MAX_TENSORS, |i| {
        format!(r#"{{"name":"{i:0>190}","dtype":"u8","shape":[1,1,1,1,1,1,1,1]}}"#)
    });
    manifest(
        "many inputs",
        &format!(r#"{{"name":"m","inputs":[{inputs}],"outputs":[],"layers":[]}}"#),
    );
}

#[test]
fn weights_full_of_something_cost_little() {
    let all = usize::MAX;
    let weights = |what: &str, header: &str| {
        assert!(header.len() as u64 <= MAX_WEIGHTS_HEADER_BYTES);
        assert_cheap(what, &seal(MANIFEST.as_bytes(), &safetensors(header, &[])));
    };
    let entry = |i: usize| format!(r#""t{i}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}"#);
    let of = |text: String| format!("{{{text}}}");
    let tensor = |text: String| format!(r#"{{"w":{{"dtype":"F32",{text},"data_offsets":[0,0]}}}}"#);
    weights("tensors", &of(fill(HEADER_ROOM, all, entry)));
    weights(
        "as many tensors as allowed",
        &of(fill(HEADER_ROOM, MAX_TENSORS, entry)),
    );
    weights(
        "tensors of high rank",
        &of(fill(HEADER_ROOM, MAX_TENSORS, |i| {
            format!(
                r#""t{i:0>48}":{{"dtype":"F32","shape":[1,1,1,1,1,1,1,0],"data_offsets":[0,0]}}"#
            )
        })),
    );
    weights(
        "empty entries",
        &of(fill(HEADER_ROOM, MAX_TENSORS, |i| format!(r#""{i}":{{}}"#))),
    );
    weights(
        "dimensions",
        &tensor(format!(
            r#""shape":[{}]"#,
            fill(HEADER_ROOM, all, |_| "1".into())
        )),
    );
    weights(
        "nesting",
        &tensor(format!(r#""shape":{}"#, "[".repeat(500_000))),
    );
    weights(
        "a string for a shape",
        &tensor(format!(r#""shape":"{}""#, "x".repeat(500_000))),
    );
    weights(
        "unknown fields",
        &tensor(fill(HEADER_ROOM, all, |i| format!(r#""field{i}":[0]"#))),
    );
    weights(
        "a long name",
        &of(format!(r#""{}":{{}}"#, "x".repeat(500_000))),
    );
    weights(
        "a long escaped name",
        &of(format!(r#""{}":{{}}"#, r"\n".repeat(250_000))),
    );
    let annotations = |count| {
        let text = fill(HEADER_ROOM, count, |i| format!(r#""{i}":"""#));
        format!(r#"{{"__metadata__":{{{text}}}}}"#)
    };
    weights("annotations", &annotations(all));
    weights("as many annotations as allowed", &annotations(MAX_TENSORS));
}

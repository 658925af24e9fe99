//! What an emulator leaves in the file system when it is done: nothing.

use neuron_emu::{Config, Emulator};

#[test]
fn the_listing_of_the_nodes_goes_when_the_closure_returns() {
    let emulator = Emulator::start(Config::default()).unwrap();
    let lists = || std::fs::read_dir("/dev").unwrap().count();
    match neuron_emu::run(&emulator, lists) {
        Ok(entries) => assert!(entries > 0),
        Err(why) => return println!("skipped: {why}"),
    }
    let prefix = format!("neuron-emu-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default());
    let ours: Vec<_> = names.filter(|name| name.starts_with(&prefix)).collect();
    assert!(ours.is_empty(), "{ours:?}");
}

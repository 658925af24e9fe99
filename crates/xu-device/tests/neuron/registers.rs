//! Registers, counters and windows.

use super::script::{BAR0, BAR0_BYTES, Script, V2, edit, refused};
use xu_abi::driver::errno::Answer;
use xu_abi::driver::window::{Block, Resource};
use xu_abi::driver::{BarRw, DeviceInfo, ResourceMmapInfo, ioctl};
use xu_device::neuron::DriverError;

#[test]
fn registers_are_addressed_from_the_base_that_the_driver_gives() {
    let (script, node) = Script::node(V2);
    script.reply(&ioctl::BAR_READ, |call| {
        call.buffers()[1].bytes_mut().unwrap().fill(0x11);
        Answer::Done
    });
    let mut values = [0; 2];
    node.read_registers(&[0x3053_5110, BAR0_BYTES - 4], &mut values)
        .unwrap();
    assert_eq!(values, [0x1111_1111; 2]);
    let calls = script.calls();
    assert_eq!((calls[0].name, calls[1].name), ("DEVICE_INFO", "BAR_READ"));
    let made: BarRw = calls[1].argument();
    assert_eq!((made.bar, made.count), (0, 2));
    let addresses = [BAR0 + 0x3053_5110, BAR0 + BAR0_BYTES - 4];
    assert_eq!(
        calls[1].buffers[0],
        addresses.map(u64::to_ne_bytes).concat()
    );
    // Where it is, is asked once.
    node.write_registers(&[(0x3053_5014, 5)]).unwrap();
    let calls = script.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].buffers[1], 5_u32.to_ne_bytes());
}

/// Trap 20: reads are not checked at all.
#[test]
fn d4_a_register_outside_bar0_is_refused() {
    let (script, node) = Script::node(V2);
    node.read_registers(&[0], &mut [0]).unwrap();
    script.calls();
    for offset in [1, BAR0_BYTES - 3, BAR0_BYTES, u64::MAX - BAR0, u64::MAX] {
        refused(&script, node.read_registers(&[0, offset], &mut [0; 2]));
        refused(&script, node.write_registers(&[(0, 1), (offset, 1)]));
    }
}

#[test]
fn d4_the_number_of_registers_is_limited() {
    let (script, node) = Script::node(V2);
    refused(&script, node.read_registers(&[], &mut []));
    refused(&script, node.read_registers(&[0; 101], &mut [0; 101]));
    refused(&script, node.read_registers(&[0; 2], &mut [0; 3]));
    refused(&script, node.write_registers(&[]));
    refused(&script, node.write_registers(&[(0, 0); 101]));
    // Trap 25: the driver does not bound it.
    refused(&script, node.read_counters(&[0; 101], &mut [0; 101]));
    refused(&script, node.read_counters(&[], &mut []));
    node.read_registers(&[0; 100], &mut [0; 100]).unwrap();
}

/// The driver would have written those before it.
#[test]
fn d4_a_blocked_register_is_refused_before_any_is_written() {
    let (script, node) = Script::node(V2);
    let text = refused(&script, node.write_registers(&[(0, 1), (0x3000_1038, 1)]));
    assert!(
        text.starts_with("BAR_WRITE: offset of a register is 805310520"),
        "{text}"
    );
}

#[test]
fn d4_a_bar0_that_cannot_be_is_refused() {
    for (base, bytes) in [(BAR0, 0), (u64::MAX - 10, 100)] {
        let (script, node) = Script::node(V2);
        script.reply(&ioctl::DEVICE_INFO, move |call| {
            edit(call, |a: &mut DeviceInfo| {
                (a.bar_address[0], a.bar_size[0]) = (base, bytes);
            })
        });
        let error = node.read_registers(&[0], &mut [0]).unwrap_err();
        assert!(matches!(error, DriverError::Nonsense { .. }), "{error}");
    }
}

/// Trap 8: success without data.
#[test]
fn d4_counters_that_were_not_written_are_no_answer() {
    let (script, node) = Script::node(V2);
    let mut values = [1; 2];
    let error = node.read_counters(&[0x10, 0x20], &mut values).unwrap_err();
    assert!(matches!(error, DriverError::Nonsense { .. }), "{error}");
    script.reply(&ioctl::READ_HW_COUNTERS, |call| {
        call.buffers()[1].bytes_mut().unwrap().fill(0);
        Answer::Done
    });
    node.read_counters(&[0x10, 0x20], &mut values).unwrap();
    assert_eq!(values, [0; 2]);
}

#[test]
fn d4_a_window_is_mapped_where_the_table_has_it() {
    let (script, node) = Script::node(V2);
    for resource in [Resource::Semaphores, Resource::StateBuffer] {
        // The driver says nothing.
        let error = node.map_window(Block::Tpb, 1, resource).unwrap_err();
        assert!(matches!(error, DriverError::Nonsense { .. }), "{error}");
    }
    let said = |offset, size| {
        move |call: &mut xu_device::neuron::Call<'_, '_>| {
            edit(call, |a: &mut ResourceMmapInfo| {
                (a.offset, a.size) = (offset, size)
            })
        }
    };
    script.reply(&ioctl::RESOURCE_MMAP_INFO, said(0xFFF_C670_0000, 0x2000));
    let window = node
        .map_window(Block::Tpb, 1, Resource::Semaphores)
        .unwrap();
    assert!(window.is_writable());
    assert_eq!(script.events(), ["map 0xfffc6700000 8192 Full"]);
    script.reply(&ioctl::RESOURCE_MMAP_INFO, said(0xFFF_D000_0000, 0x40_0000));
    let window = node.map_window(Block::Topsp, 0, Resource::All).unwrap();
    assert!(!window.is_writable() && !window.clear());
    script.calls();
    refused(
        &script,
        node.map_window(Block::Tpb, 2, Resource::Semaphores),
    );
    refused(
        &script,
        node.map_window(Block::Hbm, 0, Resource::DeviceMemory),
    );
}

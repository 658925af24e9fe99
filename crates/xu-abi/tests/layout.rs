//! The layouts against the tables of the specification, `xu.md` section 2, written here by hand.
//!
//! The structs are asserted at compile time against numbers that stand beside them; this is the second opinion.
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic as tests may"
)]

use xu_abi::inventory::STRUCTS;
use xu_abi::layout::Field;

/// `name size`, then `field offset size` for every field that is not padding.
const SPEC: &str = "
xu_queue_t 0x100
 xu_id 0x00 2
 buffer 0x08 8
 capacity 0x10 8
 exec_head 0x40 8
 scheduled_head 0x80 8
 scheduled_tail 0xC0 8
xuq_exec_info_t 0x20
 seq_id 0x00 8
 exec_status 0x08 8
 mark_comp_efd 0x10 4
 efd_from_pool 0x14 1
 stage 0x15 1
 exec_info 0x18 8
tpb_xu_base_t 0x1C0
 xu_id 0x000 2
 initialized 0x002 1
 vcore 0x008 8
 has_work_efd 0x010 4
 health_status 0x014 4
 work_queue 0x040 256
 submit_work_lock 0x140 40
 mark_comp_lock 0x168 40
tpb_execution_unit_t 0x240
 base 0x000 448
 current_exec_initialized 0x1C0 1
 current_exec_state 0x1C8 8
 last_posted_model 0x1D0 8
 deferred_unstage_ref 0x1D8 16
 last_exec_model 0x1E8 8
 unstage_lock 0x1F0 40
kmgr_xu_worker_t 0x58
 thread 0x00 8
 stop_thread_efd 0x08 4
 owned_tpb_xus 0x10 64
 owned_tpb_xu_count 0x50 8
tpb_execution_info_t 0xD0
 kind 0x00 4
 mod_ref 0x08 8
 resources 0x10 8
 compute_idx 0x18 8
 sync_point_cpu_timestamp 0x20 8
 resp 0x28 112
 wait_event_data 0x98 40
 wait_event_tracking_id 0xC0 8
 sync_exec 0xC8 1
tpb_execution_info_t,_schedule_view 0xD0
 submission_ts 0x38 16
 device_id 0x90 2
 device_tpb_idx 0x92 2
 sync_exec 0xC8 1
infer_resp_t 0x70
 combined_output_info 0x00 64
 mla_time 0x40 8
 ts_start 0x48 16
 ts_done 0x58 16
 start_nd 0x68 2
 start_nc 0x6A 2
timespec 0x10
 sec 0x00 8
 nsec 0x08 8
device_exec_request_t 0x34
 do_model_switch 0x00 4
 eng_addresses_lo 0x04 20
 eng_addresses_hi 0x18 20
 reload_seq_config 0x2C 4
 load_act_dve_tables 0x30 4
request_buffer 0x38
 body 0x00 52
 cc_dma_increment 0x34 4
notification_entry_t 0x10
 isa_line_lo 0x00 2
 hint_and_line_hi 0x02 1
 ring_and_tag 0x03 1
 custom_sub_id 0x04 2
 subtype 0x06 2
 device_ts 0x08 8
notification_entry_t_on_the_ERROR_ring 0x10
 error_id 0x00 1
 mask 0x01 2
 ring_and_tag 0x03 1
 device_ts 0x08 8
UDMA_descriptor 0x10
 len_ctrl 0x00 4
 meta_ctrl 0x04 4
 buf_ptr 0x08 8
";

fn number(text: &str) -> usize {
    match text.strip_prefix("0x") {
        Some(digits) => usize::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap(),
    }
}

#[test]
fn sizes_and_offsets_are_those_of_the_specification() {
    let mut structs = STRUCTS.iter();
    let mut fields: std::slice::Iter<'_, Field> = [].iter();
    for line in SPEC.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with(' ') {
            let field = fields.find(|field| !field.is_padding()).unwrap();
            let found = (field.name, field.offset, field.size);
            assert_eq!(found, (words[0], number(words[1]), number(words[2])));
        } else {
            assert!(
                fields.all(|field| field.is_padding()),
                "more fields before {line}"
            );
            let layout = structs.next().unwrap();
            let found = (layout.original.replace(' ', "_"), layout.size);
            assert_eq!(found, (words[0].to_owned(), number(words[1])));
            fields = layout.fields.iter();
        }
    }
    assert!(fields.all(|field| field.is_padding()));
    assert!(structs.next().is_none());
}

#[test]
fn alignments_are_those_of_the_target() {
    let aligned: Vec<_> = STRUCTS
        .iter()
        .map(|layout| (layout.name, layout.align))
        .collect();
    let expected = [
        ("QueueHeader", 64),
        ("Slot", 8),
        ("UnitBase", 64),
        ("Unit", 64),
        ("Worker", 8),
        ("WorkItem", 8),
        ("ScheduleView", 8),
        ("InferResponse", 8),
        ("Timespec", 8),
        ("ExecRequest", 1),
        ("RequestBuffer", 1),
        ("StatusRecord", 1),
        ("ErrorRecord", 1),
        ("Descriptor", 1),
    ];
    assert_eq!(aligned, expected);
}

#[test]
fn fields_cover_their_structs() {
    for layout in STRUCTS {
        assert!(layout.is_covered(), "{}", layout.name);
        let sum: usize = layout.fields.iter().map(|field| field.size).sum();
        assert_eq!(sum, layout.size, "{}", layout.name);
    }
}

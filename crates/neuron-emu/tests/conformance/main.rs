//! The emulator answers as the driver is documented to, through real system calls.
//!
//! Spec `driver.md` sections 1 to 9, `driver_emulation.md` section 9. Where system calls cannot be answered every test
//! says `skipped`, with the reason. Over both front ends: [`preloaded`].
//!
//! Section 9 row by row. What has no module here is a test of `lane-tests`, or of `xu-device`, for what clients do with it.
//!
//! | row | tests |
//! |---|---|
//! | requests and layouts | `rows::every_row_is_made`, `rows::a_good_argument_is_answered_as_documented`, `rows::a_bad_argument_is_answered_as_documented` |
//! | drivers too old, too new, without features | `s2_a_driver_outside_the_versions_is_refused_by_type_and_asked_nothing_else`, `s2_without_a_feature_a_model_runs_and_no_call_of_it_is_made`, `s2_a_driver_without_features_and_one_that_does_not_say_run_a_model` |
//! | second open, counts of closes | `rules::a_second_open_is_counted_down_first` |
//! | dup and close detaches, then EACCES | `rules::closing_a_duplicate_detaches_and_frees` |
//! | the 17th process | `processes::a_device_takes_sixteen_processes_and_one_more_when_one_has_ended` |
//! | marks go with `O_WRONLY`, and leak with `O_RDWR` | `rules::marks_go_with_the_descriptor_for_writing_only_and_not_with_the_other` |
//! | a process that is killed | `processes::of_a_killed_process_rings_of_notifications_and_semaphores_stay_and_its_queues_have_a_dummy_ring` |
//! | notification rings twice, stale records | `rules::a_ring_that_exists_is_returned_unless_a_new_one_is_forced`, `notifications::a_ring_that_is_asked_for_again_keeps_its_records_and_a_forced_one_has_none` |
//! | two types, one engine index | `notifications::two_types_with_one_engine_index_fight_over_one_queue_of_the_hardware` |
//! | enable mask 0 | `notifications::queues_that_are_not_enabled_drop_without_a_trace` |
//! | phase over five laps, head each quarter | `notifications::over_five_laps_with_the_head_written_each_quarter_every_record_comes_with_its_phase`, `notifications::a_head_is_a_record_inside_the_ring_that_is_not_beyond_the_tail` |
//! | overflow, bit 29, lost END | `notifications::what_finds_no_room_is_lost_and_the_next_record_that_fits_says_so`, `d3_a_ring_that_is_full_is_an_overflow`, `d5_a_lost_end_is_a_timeout` |
//! | ring id over five wraps | `rules::an_enabled_ring_wraps_and_its_identifiers_follow` |
//! | batches of 255 and 256 | `rules::a_batch_may_have_255_entries_and_stops_at_the_first_that_fails`, and the row of DMA_QUEUE_INIT_BATCH |
//! | `mmap` of a wrong length | `rules::a_chunk_is_mapped_whole_or_not_at_all` |
//! | another process maps for reading | `processes::another_process_may_read_a_chunk_and_not_write_it` |
//! | copies of 0 to 65 537 bytes, and of 4 GiB - 1 | `copies::a_copy_of_nothing_moves_64_kib`, `rules::copies_of_every_size_come_back_and_touch_nothing_else`, `copies::one_byte_less_than_4_gib_is_filled` |
//! | async chain, its limit | `rules::async_copies_alternate_between_two_handles`, `copies::one_byte_more_than_2032_descriptors_move_is_refused_after_it_was_started`, `copies::a_reset_loses_the_copies_that_nobody_has_waited_for` |
//! | host addresses in descriptors | `rules::descriptors_name_host_memory_of_chunks_only` |
//! | blocked registers | `rules::registers_before_a_blocked_one_are_written` |
//! | a positive return is an error | `rules::a_bad_pointer_is_answered_with_a_positive_number`, `d4_a_positive_result_is_a_failure_of_the_call`, `d4_a_bad_handle_is_told_by_a_positive_number` |
//! | NC_RESET during a run | `executions::what_runs_while_its_core_is_reset_is_dropped_and_the_core_works_again`, `d7_a_core_that_is_reset_while_it_runs_ends_what_is_in_flight_and_works_afterwards` |
//! | staging in another order | `executions::a_doorbell_before_its_request_is_an_error_and_not_a_success`, `executions::a_doorbell_before_its_descriptors_are_in_memory_is_an_error`, `executions::a_doorbell_before_the_bytes_of_its_request_are_in_memory_is_an_error` |
//! | one increment for each core and execution | `an_execution_is_one_semaphore_increment`, `an_execution_on_two_physical_cores_is_one_semaphore_increment_for_each` |
//! | what would crash the kernel | `crashes::what_would_crash_the_kernel_stops_the_device_and_is_told` |
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

mod client;
mod copies;
mod crashes;
mod executions;
mod named;
mod node;
mod notifications;
mod preloaded;
mod processes;
mod rows;
mod rules;

use neuron_emu::{Config, Emulator, run};
use node::Node;
use std::sync::Arc;

/// One device with little memory.
fn small() -> Config {
    Config {
        hbm_bytes: 64 << 20,
        host_bytes: 64 << 20,
        ..Config::default()
    }
}

/// Runs a test under an emulator; `None` where that is not permitted.
fn under<T: Send>(emulator: &Arc<Emulator>, test: impl FnOnce() -> T + Send) -> Option<T> {
    match run(emulator, test) {
        Ok(value) => Some(value),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

/// Runs a test with the first node open, and sees that the driver did not crash.
fn with_node<T: Send>(config: Config, test: impl FnOnce(&Node) -> T + Send) -> Option<T> {
    if preloaded::is_here() {
        return Some(test(&Node::open(0)));
    }
    let emulator = Emulator::start(config).unwrap();
    let value = under(&emulator, || test(&Node::open(0)))?;
    assert_eq!(emulator.bugs(), []);
    Some(value)
}

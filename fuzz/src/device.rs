//! Any bytes taken for a device: see the functions that these call.

use crate::hostile;

/// Any bytes taken for the contents and tails of a notification ring.
pub fn nq(bytes: &[u8]) {
    hostile::any_ring(bytes);
}

/// Any bytes taken for records, registers and steps of a harvester.
pub fn harvest(bytes: &[u8]) {
    hostile::any_device(bytes);
}

//! Bytes over a mapping, which is reached by whole 32-bit words.
//!
//! Called by [`super::memory`] for what stager, transfer queues and harvester store and load.
//!
//! ```text
//!   bytes            |x x|. . . . . . . .|x|
//!   words    |- - - -|- - - -|- - - -|- - - -|     edges: the other bytes of the word stay as they are
//! ```
//!
//! * Words become visible in the order of their addresses, and all of them before a later doorbell: a system call, or a
//!   descriptor that is stored afterwards.
//! * Threads of this process may store to parts of one word at once. The device may not: what it has stored beside an edge
//!   could be undone. Nothing here puts bytes of both into one word.

use crate::neuron::mapping::Mapping;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u32>();

/// Stores `bytes` at an offset; `None` when they do not lie in the mapping, and in a child of a fork.
pub(super) fn store(mapping: &Mapping, offset: usize, bytes: &[u8]) -> Option<()> {
    let (words, before) = around(mapping, offset, bytes.len())?;
    let mut words = words.iter();
    let (head, rest) = bytes.split_at(bytes.len().min((WORD - before) % WORD));
    if !head.is_empty() {
        merge(words.next()?, before, head);
    }
    let (body, tail) = rest.as_chunks::<WORD>();
    for (bytes, word) in body.iter().zip(words.by_ref()) {
        // PAIRS: with whoever loads these words to acquire: a device, or another process's emulation of one.
        word.store(u32::from_ne_bytes(*bytes), Ordering::Release);
    }
    if !tail.is_empty() {
        merge(words.next()?, 0, tail);
    }
    Some(())
}

/// Loads from an offset; `None` as for [`store`].
pub(super) fn load(mapping: &Mapping, offset: usize, into: &mut [u8]) -> Option<()> {
    let (words, before) = around(mapping, offset, into.len())?;
    let mut words = words.iter();
    let head = into.len().min((WORD - before) % WORD);
    let (head, rest) = into.split_at_mut(head);
    if !head.is_empty() {
        part(words.next()?, before, head);
    }
    let (body, tail) = rest.as_chunks_mut::<WORD>();
    for (bytes, word) in body.iter_mut().zip(words.by_ref()) {
        // Relaxed: what says that the bytes have arrived was loaded to acquire before.
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
    if !tail.is_empty() {
        part(words.next()?, 0, tail);
    }
    Some(())
}

/// The words that `bytes` touch from an offset on, and how many bytes of the first come before.
fn around(mapping: &Mapping, offset: usize, bytes: usize) -> Option<(&[AtomicU32], usize)> {
    let before = offset % WORD;
    let span = before.checked_add(bytes)?.checked_next_multiple_of(WORD)?;
    Some((mapping.words(offset - before, span)?, before))
}

/// Changes some bytes of a word, from byte `first` on.
fn merge(word: &AtomicU32, first: usize, bytes: &[u8]) {
    let changed = |old: u32| {
        let mut new = old.to_ne_bytes();
        for (place, byte) in new.iter_mut().skip(first).zip(bytes) {
            *place = *byte;
        }
        Some(u32::from_ne_bytes(new))
    };
    // PAIRS: as in `store`. Never refused; relaxed, the load: the other bytes are only put back.
    let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, changed);
}

/// Some bytes of a word, from byte `first` on.
fn part(word: &AtomicU32, first: usize, into: &mut [u8]) {
    let bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    for (place, byte) in into.iter_mut().zip(bytes.iter().skip(first)) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neuron::{Access, Grain, Owner, Pages, System};
    use std::sync::Arc;

    fn mapping() -> Mapping {
        let pages = Pages::anonymous(4096, Access::Full, Grain::Word).unwrap();
        Mapping::new(Arc::new(System), Owner::here(), pages)
    }

    #[test]
    fn any_run_of_bytes_is_stored_and_its_neighbours_are_not() {
        let mapping = mapping();
        let bytes: Vec<u8> = (1..=12).collect();
        for offset in 0..8 {
            for count in 0..=bytes.len() {
                store(&mapping, 0, &[0xEE; 24]).unwrap();
                store(&mapping, offset, &bytes[..count]).unwrap();
                let mut expected = [0xEE; 24];
                expected[offset..offset + count].copy_from_slice(&bytes[..count]);
                let mut all = [0; 24];
                load(&mapping, 0, &mut all).unwrap();
                assert_eq!(all, expected, "{count} at {offset}");
                let mut back = vec![0; count];
                load(&mapping, offset, &mut back).unwrap();
                assert_eq!(back, bytes[..count], "{count} at {offset}");
            }
        }
    }

    #[test]
    fn nothing_is_stored_beyond_the_end() {
        let mapping = mapping();
        assert!(store(&mapping, 4094, &[1, 2]).is_some());
        for (offset, count) in [(4094, 3), (4096, 1), (usize::MAX, 1), (usize::MAX - 3, 8)] {
            assert!(store(&mapping, offset, &vec![7; count]).is_none());
            assert!(load(&mapping, offset, &mut vec![7; count]).is_none());
        }
        assert_eq!(
            mapping.word(4092).unwrap().load(Ordering::Relaxed),
            0x0201_0000
        );
    }
}

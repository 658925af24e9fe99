//! The requests of a batch that nobody has accepted yet.
//!
//! [`Unit::post_batch`](crate::Unit::post_batch) asks the caller's iterator, which is foreign code, for a few requests with no
//! lock held, and takes them through the funnel with the lock held once. What is left when a request is refused goes back
//! to the caller as this iterator.

use core::fmt;

/// Requests that are fetched at a time.
const FEW: usize = 8;

/// What is left of a batch, in order.
pub struct Rest<I: Iterator> {
    /// Fetched and not taken, from `next` on.
    fetched: [Option<I::Item>; FEW],
    next: usize,
    behind: I,
}

impl<I: Iterator> Rest<I> {
    pub(crate) fn new(items: I) -> Self {
        Self {
            fetched: [const { None }; FEW],
            next: FEW,
            behind: items,
        }
    }

    /// Fetches a few when those before are taken. `false`: there are no more.
    pub(crate) fn fetch(&mut self) -> bool {
        for slot in &mut self.fetched {
            *slot = self.behind.next();
            if slot.is_none() {
                break;
            }
        }
        self.next = 0;
        self.fetched[0].is_some()
    }

    /// The next one that was fetched.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<I::Item> {
        let item = self.fetched.get_mut(self.next)?.take()?;
        self.next += 1;
        Some(item)
    }
}

impl<I: Iterator> Iterator for Rest<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.pop().or_else(|| self.behind.next())
    }
}

impl<I: Iterator> fmt::Debug for Rest<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_fetched_comes_before_what_is_behind() {
        for taken in 0..30 {
            let mut rest = Rest::new(0..20);
            let mut seen = Vec::new();
            while seen.len() < taken && rest.fetch() {
                while seen.len() < taken {
                    match rest.pop() {
                        Some(item) => seen.push(item),
                        None => break,
                    }
                }
            }
            seen.extend(&mut rest);
            assert_eq!(seen, (0..20).collect::<Vec<_>>());
        }
    }
}

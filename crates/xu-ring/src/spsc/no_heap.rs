//! Stands for the heap in builds without the feature `alloc`: there is no such storage, so there is no value of it.

use core::convert::Infallible;
use core::marker::PhantomData;

use super::control::Control;
use super::storage::{Run, sealed};

/// The memory of a queue whose capacity is chosen at run time: needs the feature `alloc`.
#[derive(Debug)]
pub struct Heap<T>(Infallible, PhantomData<T>);

// SAFETY: there is no value of this type.
unsafe impl<T> sealed::Storage<T> for Heap<T> {
    fn run(&self) -> Run<T> {
        match self.0 {}
    }

    fn control(&self) -> &Control {
        match self.0 {}
    }

    unsafe fn release(&self) {
        match self.0 {}
    }
}

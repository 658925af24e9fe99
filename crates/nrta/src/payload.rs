//! Host memory of a request: it goes in with the request and comes back with the outcome.
//!
//! Used by the tensor-op queues. A request owns its memory while the worker may touch it, so the caller gives it away and
//! gets the very same back: nothing is copied when a request is scheduled or taken, and nothing is allocated, except for arrays.
//!
//! | memory | can be written from | can be read into | by |
//! |---|---|---|---|
//! | `Vec<u8>`, `Box<[u8]>` | yes | yes | `write`, `read` |
//! | `Arc<[u8]>`, `&'static [u8]` | yes | no: others may look at it | `write` |
//! | `bytes::Bytes` (feature `bytes`) | yes | no, likewise | `write` |
//! | `bytes::BytesMut` (feature `bytes`) | yes | yes, as many bytes as it is long | `write`, `read` |
//! | `[u8; N]`: is boxed and comes back from its box | yes | yes | `write`, `read` |
//! | `&'static [u8; N]`, such as `b"text"` | yes | no, likewise | `write` |
//! | the rows without `bytes`, of any [`Element`] | as there | as there | `write_elements`, `read_elements`, `write_all`, `read_all_into` |
//! | [`HostBuffer`] | yes | yes | `write_from`, `read_into` |
//!
//! Bytes and numbers have methods of their own, so that `vec![0; 64]` means 64 bytes where bytes are meant.
//!
//! # What is copied
//!
//! The DMA engine of a device does not reach the heap of a process. All memory above but a [`HostBuffer`] is therefore copied
//! once by the worker, a chunk at a time, between itself and a bounce buffer that the device reaches. A [`HostBuffer`] is
//! memory that the device reaches: the transfer copies nothing, and the only copy is the caller's, who fills or reads it.
//!
//! Inside, all of them are one type, `Payload`, so that a queue holds requests of every kind and allocates for none.

use crate::host_buffer::{HostBuffer, HostMemory};
use crate::pending::Returned;
use std::sync::Arc;
use xu_device::elementwise::Dtype;
use zerocopy::IntoBytes;

pub use half::{bf16, f16};

/// Bytes that can be written to a tensor. Sealed: `Vec<u8>`, `Box<[u8]>`, `Arc<[u8]>`, `&'static [u8]`, arrays; with the
/// feature `bytes` also `bytes::Bytes` and `bytes::BytesMut`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of bytes that a request can own and write to a tensor",
    label = "not owned bytes",
    note = "bytes are `Vec<u8>`, `Box<[u8]>`, `Arc<[u8]>`, `[u8; N]`, `&'static [u8]`, `&'static [u8; N]`; with the feature `bytes` also `Bytes` and `BytesMut`",
    note = "numbers go through `write_elements`, or `write_all` with a typed tensor",
    note = "what is borrowed has to be owned: `.to_vec()`"
)]
pub trait Source: sealed::Memory {}

/// Bytes that a tensor can be read into. Sealed: `Vec<u8>`, `Box<[u8]>`, arrays; with the feature `bytes` also
/// `bytes::BytesMut`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of bytes that a request can own and read a tensor into",
    label = "not owned bytes that can be changed",
    note = "bytes are `Vec<u8>`, `Box<[u8]>`, `[u8; N]`; with the feature `bytes` also `BytesMut`",
    note = "numbers go through `read_elements`, or `read_all` and `read_all_into` with a typed tensor"
)]
pub trait Target: Source {}

/// Numbers that can be written to a tensor. Sealed: `Vec<T>`, `Box<[T]>`, `Arc<[T]>`, `&'static [T]`, arrays of an
/// [`Element`].
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let runtime = nrta::Runtime::builder().open()?;
/// # let core = runtime.core(0)?;
/// # let (moves, weights) = (core.tensor_op(0)?, core.allocate(16)?);
/// use std::sync::Arc;
///
/// // Two requests share what nobody changes.
/// let shared: Arc<[f32]> = Arc::from([0.25; 4]);
/// let first = moves.write_elements(&weights, 0, Arc::clone(&shared))?;
/// let second = moves.write_elements(&weights, 0, shared)?;
/// assert!(Arc::ptr_eq(&first.wait()?, &second.wait()?));
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of numbers that a request can own and write to a tensor",
    label = "not owned numbers",
    note = "numbers are `Vec<T>`, `Box<[T]>`, `Arc<[T]>`, `[T; N]`, `&'static [T]` of an `Element`",
    note = "bytes of other memory go through `write`; what is borrowed has to be owned: `.to_vec()`"
)]
pub trait ElementSource: sealed::Memory {
    /// What they are.
    type Element: Element;
}

/// Numbers that a tensor can be read into. Sealed: `Vec<T>`, `Box<[T]>`, arrays of an [`Element`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of numbers that a request can own and read a tensor into",
    label = "not owned numbers that can be changed",
    note = "numbers are `Vec<T>`, `Box<[T]>`, `[T; N]` of an `Element`; bytes of other memory go through `read`"
)]
pub trait ElementTarget: ElementSource {}

/// A number as tensors hold it, little-endian. Sealed.
///
/// ```
/// use nrta::{Dtype, Element, bf16};
/// assert_eq!(<bf16 as Element>::DTYPE, Dtype::Bfloat16);
/// ```
pub trait Element: sealed::Number {
    /// Its type, as the device names it.
    const DTYPE: Dtype;
}

pub(crate) mod sealed {
    use super::{Elements, Payload};
    use crate::pending::Returned;

    /// Goes into a payload and comes out of it again, itself.
    pub trait Memory: Returned<Raw = Payload> + Send + 'static {
        #[doc(hidden)]
        fn into_payload(self) -> Payload;
    }

    /// A number of which memory goes into a payload and comes out of it again.
    pub trait Number: Copy + Default + Send + Sync + 'static {
        #[doc(hidden)]
        fn hold(elements: Elements<Self>) -> Payload;
        #[doc(hidden)]
        fn release(payload: Payload) -> Option<Elements<Self>>;
    }
}

/// The memory of one request.
#[doc(hidden)]
#[derive(Debug, Default)]
pub enum Payload {
    /// A request that stays on the device has none.
    #[default]
    None,
    U8(Elements<u8>),
    I8(Elements<i8>),
    U16(Elements<u16>),
    I16(Elements<i16>),
    U32(Elements<u32>),
    I32(Elements<i32>),
    U64(Elements<u64>),
    I64(Elements<i64>),
    F32(Elements<f32>),
    F16(Elements<f16>),
    Bf16(Elements<bf16>),
    #[cfg(feature = "bytes")]
    Bytes(bytes::Bytes),
    #[cfg(feature = "bytes")]
    BytesMut(bytes::BytesMut),
    /// The device reaches it: the worker never does.
    Host(HostBuffer),
}

/// Numbers of one type, by who owns them.
#[doc(hidden)]
#[derive(Debug)]
pub enum Elements<T: 'static> {
    Vector(Vec<T>),
    Boxed(Box<[T]>),
    Shared(Arc<[T]>),
    Constant(&'static [T]),
}

impl<T> Elements<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            Self::Vector(elements) => elements,
            Self::Boxed(elements) => elements,
            Self::Shared(elements) => elements,
            Self::Constant(elements) => elements,
        }
    }

    /// None of what can only be written from.
    fn as_mut_slice(&mut self) -> &mut [T] {
        match self {
            Self::Vector(elements) => elements,
            Self::Boxed(elements) => elements,
            Self::Shared(_) | Self::Constant(_) => &mut [],
        }
    }
}

impl Payload {
    /// The bytes to write from; none of what the device itself reaches.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::None | Self::Host(_) => &[],
            Self::U8(elements) => elements.as_slice(),
            Self::I8(elements) => elements.as_slice().as_bytes(),
            Self::U16(elements) => elements.as_slice().as_bytes(),
            Self::I16(elements) => elements.as_slice().as_bytes(),
            Self::U32(elements) => elements.as_slice().as_bytes(),
            Self::I32(elements) => elements.as_slice().as_bytes(),
            Self::U64(elements) => elements.as_slice().as_bytes(),
            Self::I64(elements) => elements.as_slice().as_bytes(),
            Self::F32(elements) => elements.as_slice().as_bytes(),
            Self::F16(elements) => elements.as_slice().as_bytes(),
            Self::Bf16(elements) => elements.as_slice().as_bytes(),
            #[cfg(feature = "bytes")]
            Self::Bytes(bytes) => bytes,
            #[cfg(feature = "bytes")]
            Self::BytesMut(bytes) => bytes,
        }
    }

    /// The bytes to read into; none of what can only be written from, or what the device itself reaches.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::None | Self::Host(_) => &mut [],
            Self::U8(elements) => elements.as_mut_slice(),
            Self::I8(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::U16(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::I16(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::U32(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::I32(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::U64(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::I64(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::F32(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::F16(elements) => elements.as_mut_slice().as_mut_bytes(),
            Self::Bf16(elements) => elements.as_mut_slice().as_mut_bytes(),
            #[cfg(feature = "bytes")]
            Self::Bytes(_) => &mut [],
            #[cfg(feature = "bytes")]
            Self::BytesMut(bytes) => bytes,
        }
    }
}

/// Memory that the device itself reaches. All other memory is touched by the worker alone, and so is nobody's concern once
/// the worker has done with it.
impl Payload {
    /// The request begins: the device will reach the memory.
    pub(crate) fn lend(&mut self) {
        if let Self::Host(buffer) = self {
            buffer.lend();
        }
    }

    /// The device has done with the memory.
    pub(crate) fn hand_back(&mut self) {
        if let Self::Host(buffer) = self {
            buffer.hand_back();
        }
    }

    /// Takes the memory out, if the device may go on touching it.
    pub(crate) fn keep(&mut self) -> Option<Box<HostMemory>> {
        match core::mem::take(self) {
            Self::Host(buffer) => buffer.keep(),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// A request that stays on the device gives nothing back.
impl Returned for () {
    type Raw = Payload;

    fn from_raw(_: Payload) -> Option<Self> {
        Some(())
    }
}

/// Memory of numbers: how it is owned, and which of [`Elements`] that is.
macro_rules! memory {
    ($($held:ty as $owned:ident;)*) => {
        $(
            impl<T: sealed::Number> Returned for $held {
                type Raw = Payload;

                fn from_raw(payload: Payload) -> Option<Self> {
                    match T::release(payload) {
                        Some(Elements::$owned(elements)) => Some(elements),
                        _ => None,
                    }
                }
            }

            impl<T: sealed::Number> sealed::Memory for $held {
                fn into_payload(self) -> Payload {
                    T::hold(Elements::$owned(self))
                }
            }

            impl<T: Element> ElementSource for $held {
                type Element = T;
            }
        )*
    };
}

memory! {
    Vec<T> as Vector;
    Box<[T]> as Boxed;
    Arc<[T]> as Shared;
    &'static [T] as Constant;
}

/// An array is boxed for its way: a request is short, and an array may be long.
impl<T: sealed::Number, const N: usize> Returned for [T; N] {
    type Raw = Payload;

    fn from_raw(payload: Payload) -> Option<Self> {
        let held = <Box<[T]> as Returned>::from_raw(payload)?;
        let held: Box<[T; N]> = held.try_into().ok()?;
        Some(*held)
    }
}

impl<T: sealed::Number, const N: usize> sealed::Memory for [T; N] {
    fn into_payload(self) -> Payload {
        T::hold(Elements::Boxed(Box::new(self)))
    }
}

impl<T: Element, const N: usize> ElementSource for [T; N] {
    type Element = T;
}

impl<T: sealed::Number, const N: usize> Returned for &'static [T; N] {
    type Raw = Payload;

    fn from_raw(payload: Payload) -> Option<Self> {
        <&'static [T] as Returned>::from_raw(payload)?
            .try_into()
            .ok()
    }
}

impl<T: sealed::Number, const N: usize> sealed::Memory for &'static [T; N] {
    fn into_payload(self) -> Payload {
        T::hold(Elements::Constant(self))
    }
}

impl<T: Element, const N: usize> ElementSource for &'static [T; N] {
    type Element = T;
}

impl<T: Element> ElementTarget for Vec<T> {}
impl<T: Element, const N: usize> ElementTarget for [T; N] {}
impl<T: Element> ElementTarget for Box<[T]> {}

impl Source for Vec<u8> {}
impl Source for Box<[u8]> {}
impl Source for Arc<[u8]> {}
impl Source for &'static [u8] {}
impl<const N: usize> Source for [u8; N] {}
impl<const N: usize> Source for &'static [u8; N] {}
impl Target for Vec<u8> {}
impl<const N: usize> Target for [u8; N] {}
impl Target for Box<[u8]> {}

/// Memory with an owner of its own kind.
macro_rules! whole {
    ($($held:ty as $payload:ident;)*) => {
        $(
            impl Returned for $held {
                type Raw = Payload;

                fn from_raw(payload: Payload) -> Option<Self> {
                    match payload {
                        Payload::$payload(held) => Some(held),
                        _ => None,
                    }
                }
            }
        )*
    };
}

whole! {
    HostBuffer as Host;
}

#[cfg(feature = "bytes")]
mod shared_bytes {
    use super::{Payload, Returned, Source, Target, sealed};
    use bytes::{Bytes, BytesMut};

    whole! {
        Bytes as Bytes;
        BytesMut as BytesMut;
    }

    impl sealed::Memory for Bytes {
        fn into_payload(self) -> Payload {
            Payload::Bytes(self)
        }
    }

    impl sealed::Memory for BytesMut {
        fn into_payload(self) -> Payload {
            Payload::BytesMut(self)
        }
    }

    impl Source for Bytes {}
    impl Source for BytesMut {}
    impl Target for BytesMut {}
}

macro_rules! elements {
    ($($element:ty as $payload:ident is $dtype:ident;)*) => {
        $(
            impl sealed::Number for $element {
                fn hold(elements: Elements<Self>) -> Payload {
                    Payload::$payload(elements)
                }

                fn release(payload: Payload) -> Option<Elements<Self>> {
                    match payload {
                        Payload::$payload(elements) => Some(elements),
                        _ => None,
                    }
                }
            }

            impl Element for $element {
                const DTYPE: Dtype = Dtype::$dtype;
            }
        )*
    };
}

elements! {
    u8 as U8 is Uint8;
    i8 as I8 is Int8;
    u16 as U16 is Uint16;
    i16 as I16 is Int16;
    u32 as U32 is Uint32;
    i32 as I32 is Int32;
    u64 as U64 is Uint64;
    i64 as I64 is Int64;
    f32 as F32 is Float32;
    f16 as F16 is Float16;
    bf16 as Bf16 is Bfloat16;
}

// Elements in memory are little-endian, and so is the memory that holds them here.
const _: () = assert!(cfg!(target_endian = "little"));

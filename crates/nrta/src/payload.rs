//! Host memory of a request: it goes in with the request and comes back with the outcome.
//!
//! Used by the tensor-op queues. A request owns its memory while the worker may touch it, so the caller gives it away and
//! gets the very same back, without a copy: [`Source`] is what can be written from, [`Target`] what can be read into,
//! [`Element`] what vectors of numbers hold.
//!
//! Inside, all of them are one type, [`Payload`], so that a queue holds requests of every kind and allocates for none.

use crate::pending::Returned;
use std::sync::Arc;
use xu_device::elementwise::Dtype;
use zerocopy::IntoBytes;

pub use half::{bf16, f16};

/// Memory that can be written to a tensor. Sealed: `Vec<u8>`, `Box<[u8]>`, `Arc<[u8]>`, `&'static [u8]`.
pub trait Source: sealed::Bytes {}

/// Memory that a tensor can be read into. Sealed: `Vec<u8>`, `Box<[u8]>`.
pub trait Target: Source {}

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
    use super::Payload;
    use crate::pending::Returned;

    /// Goes into a payload and comes out of it again.
    pub trait Bytes: Returned<Raw = Payload> + Send + 'static {
        #[doc(hidden)]
        fn into_payload(self) -> Payload;
    }

    /// A number of which vectors go into a payload and come out of it again.
    pub trait Number: Copy + Default + Send + 'static {
        #[doc(hidden)]
        fn into_payload(elements: Vec<Self>) -> Payload;
        #[doc(hidden)]
        fn from_payload(payload: Payload) -> Option<Vec<Self>>;
    }
}

/// The memory of one request.
#[doc(hidden)]
#[derive(Debug, Default)]
pub enum Payload {
    /// A request that stays on the device has none.
    #[default]
    None,
    Boxed(Box<[u8]>),
    Shared(Arc<[u8]>),
    Constant(&'static [u8]),
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Payload {
    /// The bytes to write from.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Boxed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Constant(bytes) => bytes,
            Self::U8(elements) => elements,
            Self::I8(elements) => elements.as_bytes(),
            Self::U16(elements) => elements.as_bytes(),
            Self::I16(elements) => elements.as_bytes(),
            Self::U32(elements) => elements.as_bytes(),
            Self::I32(elements) => elements.as_bytes(),
            Self::U64(elements) => elements.as_bytes(),
            Self::I64(elements) => elements.as_bytes(),
            Self::F32(elements) => elements.as_bytes(),
            Self::F16(elements) => elements.as_bytes(),
            Self::Bf16(elements) => elements.as_bytes(),
        }
    }

    /// The bytes to read into; none of what can only be written from.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::None | Self::Shared(_) | Self::Constant(_) => &mut [],
            Self::Boxed(bytes) => bytes,
            Self::U8(elements) => elements,
            Self::I8(elements) => elements.as_mut_bytes(),
            Self::U16(elements) => elements.as_mut_bytes(),
            Self::I16(elements) => elements.as_mut_bytes(),
            Self::U32(elements) => elements.as_mut_bytes(),
            Self::I32(elements) => elements.as_mut_bytes(),
            Self::U64(elements) => elements.as_mut_bytes(),
            Self::I64(elements) => elements.as_mut_bytes(),
            Self::F32(elements) => elements.as_mut_bytes(),
            Self::F16(elements) => elements.as_mut_bytes(),
            Self::Bf16(elements) => elements.as_mut_bytes(),
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

impl<T: sealed::Number> Returned for Vec<T> {
    type Raw = Payload;

    fn from_raw(payload: Payload) -> Option<Self> {
        T::from_payload(payload)
    }
}

impl sealed::Bytes for Vec<u8> {
    fn into_payload(self) -> Payload {
        Payload::U8(self)
    }
}
impl Source for Vec<u8> {}
impl Target for Vec<u8> {}
impl Target for Box<[u8]> {}

macro_rules! bytes {
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

            impl sealed::Bytes for $held {
                fn into_payload(self) -> Payload {
                    Payload::$payload(self)
                }
            }

            impl Source for $held {}
        )*
    };
}

bytes! {
    Box<[u8]> as Boxed;
    Arc<[u8]> as Shared;
    &'static [u8] as Constant;
}

macro_rules! elements {
    ($($element:ty as $payload:ident is $dtype:ident;)*) => {
        $(
            impl sealed::Number for $element {
                fn into_payload(elements: Vec<Self>) -> Payload {
                    Payload::$payload(elements)
                }

                fn from_payload(payload: Payload) -> Option<Vec<Self>> {
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

// Elements in memory are little-endian, and so are the vectors that hold them here.
const _: () = assert!(cfg!(target_endian = "little"));

//! What a struct looks like in memory, asserted at compile time and kept as data.
//!
//! An `assert_layout!` stands beside each struct of this crate. It compares size, alignment and the offset of every
//! field with the numbers of the specification, demands that the fields cover the struct without a hole, and
//! keeps the same numbers as the associated constant `ABI`. So what [`crate::inventory`] prints is what the
//! compiler has checked.
//!
//! ```
//! use xu_abi::Slot;
//! let status = Slot::ABI.field("exec_status").unwrap();
//! assert_eq!((Slot::ABI.size, status.offset, status.size), (32, 0x08, 8));
//! ```

/// One field of a struct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in Rust, which is that of the specification.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes that the field occupies.
    pub size: usize,
}

impl Field {
    /// Whether nobody gives these bytes a meaning: padding and reserved areas are fields with names of their own.
    #[must_use]
    pub const fn is_padding(&self) -> bool {
        let name = self.name.as_bytes();
        starts_with(name, b"pad_")
            || starts_with(name, b"reserved_")
            || starts_with(name, b"other_")
    }
}

/// A struct as it lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructLayout {
    /// The name in this crate.
    pub name: &'static str,
    /// What the specification and other software call it.
    pub original: &'static str,
    /// File and section of the specification.
    pub spec: &'static str,
    /// Bytes of the whole struct.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
    /// Every field by offset, padding included. They follow each other without a hole.
    pub fields: &'static [Field],
}

impl StructLayout {
    /// The field with this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Whether each field begins where the one before ends, from the first byte to the last.
    #[must_use]
    pub const fn is_covered(&self) -> bool {
        let mut end = 0;
        let mut index = 0;
        while index < self.fields.len() {
            if self.fields[index].offset != end {
                return false;
            }
            end += self.fields[index].size;
            index += 1;
        }
        end == self.size
    }
}

const fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    match text.split_at_checked(prefix.len()) {
        Some((head, _)) => {
            let mut index = 0;
            while index < prefix.len() {
                if head[index] != prefix[index] {
                    return false;
                }
                index += 1;
            }
            true
        }
        None => false,
    }
}

/// Bytes of the field that `get` reaches; `get` is never called.
pub(crate) const fn field_size<S, F>(_get: fn(&S) -> &F) -> usize {
    size_of::<F>()
}

/// Asserts size, alignment and the offset of each field at compile time, and keeps them as `ABI`.
///
/// Every field is listed, padding included: a struct whose fields leave a hole does not compile.
macro_rules! assert_layout {
    (
        $ty:ident is $original:literal in $spec:literal:
        $size:literal bytes, align $align:literal; $($field:ident @ $offset:literal)*
    ) => {
        impl $ty {
            /// Size, alignment and every field, as asserted at compile time.
            pub const ABI: $crate::layout::StructLayout = $crate::layout::StructLayout {
                name: stringify!($ty),
                original: $original,
                spec: $spec,
                size: $size,
                align: $align,
                fields: &[$($crate::layout::Field {
                    name: stringify!($field),
                    offset: $offset,
                    size: $crate::layout::field_size(|whole: &$ty| &whole.$field),
                }),*],
            };
        }

        const _: () = {
            assert!(size_of::<$ty>() == $size, concat!("size of ", stringify!($ty)));
            assert!(align_of::<$ty>() == $align, concat!("alignment of ", stringify!($ty)));
            $(assert!(
                core::mem::offset_of!($ty, $field) == $offset,
                concat!("offset of ", stringify!($ty), ".", stringify!($field))
            );)*
            assert!($ty::ABI.is_covered(), concat!("a hole in ", stringify!($ty)));
        };
    };
}
pub(crate) use assert_layout;

/// Gives a struct without invalid bit patterns its conversions from and to bytes.
macro_rules! bytes_of {
    ($ty:ident: $size:literal) => {
        impl $ty {
            /// Reads the struct from its bytes. Every pattern is a value.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; $size]) -> Self {
                zerocopy::transmute!(bytes)
            }

            /// The bytes as they lie in memory. What [`Self::from_bytes`] read comes out unchanged.
            #[must_use]
            pub const fn to_bytes(self) -> [u8; $size] {
                zerocopy::transmute!(self)
            }

            /// Reads the struct from the beginning of `bytes`.
            ///
            /// # Errors
            #[doc = concat!("[`OutOfRange`](crate::OutOfRange) when there are fewer than ", $size, " bytes.")]
            pub const fn read(bytes: &[u8]) -> Result<Self, $crate::OutOfRange> {
                match bytes.first_chunk() {
                    Some(bytes) => Ok(Self::from_bytes(*bytes)),
                    None => Err($crate::OutOfRange {
                        what: concat!("number of bytes of ", stringify!($ty)),
                        // CAST: a length fits 64 bits.
                        value: bytes.len() as u64,
                        allowed: concat!($size, " or more"),
                    }),
                }
            }
        }
    };
}
pub(crate) use bytes_of;

//! Compile-time assertion of a struct's size, alignment and every field offset.

/// Asserts size, alignment and the offset of each listed field at compile time.
///
/// List every field, padding included: a field that is missing here can hide in a hole.
macro_rules! assert_layout {
    ($ty:ty: $size:literal bytes, align $align:literal; $($field:ident @ $offset:literal)*) => {
        const _: () = {
            assert!(size_of::<$ty>() == $size, concat!("size of ", stringify!($ty)));
            assert!(align_of::<$ty>() == $align, concat!("alignment of ", stringify!($ty)));
            $(assert!(
                core::mem::offset_of!($ty, $field) == $offset,
                concat!("offset of ", stringify!($ty), ".", stringify!($field))
            );)*
        };
    };
}
pub(crate) use assert_layout;

//! How an argument of an ioctl is declared: each field once, with its offset.
//!
//! Used by the modules beside this one.

/// Declares structs whose sizes, alignments and offsets are asserted, as tables in the manner of the specification.
macro_rules! arguments {
    ($(
        $(#[$doc:meta])*
        $ty:ident is $original:literal: $size:literal bytes, align $align:literal {
            $($(#[$field_doc:meta])* $offset:literal $field:ident: $field_ty:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Debug,
            PartialEq,
            Eq,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::Immutable,
            zerocopy::KnownLayout,
        )]
        #[repr(C)]
        pub struct $ty {
            $($(#[$field_doc])* #[doc = concat!("\n\nOffset ", $offset, ".")] pub $field: $field_ty,)*
        }

        $crate::layout::assert_layout! { $ty is $original in "driver.md 3":
            $size bytes, align $align; $($field @ $offset)* }
        $crate::layout::bytes_of! { $ty: $size }

        impl $ty {
            /// All bytes 0.
            pub const ZEROED: Self = Self::from_bytes([0; $size]);
        }
    )*};
}
pub(crate) use arguments;

/// Declares an enum whose values cross the interface, with a checked way in.
macro_rules! named_values {
    (
        $(#[$doc:meta])*
        $ty:ident($raw:ty), $what:literal, $allowed:literal;
        $($(#[$value_doc:meta])* $name:ident = $value:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr($raw)]
        pub enum $ty {
            $($(#[$value_doc])* $name = $value,)*
        }

        impl $ty {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The value with this number, if there is one.
            #[must_use]
            pub const fn from_raw(raw: $raw) -> Option<Self> {
                match raw {
                    $($value => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The number.
            #[must_use]
            pub const fn raw(self) -> $raw {
                self as $raw
            }
        }

        impl TryFrom<$raw> for $ty {
            type Error = $crate::OutOfRange;

            fn try_from(raw: $raw) -> Result<Self, $crate::OutOfRange> {
                Self::from_raw(raw).ok_or($crate::OutOfRange {
                    what: $what,
                    value: raw.into(),
                    allowed: $allowed,
                })
            }
        }
    };
}
pub(crate) use named_values;

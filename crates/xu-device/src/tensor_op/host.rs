//! The host's end of writes and reads: bytes that are lent for one step.

use super::OperationError;
use super::current::Piece;
use super::operation::{Kind, Operation};

/// The host's end of a write or a read, lent for one step.
///
/// Whoever owns the bytes lends the same ones to every step of an operation.
#[derive(Debug)]
pub enum HostBytes<'a> {
    /// The operation stays on the device.
    None,
    /// What a write takes.
    Source(&'a [u8]),
    /// Where a read puts what arrives.
    Target(&'a mut [u8]),
}

/// The part of the host's bytes that belongs to a piece.
#[derive(Debug)]
pub(super) enum HostPiece<'a> {
    None,
    Source(&'a [u8]),
    Target(&'a mut [u8]),
}

impl<'a> HostPiece<'a> {
    /// Cuts the piece out of what was lent, if that is what the operation needs.
    pub(super) fn of(
        operation: &Operation,
        piece: Piece,
        host: HostBytes<'a>,
    ) -> Result<Self, OperationError> {
        let needed = operation.host_bytes();
        let refuse = |lent: usize| OperationError::HostBytes {
            needed,
            lent: lent as u64,
        };
        // CAST: used only for host bytes of the operation's length, which are in memory.
        let start = piece.start as usize;
        match (&operation.kind, host) {
            (Kind::Write { .. }, HostBytes::Source(bytes)) if bytes.len() as u64 == needed => {
                // PANIC: a piece lies inside its operation, here and below.
                Ok(Self::Source(&bytes[start..start + piece.count]))
            }
            (Kind::Read { .. }, HostBytes::Target(bytes)) if bytes.len() as u64 == needed => {
                Ok(Self::Target(&mut bytes[start..start + piece.count]))
            }
            (Kind::Write { .. }, HostBytes::Source(bytes)) => Err(refuse(bytes.len())),
            (Kind::Read { .. }, HostBytes::Target(bytes)) => Err(refuse(bytes.len())),
            (Kind::Write { .. } | Kind::Read { .. }, _) => Err(refuse(0)),
            (Kind::Copy { .. } | Kind::Memset { .. } | Kind::Arithmetic { .. }, _) => {
                Ok(Self::None)
            }
        }
    }

    pub(super) fn source(&self) -> &[u8] {
        match self {
            Self::Source(bytes) => bytes,
            Self::None | Self::Target(_) => &[],
        }
    }

    pub(super) fn into_target(self) -> &'a mut [u8] {
        match self {
            Self::Target(bytes) => bytes,
            Self::None | Self::Source(_) => &mut [],
        }
    }
}

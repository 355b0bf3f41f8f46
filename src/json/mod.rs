//! Python values to JSON bytes.

mod document;
mod escape;
pub mod number;
mod official;
mod wire;
mod writer;

pub use document::{Options, write_event, write_model};
pub use writer::{MAX_DEPTH, Writer};

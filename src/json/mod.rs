//! Python values to JSON bytes.

mod document;
mod escape;
pub mod number;
mod official;
mod wire;
mod writer;

pub use document::{Options, write_event, write_model};
pub use official::{type_name, value as official_value};
pub use writer::{MAX_DEPTH, Stop, Writer, is_constant};

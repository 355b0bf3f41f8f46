//! Python values to JSON bytes, and back.

mod decode;
mod document;
mod escape;
mod event;
mod habit;
mod keys;
mod lines;
pub mod number;
mod official;
mod reader;
mod skip;
mod stack;
mod string;
mod typed;
mod wire;
mod writer;

pub use decode::{Decoded, decode};
pub use document::{Options, write_event, write_model};
pub use keys::{Loan, Tools};
pub use lines::{LineTooLong, Lines};
pub use number::compare_floats;
pub use official::{cause_of, type_name, value as official_value};
pub use writer::{MAX_DEPTH, Stop, Writer, is_constant};

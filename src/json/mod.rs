//! Python values to JSON bytes, and back.

mod big_stack;
mod decode;
mod dict_in;
mod dict_out;
mod encode;
mod escape;
mod key_cache;
mod locate;
mod model_in;
mod ndjson;
pub mod number;
mod options;
mod pool;
mod prefix_cache;
mod pydantic;
mod reader;
mod unescape;
mod writer;

pub use decode::{Decoded, decode};
pub use encode::{write_event, write_model};
pub use escape::LoneSurrogate;
pub use ndjson::{LineTooLong, Lines};
pub use number::compare_floats;
pub use options::EncodeOptions;
pub use pool::{Loan, Workspace};
pub use pydantic::{cause_of, value as official_value};
pub use writer::{MAX_DEPTH, Stop, Writer, is_constant};

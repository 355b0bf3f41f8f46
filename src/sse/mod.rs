//! Server-Sent Events: one event out; a stream in, in any pieces.

mod frame;
pub mod parse;
mod raw;

pub use frame::{close, open};
pub use raw::{SSEParser, ServerSentEvent};

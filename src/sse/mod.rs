//! Server-Sent Events: one event out; a stream in, in any pieces.

mod frame;
pub mod parse;

pub use frame::{close, open};

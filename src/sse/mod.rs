//! Server-Sent Events: one event out.

mod frame;

pub use frame::{close, open};

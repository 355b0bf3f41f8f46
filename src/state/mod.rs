//! What a stream adds up to: state, conversation, and the stream itself made short.

mod compact;
mod conversation;
mod copy;
mod diff;
mod document;
mod equal;
mod held;
mod incoming;
mod input;
mod message;
mod operation;
mod patch;
mod pending;
mod pieces;
mod pointer;
mod reduce;
mod reducer;
mod segment;
mod undo;
mod window;
mod wire;

pub use compact::{Compactor, compact_events};
pub use diff::create_patch;
pub use patch::apply_patch;
pub use reduce::Change;
pub use reducer::EventReducer;

/// What is said of a value with more levels than JSON is written or read with.
#[cold]
fn too_deep() -> String {
    format!("nested deeper than {} levels", crate::json::MAX_DEPTH)
}

/// The beginning of a text that is too long for a message.
#[cold]
fn shortened(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(80) {
        None => text.into(),
        Some((end, _)) => format!("{}...", &text[..end]).into(),
    }
}

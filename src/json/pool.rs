//! What readers use again from one document to the next.

use std::sync::{Mutex, PoisonError};

use super::key_cache::KeyCache;
use super::prefix_cache::PrefixCache;

/// What a reader uses again from one document to the next.
pub struct Workspace {
    pub keys: KeyCache,
    /// How events of each type begin, as wire dicts and as models.
    pub prefixes: PrefixCache,
    /// The text of the string at hand, where it had escapes.
    pub scratch: Vec<u8>,
}

/// Those that are not in use: as many as there were readers at the same time.
static POOL: Mutex<Vec<Workspace>> = Mutex::new(Vec::new());
/// A larger buffer is given back to the allocator after use.
const SCRATCH_LIMIT: usize = 1 << 20;

/// A workspace for one reader: taken when it asks for it, given back when this is dropped. No lock is
/// held meanwhile, since making Python objects may run the garbage collector, and so any code.
#[derive(Default)]
pub struct Loan(Option<Workspace>);

impl Loan {
    #[inline]
    pub fn workspace(&mut self) -> &mut Workspace {
        self.0.get_or_insert_with(|| {
            let kept = POOL.lock().unwrap_or_else(PoisonError::into_inner).pop();
            kept.unwrap_or_else(|| {
                let (keys, prefixes) = (KeyCache::new(), PrefixCache::default());
                Workspace { keys, prefixes, scratch: Vec::new() }
            })
        })
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(mut workspace) = self.0.take() else { return };
        if workspace.scratch.capacity() > SCRATCH_LIMIT {
            workspace.scratch = Vec::new();
        }
        POOL.lock().unwrap_or_else(PoisonError::into_inner).push(workspace);
    }
}

//! How long the operations are that turn some elements of an array into others, as far as a look at
//! them tells.

use pyo3::prelude::*;
use std::collections::HashSet;
use std::rc::Rc;

use super::align::Costs;
use super::tree::{Content, Id, Members, Tree};
use crate::state::document::Kind;

/// What an operation takes beside its pointers and its value, with the comma.
pub const ADD: usize = br#"{"op":"add","path":"","value":},"#.len();
pub const REMOVE: usize = br#"{"op":"remove","path":""},"#.len();
pub const REPLACE: usize = br#"{"op":"replace","path":"","value":},"#.len();
pub const MOVE: usize = br#"{"op":"move","from":"","path":""},"#.len();

/// How long an index is in a pointer.
pub fn digits(index: usize) -> usize {
    index.checked_ilog10().map_or(1, |digits| digits as usize + 1)
}

/// So many levels of two elements are compared to tell how unlike they are.
const LEVELS: u32 = 3;

/// How many members a container has.
fn count(value: &Bound<'_, PyAny>) -> usize {
    match Kind::of(value) {
        Kind::Array(array) => array.len(),
        Kind::Object(object) => object.len(),
        _ => 0,
    }
}

/// What it takes to come from some elements to others, as far as a look at them and at what is
/// directly in them can tell.
pub struct ElementCosts<'a, 'py> {
    pub tree: &'a mut Tree<'py>,
    /// How long the pointer to an element is without its index.
    pub path_size: usize,
    /// The index of the first one.
    pub first: usize,
    pub before: &'a [Bound<'py, PyAny>],
    pub after: &'a [Bound<'py, PyAny>],
    /// Which of the old elements are needed among the new ones, and so should move, and which of
    /// the new ones are among the old ones, and so could.
    pub leaves: Vec<bool>,
    pub arrives: Vec<bool>,
    pub room: u32,
    /// How many more members may be looked at.
    pub looks: usize,
}

impl<'py> ElementCosts<'_, 'py> {
    /// So many looks, that all of them take linear time.
    pub fn looks(before: &[Bound<'py, PyAny>], after: &[Bound<'py, PyAny>]) -> usize {
        32 * before.iter().chain(after).map(|value| 1 + count(value)).sum::<usize>()
    }

    fn path(&self, index: usize) -> usize {
        self.path_size + digits(self.first + index)
    }

    fn size(&mut self, value: &Bound<'py, PyAny>) -> usize {
        self.tree.size(value, usize::MAX)
    }

    /// What the members of two containers at `path` tell.
    fn members(
        &mut self,
        before: &Bound<'py, PyAny>,
        after: &Bound<'py, PyAny>,
        path: usize,
        levels: u32,
    ) -> Option<usize> {
        self.looks = self.looks.checked_sub(count(before) + count(after))?;
        let (old, new) = (self.tree.container(before)?, self.tree.container(after)?);
        self.tree.class(before, self.room).ok()?;
        self.tree.class(after, self.room).ok()?;
        let (old_classes, new_classes) =
            (self.tree.inner_classes(old), self.tree.inner_classes(new));
        let (old, new) = (self.tree.content(old), self.tree.content(new));
        match (&*old, &*new) {
            (Content::Object(old), Content::Object(new)) => {
                Some(self.objects((old, &old_classes), (new, &new_classes), path, levels))
            }
            (Content::Array(old), Content::Array(new)) => {
                Some(self.arrays((old, &old_classes), (new, &new_classes), path, levels))
            }
            _ => None,
        }
    }

    fn objects(
        &mut self,
        (before, old): (&Members<'py>, &Rc<[Id]>),
        (after, new): (&Members<'py>, &Rc<[Id]>),
        path: usize,
        levels: u32,
    ) -> usize {
        let mut sum = 0;
        let (mut gone, mut came) = (Vec::new(), Vec::new());
        let mut rest = before.sorted.iter().map(|&at| at as usize).peekable();
        for at in after.sorted.iter().map(|&at| at as usize) {
            let key = after.keys[at];
            while let Some(at) = rest.next_if(|&at| before.keys[at] < key) {
                gone.push(at);
            }
            let path = path + 1 + self.tree.token_size(key);
            match rest.next_if(|&at| before.keys[at] == key) {
                None => came.push(at),
                Some(was) if old[was] == new[at] => {}
                Some(was) => {
                    sum += self.child(&before.values[was], &after.values[at], path, levels);
                }
            }
        }
        gone.extend(rest);
        for &at in &gone {
            sum += REMOVE + path + 1 + self.tree.token_size(before.keys[at]);
        }
        let classes: HashSet<Id> =
            if came.is_empty() { HashSet::new() } else { gone.iter().map(|&at| old[at]).collect() };
        for at in came {
            let path = path + 1 + self.tree.token_size(after.keys[at]);
            // With the removal, a move under another key.
            sum += if classes.contains(&new[at]) {
                MOVE - REMOVE + path
            } else {
                ADD + path + self.size(&after.values[at])
            };
        }
        sum
    }

    fn arrays(
        &mut self,
        (before, old): (&[Bound<'py, PyAny>], &Rc<[Id]>),
        (after, new): (&[Bound<'py, PyAny>], &Rc<[Id]>),
        path: usize,
        levels: u32,
    ) -> usize {
        let head = old.iter().zip(&**new).take_while(|(old, new)| old == new).count();
        let (old, new) = (&old[head..], &new[head..]);
        let tail = old.iter().rev().zip(new.iter().rev());
        let tail = tail.take_while(|(old, new)| old == new).count();
        let (before, after) =
            (&before[head..before.len() - tail], &after[head..after.len() - tail]);
        let mut sum = 0;
        for at in 0..before.len().max(after.len()) {
            let path = path + 1 + digits(head + at);
            sum += match (before.get(at), after.get(at)) {
                (Some(_), Some(_)) if old[at] == new[at] => 0,
                (Some(old), Some(new)) => self.child(old, new, path, levels),
                (None, Some(new)) => ADD + path + self.size(new),
                _ => REMOVE + path,
            };
        }
        sum
    }

    /// A value that becomes another; so many levels below it are looked at.
    fn child(
        &mut self,
        old: &Bound<'py, PyAny>,
        new: &Bound<'py, PyAny>,
        path: usize,
        levels: u32,
    ) -> usize {
        let whole = REPLACE + path + self.size(new);
        match (Kind::of(old), Kind::of(new)) {
            (Kind::Array(_), Kind::Array(_)) | (Kind::Object(_), Kind::Object(_)) => {
                let members = match levels.checked_sub(1) {
                    Some(levels) => self.members(old, new, path, levels),
                    // Not looked into: one change in it, perhaps.
                    None => Some(REPLACE + path + 12),
                };
                members.map_or(whole, |members| whole.min(members))
            }
            _ => whole,
        }
    }
}

impl Costs for ElementCosts<'_, '_> {
    fn change(&mut self, left: usize, right: usize) -> usize {
        let (before, after) = (self.before[left].clone(), self.after[right].clone());
        let path = self.path(right);
        let lost = if self.leaves[left] { ADD + REMOVE - MOVE + self.size(&before) } else { 0 };
        lost + self.child(&before, &after, path, LEVELS)
    }

    fn remove(&mut self, left: usize) -> usize {
        REMOVE + self.path(left)
    }

    fn add(&mut self, right: usize) -> usize {
        let path = self.path(right);
        if self.arrives[right] {
            // With the removal, a move.
            return MOVE - REMOVE + path;
        }
        ADD + path + self.tree.size(&self.after[right], usize::MAX)
    }
}

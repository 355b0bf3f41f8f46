//! From a plan to the operations of a patch.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::plan::{Plan, What};
use super::{Failure, Found};
use crate::json::MAX_DEPTH;
use crate::state::copy::deep_copy;
use crate::state::document::{string, utf8};
use crate::state::pointer;

/// How many elements stand in an array, by its items, while the patch is under way (Fenwick, "A New
/// Data Structure for Cumulative Frequency Tables", 1994).
struct Counts(Vec<usize>);

impl Counts {
    fn new(counts: impl Iterator<Item = usize>) -> Self {
        let mut sums: Vec<usize> = counts.collect();
        for at in 0..sums.len() {
            let next = at | (at + 1);
            if next < sums.len() {
                sums[next] += sums[at];
            }
        }
        Self(sums)
    }

    /// How many elements stand before those of an item.
    fn before(&self, item: usize) -> usize {
        let (mut end, mut sum) = (item, 0);
        while end > 0 {
            sum += self.0[end - 1];
            end &= end - 1;
        }
        sum
    }

    fn change(&mut self, item: usize, by: isize) {
        let mut at = item;
        while at < self.0.len() {
            self.0[at] = self.0[at].wrapping_add_signed(by);
            at |= at + 1;
        }
    }
}

/// What a pair has become so far.
#[derive(Default)]
struct Progress {
    /// Only of an array.
    counts: Option<Counts>,
    /// The items whose new value has arrived.
    there: Vec<bool>,
}

pub struct Writer<'a, 'py> {
    py: Python<'py>,
    plan: &'a Plan<'py>,
    progress: Vec<Progress>,
    moved: Vec<bool>,
    pub operations: Vec<Bound<'py, PyDict>>,
    /// The pointer of the operation at hand.
    pub path: Vec<u8>,
}

impl<'a, 'py> Writer<'a, 'py> {
    pub fn new(py: Python<'py>, plan: &'a Plan<'py>) -> Self {
        let progress = plan.pairs.iter().map(|_| Progress::default()).collect();
        let moved = vec![false; plan.moves.len()];
        Self { py, plan, progress, moved, operations: Vec::new(), path: Vec::new() }
    }

    /// Writes all operations, in the order of the documents.
    pub fn write(&mut self) -> Found<()> {
        if self.plan.pairs[0].is_replaced {
            return self.push(intern!(self.py, "replace"), Some(&self.plan.pairs[0].after));
        }
        let mut open = vec![(0, 0)];
        while let Some((pair, item)) = open.last_mut() {
            let (at, next) = (*pair, *item);
            *item += 1;
            match self.plan.pairs[at].items.get(next).map(|item| &item.what) {
                None => {
                    open.pop();
                }
                Some(What::Nested(inner)) if !self.plan.pairs[*inner].is_replaced => {
                    open.push((*inner, 0));
                }
                Some(_) => self.item((at, next))?,
            }
        }
        Ok(())
    }

    fn item(&mut self, place: (usize, usize)) -> Found<()> {
        let pair = &self.plan.pairs[place.0];
        let item = &pair.items[place.1];
        let py = self.py;
        if let Some(number) = item.leaves {
            self.relocate(number)?;
        }
        if let Some(number) = item.arrives {
            self.relocate(number)?;
        }
        match &item.what {
            What::Nested(inner) => {
                self.point(place, 0);
                self.push(intern!(py, "replace"), Some(&self.plan.pairs[*inner].after))?;
            }
            What::Removed(_) if item.leaves.is_none() => self.remove(place)?,
            What::Added(new) if item.arrives.is_none() => self.add(place, new)?,
            What::Replaced(_, new) => match (item.leaves, item.arrives) {
                (None, None) => {
                    self.point(place, 0);
                    self.push(intern!(py, "replace"), Some(new))?;
                }
                (Some(_), None) => self.add(place, new)?,
                // In an object the value that arrives takes the place of the old one.
                (None, Some(_)) if pair.is_array => self.remove(place)?,
                _ => {}
            },
            What::Kept(_) | What::Removed(_) | What::Added(_) => {}
        }
        Ok(())
    }

    fn add(&mut self, place: (usize, usize), new: &Bound<'py, PyAny>) -> Found<()> {
        self.point(place, 0);
        self.push(intern!(self.py, "add"), Some(new))?;
        self.put(place);
        Ok(())
    }

    fn remove(&mut self, place: (usize, usize)) -> Found<()> {
        self.point_to_old(place);
        self.push(intern!(self.py, "remove"), None)?;
        self.take(place);
        Ok(())
    }

    /// Writes a move, when the first of its two ends is reached.
    fn relocate(&mut self, number: usize) -> Found<()> {
        if std::mem::replace(&mut self.moved[number], true) {
            return Ok(());
        }
        let step = self.plan.moves[number];
        self.point_to_old(step.source);
        let from = std::mem::take(&mut self.path);
        // The new place is that in the document without the value (RFC 6902 section 4.4).
        self.take(step.source);
        self.point(step.target, 0);
        self.put(step.target);
        let py = self.py;
        if self.path.strip_prefix(&*from).is_some_and(|rest| rest.first() == Some(&b'/')) {
            // It goes into what stands where it stood, which the pointers of a move cannot say.
            let path = std::mem::replace(&mut self.path, from);
            self.push(intern!(py, "remove"), None)?;
            self.path = path;
            if let What::Added(new) | What::Replaced(_, new) =
                &self.plan.pairs[step.target.0].items[step.target.1].what
            {
                self.push(intern!(py, "add"), Some(new))?;
            }
        } else if from != self.path {
            self.push(intern!(py, "move"), None)?;
            if let Some(operation) = self.operations.last() {
                operation.set_item(intern!(py, "from"), string(py, &from)?)?;
            }
        }
        Ok(())
    }

    fn progress(&mut self, at: usize) -> &mut Progress {
        let pair = &self.plan.pairs[at];
        let progress = &mut self.progress[at];
        if pair.is_array && progress.counts.is_none() {
            progress.counts = Some(Counts::new(pair.items.iter().map(|item| match item.what {
                What::Kept(count) => count,
                What::Nested(_) | What::Removed(_) | What::Replaced(..) => 1,
                What::Added(_) => 0,
            })));
            progress.there = vec![false; pair.items.len()];
        }
        progress
    }

    /// Notes that an old value is gone.
    fn take(&mut self, (pair, item): (usize, usize)) {
        if let Some(counts) = &mut self.progress(pair).counts {
            counts.change(item, -1);
        }
    }

    /// Notes that a new value is there.
    fn put(&mut self, (pair, item): (usize, usize)) {
        let progress = self.progress(pair);
        if let Some(counts) = &mut progress.counts {
            counts.change(item, 1);
            progress.there[item] = true;
        }
    }

    /// Sets the path to the old value of an item: it stands behind a new one that has arrived.
    fn point_to_old(&mut self, place: (usize, usize)) {
        let there = self.progress(place.0).there.get(place.1) == Some(&true);
        self.point(place, there.into());
    }

    /// Sets the path to an item as the document is now, or so many elements behind it.
    fn point(&mut self, place: (usize, usize), behind: usize) {
        let mut places = vec![place];
        let mut at = place.0;
        while let Some(parent) = self.plan.pairs[at].parent {
            places.push(parent);
            at = parent.0;
        }
        self.path.clear();
        for (left, (pair, item)) in places.into_iter().enumerate().rev() {
            if let Some(counts) = &self.progress(pair).counts {
                let index = counts.before(item) + if left == 0 { behind } else { 0 };
                pointer::push_index(&mut self.path, index);
            } else {
                let key = self.plan.pairs[pair].items[item].key;
                // Only a lone surrogate could not be written, and it can.
                let text = utf8(self.plan.tree.key_text(key)).unwrap_or_default();
                pointer::push(&mut self.path, &text);
            }
        }
    }

    /// Sets the path to the last pair of the plan.
    pub fn point_to_last(&mut self) {
        if let Some(place) = self.plan.pairs.last().and_then(|pair| pair.parent) {
            self.point(place, 0);
        }
    }

    fn push(&mut self, op: &Bound<'py, PyString>, value: Option<&Bound<'py, PyAny>>) -> Found<()> {
        let py = self.py;
        let operation = PyDict::new(py);
        operation.set_item(intern!(py, "op"), op)?;
        operation.set_item(intern!(py, "path"), string(py, &self.path)?)?;
        if let Some(value) = value {
            let copy = deep_copy(value, MAX_DEPTH).map_err(Failure::from)?;
            operation.set_item(intern!(py, "value"), copy)?;
        }
        self.operations.push(operation);
        Ok(())
    }
}

//! What a patch does, before it is written: what becomes of the members of each pair of containers,
//! which values only move, and where the new value alone is shorter.
//!
//! All costs are bytes of the patch on the wire. Indices are taken to be where an element ends up,
//! which may be a digit off while the patch is under way.

use pyo3::prelude::*;
use std::collections::{HashMap, HashSet, VecDeque};

use super::align::{self, Step};
use super::costs::{ADD, ElementCosts, MOVE, REMOVE, REPLACE, digits};
use super::tree::{Content, Id, Members, Tree};
use super::{Failure, Found};
use crate::capi;
use crate::json::MAX_DEPTH;
use crate::state::document::Kind;

/// What becomes of a member, or of elements.
pub enum What<'py> {
    /// So many elements stay as they are.
    Kept(usize),
    /// A container of its own, which changes further down.
    Nested(usize),
    Removed(Bound<'py, PyAny>),
    Added(Bound<'py, PyAny>),
    /// The old value and the new one.
    Replaced(Bound<'py, PyAny>, Bound<'py, PyAny>),
}

pub struct Item<'py> {
    /// In an object.
    pub key: Id,
    pub what: What<'py>,
    /// How long the pointer to it is.
    path_size: usize,
    /// The classes of the old and of the new value, where these may move.
    old: Option<Id>,
    new: Option<Id>,
    /// The move that takes the old value, and the one that brings the new one.
    pub leaves: Option<usize>,
    pub arrives: Option<usize>,
}

/// A container before and after. Its members are in the order of the old ones and then of the new
/// ones in an object, and in the order of the elements in an array.
pub struct Pair<'py> {
    pub is_array: bool,
    pub before: Bound<'py, PyAny>,
    pub after: Bound<'py, PyAny>,
    /// The pair that it is in, and which item of that.
    pub parent: Option<(usize, usize)>,
    depth: u32,
    path_size: usize,
    pub items: Vec<Item<'py>>,
    /// The new value is written whole.
    pub is_replaced: bool,
}

/// A value that is taken from one place and put to another.
#[derive(Clone, Copy)]
pub struct Move {
    pub source: (usize, usize),
    pub target: (usize, usize),
}

pub struct Plan<'py> {
    pub tree: Tree<'py>,
    pub pairs: Vec<Pair<'py>>,
    pub moves: Vec<Move>,
}

impl<'py> Plan<'py> {
    /// The plan for two containers of one kind. On a failure, the pair where it happened.
    pub fn new(
        before: &Bound<'py, PyAny>,
        after: &Bound<'py, PyAny>,
    ) -> Result<Self, Box<(Failure, Self)>> {
        let mut plan = Self { tree: Tree::default(), pairs: Vec::new(), moves: Vec::new() };
        plan.pair(before, after, None, 0);
        let mut next = 0;
        while next < plan.pairs.len() {
            if let Err(failure) = plan.compare(next) {
                // The last pair is the one in question.
                plan.pairs.truncate(next + 1);
                return Err(Box::new((failure, plan)));
            }
            next += 1;
        }
        plan.decide();
        Ok(plan)
    }

    fn pair(
        &mut self,
        before: &Bound<'py, PyAny>,
        after: &Bound<'py, PyAny>,
        parent: Option<(usize, usize)>,
        path_size: usize,
    ) -> usize {
        self.pairs.push(Pair {
            is_array: matches!(Kind::of(before), Kind::Array(_)),
            before: before.clone(),
            after: after.clone(),
            parent,
            depth: parent.map_or(0, |(parent, _)| self.pairs[parent].depth + 1),
            path_size,
            items: Vec::new(),
            is_replaced: false,
        });
        self.pairs.len() - 1
    }

    /// Finds what becomes of the members of a pair.
    fn compare(&mut self, at: usize) -> Found<()> {
        let pair = &self.pairs[at];
        let (before, after) = (pair.before.clone(), pair.after.clone());
        let room = MAX_DEPTH.checked_sub(pair.depth + 1).ok_or_else(Failure::too_deep)?;
        let (Some(old), Some(new)) = (self.tree.container(&before), self.tree.container(&after))
        else {
            return Ok(());
        };
        match (&*self.tree.content(old), &*self.tree.content(new)) {
            (Content::Array(old), Content::Array(new)) => self.arrays(at, old, new, room),
            (Content::Object(old), Content::Object(new)) => self.objects(at, old, new, room),
            (Content::Odd(reason), _) | (_, Content::Odd(reason)) => {
                Err(Failure::Here(reason.clone(), None))
            }
            _ => Ok(()),
        }
    }

    fn objects(
        &mut self,
        at: usize,
        before: &Members<'py>,
        after: &Members<'py>,
        room: u32,
    ) -> Found<()> {
        for (&key, old) in before.keys.iter().zip(&before.values) {
            match after.find(key).map(|at| &after.values[at]) {
                None => self.item(at, key, 0, What::Removed(old.clone())),
                Some(new) => self.change(at, key, 0, old, new, room)?,
            }
        }
        for (&key, new) in after.keys.iter().zip(&after.values) {
            if before.find(key).is_none() {
                self.item(at, key, 0, What::Added(new.clone()));
            }
        }
        Ok(())
    }

    fn arrays(
        &mut self,
        at: usize,
        before: &[Bound<'py, PyAny>],
        after: &[Bound<'py, PyAny>],
        room: u32,
    ) -> Found<()> {
        let shorter = before.len().min(after.len());
        let mut prefix = 0;
        while prefix < shorter && self.tree.same(&before[prefix], &after[prefix], room)? {
            prefix += 1;
        }
        let mut suffix = 0;
        while suffix < shorter - prefix {
            let (old, new) = (before.len() - 1 - suffix, after.len() - 1 - suffix);
            if !self.tree.same(&before[old], &after[new], room)? {
                break;
            }
            suffix += 1;
        }
        let before = &before[prefix..before.len() - suffix];
        let after = &after[prefix..after.len() - suffix];
        self.kept(at, prefix);
        let (mut x, mut y) = (0, 0);
        for step in self.steps(at, prefix, before, after, room)? {
            let index = prefix + y;
            match step {
                Step::Keep => self.kept(at, 1),
                Step::Change => self.change(at, 0, index, &before[x], &after[y], room)?,
                Step::Remove => self.item(at, 0, index, What::Removed(before[x].clone())),
                Step::Add => self.item(at, 0, index, What::Added(after[y].clone())),
            }
            x += usize::from(step != Step::Add);
            y += usize::from(step != Step::Remove);
        }
        self.kept(at, suffix);
        Ok(())
    }

    /// How to come from some elements, which begin at `first`, to others. The first ones differ, and
    /// the last ones.
    fn steps(
        &mut self,
        at: usize,
        first: usize,
        before: &[Bound<'py, PyAny>],
        after: &[Bound<'py, PyAny>],
        room: u32,
    ) -> Found<Vec<Step>> {
        match (before.len(), after.len()) {
            (_, 0) => return Ok(vec![Step::Remove; before.len()]),
            (0, _) => return Ok(vec![Step::Add; after.len()]),
            (1, 1) => return Ok(vec![Step::Change]),
            _ => {}
        }
        // A container that both have is not looked into: it stands for itself.
        let address = |value: &Bound<'py, PyAny>| value.as_ptr() as usize;
        let old: HashSet<usize> = before.iter().map(address).collect();
        let shared: HashSet<usize> =
            after.iter().map(address).filter(|address| old.contains(address)).collect();
        let mut numbers = HashMap::new();
        let mut number = |value: &Bound<'py, PyAny>, tree: &mut Tree<'py>| -> Found<u32> {
            let is_container = capi::is_exact_dict(value) || capi::is_exact_list(value);
            let known = if is_container && shared.contains(&address(value)) {
                Err(address(value))
            } else {
                Ok(tree.class(value, room)?.id)
            };
            let next = numbers.len() as u32;
            Ok(*numbers.entry(known).or_insert(next))
        };
        let mut left = Vec::with_capacity(before.len());
        for value in before {
            left.push(number(value, &mut self.tree)?);
        }
        let mut right = Vec::with_capacity(after.len());
        for value in after {
            right.push(number(value, &mut self.tree)?);
        }
        let mut counts: HashMap<u32, (usize, usize)> = HashMap::new();
        for number in &left {
            counts.entry(*number).or_default().0 += 1;
        }
        for number in &right {
            counts.entry(*number).or_default().1 += 1;
        }
        let mut costs = ElementCosts {
            path_size: self.pairs[at].path_size + 1,
            tree: &mut self.tree,
            first,
            before,
            after,
            leaves: left.iter().map(|number| counts[number].0 == counts[number].1).collect(),
            arrives: right.iter().map(|number| counts[number].0 >= counts[number].1).collect(),
            room,
            looks: ElementCosts::looks(before, after),
        };
        Ok(align::align(&left, &right, &mut costs))
    }

    fn kept(&mut self, at: usize, count: usize) {
        if let Some(Item { what: What::Kept(kept), .. }) = self.pairs[at].items.last_mut() {
            *kept += count;
        } else if count > 0 {
            self.item(at, 0, 0, What::Kept(count));
        }
    }

    fn item(&mut self, at: usize, key: Id, index: usize, what: What<'py>) {
        let path_size = self.path_size(at, key, index);
        let (old, new, leaves, arrives) = (None, None, None, None);
        let item = Item { key, what, path_size, old, new, leaves, arrives };
        self.pairs[at].items.push(item);
    }

    /// How long the pointer to a member of a pair is.
    fn path_size(&self, at: usize, key: Id, index: usize) -> usize {
        let pair = &self.pairs[at];
        let token = if pair.is_array { digits(index) } else { self.tree.token_size(key) };
        pair.path_size + 1 + token
    }

    /// A value at one place that becomes another.
    fn change(
        &mut self,
        at: usize,
        key: Id,
        index: usize,
        old: &Bound<'py, PyAny>,
        new: &Bound<'py, PyAny>,
        room: u32,
    ) -> Found<()> {
        let is_array = self.pairs[at].is_array;
        let what = match (Kind::of(old), Kind::of(new)) {
            _ if old.is(new) => None,
            (Kind::Array(_), Kind::Array(_)) | (Kind::Object(_), Kind::Object(_)) => {
                let parent = Some((at, self.pairs[at].items.len()));
                let path_size = self.path_size(at, key, index);
                Some(What::Nested(self.pair(old, new, parent, path_size)))
            }
            _ if self.tree.same(old, new, room)? => None,
            _ => Some(What::Replaced(old.clone(), new.clone())),
        };
        match what {
            Some(what) => self.item(at, key, index, what),
            None if is_array => self.kept(at, 1),
            None => {}
        }
        Ok(())
    }

    /// Chooses which values move and which pairs are written whole.
    ///
    /// What is written whole takes away the sources and the targets of moves, and a move makes it
    /// shorter not to write something whole. So three plans are weighed: nothing moves; nothing is
    /// written whole; and a pair is written whole where that is shorter with all that it breaks.
    fn decide(&mut self) {
        self.classify();
        self.choose(&vec![0; self.pairs.len()]);
        let mut best = self.chosen();
        self.find_moves();
        let least = self.weigh();
        self.replace(&vec![false; self.pairs.len()]);
        self.find_moves();
        if !self.moves.is_empty() {
            let aligned = self.weigh();
            if aligned < least {
                best = self.chosen();
            }
            let broken = self.broken();
            self.choose(&broken);
            self.find_moves();
            if self.weigh() < least.min(aligned) {
                best = self.chosen();
            }
        }
        self.replace(&best);
        self.find_moves();
    }

    fn chosen(&self) -> Vec<bool> {
        self.pairs.iter().map(|pair| pair.is_replaced).collect()
    }

    fn replace(&mut self, which: &[bool]) {
        for (pair, &is_replaced) in self.pairs.iter_mut().zip(which) {
            pair.is_replaced = is_replaced;
        }
    }

    /// Gives a class to each value that may move, if there is anything at all to move and a place
    /// for it.
    fn classify(&mut self) {
        let (mut old, mut new) = (0, 0);
        for pair in &self.pairs {
            for item in &pair.items {
                match item.what {
                    What::Removed(_) => old += 1,
                    What::Added(_) => new += 1,
                    What::Replaced(..) => {
                        old += usize::from(pair.is_array);
                        new += 1;
                    }
                    What::Kept(_) | What::Nested(_) => {}
                }
            }
        }
        if old == 0 || new == 0 {
            return;
        }
        for pair in &mut self.pairs {
            let room = MAX_DEPTH - pair.depth - 1;
            for item in &mut pair.items {
                // What cannot be compared does not move.
                let mut class = |value| self.tree.class(value, room).ok().map(|class| class.id);
                match &item.what {
                    What::Removed(value) => item.old = class(value),
                    What::Added(value) => item.new = class(value),
                    What::Replaced(old, new) => {
                        // In an object the new value would have to wait for the old one to leave.
                        item.old = if pair.is_array { class(old) } else { None };
                        item.new = class(new);
                    }
                    What::Kept(_) | What::Nested(_) => {}
                }
            }
        }
    }

    /// What the operations for one item take, without moves and nested pairs.
    fn cost(&mut self, (at, item): (usize, usize)) -> usize {
        let pair = &self.pairs[at];
        let item = &pair.items[item];
        let path = item.path_size;
        let stays = item.leaves.is_none();
        match &item.what {
            What::Kept(_) | What::Nested(_) => 0,
            What::Removed(_) => usize::from(stays) * (REMOVE + path),
            What::Replaced(..) if item.arrives.is_some() => {
                usize::from(stays && pair.is_array) * (REMOVE + path)
            }
            What::Added(_) if item.arrives.is_some() => 0,
            What::Added(new) => ADD + path + self.tree.size(new, usize::MAX),
            What::Replaced(_, new) => {
                let operation = if stays { REPLACE } else { ADD };
                operation + path + self.tree.size(new, usize::MAX)
            }
        }
    }

    fn move_cost(&self, Move { source, target }: Move) -> usize {
        let size = |(pair, item): (usize, usize)| self.pairs[pair].items[item].path_size;
        MOVE + size(source) + size(target)
    }

    /// Sets the move of an old value and of a new one.
    fn link(&mut self, Move { source, target }: Move, number: Option<usize>) {
        self.pairs[source.0].items[source.1].leaves = number;
        self.pairs[target.0].items[target.1].arrives = number;
    }

    /// Whether a pair is part of the patch, and not of something that is written whole.
    fn alive(&self) -> Vec<bool> {
        let mut alive = vec![true; self.pairs.len()];
        // A pair comes after the one that it is in.
        for (at, pair) in self.pairs.iter().enumerate() {
            if let Some((parent, _)) = pair.parent {
                alive[at] = alive[parent] && !self.pairs[parent].is_replaced;
            }
        }
        alive
    }

    /// Finds a target for each old value that goes, where moving it is shorter. What is removed
    /// comes before what is replaced, which has to be taken away anyway.
    fn find_moves(&mut self) {
        self.moves.clear();
        let alive = self.alive();
        let mut sources: HashMap<Id, [VecDeque<(usize, usize)>; 2]> = HashMap::new();
        let mut targets = [Vec::new(), Vec::new()];
        for (at, pair) in self.pairs.iter_mut().enumerate() {
            let is_open = alive[at] && !pair.is_replaced;
            for (number, item) in pair.items.iter_mut().enumerate() {
                (item.leaves, item.arrives) = (None, None);
                let is_change = usize::from(matches!(item.what, What::Replaced(..)));
                if let Some(old) = item.old.filter(|_| is_open) {
                    sources.entry(old).or_default()[is_change].push_back((at, number));
                }
                if let Some(new) = item.new.filter(|_| is_open) {
                    targets[is_change].push((new, (at, number)));
                }
            }
        }
        for (new, target) in targets.into_iter().flatten() {
            let Some(sources) = sources.get_mut(&new) else { continue };
            let Some(row) = sources.iter_mut().find(|row| !row.is_empty()) else { continue };
            let Some(&source) = row.front() else { continue };
            let step = Move { source, target };
            let still = self.cost(source) + self.cost(target);
            self.link(step, Some(self.moves.len()));
            if self.cost(source) + self.cost(target) + self.move_cost(step) < still {
                self.moves.push(step);
                row.pop_front();
            } else {
                self.link(step, None);
            }
        }
    }

    /// How much longer the rest of the patch gets if a pair is written whole, since moves out of it
    /// or into it are none then.
    fn broken(&mut self) -> Vec<usize> {
        let mut broken = vec![0; self.pairs.len()];
        for number in 0..self.moves.len() {
            let step = self.moves[number];
            let (source, target) = (self.cost(step.source), self.cost(step.target));
            self.link(step, None);
            let source = self.cost(step.source).saturating_sub(source);
            let target = self.cost(step.target).saturating_sub(target + self.move_cost(step));
            self.link(step, Some(number));
            let (mut left, mut right) = (step.source.0, step.target.0);
            while left != right {
                if self.pairs[left].depth >= self.pairs[right].depth {
                    broken[left] += target;
                    left = self.pairs[left].parent.map_or(right, |(parent, _)| parent);
                } else {
                    broken[right] += source;
                    right = self.pairs[right].parent.map_or(left, |(parent, _)| parent);
                }
            }
        }
        broken
    }

    /// Writes each pair whole where that is shorter, given what doing so breaks.
    fn choose(&mut self, broken: &[usize]) {
        let mut costs = vec![0_usize; self.pairs.len()];
        for step in &self.moves {
            costs[step.target.0] += self.move_cost(*step);
        }
        // From the inside out.
        for at in (0..self.pairs.len()).rev() {
            for item in 0..self.pairs[at].items.len() {
                costs[at] += match self.pairs[at].items[item].what {
                    What::Nested(inner) => costs[inner],
                    _ => self.cost((at, item)),
                };
            }
            let pair = &mut self.pairs[at];
            let least = REPLACE + pair.path_size + broken[at];
            let whole = match costs[at].checked_sub(least) {
                Some(enough) => least + self.tree.size(&pair.after, enough),
                None => least,
            };
            pair.is_replaced = costs[at] > least && whole < costs[at];
            if pair.is_replaced {
                costs[at] = whole;
            }
        }
    }

    /// How long the patch is.
    fn weigh(&mut self) -> usize {
        let alive = self.alive();
        let mut sum = self.moves.iter().map(|step| self.move_cost(*step)).sum();
        for (at, alive) in alive.into_iter().enumerate() {
            if !alive {
                continue;
            }
            let pair = &self.pairs[at];
            if pair.is_replaced {
                sum += REPLACE + pair.path_size + self.tree.size(&pair.after, usize::MAX);
                continue;
            }
            for item in 0..pair.items.len() {
                sum += self.cost((at, item));
            }
        }
        sum
    }
}

//! Which element of one array becomes which of another.

use std::collections::HashMap;

use super::sequence;

/// What becomes of the next elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The same on both sides.
    Keep,
    /// The one on the left becomes the one on the right, where they are.
    Change,
    Remove,
    Add,
}

/// What the steps cost, in bytes of a patch.
pub trait Costs {
    fn change(&mut self, left: usize, right: usize) -> usize;
    fn remove(&mut self, left: usize) -> usize;
    fn add(&mut self, right: usize) -> usize;
}

/// So many pairs are looked at for each element: the work is linear.
const PAIRS: usize = 16;

/// The steps that lead from one sequence to the other. Elements with one number are equal.
///
/// What is short is aligned at the least cost. What is long is first taken apart at the elements that
/// both have, as far as these are found in linear time.
pub fn align(left: &[u32], right: &[u32], costs: &mut impl Costs) -> Vec<Step> {
    if is_short(left.len(), right.len()) {
        return cheapest(left, right, (0, 0), costs);
    }
    let anchors = sequence::common(left, right).unwrap_or_else(|| unique(left, right));
    let loose = loosened(&anchors, (left.len(), right.len()));
    let mut best = (usize::MAX, Vec::new());
    for anchors in [&*anchors, &loose, &[]] {
        let steps = between(left, right, anchors, costs);
        let cost = cost(&steps, costs);
        if cost < best.0 {
            best = (cost, steps);
        }
    }
    best.1
}

/// The anchors without those near a place where something differs: with other ones there, which are
/// as many, less may have to be done.
fn loosened(anchors: &[(usize, usize)], end: (usize, usize)) -> Vec<(usize, usize)> {
    const NEAR: usize = 4;
    // How many anchors follow each other without a gap up to each one, and from it on.
    let run = |from: (usize, usize), to: (usize, usize)| to.0 - from.0 == 1 && to.1 - from.1 == 1;
    let mut before = Vec::with_capacity(anchors.len());
    for (at, &anchor) in anchors.iter().enumerate() {
        let (joined, last) = match at.checked_sub(1) {
            None => (anchor == (0, 0), NEAR),
            Some(last) => (run(anchors[last], anchor), before[last]),
        };
        before.push(if joined { last + 1 } else { 0 });
    }
    let mut loose = Vec::new();
    let mut after = NEAR;
    for (at, &anchor) in anchors.iter().enumerate().rev() {
        let next = anchors.get(at + 1).copied().unwrap_or(end);
        after = if run(anchor, next) { after + 1 } else { 0 };
        if before[at] >= NEAR && after >= NEAR {
            loose.push(anchor);
        }
    }
    loose.reverse();
    loose
}

fn is_short(left: usize, right: usize) -> bool {
    left.saturating_mul(right) <= PAIRS * (left + right)
}

fn cost(steps: &[Step], costs: &mut impl Costs) -> usize {
    let (mut x, mut y) = (0, 0);
    let mut sum = 0;
    for step in steps {
        sum += match step {
            Step::Keep => 0,
            Step::Change => costs.change(x, y),
            Step::Remove => costs.remove(x),
            Step::Add => costs.add(y),
        };
        x += usize::from(*step != Step::Add);
        y += usize::from(*step != Step::Remove);
    }
    sum
}

/// The steps with the anchors kept. What is between two of them is aligned at the least cost if it
/// is short, else by position.
fn between(
    left: &[u32],
    right: &[u32],
    anchors: &[(usize, usize)],
    costs: &mut impl Costs,
) -> Vec<Step> {
    let mut steps = Vec::with_capacity(left.len().max(right.len()));
    let (mut x, mut y) = (0, 0);
    for &(next_x, next_y) in anchors.iter().chain(&[(left.len(), right.len())]) {
        let (from, to) = (&left[x..next_x], &right[y..next_y]);
        if !anchors.is_empty() && is_short(from.len(), to.len()) {
            steps.extend(cheapest(from, to, (x, y), costs));
        } else {
            let pairs = from.iter().zip(to);
            steps.extend(pairs.map(|(x, y)| if x == y { Step::Keep } else { Step::Change }));
            steps.extend(from.iter().skip(to.len()).map(|_| Step::Remove));
            steps.extend(to.iter().skip(from.len()).map(|_| Step::Add));
        }
        if next_x < left.len() && next_y < right.len() {
            steps.push(Step::Keep);
        }
        (x, y) = (next_x + 1, next_y + 1);
    }
    steps
}

/// The steps of the least cost. `start` is where the two begin in the whole sequences.
fn cheapest(
    left: &[u32],
    right: &[u32],
    start: (usize, usize),
    costs: &mut impl Costs,
) -> Vec<Step> {
    let width = right.len() + 1;
    let adds: Vec<usize> = (0..right.len()).map(|y| costs.add(start.1 + y)).collect();
    let removes: Vec<usize> = (0..left.len()).map(|x| costs.remove(start.0 + x)).collect();
    // From the end, so that the steps come out in order.
    let mut table = vec![(0, Step::Keep); (left.len() + 1) * width];
    for x in (0..=left.len()).rev() {
        for y in (0..=right.len()).rev() {
            let at = x * width + y;
            let mut best = None;
            let mut offer = |cost: usize, step| {
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, step));
                }
            };
            if x < left.len() && y < right.len() {
                let rest = table[at + width + 1].0;
                if left[x] == right[y] {
                    offer(rest, Step::Keep);
                } else {
                    offer(rest + costs.change(start.0 + x, start.1 + y), Step::Change);
                }
            }
            if x < left.len() {
                offer(table[at + width].0 + removes[x], Step::Remove);
            }
            if y < right.len() {
                offer(table[at + 1].0 + adds[y], Step::Add);
            }
            if let Some(best) = best {
                table[at] = best;
            }
        }
    }
    let mut steps = Vec::with_capacity(left.len().max(right.len()));
    let (mut x, mut y) = (0, 0);
    while x < left.len() || y < right.len() {
        let step = table[x * width + y].1;
        x += usize::from(step != Step::Add);
        y += usize::from(step != Step::Remove);
        steps.push(step);
    }
    steps
}

/// Anchors in linear time but for the sorting: elements that either side has once, in the longest
/// row that rises on both, and their equal neighbours.
fn unique(left: &[u32], right: &[u32]) -> Vec<(usize, usize)> {
    // Where an element is on the two sides; more than once is nowhere.
    let mut places: HashMap<u32, [Option<Option<usize>>; 2]> = HashMap::new();
    for (side, elements) in [left, right].into_iter().enumerate() {
        for (at, element) in elements.iter().enumerate() {
            let place = &mut places.entry(*element).or_default()[side];
            *place = Some(if place.is_none() { Some(at) } else { None });
        }
    }
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    for (x, element) in left.iter().enumerate() {
        if let Some([Some(Some(_)), Some(Some(y))]) = places.get(element) {
            pairs.push((x, *y));
        }
    }
    // The longest rising row: the last of the best rows of each length, and who comes before whom.
    let mut ends: Vec<usize> = Vec::new();
    let mut before = vec![None; pairs.len()];
    for (at, &(_, y)) in pairs.iter().enumerate() {
        let len = ends.partition_point(|&end| pairs[end].1 < y);
        before[at] = len.checked_sub(1).map(|len| ends[len]);
        if len == ends.len() {
            ends.push(at);
        } else {
            ends[len] = at;
        }
    }
    let mut row = Vec::new();
    let mut next = ends.last().copied();
    while let Some(at) = next {
        row.push(pairs[at]);
        next = before[at];
    }
    row.reverse();
    let mut anchors = Vec::new();
    let (mut x, mut y) = (0, 0);
    for &(next_x, next_y) in row.iter().chain(&[(left.len(), right.len())]) {
        let (from, to) = (left.get(x..next_x), right.get(y..next_y));
        if let (Some(from), Some(to)) = (from, to) {
            let head = from.iter().zip(to).take_while(|(x, y)| x == y).count();
            let (from, to) = (&from[head..], &to[head..]);
            let pairs = from.iter().rev().zip(to.iter().rev());
            let tail = pairs.take_while(|(x, y)| x == y).count();
            anchors.extend((0..head).map(|at| (x + at, y + at)));
            anchors.extend((1..=tail).rev().map(|at| (next_x - at, next_y - at)));
            if next_x < left.len() && next_y < right.len() {
                anchors.push((next_x, next_y));
            }
            (x, y) = (next_x + 1, next_y + 1);
        }
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every step costs the same but where elements are alike, and all looks are counted.
    #[derive(Default)]
    struct Counted(usize);

    impl Costs for Counted {
        fn change(&mut self, _: usize, _: usize) -> usize {
            self.0 += 1;
            38
        }
        fn remove(&mut self, _: usize) -> usize {
            self.0 += 1;
            28
        }
        fn add(&mut self, _: usize) -> usize {
            self.0 += 1;
            34
        }
    }

    fn random(seed: &mut u32, below: u32) -> u32 {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*seed >> 16) % below
    }

    fn applied(left: &[u32], right: &[u32], steps: &[Step]) -> Vec<u32> {
        let (mut x, mut y) = (0, 0);
        let mut made = Vec::new();
        for step in steps {
            match step {
                Step::Keep => {
                    assert_eq!(left[x], right[y]);
                    made.push(left[x]);
                }
                Step::Change | Step::Add => made.push(right[y]),
                Step::Remove => {}
            }
            x += usize::from(*step != Step::Add);
            y += usize::from(*step != Step::Remove);
        }
        assert_eq!((x, y), (left.len(), right.len()));
        made
    }

    #[test]
    fn the_steps_lead_from_one_to_the_other() {
        let mut seed = 1;
        for round in 0..3_000 {
            let most = if round % 10 == 0 { 300 } else { 12 };
            let kinds = 1 + random(&mut seed, 40);
            let mut make = || -> Vec<u32> {
                (0..random(&mut seed, most)).map(|_| random(&mut seed, kinds)).collect()
            };
            let (left, right) = (make(), make());
            let steps = align(&left, &right, &mut Counted::default());
            assert_eq!(applied(&left, &right, &steps), right);
            let anchors = unique(&left, &right);
            assert!(anchors.iter().all(|&(x, y)| left[x] == right[y]));
            assert!(anchors.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        }
    }

    #[test]
    fn the_work_is_linear() {
        type Make = fn(u32) -> (Vec<u32>, Vec<u32>);
        let inputs: [(&str, Make); 7] = [
            ("reversed", |n| ((0..n).collect(), (0..n).rev().collect())),
            ("all alike", |n| (vec![0; n as usize], vec![0; n as usize / 2])),
            ("alternating", |n| ((0..n).map(|x| x % 2).collect(), (0..n).map(|x| x % 3).collect())),
            ("all others", |n| ((0..n).collect(), (n..2 * n).collect())),
            ("every second", |n| ((0..n).collect(), (0..n).step_by(2).collect())),
            ("blocks", |n| {
                ((0..n).map(|x| x / 7).collect(), (0..n).map(|x| (n - x) / 5).collect())
            }),
            ("shuffled", |n| {
                let mut seed = 7;
                let mut shuffled: Vec<u32> = (0..n).collect();
                for at in (1..n).rev() {
                    shuffled.swap(at as usize, random(&mut seed, at + 1) as usize);
                }
                ((0..n).collect(), shuffled)
            }),
        ];
        for (name, make) in inputs {
            let looks = [2_000, 4_000, 8_000].map(|n| {
                let (left, right) = make(n);
                let mut counted = Counted::default();
                assert_eq!(applied(&left, &right, &align(&left, &right, &mut counted)), right);
                counted.0 as f64
            });
            for (at, looks) in looks.into_iter().enumerate() {
                assert!(looks < 40.0 * 4_000.0 * f64::from(1 << at), "{name}: {looks}");
            }
        }
    }
}

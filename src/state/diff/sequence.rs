//! The longest common part of two sequences, at a bounded cost (Myers, "An O(ND) Difference
//! Algorithm and Its Variations", 1986).

/// So many steps are made for each element, so that the cost is linear.
const STEPS: usize = 64;

/// And so many differences are looked for at most: the memory grows with their square.
const MAX_DIFFERENCES: usize = 1_000;

/// Pairs of positions with equal elements, rising in both, as many as there can be; None if they
/// are not found at that cost, because there are too many differences.
pub fn common(before: &[u32], after: &[u32]) -> Option<Vec<(usize, usize)>> {
    let mut left = STEPS * (before.len() + after.len() + 1);
    // How far each diagonal has come: `reach[k + differences]` for the diagonal `x - y == k`.
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for differences in 0..=MAX_DIFFERENCES.min(before.len() + after.len()) {
        // The memory counts as well.
        left = left.checked_sub(2 * differences + 1)?;
        let mut reach = vec![0; 2 * differences + 1];
        for at in (0..=2 * differences).step_by(2) {
            let start = match trace.last() {
                None => 0,
                Some(last) => from(last, at).0,
            };
            let mut x = start;
            // `at` is `k + differences`, and `y` is `x - k`.
            let mut y = x + differences - at;
            while x < before.len() && y < after.len() && before[x] == after[y] {
                x += 1;
                y += 1;
            }
            left = left.checked_sub(x - start)?;
            reach[at] = x;
            if x >= before.len() && y >= after.len() {
                trace.push(reach);
                return Some(matches(&trace, at, before.len()));
            }
        }
        trace.push(reach);
    }
    None
}

/// Where a diagonal begins, given how far the last round came: one step right (an element left out)
/// or down (one put in). Also whether it was right.
///
/// In round `d` the diagonal `k` is at `k + d`; its neighbours `k - 1` and `k + 1` of round `d - 1`
/// are at `at - 2` and `at`.
fn from(last: &[usize], at: usize) -> (usize, bool) {
    let right = at.checked_sub(2).and_then(|at| last.get(at)).map(|x| x + 1);
    let down = last.get(at).copied();
    match (right, down) {
        (Some(right), Some(down)) if right > down => (right, true),
        (Some(right), None) => (right, true),
        (_, Some(down)) => (down, false),
        (None, None) => (0, false),
    }
}

/// Walks back along the path that reached the end.
fn matches(trace: &[Vec<usize>], mut at: usize, end: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut x = end;
    for differences in (0..trace.len()).rev() {
        let (start, right) = match differences.checked_sub(1) {
            None => (0, false),
            Some(last) => from(&trace[last], at),
        };
        while x > start {
            x -= 1;
            pairs.push((x, x + differences - at));
        }
        if differences > 0 {
            if right {
                x = start - 1;
                at -= 2;
            } else {
                x = start;
            }
        }
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(before: &[u32], after: &[u32]) -> usize {
        let mut row = vec![0; after.len() + 1];
        for left in before {
            let mut diagonal = 0;
            for (at, right) in after.iter().enumerate() {
                let above = row[at + 1];
                row[at + 1] = if left == right { diagonal + 1 } else { above.max(row[at]) };
                diagonal = above;
            }
        }
        row[after.len()]
    }

    #[test]
    fn as_long_as_can_be_and_rising() {
        let mut seed = 1_u32;
        let mut next = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..2_000 {
            let before: Vec<u32> = (0..next(9)).map(|_| next(4)).collect();
            let after: Vec<u32> = (0..next(9)).map(|_| next(4)).collect();
            let pairs = common(&before, &after).unwrap();
            assert_eq!(pairs.len(), longest(&before, &after), "{before:?} {after:?}");
            assert!(pairs.iter().all(|&(x, y)| before[x] == after[y]));
            assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
        }
    }

    #[test]
    fn bounded() {
        let before: Vec<u32> = (0..200_000).collect();
        let after: Vec<u32> = (0..200_000).rev().collect();
        assert!(common(&before, &after).is_none());
        assert_eq!(common(&before, &before).map(|pairs| pairs.len()), Some(200_000));
    }
}

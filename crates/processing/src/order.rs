//! An order in which everything comes after what feeds it, or a circle that makes that impossible.

use std::collections::BTreeSet;

/// `inputs`: for each element, those that feed it. Elements that could come next do so in their own order. `Err`: elements
/// of which each feeds the next, and the last the first.
pub(crate) fn order(inputs: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut feeds = vec![Vec::new(); inputs.len()];
    let mut missing: Vec<usize> = inputs.iter().map(Vec::len).collect();
    for (element, sources) in inputs.iter().enumerate() {
        sources.iter().for_each(|source| feeds[*source].push(element));
    }
    let mut ready: BTreeSet<usize> = (0..inputs.len()).filter(|element| missing[*element] == 0).collect();
    let mut order = Vec::with_capacity(inputs.len());
    while let Some(element) = ready.pop_first() {
        order.push(element);
        for fed in &feeds[element] {
            missing[*fed] -= 1;
            if missing[*fed] == 0 {
                ready.insert(*fed);
            }
        }
    }
    match missing.iter().position(|count| *count > 0) {
        None => Ok(order),
        Some(stuck) => Err(circle(inputs, &missing, stuck)),
    }
}

/// Whoever cannot come next waits for another that cannot; walking from one to the next ends in a circle.
fn circle(inputs: &[Vec<usize>], missing: &[usize], stuck: usize) -> Vec<usize> {
    let mut walk = vec![stuck];
    loop {
        let here = walk[walk.len() - 1];
        let Some(&before) = inputs[here].iter().find(|source| missing[**source] > 0) else { return walk };
        if let Some(begin) = walk.iter().position(|element| *element == before) {
            let mut circle = walk.split_off(begin);
            circle.reverse();
            return circle;
        }
        walk.push(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_after_what_feeds_it() {
        assert_eq!(order(&[vec![2], vec![], vec![1], vec![0, 1]]), Ok(vec![1, 2, 0, 3]));
        assert_eq!(order(&[]), Ok(vec![]));
    }

    #[test]
    fn a_circle_is_named_in_the_direction_of_events() {
        // 0 feeds 1, 1 feeds 2, 2 feeds 1 and 3.
        assert_eq!(order(&[vec![], vec![0, 2], vec![1], vec![2]]), Err(vec![2, 1]));
        assert_eq!(order(&[vec![0]]), Err(vec![0]));
    }
}

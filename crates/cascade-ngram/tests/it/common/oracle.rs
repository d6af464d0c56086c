//! Max-Gram by the letter: Listing 1 of Cascade Speculative Drafting, and the steps around it.

/// Listing 1, line by line. Tensors of shape `[1, n]` are slices, comparisons give vectors of 0 and
/// 1, and instead of `encoder_ids[:, index : index + n]` the index is returned.
fn max_gram(input_ids: &[u32], encoder_ids: &[u32]) -> Option<usize> {
    let last = *input_ids.last()?;
    let mut matches: Vec<i32> = equal(encoder_ids, last);
    if matches.iter().sum::<i32>() < 1 {
        return None;
    }
    for i in 2..=input_ids.len() {
        // encoder_ids[0, :(-1 * (i - 1))]; python clamps a slice that would begin before the
        // tensor.
        let searched = &encoder_ids[..encoder_ids.len().saturating_sub(i - 1)];
        let new_matches = equal(searched, input_ids[input_ids.len() - i]);
        let combined_matches: Vec<i32> = new_matches
            .iter()
            .zip(&matches[1..])
            .map(|(new, old)| i32::from(2 - new == *old))
            .collect();
        if combined_matches.iter().sum::<i32>() < 1 {
            return torch_index(&[vec![0; i - 1], matches].concat(), 1);
        }
        matches = combined_matches;
    }
    let padding = vec![0; encoder_ids.len() - matches.len()];
    let index = torch_index(&[padding, matches].concat(), 1)?;
    Some(index + 1)
}

/// `(t == value).nonzero(as_tuple=True)[0][0]`
fn torch_index(t: &[i32], value: i32) -> Option<usize> {
    t.iter().position(|x| *x == value)
}

/// `(t == value).int()`
fn equal(t: &[u32], value: u32) -> Vec<i32> {
    t.iter().map(|x| i32::from(*x == value)).collect()
}

/// The whole draft: Listing 1 on the corpus without its last token (what ends there is the suffix
/// itself), once more if the corpus ends first, and then `best` (the bigram table).
pub(crate) fn draft(
    source: &[u32],
    context: &[u32],
    budget: usize,
    best: impl Fn(u32) -> Option<u32>,
) -> Vec<u32> {
    let mut drafted: Vec<u32> = Vec::new();
    for _ in 0..2 {
        let extended = [context, &drafted].concat();
        let corpus = [source, &extended].concat();
        let Some((_, searched)) = corpus.split_last() else {
            break;
        };
        let Some(index) = max_gram(&extended, searched) else {
            break;
        };
        let room = budget - drafted.len();
        drafted.extend(corpus[index..].iter().take(room));
    }
    while drafted.len() < budget {
        let Some(next) = drafted.last().or(context.last()).and_then(|&t| best(t)) else {
            break;
        };
        drafted.push(next);
    }
    drafted
}

#[test]
fn agrees_with_a_worked_example() {
    // "b c" occurs at 1..3 and 4..6 of the corpus; what follows the first is "d".
    let encoder = [1, 2, 3, 4, 2, 3, 5];
    assert_eq!(max_gram(&[9, 2, 3], &encoder), Some(3));
    // The whole input matches.
    assert_eq!(max_gram(&[2, 3], &encoder), Some(3));
    assert_eq!(max_gram(&[4, 2, 3], &encoder), Some(6));
    assert_eq!(max_gram(&[8], &encoder), None);
}

//! Times of forwards, measured until two measurements agree and no curve is absurd.

use cascade_core::Scorer;

use crate::{Error, ErrorKind, ForwardBench, ForwardCost, Result};

/// How far two measurements of the same thing may differ, and a curve from what can be.
const TOLERANCE: f64 = 1.3;
/// What more rows take at least, of what fewer take: of a small model, four rows were measured to
/// take 0.77 times as long as one.
const LEAST: f64 = 0.6;
/// Measurements, each with twice as many forwards as the one before.
const ATTEMPTS: u32 = 4;

/// Times of forwards by contexts and rows. Each context is measured twice; if the halves differ by
/// more than 30%, or the curve is one that cannot be, it is measured again, with more forwards.
/// Contexts that exceed the model's positions are omitted from the result.
///
/// # Errors
/// [`ErrorKind::Costs`] with the numbers, if that does not help; errors of the model.
pub fn steady_times(bench: &ForwardBench, scorer: &mut dyn Scorer) -> Result<Vec<ForwardCost>> {
    let mut all = Vec::new();
    for &context in &bench.contexts {
        let costs = settle(|attempt| {
            let bench = ForwardBench {
                contexts: vec![context],
                repeats: bench.repeats << attempt,
                ..bench.clone()
            };
            Ok([bench.run(scorer)?, bench.run(scorer)?])
        });
        all.extend(costs.map_err(|error| error.at(format!("context {context}")))?);
    }
    Ok(all)
}

/// The first measurement without a contradiction, of both halves together.
fn settle(
    mut measure: impl FnMut(u32) -> Result<[Vec<ForwardCost>; 2]>,
) -> Result<Vec<ForwardCost>> {
    let mut failed = String::new();
    for attempt in 0..ATTEMPTS {
        let [first, second] = measure(attempt)?;
        let Some(context) = first.first().map(|cost| cost.context) else {
            return Ok(Vec::new());
        };
        let seconds = |cost: &ForwardCost| cost.typical.as_secs_f64();
        let pairs = || first.iter().zip(&second);
        let halves: Vec<_> = pairs()
            .map(|(a, b)| (a.rows, seconds(a), seconds(b)))
            .collect();
        let Some(problem) = problem(context, &halves) else {
            return Ok(pairs().map(|(a, b)| a.and(b)).collect());
        };
        failed = format!("{problem} ({})", described(&halves));
    }
    let message = format!(
        "times of forwards could not be measured, {ATTEMPTS} times: {failed}; wait until the \
         machine has less to do, or give costs that were measured then, or numbers"
    );
    Err(Error::new(ErrorKind::Costs, message))
}

/// Rows and milliseconds in both halves of a measurement.
fn described(halves: &[(usize, f64, f64)]) -> String {
    let described = halves.iter().map(|(rows, first, second)| {
        let (first, second) = (1e3 * first, 1e3 * second);
        format!("{rows} rows: {first:.3} and {second:.3} ms")
    });
    described.collect::<Vec<_>>().join(", ")
}

/// What is wrong with times of forwards by rows after a context, measured twice.
fn problem(context: usize, halves: &[(usize, f64, f64)]) -> Option<String> {
    let unsteady = halves.iter().find_map(|&(rows, a, b)| {
        let ratio = a.max(b) / a.min(b);
        (ratio > TOLERANCE).then(|| {
            format!(
                "two measurements of the same forwards of {rows} rows differ by {ratio:.2} times"
            )
        })
    });
    let times: Vec<(usize, f64)> = halves
        .iter()
        .map(|&(rows, a, b)| (rows, a.min(b)))
        .collect();
    unsteady.or_else(|| absurd(context, &times))
}
/// Two forwards whose times contradict each other: more rows take hardly less, and no more than in
/// several forwards, of which the last attends to the positions of those before it.
fn absurd(context: usize, times: &[(usize, f64)]) -> Option<String> {
    let pairs = times.iter().flat_map(|&fewer| {
        let more = times.iter().filter(move |more| more.0 > fewer.0);
        more.map(move |&more| (fewer, more))
    });
    pairs
        .map(|((fewer, short), (more, long))| (fewer, more, long / short))
        .find(|&(fewer, more, ratio)| {
            let forwards = more.div_ceil(fewer) as f64;
            let attention = (context + more) as f64 / (context + fewer) as f64;
            let most = TOLERANCE * forwards * attention;
            !(LEAST..=most).contains(&ratio)
        })
        .map(|(fewer, more, ratio)| {
            format!(
                "a forward of {more} rows seems to take {ratio:.2} times as long as one of {fewer}"
            )
        })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn cost(rows: usize, milliseconds: f64) -> ForwardCost {
        let time = Duration::from_secs_f64(1e-3 * milliseconds);
        ForwardCost {
            context: 128,
            rows,
            median: time,
            mean: time,
            typical: time,
            fastest: time,
            slowest: time,
        }
    }

    fn curve(times: &[(usize, f64)]) -> Vec<ForwardCost> {
        times.iter().map(|&(rows, time)| cost(rows, time)).collect()
    }

    #[test]
    fn what_differs_is_measured_again_until_it_agrees() {
        let good = [(1, 1.0), (4, 1.1), (8, 1.6)];
        let mut attempts = Vec::new();
        let found: Vec<_> = settle(|attempt| {
            attempts.push(attempt);
            let busy = [(1, 1.0), (4, 2.9), (8, 1.6)];
            let second = if attempt < 2 { busy } else { good };
            Ok([curve(&good), curve(&second)])
        })
        .unwrap()
        .iter()
        .map(|cost| cost.typical)
        .collect();
        assert_eq!(found[1], Duration::from_micros(1100));
        assert_eq!(attempts, [0, 1, 2]);
    }

    #[test]
    fn what_cannot_be_is_an_error_with_the_numbers() {
        for (times, named) in [
            (
                [(1, 1.0), (4, 1.2), (9, 18.0)],
                "9 rows seems to take 18.00 times as long as one of 1",
            ),
            (
                [(1, 1.0), (4, 0.5), (9, 1.2)],
                "4 rows seems to take 0.50 times as long as one of 1",
            ),
        ] {
            let mut attempts = 0;
            let error = settle(|_| {
                attempts += 1;
                Ok([curve(&times), curve(&times)])
            })
            .unwrap_err()
            .to_string();
            assert!(
                error.contains(named) && error.contains("9 rows:"),
                "{error}"
            );
            assert_eq!(attempts, ATTEMPTS);
        }
        let error = settle(|attempt| {
            let busy = 1.0 + f64::from(attempt);
            Ok([curve(&[(1, 1.0)]), curve(&[(1, 1.4 * busy)])])
        })
        .unwrap_err()
        .to_string();
        assert!(error.contains("of 1 rows differ by 5.60 times"), "{error}");
    }

    #[test]
    fn steps_and_free_rows_can_be() {
        for times in [
            vec![
                (1, 0.1, 0.1),
                (2, 0.09, 0.095),
                (8, 0.1, 0.11),
                (9, 0.17, 0.18),
            ],
            vec![(1, 1.0, 1.1), (2, 2.1, 2.0), (32, 36.0, 35.0)],
            // As measured of small models, four times alike.
            vec![(1, 2.185, 2.271), (2, 1.733, 1.755), (4, 1.672, 1.762)],
            vec![(1, 0.088, 0.089), (16, 0.285, 0.286), (64, 1.539, 1.537)],
        ] {
            assert_eq!(problem(128, &times), None, "{times:?}");
        }
        let without_context = problem(0, &[(16, 0.285, 0.286), (64, 6.2, 6.2)]);
        assert!(without_context.is_some_and(|problem| problem.contains("seems to take")));
        let too_short = settle(|_| Ok([vec![], vec![]])).unwrap();
        assert!(too_short.is_empty());
    }
}

//! Times of forwards, measured until two measurements agree and no curve is absurd.

use cascade_core::Scorer;

use crate::{Error, ErrorKind, ForwardBench, ForwardCost, Result};

/// How far two measurements of the same thing may differ, and a curve from what can be.
const TOLERANCE: f64 = 1.3;
/// What more rows take at least, of what fewer take: of a small model, four rows were measured to
/// take 0.77 times as long as one.
const LEAST: f64 = 0.6;
/// Measurements at most, every second one with twice as many forwards.
const MEASUREMENTS: u32 = 8;

/// Times of forwards by contexts and rows. Each context is measured until the two shortest times of
/// each number of rows agree within 30%, and the curve is one that can be: what else the machine
/// does makes times longer, so two that agree are of a machine that did little else. Contexts that
/// exceed the model's positions are omitted from the result.
///
/// # Errors
/// [`ErrorKind::Costs`] with the numbers, if eight measurements do not agree; errors of the model.
pub fn steady_times(bench: &ForwardBench, scorer: &mut dyn Scorer) -> Result<Vec<ForwardCost>> {
    let mut all = Vec::new();
    for &context in &bench.contexts {
        let costs = settle(|measured| {
            let bench = ForwardBench {
                contexts: vec![context],
                repeats: bench.repeats << (measured / 2),
                ..bench.clone()
            };
            Ok(bench.run(scorer)?)
        });
        all.extend(costs.map_err(|error| error.at(format!("context {context}")))?);
    }
    Ok(all)
}

/// The two shortest times of each number of rows together, as soon as these agree.
fn settle(mut measure: impl FnMut(u32) -> Result<Vec<ForwardCost>>) -> Result<Vec<ForwardCost>> {
    let seconds = |cost: &ForwardCost| cost.typical.as_secs_f64();
    let mut by_rows: Vec<Vec<ForwardCost>> = measure(0)?.into_iter().map(|it| vec![it]).collect();
    let Some(context) = by_rows.first().map(|costs| costs[0].context) else {
        return Ok(Vec::new());
    };
    let mut failed = String::new();
    for measured in 1..MEASUREMENTS {
        for (costs, new) in by_rows.iter_mut().zip(measure(measured)?) {
            costs.push(new);
            costs.sort_by_key(|cost| cost.typical);
        }
        let shortest = || by_rows.iter().map(|costs| (costs[0], costs[1]));
        let both: Vec<_> = shortest()
            .map(|(a, b)| (a.rows, seconds(&a), seconds(&b)))
            .collect();
        let Some(problem) = problem(context, &both) else {
            return Ok(shortest().map(|(a, b)| a.and(&b)).collect());
        };
        failed = format!("{problem} ({})", described(&both));
    }
    let message = format!(
        "times of forwards could not be measured, {MEASUREMENTS} times: {failed}; wait until the \
         machine has less to do, or give costs that were measured then, or numbers"
    );
    Err(Error::new(ErrorKind::Costs, message))
}

/// Rows and milliseconds in two measurements.
fn described(both: &[(usize, f64, f64)]) -> String {
    let described = both.iter().map(|(rows, first, second)| {
        let (first, second) = (1e3 * first, 1e3 * second);
        format!("{rows} rows: {first:.3} and {second:.3} ms")
    });
    described.collect::<Vec<_>>().join(", ")
}

/// What is wrong with times of forwards by rows after a context, measured twice.
fn problem(context: usize, both: &[(usize, f64, f64)]) -> Option<String> {
    let unsteady = both.iter().find_map(|&(rows, a, b)| {
        let ratio = a.max(b) / a.min(b);
        (ratio > TOLERANCE).then(|| {
            format!(
                "two measurements of the same forwards of {rows} rows differ by {ratio:.2} times"
            )
        })
    });
    let times: Vec<(usize, f64)> = both.iter().map(|&(rows, a, b)| (rows, a.min(b))).collect();
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
    fn what_differs_is_measured_again_until_the_shortest_agree() {
        let good = [(1, 1.0), (4, 1.1), (8, 1.6)];
        let busy = [(1, 1.4), (4, 2.9), (8, 2.3)];
        let (uneven, other) = (
            [(1, 1.0), (4, 1.1), (8, 2.3)],
            [(1, 1.4), (4, 2.9), (8, 1.6)],
        );
        for (measurements, agreed) in [
            (vec![&good, &good], 2),
            (vec![&good, &busy, &busy, &good], 4),
            (vec![&busy, &good, &uneven, &good], 4),
            (vec![&uneven, &good, &other, &good], 3),
        ] {
            let mut asked = Vec::new();
            let found = settle(|measured| {
                asked.push(measured);
                Ok(curve(measurements[measured as usize]))
            });
            assert_eq!(found.unwrap(), curve(&good));
            assert_eq!(asked, (0..agreed).collect::<Vec<_>>());
        }
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
            let mut measurements = 0;
            let error = settle(|_| {
                measurements += 1;
                Ok(curve(&times))
            })
            .unwrap_err()
            .to_string();
            assert!(
                error.contains(named) && error.contains("9 rows:"),
                "{error}"
            );
            assert_eq!(measurements, MEASUREMENTS);
        }
        let error = settle(|measured| Ok(curve(&[(1, 1.4_f64.powi(-(measured as i32)))])))
            .unwrap_err()
            .to_string();
        assert!(error.contains("of 1 rows differ by 1.40 times"), "{error}");
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
        let too_short = settle(|_| Ok(vec![])).unwrap();
        assert!(too_short.is_empty());
    }
}

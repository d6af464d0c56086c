//! What the rows of a text cost in forwards that it shares.

use std::time::Duration;

use cascade_core::ForwardTimes;

/// Divides the time of a forward among its texts, by the rows of each. All pay equal parts of what
/// a forward with one row of each takes, and what further rows add in proportion to them; those
/// without a row pay nothing. The parts add up to the whole.
pub(super) fn divide(times: &ForwardTimes, time: Duration, rows: &[usize]) -> Vec<Duration> {
    let all: usize = rows.iter().sum();
    let texts = rows.iter().filter(|&&rows| rows > 0).count();
    // A clock may be too coarse for a small model: then all pay alike.
    let times = times.after(0);
    let seconds = |rows: usize| times.seconds(rows).max(f64::MIN_POSITIVE);
    let further = (all - texts).max(1) as f64;
    let (equal, price) = (
        seconds(texts) / texts as f64,
        (seconds(all) - seconds(texts)) / further,
    );
    let part = |&rows: &usize| match rows {
        0 => Duration::ZERO,
        rows => time.mul_f64((equal + price * (rows - 1) as f64) / seconds(all)),
    };
    rows.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use cascade_core::RowTimes;

    use super::*;

    fn milliseconds(whole: u64, rows: &[usize]) -> Vec<f64> {
        // A first row takes 10 ms, and each further one 2 ms.
        let times = RowTimes::linear(10.0, 0.2).into();
        let parts = divide(&times, Duration::from_millis(whole), rows);
        let rounded = |part: &Duration| (part.as_secs_f64() * 1e4).round() / 10.0;
        parts.iter().map(rounded).collect()
    }

    #[test]
    fn each_text_pays_a_part_of_plain_decoding_and_its_further_rows() {
        assert_eq!(milliseconds(28, &[1, 0, 9]), [6.0, 0.0, 22.0]);
        assert_eq!(milliseconds(22, &[7]), [22.0]);
        // As much more as the forward took longer.
        assert_eq!(milliseconds(56, &[1, 0, 9]), [12.0, 0.0, 44.0]);
    }

    #[test]
    fn parts_add_up() {
        for rows in [&[1, 1, 1][..], &[1, 95], &[512, 1, 0], &[3]] {
            let sum: f64 = milliseconds(700, rows).iter().sum();
            assert!((sum - 700.0).abs() < 0.2, "{rows:?}: {sum}");
        }
        assert_eq!(milliseconds(1, &[0, 0]), [0.0; 2]);
        let untimed = RowTimes::linear(0.0, 0.0).into();
        let whole = Duration::from_millis(8);
        assert_eq!(divide(&untimed, whole, &[1, 3]), [whole / 2; 2]);
    }
}

//! Operations that have gradients, made of those of the tensor library that do.

use candle_core::{D, DType, Result, Tensor};

/// ln softmax of each row.
pub(super) fn log_softmax(rows: &Tensor) -> Result<Tensor> {
    let greatest = rows.max_keepdim(D::Minus1)?.detach();
    let shifted = rows.broadcast_sub(&greatest)?;
    let sum = shifted.exp()?.sum_keepdim(D::Minus1)?;
    shifted.broadcast_sub(&sum.log()?)
}

/// Softmax of each row.
pub(super) fn softmax(rows: &Tensor) -> Result<Tensor> {
    let greatest = rows.max_keepdim(D::Minus1)?.detach();
    let raised = rows.broadcast_sub(&greatest)?.exp()?;
    raised.broadcast_div(&raised.sum_keepdim(D::Minus1)?)
}

/// The sum over all rows of the mean of their elements' smooth L1 loss (β = 1): half the square of
/// a difference below 1, and a half less than it above.
pub(super) fn smooth_l1(given: &Tensor, wanted: &Tensor) -> Result<Tensor> {
    let distance = (given - wanted)?.abs()?;
    let above = (&distance - 1.0)?.relu()?;
    let below = (distance - &above)?;
    ((below.sqr()? * 0.5)? + above)?.mean(D::Minus1)?.sum_all()
}

/// The sum over all rows of −Σ p·ln q, for rows of probabilities p and of logits of q.
pub(super) fn cross_entropy(logits: &Tensor, probabilities: &Tensor) -> Result<Tensor> {
    (log_softmax(logits)? * probabilities)?.sum_all()?.neg()
}

/// The sum over all rows of −ln q of a token of each.
pub(super) fn cross_entropy_of(logits: &Tensor, tokens: &Tensor) -> Result<Tensor> {
    let logs = log_softmax(logits)?;
    logs.gather(&tokens.unsqueeze(1)?, 1)?.sum_all()?.neg()
}

/// Rows over the root of their mean square, times a weight.
pub(super) fn rms_norm(rows: &Tensor, weight: &Tensor, epsilon: f64) -> Result<Tensor> {
    let square = (rows.sqr()?.mean_keepdim(D::Minus1)? + epsilon)?;
    rows.broadcast_div(&square.sqrt()?)?.broadcast_mul(weight)
}

/// Rows through a matrix `[outputs, inputs]`.
pub(super) fn linear(rows: &Tensor, matrix: &Tensor) -> Result<Tensor> {
    rows.matmul(&matrix.t()?)
}

/// `[rows, heads, size]`, rotated in halves by cosines and sines `[rows, 1, size / 2]`.
pub(super) fn rotated(heads: &Tensor, (cosines, sines): &(Tensor, Tensor)) -> Result<Tensor> {
    let half = heads.dim(D::Minus1)? / 2;
    let first = heads.narrow(D::Minus1, 0, half)?;
    let second = heads.narrow(D::Minus1, half, half)?;
    let left = (first.broadcast_mul(cosines)? - second.broadcast_mul(sines)?)?;
    let right = (second.broadcast_mul(cosines)? + first.broadcast_mul(sines)?)?;
    Tensor::cat(&[left, right], D::Minus1)
}

/// The most probable token of each row.
pub(super) fn most_probable(logits: &Tensor) -> Result<Vec<u32>> {
    logits.argmax(D::Minus1)?.to_dtype(DType::U32)?.to_vec1()
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    fn number(tensor: &Tensor) -> f32 {
        tensor.to_scalar().unwrap()
    }

    #[test]
    fn losses_are_those_of_the_papers() {
        let cpu = &Device::Cpu;
        let given = Tensor::new(&[[0.5f32, 3.0], [0.0, -1.0]], cpu).unwrap();
        let wanted = Tensor::new(&[[0.0f32, 0.0], [0.0, -1.5]], cpu).unwrap();
        // (0.125 + 2.5) / 2 + (0 + 0.125) / 2.
        assert!((number(&smooth_l1(&given, &wanted).unwrap()) - 1.375).abs() < 1e-6);
        let logits = Tensor::new(&[[0.0f32, 3f32.ln()]], cpu).unwrap();
        let p = Tensor::new(&[[0.25f32, 0.75]], cpu).unwrap();
        let entropy = -(0.25 * 0.25f32.ln() + 0.75 * 0.75f32.ln());
        assert!((number(&cross_entropy(&logits, &p).unwrap()) - entropy).abs() < 1e-6);
        let token = Tensor::new(&[1u32], cpu).unwrap();
        let of = number(&cross_entropy_of(&logits, &token).unwrap());
        assert!((of + 0.75f32.ln()).abs() < 1e-6);
        assert_eq!(most_probable(&logits).unwrap(), [1]);
    }

    /// All of them together, against differences.
    #[test]
    fn gradients_are_slopes() {
        let cpu = &Device::Cpu;
        let numbers: Vec<f32> = (0..24).map(|i| ((i * 7) % 11) as f32 / 5.0 - 1.0).collect();
        let angles: Vec<f32> = (0..6).map(|i| i as f32 / 3.0).collect();
        let angles = Tensor::from_vec(angles, (3, 1, 2), cpu).unwrap();
        let rotation = (angles.cos().unwrap(), angles.sin().unwrap());
        let weight = Tensor::new(&[0.5f32, 1.0, 1.5, 2.0], cpu).unwrap();
        let wanted = Tensor::zeros((6, 4), candle_core::DType::F32, cpu).unwrap();
        let loss = |numbers: &Tensor| {
            let turned = rotated(&numbers.reshape((3, 2, 4)).unwrap(), &rotation).unwrap();
            let rows = turned.reshape((6, 4)).unwrap();
            let normed = rms_norm(&rows, &weight, 1e-5).unwrap();
            let probabilities = softmax(&normed).unwrap();
            let entropy = cross_entropy(&rows, &probabilities).unwrap();
            (smooth_l1(&normed, &wanted).unwrap() + entropy).unwrap()
        };
        let var = Var::from_vec(numbers.clone(), (6, 4), cpu).unwrap();
        let gradients = loss(var.as_tensor()).backward().unwrap();
        let found: Vec<f32> = gradients
            .get(&var)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap();
        for (i, slope) in found.into_iter().enumerate() {
            let at = |step: f32| {
                let mut moved = numbers.clone();
                moved[i] += step;
                number(&loss(&Tensor::from_vec(moved, (6, 4), cpu).unwrap()))
            };
            let wanted = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((slope - wanted).abs() < 5e-3, "{i}: {slope} {wanted}");
        }
    }
}

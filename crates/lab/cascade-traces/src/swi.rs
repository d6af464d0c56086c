//! Standardized walltime improvement (Cascade Speculative Drafting, §5.1).

use std::collections::BTreeMap;

/// The cost of one forward of each model, in an arbitrary unit: only ratios matter.
///
/// Models are identified by their name in a cascade: `target`, `base`, `small`. Statistical
/// drafters are not listed: their cost is taken as 0.
///
/// ```
/// use cascade_traces::CostTable;
///
/// let costs = CostTable::model_size();
/// // Ten tokens in four forwards of the target and eight of the base model.
/// let cost = costs.in_target_forwards("target", [("target", 4), ("base", 8)])?;
/// let swi = 10.0 / cost;
/// assert!((swi - 10.0 * 11300.0 / (4.0 * 11300.0 + 8.0 * 220.0)).abs() < 1e-12);
/// # Ok::<(), cascade_traces::CostError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CostTable {
    name: String,
    costs: BTreeMap<String, f64>,
}

/// Errors of cost tables and of look-ups in them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CostError {
    /// The table has no cost for a model.
    #[error(
        "the cost table `{table}` has no cost for the model `{model}` (it has {}); \
         choose another cost table, or leave the model out",
        known.join(", ")
    )]
    NoCost {
        /// The table.
        table: String,
        /// The model.
        model: String,
        /// The models in the table.
        known: Vec<String>,
    },
    /// A cost is not above 0.
    #[error(
        "the cost table `{table}` gives `{model}` a cost of {cost}; a forward costs more than 0"
    )]
    NotPositive {
        /// The table.
        table: String,
        /// The model.
        model: String,
        /// Its cost.
        cost: f64,
    },
    /// No model was called.
    #[error(
        "no model was called, so there is nothing to divide by; a generation without a token has no SWI"
    )]
    NoCalls,
}

impl CostTable {
    /// A table of the given costs.
    ///
    /// # Errors
    /// [`CostError::NotPositive`].
    pub fn new<S: Into<String>>(
        name: impl Into<String>,
        costs: impl IntoIterator<Item = (S, f64)>,
    ) -> Result<Self, CostError> {
        let table = Self::unchecked(name, costs);
        let wrong = |&(_, &cost): &(&String, &f64)| !(cost > 0.0 && cost.is_finite());
        match table.costs.iter().find(wrong) {
            None => Ok(table),
            Some((model, &cost)) => Err(CostError::NotPositive {
                model: model.clone(),
                cost,
                table: table.name,
            }),
        }
    }

    fn unchecked<S: Into<String>>(
        name: impl Into<String>,
        costs: impl IntoIterator<Item = (S, f64)>,
    ) -> Self {
        let costs = costs.into_iter().map(|(model, cost)| (model.into(), cost));
        Self {
            name: name.into(),
            costs: costs.collect(),
        }
    }

    /// The paper's *Speedup (MS)*: FLAN-T5-XXL 11300, base 220, small 60 (millions of parameters).
    pub fn model_size() -> Self {
        let millions = [("target", 11300.0), ("base", 220.0), ("small", 60.0)];
        Self::unchecked("model-size", millions)
    }

    /// The paper's *Speedup (PW)*, from Leviathan et al.: XXL 1, large 0.11, base 0.04, small 0.02.
    pub fn previous_work() -> Self {
        let drafters = [("large", 0.11), ("base", 0.04), ("small", 0.02)];
        Self::unchecked(
            "previous-work",
            [("target", 1.0)].into_iter().chain(drafters),
        )
    }

    /// A table of parameter counts of the models.
    ///
    /// # Errors
    /// [`CostError::NotPositive`].
    pub fn parameters<S: Into<String>>(
        models: impl IntoIterator<Item = (S, usize)>,
    ) -> Result<Self, CostError> {
        Self::new(
            "parameters",
            models.into_iter().map(|(model, n)| (model, n as f64)),
        )
    }

    /// Name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The models and their costs.
    pub fn costs(&self) -> impl Iterator<Item = (&str, f64)> {
        self.costs
            .iter()
            .map(|(model, &cost)| (model.as_str(), cost))
    }

    /// The cost of a forward of a model.
    ///
    /// # Errors
    /// [`CostError::NoCost`].
    pub fn cost(&self, model: &str) -> Result<f64, CostError> {
        self.costs
            .get(model)
            .copied()
            .ok_or_else(|| CostError::NoCost {
                table: self.name.clone(),
                model: model.to_owned(),
                known: self.costs.keys().cloned().collect(),
            })
    }

    /// The total cost of calls, in forwards of the target: Σ calls · c(model) / c(target).
    ///
    /// The number of tokens divided by this is the SWI; plain decoding calls the target once per
    /// token, so its SWI is exactly 1.
    ///
    /// # Errors
    /// [`CostError::NoCost`]; [`CostError::NoCalls`].
    pub fn in_target_forwards<'a>(
        &self,
        target: &str,
        calls: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<f64, CostError> {
        let unit = self.cost(target)?;
        let mut forwards = 0.0;
        for (model, calls) in calls {
            // Target calls are counted as integers, so plain decoding has no rounding error.
            forwards += if model == target {
                calls as f64
            } else {
                calls as f64 * (self.cost(model)? / unit)
            };
        }
        if forwards > 0.0 {
            Ok(forwards)
        } else {
            Err(CostError::NoCalls)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_decoding_is_exactly_one() {
        let costs = CostTable::new("odd", [("target", 0.1 + 0.2), ("base", 1e-9)]).unwrap();
        for tokens in [1, 3, 7, 1_000_003] {
            let cost = costs
                .in_target_forwards("target", [("target", tokens)])
                .unwrap();
            assert_eq!(tokens as f64 / cost, 1.0);
        }
    }

    #[test]
    fn costs_add_up() {
        let costs = CostTable::previous_work();
        let calls = [("target", 2), ("base", 10), ("small", 5)];
        let cost = costs.in_target_forwards("target", calls).unwrap();
        assert!((cost - 2.5).abs() < 1e-12);
    }

    #[test]
    fn a_model_without_a_cost_is_named() {
        let error = CostTable::model_size().cost("large").unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("`model-size` has no cost for the model `large`"),
            "{message}"
        );
        assert!(message.contains("base, small, target"), "{message}");
        let free = CostTable::new("free", [("target", 0.0)]).unwrap_err();
        assert!(matches!(free, CostError::NotPositive { .. }));
        let nothing = CostTable::model_size().in_target_forwards("target", []);
        assert_eq!(nothing, Err(CostError::NoCalls));
    }
}

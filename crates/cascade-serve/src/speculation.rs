//! How a request's answer is drafted: what it may change of the configuration.

use cascade_config::{Config, Drafter, ScheduleConfig, k_matrix};
use cascade_engine::{
    Branching, Convention, DEFAULT_MAX_NODES, Expand, KMatrix, Lenience, Placement,
};
use serde_json::Value;

use crate::error::{ApiError, ApiResult};
use crate::fields::Fields;

/// The K matrix, or the lengths that are expected to save most time.
const SCHEDULES: [&str; 2] = ["static", "online"];

/// The settings of drafting. Requests with equal ones can use each other's sessions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SpeculationSettings {
    schedule: ScheduleConfig,
    lenience: Lenience,
    placement: Placement,
    /// Nodes of a tree at most.
    pub(crate) max_nodes: usize,
    /// The branching of all neural drafters, in place of each one's own.
    branching: Option<Branching>,
    /// Whether the end token of the chat template ends an answer too.
    pub(crate) chat: bool,
}

/// What a request says of speculation.
#[derive(Clone, Debug)]
pub(crate) struct Speculation {
    pub(crate) enabled: bool,
    pub(crate) settings: SpeculationSettings,
}

impl SpeculationSettings {
    /// The settings of the configuration.
    pub(crate) fn of(config: &Config, chat: bool) -> Self {
        Self {
            schedule: config.schedule().clone(),
            lenience: config.lenience,
            placement: config.placement,
            max_nodes: config.max_nodes,
            branching: None,
            chat,
        }
    }

    /// The configuration with these settings.
    pub(crate) fn apply(&self, config: &Config) -> cascade_config::Result<Config> {
        let mut config = config.clone().with_schedule(self.schedule.clone())?;
        config.lenience = self.lenience;
        config.placement = self.placement;
        config.max_nodes = self.max_nodes;
        for drafter in config.drafters_mut() {
            if let (Drafter::Neural { branching, .. }, Some(own)) = (drafter, &self.branching) {
                branching.clone_from(own);
            }
        }
        Ok(config)
    }
}

impl Speculation {
    /// Reads `speculation` of a request: `{enabled, schedule, k, lenience, tree: {max_nodes,
    /// placement, widths, expand, siblings}}`. A K matrix of its own has drafts of `nodes` at most.
    pub(crate) fn read(
        fields: &mut Fields,
        (config, nodes): (&Config, usize),
        chat: bool,
    ) -> ApiResult<Self> {
        let mut speculation = Self {
            enabled: true,
            settings: SpeculationSettings::of(config, chat),
        };
        let Some(mut own) = fields.object("speculation")? else {
            return Ok(speculation);
        };
        speculation.enabled = own.boolean("enabled")?.unwrap_or(true);
        let settings = &mut speculation.settings;
        let schedule = schedule(&mut own)?;
        if schedule.as_deref() == Some("online") && !config.drafters().is_empty() {
            settings.schedule = ScheduleConfig::Online;
        }
        if own.has("k") {
            settings.max_nodes = nodes;
        }
        if let Some(mut tree) = own.object("tree")? {
            settings.read_tree(&mut tree, config)?;
            own.finish_object(tree)?;
        }
        settings.read_k(&mut own, config, schedule.as_deref())?;
        if let Some(lenience) = own.number("lenience")? {
            let lenience = Lenience::new(lenience as f32);
            settings.lenience =
                lenience.map_err(|error| own.wrong("lenience", error.to_string()))?;
        }
        fields.finish_object(own)?;
        Ok(speculation)
    }
}

/// The schedule that is asked for, if it is known.
fn schedule(own: &mut Fields) -> ApiResult<Option<String>> {
    let schedule = own.string("schedule")?;
    let unknown = |schedule: &&String| !SCHEDULES.contains(&schedule.as_str());
    match schedule.as_ref().filter(unknown) {
        None => Ok(schedule),
        Some(unknown) => {
            let known = SCHEDULES.join(", ");
            let problem = format!("it is {unknown:?}, and there is: {known}");
            Err(own.wrong("schedule", problem))
        }
    }
}

impl SpeculationSettings {
    /// The K matrix, which belongs to the static schedule.
    fn read_k(
        &mut self,
        own: &mut Fields,
        config: &Config,
        schedule: Option<&str>,
    ) -> ApiResult<()> {
        if let Some(k) = own.take("k") {
            if schedule == Some("online") {
                return Err(own.wrong("k", "the schedule is `online`, which decides that"));
            }
            self.schedule = read_k(own, &k, config)?.into();
        }
        if self.schedule.k().is_none() {
            if schedule == Some("static") {
                return Err(own.wrong(
                    "schedule",
                    "it is `static`, and neither the request nor the configuration has a `k`",
                ));
            }
            self.placement = Placement::Sequential;
        }
        Ok(())
    }

    fn read_tree(&mut self, tree: &mut Fields, config: &Config) -> ApiResult<()> {
        let most = config.max_nodes.max(DEFAULT_MAX_NODES);
        if let Some(nodes) = tree.count("max_nodes", 1, most)? {
            self.max_nodes = nodes;
        }
        if let Some(placement) = tree.one_of("placement")? {
            self.placement = placement;
        }
        let widths = tree.counts("widths", 1, most)?;
        let expand = tree.one_of("expand")?;
        let siblings = tree.one_of("siblings")?;
        self.branching = match (widths, expand) {
            (None, None) if siblings.is_none() => return Ok(()),
            (None, Some(Expand::MostProbable)) if siblings.is_none() => Some(Branching {
                expand: Expand::MostProbable,
                ..Branching::chain()
            }),
            (_, Some(Expand::MostProbable)) => {
                let problem = "`most_probable` has neither widths nor siblings";
                return Err(tree.wrong("expand", problem));
            }
            (None, _) => {
                return Err(tree.wrong("widths", "`expand` and `siblings` need it; give it too"));
            }
            (Some(widths), _) if widths.is_empty() => {
                return Err(tree.wrong("widths", "it is empty; give the children at each depth"));
            }
            (Some(widths), expand) => Some(Branching {
                widths,
                expand: expand.unwrap_or_default(),
                siblings: siblings.unwrap_or_default(),
            }),
        };
        Ok(())
    }
}

/// Tokens that each drafter adds for the target, or the whole K matrix. As with `-k`, drafts that
/// are to have more than the nodes of a tree are cut.
fn read_k(fields: &Fields, value: &Value, config: &Config) -> ApiResult<KMatrix> {
    let most = config.max_nodes.max(DEFAULT_MAX_NODES);
    let drafters = config.drafters();
    let names: Vec<_> = drafters.iter().map(Drafter::name).collect();
    let wrong = || {
        let size = names.len();
        fields.wrong(
            "k",
            format!(
                "give {size} numbers of {most} at most, or a matrix of {size} rows and columns, for the drafters {}",
                names.join(", ")
            ),
        )
    };
    let row = |value: &Value| -> Option<Vec<usize>> {
        let entry = |entry: &Value| usize::try_from(entry.as_u64()?).ok();
        let row: Vec<usize> = value
            .as_array()
            .filter(|row| row.len() == names.len())?
            .iter()
            .map(entry)
            .collect::<Option<_>>()?;
        row.iter().all(|&entry| entry <= most).then_some(row)
    };
    let rows = value.as_array().ok_or_else(wrong)?;
    if rows.iter().any(Value::is_array) {
        let rows: Option<Vec<_>> = rows.iter().map(row).collect();
        let rows = rows
            .filter(|rows| rows.len() == names.len())
            .ok_or_else(wrong)?;
        let k = KMatrix::new(rows, Convention::Added);
        return k.map_err(|error| fields.wrong("k", error.to_string()));
    }
    let neural = |drafter: &&Drafter| matches!(drafter, Drafter::Neural { .. });
    let neural = drafters.iter().filter(neural).count();
    let k = k_matrix(neural, &row(value).ok_or_else(wrong)?);
    k.map_err(|error| ApiError::field("speculation.k", error.to_string()))
}

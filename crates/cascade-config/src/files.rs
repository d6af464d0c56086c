//! The files that a configuration names.

use std::path::PathBuf;

use cascade_models::HubOptions;

use crate::{Config, Drafter, Neural, StopRuleConfig};

impl Config {
    /// The files and folders on this machine that the configuration's models and drafters are read
    /// from, and those that belong to them: no output may replace any of them. The configuration's
    /// own file is not among them. Touches the disk, but not the network.
    pub fn files(&self, hub: &HubOptions) -> Vec<PathBuf> {
        let mut files = self.target.files(hub);
        for drafter in self.drafters() {
            match drafter {
                Drafter::Neural { model, .. } => files.extend(model.files(hub)),
                Drafter::Statistical { config, .. } => {
                    files.extend(config.files().into_iter().map(PathBuf::from));
                }
            }
            let rule = drafter.stop_rule().and_then(StopRuleConfig::path);
            files.extend(rule.map(PathBuf::from));
        }
        files
    }
}

impl Neural {
    fn files(&self, hub: &HubOptions) -> Vec<PathBuf> {
        let sources = [&self.source].into_iter().chain(&self.tokenizer);
        sources
            .flat_map(|source| source.present_files(hub))
            .collect()
    }
}

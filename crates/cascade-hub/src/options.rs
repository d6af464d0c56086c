//! Where the hub is, and what may be asked of it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Error, ErrorKind, HubLimits, Result};

const DEFAULT_ENDPOINT: &str = "https://huggingface.co";
pub(crate) const ANSWER_VARIABLE: &str = "HF_HUB_ETAG_TIMEOUT";
pub(crate) const READ_VARIABLE: &str = "HF_HUB_DOWNLOAD_TIMEOUT";

/// Where the hub is, where its files are kept, and what may be asked of it.
#[derive(Clone)]
#[non_exhaustive]
pub struct HubOptions {
    /// Address of the hub, without a slash at the end.
    pub endpoint: String,
    /// Folder of the cache, in the layout of Hugging Face's own libraries.
    pub cache: PathBuf,
    /// Access token for private and gated repositories.
    pub token: Option<String>,
    /// Use the cache only.
    pub offline: bool,
    /// How long the hub may take, and how much it may send.
    pub limits: HubLimits,
    /// A variable of the environment that says nothing sensible, and what it says.
    odd: Option<(&'static str, String)>,
}

impl HubOptions {
    /// A hub and its cache, without a token.
    pub fn new(endpoint: impl Into<String>, cache: impl Into<PathBuf>) -> Self {
        Self {
            endpoint: endpoint.into().trim_end_matches('/').to_owned(),
            cache: cache.into(),
            token: None,
            offline: false,
            limits: HubLimits::default(),
            odd: None,
        }
    }

    /// What the environment says, by the variables of Hugging Face's own libraries: `HF_ENDPOINT`,
    /// `HF_HUB_CACHE`, `HF_HOME`, `HF_HUB_OFFLINE`, `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`,
    /// `HF_TOKEN_PATH`, and `HF_HUB_ETAG_TIMEOUT` and `HF_HUB_DOWNLOAD_TIMEOUT` in seconds. Without
    /// a token variable the token file that `hf auth login` writes is read.
    ///
    /// A time limit that is not a number of seconds is an error once the hub is used.
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let get = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let cache = || cache_in(get).unwrap_or_else(|| PathBuf::from(".cache"));
        let home = get("HF_HOME").map_or_else(|| cache().join("huggingface"), PathBuf::from);
        let cache = get("HF_HUB_CACHE").map_or_else(|| home.join("hub"), PathBuf::from);
        let token_file = get("HF_TOKEN_PATH").map_or_else(|| home.join("token"), PathBuf::from);
        let token = get("HF_TOKEN")
            .or_else(|| get("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| std::fs::read_to_string(token_file).ok())
            .map(|token| token.trim().to_owned())
            .filter(|token| !token.is_empty());
        let offline = get("HF_HUB_OFFLINE").is_some_and(|value| is_true(&value));
        let endpoint = get("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let mut options = Self {
            token,
            offline,
            ..Self::new(endpoint, cache)
        };
        for (name, limit) in [
            (ANSWER_VARIABLE, &mut options.limits.answer),
            (READ_VARIABLE, &mut options.limits.read),
        ] {
            match get(name).map(|value| (seconds(&value), value)) {
                None => {}
                Some((Some(time), _)) => *limit = time,
                Some((None, value)) => options.odd = Some((name, value)),
            }
        }
        options
    }

    /// What the environment said, unless it made no sense.
    pub(crate) fn checked(&self) -> Result<&Self> {
        match &self.odd {
            None => Ok(self),
            Some((name, value)) => {
                let message = format!(
                    "{name}: \"{}\" is not a number of seconds; set it to a number such as 10, or unset it",
                    value.escape_debug()
                );
                Err(Error::new(ErrorKind::Setting, message))
            }
        }
    }

    /// Sets the access token.
    pub fn with_token(self, token: impl Into<String>) -> Self {
        Self {
            token: Some(token.into()),
            ..self
        }
    }

    /// Sets the limits.
    pub fn with_limits(self, limits: HubLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets whether only the cache is used.
    pub fn with_offline(self, offline: bool) -> Self {
        Self { offline, ..self }
    }
}

/// Reads the environment.
impl Default for HubOptions {
    fn default() -> Self {
        Self::from_env()
    }
}

/// Does not show the token.
impl fmt::Debug for HubOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HubOptions")
            .field("endpoint", &self.endpoint)
            .field("cache", &self.cache)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("offline", &self.offline)
            .field("limits", &self.limits)
            .finish()
    }
}

fn is_true(value: &str) -> bool {
    matches!(
        value.trim().to_ascii_lowercase().as_str(),
        "1" | "on" | "yes" | "true"
    )
}

/// A time limit between a millisecond and a day.
fn seconds(value: &str) -> Option<Duration> {
    let seconds: f64 = value.trim().parse().ok()?;
    (0.001..=86_400.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// The user's folder for what programs keep and can make again: `XDG_CACHE_HOME`, or `.cache` in
/// the user's folder. `None` if the environment names neither.
pub fn user_cache() -> Option<PathBuf> {
    cache_in(|name| {
        std::env::var(name)
            .ok()
            .filter(|value| !value.trim().is_empty())
    })
}

fn cache_in(get: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let user = || get("HOME").or_else(|| get("USERPROFILE"));
    let cache = get("XDG_CACHE_HOME").map(PathBuf::from);
    cache.or_else(|| Some(PathBuf::from(user()?).join(".cache")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn options(variables: &[(&str, &str)]) -> HubOptions {
        HubOptions::from_lookup(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn reads_the_variables_of_the_hugging_face_libraries() {
        let plain = options(&[("HOME", "/home/me")]);
        assert_eq!(plain.endpoint, DEFAULT_ENDPOINT);
        assert_eq!(plain.cache, Path::new("/home/me/.cache/huggingface/hub"));
        assert_eq!((plain.token, plain.offline), (None, false));

        let set = options(&[
            ("HF_HOME", "/data/hf"),
            ("HF_ENDPOINT", "https://mirror.example/"),
            ("HF_TOKEN", " hf_abc\n"),
            ("HF_HUB_OFFLINE", "1"),
        ]);
        assert_eq!(set.endpoint, "https://mirror.example");
        assert_eq!(set.cache, Path::new("/data/hf/hub"));
        assert_eq!(set.token.as_deref(), Some("hf_abc"));
        assert!(set.offline);
        assert!(!format!("{set:?}").contains("hf_abc"));

        let cache = options(&[("HF_HOME", "/data/hf"), ("HF_HUB_CACHE", "/elsewhere")]);
        assert_eq!(cache.cache, Path::new("/elsewhere"));
        let old = options(&[("HUGGING_FACE_HUB_TOKEN", "t"), ("HF_HUB_OFFLINE", "0")]);
        assert_eq!((old.token.as_deref(), old.offline), (Some("t"), false));
    }

    #[test]
    fn the_token_file_is_the_last_resort() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "hf_file\n").unwrap();
        let home = home.path().to_str().unwrap();
        let token = |more: &[(&str, &str)]| options(&[&[("HF_HOME", home)], more].concat()).token;
        assert_eq!(token(&[]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[("HF_TOKEN", "hf_env")]).as_deref(), Some("hf_env"));
    }

    #[test]
    fn time_limits_are_numbers_of_seconds() {
        let set = options(&[(ANSWER_VARIABLE, "3"), (READ_VARIABLE, " 0.5 ")]);
        let limits = &set.checked().unwrap().limits;
        assert_eq!(limits.answer, Duration::from_secs(3));
        assert_eq!(limits.read, Duration::from_millis(500));
        assert_eq!(limits.connect, HubLimits::default().connect);
        for odd in ["soon", "-1", "0", "NaN", "inf", "1e30"] {
            let set = options(&[(READ_VARIABLE, odd)]);
            let message = set.checked().unwrap_err().to_string();
            for part in [READ_VARIABLE, odd, "such as 10"] {
                assert!(message.contains(part), "{message}");
            }
        }
    }
}

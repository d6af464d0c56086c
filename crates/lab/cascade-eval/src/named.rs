//! Enums whose variants are chosen by name, on the command line and in configurations.

/// Implements `Display`, `FromStr` and the conversions that serde uses, from `name` and `from_name`. An unknown name is the
/// given variant of [`Error`](crate::Error), which lists the known ones.
macro_rules! named {
    ($type:ident, $unknown:ident) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::Error;

            fn from_str(name: &str) -> $crate::Result<Self> {
                Self::from_name(name).ok_or_else(|| $crate::Error::$unknown {
                    name: name.to_owned(),
                })
            }
        }

        impl TryFrom<String> for $type {
            type Error = $crate::Error;

            fn try_from(name: String) -> $crate::Result<Self> {
                name.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

pub(crate) use named;

/// Names in one line, for an error message.
pub(crate) fn list(names: impl IntoIterator<Item = impl ToString>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}

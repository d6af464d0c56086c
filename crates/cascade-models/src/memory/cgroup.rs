//! Limits of the control groups that this process is in.
//!
//! A group is limited by its own limit and those of all groups above it. `/proc/self/cgroup` names
//! the group, and `/proc/self/mountinfo` says where groups are mounted: in a container that is
//! often a group far below the root, whose path then begins there.

use std::fs::read_to_string;
use std::path::{Component, Path, PathBuf};

use super::{FreeMemory, MemoryLimit};

/// Where groups are mounted unless the system says otherwise.
const USUAL: &str = "/sys/fs/cgroup";

/// The names that a version has for what is read here.
struct Version {
    limits: &'static [&'static str],
    usage: &'static str,
    /// Names of what is counted as used and can be taken back, in `memory.stat`.
    reclaimable: &'static [&'static str],
}

const V1: Version = Version {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};

/// Above `memory.high` processes are slowed down until they give memory back.
const V2: Version = Version {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
};

/// Version 1 says a number beyond all memory where there is no limit; version 2 says `max`.
const NO_LIMIT: u64 = 1 << 60;

/// What each limit of each group leaves to this process, in no order. The system is in a folder.
pub(super) fn limits(root: &Path) -> Vec<FreeMemory> {
    let groups = Groups::read(root);
    let mut folders: Vec<(PathBuf, &Version)> = Vec::new();
    for mount in Mount::all(root) {
        let (group, version) = match mount.version {
            1 => (&groups.v1, &V1),
            _ => (&groups.v2, &V2),
        };
        let Some(group) = group else { continue };
        let of_mount = mount.folders(group);
        folders.extend(of_mount.map(|folder| (folder, version)));
    }
    folders.sort_by(|(a, _), (b, _)| a.cmp(b));
    folders.dedup_by(|(a, _), (b, _)| a == b);
    let left = folders
        .iter()
        .flat_map(|(folder, version)| version.left(root, folder));
    left.collect()
}

/// The groups of this process, as `/proc/self/cgroup` names them.
struct Groups {
    v1: Option<PathBuf>,
    v2: Option<PathBuf>,
}

impl Groups {
    fn read(root: &Path) -> Self {
        let text = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, PathBuf::from(fields.next()?)))
        });
        let mut groups = Self { v1: None, v2: None };
        for (controllers, path) in lines {
            if controllers.is_empty() {
                groups.v2 = Some(path);
            } else if controllers.split(',').any(|name| name == "memory") {
                groups.v1 = Some(path);
            }
        }
        groups
    }
}

/// A tree of groups, or the part of one that is mounted.
struct Mount {
    version: u8,
    /// The group that is mounted.
    group: PathBuf,
    /// Where.
    at: PathBuf,
}

impl Mount {
    /// Mounts of `/proc/self/mountinfo`, and the usual ones, which a sandbox may have made
    /// otherwise.
    fn all(root: &Path) -> Vec<Self> {
        let text = read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let usual = [(1, "memory"), (2, ""), (2, "unified")];
        let usual = usual.map(|(version, folder)| Self {
            version,
            group: PathBuf::from("/"),
            at: Path::new(USUAL).join(folder),
        });
        text.lines().filter_map(Self::parse).chain(usual).collect()
    }

    /// A line: `32 31 0:29 /group /where options [more] - type source options`.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let version = match (after.next()?, after.nth(1)?) {
            ("cgroup2", _) => 2,
            ("cgroup", options) if options.split(',').any(|name| name == "memory") => 1,
            _ => return None,
        };
        let mut before = before.split(' ').skip(3);
        let mut path = || before.next().map(unescaped);
        Some(Self {
            version,
            group: path()?,
            at: path()?,
        })
    }

    /// The folders of a group and of all groups above it that are mounted.
    fn folders(&self, group: &Path) -> impl Iterator<Item = PathBuf> {
        // A group that is not below the mounted one, or above it, is of another namespace.
        let below = group.strip_prefix(&self.group).unwrap_or(Path::new(""));
        let named = |part| matches!(part, Component::Normal(_));
        let below = if below.components().all(named) {
            below
        } else {
            Path::new("")
        };
        let folders = below.ancestors().map(|group| self.at.join(group));
        folders.collect::<Vec<_>>().into_iter()
    }
}

/// A path in which white space and backslashes are written as octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let all = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    let replace = |path: String, (code, text): (&str, &str)| path.replace(code, text);
    PathBuf::from(all.into_iter().fold(path.to_owned(), replace))
}

impl Version {
    /// What the limits of a group leave, if it has any.
    fn left(&self, root: &Path, group: &Path) -> Vec<FreeMemory> {
        let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
        let read = |file: &str| read_to_string(below(&group.join(file))).ok();
        let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
        let Some(usage) = number(self.usage) else {
            return Vec::new();
        };
        let stat = read("memory.stat").unwrap_or_default();
        let used = usage.saturating_sub(self.reclaimable(&stat));
        let limits = self.limits.iter().filter_map(|file| {
            let limit = number(file).filter(|&limit| limit < NO_LIMIT)?;
            Some(FreeMemory {
                bytes: usize::try_from(limit.saturating_sub(used)).ok()?,
                limit: MemoryLimit::Cgroup {
                    file: group.join(file),
                    bytes: usize::try_from(limit).ok()?,
                },
            })
        });
        limits.collect()
    }

    /// Bytes that count as used and can be taken back.
    fn reclaimable(&self, stat: &str) -> u64 {
        let lines = stat.lines().filter_map(|line| line.split_once(' '));
        let known = lines.filter(|(name, _)| self.reclaimable.contains(name));
        let bytes = known.filter_map(|(_, bytes)| bytes.trim().parse::<u64>().ok());
        bytes.fold(0, u64::saturating_add)
    }
}

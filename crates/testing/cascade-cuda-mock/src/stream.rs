//! What is put on a stream, and done when somebody waits for it.

use std::collections::VecDeque;

use crate::driver::Handle;

/// A launch.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) kernel: String,
    pub(crate) grid: [u32; 3],
    pub(crate) threads: u32,
    pub(crate) parameters: Vec<u8>,
    pub(crate) overlaps: bool,
}

#[derive(Debug)]
pub(crate) enum Work {
    Launch(Node),
    Graph(Vec<Node>),
    Upload {
        to: u64,
        bytes: Vec<u8>,
    },
    Download {
        from: u64,
        /// Where in the host's memory.
        to: usize,
        bytes: usize,
    },
    Fill {
        at: u64,
        value: u8,
        bytes: usize,
    },
    Event(Handle),
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// The device that it belongs to.
    pub(crate) device: usize,
    pub(crate) work: VecDeque<Work>,
    pub(crate) recording: Option<Recording>,
}

/// Launches on their way into a graph.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) nodes: Vec<Node>,
    /// Whether something happened that must not happen meanwhile.
    pub(crate) spoilt: bool,
}

//! Work on a stream, which is done when somebody waits for it.

use std::collections::VecDeque;

use crate::handle::Handle;

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
        /// An address of the host.
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

/// Launches that are captured into a graph.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    pub(crate) nodes: Vec<Node>,
    /// Whether a call has invalidated the capture.
    pub(crate) spoilt: bool,
}

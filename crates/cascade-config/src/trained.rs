//! Files of trained networks that decide when a drafter stops.
//!
//! [`ClassifierFile`] is DISCO's classifier as one file, [`HeadFolder`] SpecDec++'s acceptance head
//! as a folder, in the form of the heads that its authors released. Training writes both, and the
//! stop rules of configurations are read from them.

mod classifier;
mod head;
mod tensors;

use std::path::{Path, PathBuf};

use cascade_engine::InvalidNetwork;

pub use classifier::{ClassifierFile, ClassifierSettings};
pub use head::{HeadFolder, HeadSettings};

/// Why a trained network cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A folder has no weights of a head.
    #[error("{} has neither model.safetensors nor pytorch_model.bin; give the folder of a head", folder.display())]
    NoWeights {
        /// The folder.
        folder: PathBuf,
    },
    /// The weights cannot be read.
    #[error(transparent)]
    Weights(#[from] cascade_models::Error),
    /// The file or folder is of another form.
    #[error("{}: {problem}; {cure}", path.display())]
    Format {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What makes such files.
        cure: &'static str,
    },
    /// A head reads hidden states of another length.
    #[error(
        "the head {} reads hidden states of {found} numbers, and those of `{drafter}` have {expected}; give the head \
         of this drafter",
        folder.display()
    )]
    Size {
        /// The folder.
        folder: PathBuf,
        /// Numbers that it reads.
        found: usize,
        /// The drafter.
        drafter: String,
        /// Numbers of its hidden states.
        expected: usize,
    },
    /// The network cannot be written.
    #[error("the {network} cannot be written: {problem}")]
    Write {
        /// `classifier` or `head`.
        network: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The numbers are not those of such a network.
    #[error(transparent)]
    Invalid(#[from] InvalidNetwork),
}

fn read(file: PathBuf, most: u64) -> Result<Vec<u8>, NetworkError> {
    cascade_core::fs::read(&file, most).map_err(|source| NetworkError::Read { file, source })
}

/// Makes errors of a file or folder of another form.
fn format(path: &Path, cure: &'static str) -> impl Fn(String) -> NetworkError {
    let path = path.to_owned();
    move |problem| NetworkError::Format {
        path: path.clone(),
        problem,
        cure,
    }
}

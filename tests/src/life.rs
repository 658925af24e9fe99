//! A whole life of a runtime: opened, a model loaded, executed, closed. For tests that have something go wrong in it.
//!
//! Whatever it was, it comes as a [`Failed`]: an error that no status stands for would not compile.

use crate::DIGITS;
use nrta::{Builder, Error, Model, Refused, RequestError, Runtime, Status};
use std::fmt;

/// Executions of a life.
pub const EXECUTIONS: usize = 2;
/// Bytes before the first image of the file, and of each image.
const HEADER: usize = 24;
const IMAGE: usize = 64;

/// What was refused or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its status.
    pub status: Status,
    /// Its text.
    pub says: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status, self.says)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self {
            status: error.status(),
            says: error.to_string(),
        }
    }
}

impl<A> From<Refused<A>> for Failed {
    fn from(refused: Refused<A>) -> Self {
        Self {
            status: refused.status(),
            says: refused.to_string(),
        }
    }
}

impl<T> From<RequestError<T>> for Failed {
    fn from(error: RequestError<T>) -> Self {
        Self {
            status: error.status,
            says: error.to_string(),
        }
    }
}

/// What it computes with, read beforehand: a life opens no file.
#[derive(Clone, Debug)]
pub struct Means {
    model: Model,
    images: Vec<Vec<u8>>,
}

impl Means {
    /// Reads the files.
    ///
    /// # Panics
    /// When they are not there: the test has failed.
    #[must_use]
    pub fn read() -> Self {
        let held_out = std::fs::read(format!("{DIGITS}/heldout.xud")).expect("the images");
        let images = held_out[HEADER..].chunks(IMAGE).take(EXECUTIONS);
        Self {
            model: Model::open(format!("{DIGITS}/model.xum")).expect("the model"),
            images: images.map(<[u8]>::to_vec).collect(),
        }
    }

    /// The labels that are right, of a simulated machine.
    ///
    /// # Panics
    /// When there are none: the test has failed.
    #[must_use]
    pub fn expected(&self) -> Vec<u8> {
        let runtime = Runtime::builder().open().expect("a simulated machine");
        self.compute(&runtime).expect("a machine without faults")
    }

    /// A whole life: the labels, or what went wrong first.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn live(&self, builder: Builder) -> Result<Vec<u8>, Failed> {
        let runtime = builder.open()?;
        let result = self.compute(&runtime);
        runtime.close();
        result
    }

    /// What lies between opening and closing.
    ///
    /// # Errors
    /// [`Failed`].
    ///
    /// # Panics
    /// When a call that was refused keeps what it was given.
    pub fn compute(&self, runtime: &Runtime) -> Result<Vec<u8>, Failed> {
        let core = runtime.core(0)?;
        let loaded = core.load(&self.model, 1)?;
        let image = loaded.allocate_input(0)?;
        let outputs = [loaded.allocate_output(0)?, loaded.allocate_output(1)?];
        let moves = core.tensor_op(0)?;
        let mut labels = Vec::new();
        for pixels in &self.images {
            moves.write(&image, 0, pixels.clone())?.wait()?;
            let outputs = [&outputs[0], &outputs[1]];
            core.compute()
                .execute(&loaded, &[&image], &outputs)?
                .wait()?;
            labels.push(moves.read(outputs[1], 0, vec![0; 4])?.wait()?[0]);
        }
        Ok(labels)
    }
}

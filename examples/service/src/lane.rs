//! One lane: a runtime, its cores' queues, a loaded model, and slots. Opened once, and never repaired.
//!
//! Opened and closed by `supervisor`, on threads that may block; used by `http` through its [`Door`].
//!
//! ```text
//!  open ── Lane:     the door for requests, and the queues to look at   ── published
//!      '── Workings: runtime, slots, watches of health                  ── the supervisor's own
//! ```

use crate::answer::{Answer, Unavailable};
use crate::image::Image;
use crate::options::Options;
use crate::slot::{Job, Jobs, Slot};
use futures::StreamExt;
use futures::stream::{SelectAll, select_all};
use nrta::{
    Builder, Cause, ComputeQueue, Core, Health, HealthWatch, Model, Origin, Runtime, TensorOpQueue,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// Requests in flight on each core when nobody says so.
const DEPTH: u64 = 8;
/// How long an execution may take when nobody says so.
const EXEC_TIMEOUT: Duration = Duration::from_secs(2);

/// What others see of an open lane.
#[derive(Debug)]
pub(crate) struct Lane {
    /// Counted from 1.
    pub(crate) generation: u32,
    /// What has ended the lane before this one.
    pub(crate) before: Option<Cause>,
    pub(crate) door: Door,
    pub(crate) queues: Vec<CoreQueues>,
}

/// Where requests come in. While there is a clone of it, the slots wait for requests.
#[derive(Clone, Debug)]
pub(crate) struct Door {
    /// As many places as there are slots: a request that has one finds a slot that is free, or about to be.
    places: Arc<Semaphore>,
    jobs: mpsc::Sender<Job>,
}

/// Why a request got no place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoPlace {
    /// Every slot was busy for as long as it could wait.
    Busy,
    /// The lane has ended meanwhile.
    Shut,
}

/// The queues of one core that the service uses.
#[derive(Debug)]
pub(crate) struct CoreQueues {
    pub(crate) core: u32,
    pub(crate) writes: TensorOpQueue,
    pub(crate) compute: ComputeQueue,
    pub(crate) reads: TensorOpQueue,
}

/// What the supervisor keeps of an open lane.
pub(crate) struct Workings {
    pub(crate) runtime: Runtime,
    pub(crate) slots: Vec<Slot>,
    pub(crate) jobs: Jobs,
    pub(crate) health: SelectAll<HealthWatch>,
}

/// A lane was not opened. Nothing remains.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The runtime, the model or memory for its tensors.
    #[error(transparent)]
    Nrta(#[from] nrta::Error),
    /// The model takes or gives more or less than one image, ten scores and a label.
    #[error(transparent)]
    Bind(#[from] nrta::ScheduleError),
    /// An input or an output of the model is of another size.
    #[error("{name} of the model has {given} elements, not {expected}")]
    OtherModel {
        /// Its name.
        name: &'static str,
        /// What the model has.
        given: u64,
        /// What this service is made for.
        expected: u64,
    },
}

/// Opens a runtime, loads the model on every core and makes the slots. Blocks.
pub(crate) fn open(
    options: &Options,
    generation: u32,
    before: Option<Cause>,
) -> Result<(Lane, Workings), OpenError> {
    let model = Model::open(&options.model).map_err(nrta::Error::from)?;
    let runtime = builder(options, generation)?.open()?;
    let depth = runtime.settings().compute_limit.value;
    let mut queues = Vec::new();
    let mut slots_by_core = Vec::new();
    for core in 0..runtime.cores() {
        let core = runtime.core(core)?;
        let loaded = core.load(&model, 1)?;
        let slots = (0..depth).map(|_| Slot::new(&core, &loaded));
        slots_by_core.push(slots.collect::<Result<Vec<_>, _>>()?.into_iter());
        queues.push(CoreQueues::new(&core)?);
    }
    // Slots take turns, so cores do.
    let mut slots = Vec::new();
    for _ in 0..depth {
        slots.extend(slots_by_core.iter_mut().filter_map(Iterator::next));
    }
    let places = Arc::new(Semaphore::new(slots.len()));
    // Room for every request that has a place.
    let (sender, jobs) = mpsc::channel(slots.len());
    let workings = Workings {
        runtime,
        slots,
        jobs: Arc::new(Mutex::new(jobs)),
        health: select_all(queues.iter().flat_map(CoreQueues::watch)),
    };
    let lane = Lane {
        generation,
        before,
        door: Door {
            places,
            jobs: sender,
        },
        queues,
    };
    Ok((lane, workings))
}

/// What the environment says, what the options say instead, and what the service has for what nobody says.
fn builder(options: &Options, generation: u32) -> Result<Builder, nrta::Error> {
    let mut builder = Builder::from_env()?;
    if let Some(cores) = options.cores {
        builder = builder.cores(cores);
    }
    if let Some(depth) = options.depth {
        builder = builder.compute_limit(depth.into());
    }
    if let Some(limit) = options.exec_timeout {
        builder = builder.exec_timeout(Some(limit));
    }
    if let Some(plan) = options.faults_of(generation) {
        builder = builder.simulated_faults(plan);
    }
    let settings = builder.settings()?;
    if settings.cores.origin == Origin::Default {
        builder = builder.cores(1);
    }
    if settings.compute_limit.origin == Origin::Default {
        builder = builder.compute_limit(DEPTH);
    }
    if settings.exec_timeout.origin == Origin::Default {
        // Without one a core that hangs is never lost.
        builder = builder.exec_timeout(Some(EXEC_TIMEOUT));
    }
    if settings.seed.origin == Origin::Default {
        builder = builder.simulated_seed(generation.into());
    }
    Ok(builder)
}

impl Door {
    /// A place in the lane, within `wait`.
    pub(crate) async fn place(&self, wait: Duration) -> Result<OwnedSemaphorePermit, NoPlace> {
        match timeout(wait, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            Ok(Err(_)) => Err(NoPlace::Shut),
            Err(_) => Err(NoPlace::Busy),
        }
    }

    /// Has a slot classify `image`. Dropping the future is always safe: a slot finishes what it has.
    pub(crate) async fn classify(
        &self,
        image: Image,
        place: OwnedSemaphorePermit,
    ) -> Result<Answer, Unavailable> {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            image,
            reply,
            place,
        };
        // Fails only when all slots are gone: then the answer fails as well.
        let _ = self.jobs.try_send(job);
        answer.await.unwrap_or(Err(Unavailable::abandoned()))
    }

    /// Lets nobody in any more. Who waits is told, who is inside is served.
    pub(crate) fn shut(&self) {
        self.places.close();
    }
}

impl CoreQueues {
    fn new(core: &Core) -> Result<Self, nrta::Error> {
        Ok(Self {
            core: core.index(),
            writes: core.tensor_op(0)?,
            compute: core.compute(),
            reads: core.tensor_op(1)?,
        })
    }

    /// Whether it has given anybody an answer: results are read of executions that succeeded.
    pub(crate) fn has_answered(&self) -> bool {
        let reads = self.reads.snapshot();
        reads.completed > reads.failed
    }

    fn watch(&self) -> [HealthWatch; 3] {
        [
            self.writes.watch(),
            self.compute.watch(),
            self.reads.watch(),
        ]
    }
}

/// The first queue that degrades, and why. Never resolves while all are well.
pub(crate) async fn fault(health: &mut SelectAll<HealthWatch>) -> Cause {
    while let Some(change) = health.next().await {
        if change.health == Health::Degraded
            && let Some(cause) = change.cause
        {
            return cause;
        }
    }
    std::future::pending().await
}

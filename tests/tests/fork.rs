//! A child that is forked while a runtime is open: every call is refused at once, every handle can be dropped, and the
//! parent's runtime notices nothing. Failure kind P1.
//!
//! A program without a test harness, so that no thread but the runtime's own is there when it forks.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use futures::StreamExt;
use futures::executor::block_on;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use nrta::{
    AskError, CompletionEvent, Completions, Core, Error, HealthWatch, LoadedModel, Model, Pending,
    Place, Refusal, Request, Runtime, ScheduleError, Status, Subscription, Tensor, TensorOpQueue,
    WaitError, WaitFor,
};
use std::time::{Duration, Instant};

const NAME: &str = "p1_a_child_is_refused_and_harms_nobody";

/// Runs the one test, or lists it for who asks as a test runner does.
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let asks = |flag: &str| args.iter().any(|arg| arg == flag);
    if asks("--ignored") {
        return;
    }
    if asks("--list") {
        println!("{NAME}: test");
        return;
    }
    p1_a_child_is_refused_and_harms_nobody();
    println!("test {NAME} ... ok");
}

struct Handles {
    runtime: Runtime,
    tensor: Tensor,
    numbers: Tensor<f32>,
    model: LoadedModel,
    pending: Pending<Vec<u8>>,
    followers: Followers,
}

/// What an application keeps beside a queue.
struct Followers {
    event: CompletionEvent,
    subscription: Subscription,
    completions: Completions,
    watch: HealthWatch,
    wait: WaitFor,
    /// One is used, one is dropped.
    places: [Place<TensorOpQueue>; 2],
    request: Request<Vec<u8>>,
}

fn p1_a_child_is_refused_and_harms_nobody() {
    let mut handles = Some(open());
    for _ in 0..5 {
        // SAFETY: the child makes only the calls that this test is about, which take no lock that another thread of the
        // parent may have held, and ends with `_exit`.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let refused = handles.take().is_some_and(is_refused);
                // SAFETY: ends the process without running what the parent has registered for its own end.
                unsafe { nix::libc::_exit(i32::from(!refused)) }
            }
            ForkResult::Parent { child } => {
                assert_eq!(waitpid(child, None).unwrap(), WaitStatus::Exited(child, 0));
            }
        }
    }
    let Handles {
        runtime,
        tensor,
        pending,
        followers,
        ..
    } = handles.take().unwrap();
    assert_eq!(pending.wait().unwrap(), [7; 64]);
    assert_eq!(block_on(followers.wait), Ok(()));
    assert!(followers.subscription.end(), "children have not ended it");
    let queue = runtime.core(0).unwrap().tensor_op(0).unwrap();
    assert_eq!(queue.reserved(), 2, "children have not given them back");
    let [place, other] = followers.places;
    place.schedule(followers.request).unwrap().detach();
    drop(other);
    assert_eq!(queue.reserved(), 0);
    let read = queue.read(&tensor, 0, vec![0; 64]).unwrap();
    assert_eq!(read.wait().unwrap(), [7; 64]);
    runtime.close();
}

fn open() -> Handles {
    let runtime = Runtime::builder().open().unwrap();
    let core = runtime.core(0).unwrap();
    let model = Model::open(format!("{}/model.xum", lane_tests::DIGITS)).unwrap();
    let model = core.load(&model, 1).unwrap();
    let tensor = core.allocate(64).unwrap();
    let queue = core.tensor_op(0).unwrap();
    let pending = queue.write(&tensor, 0, vec![7; 64]).unwrap();
    let event = CompletionEvent::new().unwrap();
    let followers = Followers {
        subscription: queue.subscribe_each(&event).unwrap(),
        event,
        completions: queue.completions(),
        watch: queue.watch(),
        wait: queue.wait_for(pending.seq()),
        places: [(); 2].map(|()| queue.try_reserve().unwrap()),
        request: queue.prepare().write(&tensor, 0, vec![7; 64]).unwrap(),
    };
    Handles {
        runtime,
        numbers: tensor.typed(&[16]).unwrap(),
        tensor,
        model,
        pending,
        followers,
    }
}

/// In the child: whether everything is refused with an error that says why, within a second.
fn is_refused(handles: Handles) -> bool {
    let Handles {
        runtime,
        tensor,
        numbers,
        model,
        pending,
        followers,
    } = handles;
    let began = Instant::now();
    let Ok(core) = runtime.core(0) else {
        return false;
    };
    let forked = |reason: &ScheduleError| {
        matches!(reason, ScheduleError::Unit(Refusal::Forked { .. }))
            && reason.status() == Status::FAILURE
    };
    let allocation = matches!(core.allocate(1), Err(Error::Forked));
    let write = core
        .tensor_op(0)
        .ok()
        .and_then(|queue| queue.write(&tensor, 0, vec![1; 64]).err())
        .is_some_and(|refused| forked(&refused.reason));
    let execution = core
        .compute()
        .execute(&model, &[&tensor], &[&tensor])
        .err()
        .is_some_and(|refused| forked(&refused.reason));
    let first = is_said_first(&core, &tensor, &numbers, &model);
    // Complete before the fork, or never here.
    let waited = match pending.wait() {
        Ok(bytes) => bytes == [7; 64],
        Err(error) => error.status == Status::FAILURE,
    };
    let followed = core
        .tensor_op(0)
        .is_ok_and(|queue| follow_nothing(&queue, followers));
    tensor.clone().free();
    drop((tensor, numbers, model, core));
    runtime.close();
    allocation
        && first
        && write
        && execution
        && waited
        && followed
        && began.elapsed() < Duration::from_secs(1)
}

/// In the child: whether that it is one is said first, whatever else is wrong with a call (`c-api.md` G0).
fn is_said_first(core: &Core, tensor: &Tensor, numbers: &Tensor<f32>, model: &LoadedModel) -> bool {
    let Ok(queue) = core.tensor_op(0) else {
        return false;
    };
    let beyond = queue
        .write(tensor, 65, vec![1])
        .map_err(|refused| refused.status());
    let few = queue
        .write_all(numbers, vec![1.0])
        .map_err(|refused| refused.status());
    let errors = [
        numbers.rows(17..).err(),
        tensor.slice(65, 1).err(),
        tensor.slice(0, 0).err(),
        tensor.typed::<f32>(&[0]).err(),
        core.tensor::<f32>(&[0]).err(),
        core.host_buffer(1).err(),
    ];
    let nothing = model.bind_named(&[], &[]).map_err(|error| error.status());
    matches!(beyond, Err(Status::FAILURE))
        && matches!(few, Err(Status::FAILURE))
        && matches!(nothing, Err(Status::FAILURE))
        && errors
            .iter()
            .all(|error| matches!(error, Some(Error::Forked)))
        && core.memory().is_none()
}

/// In the child: whether nothing can be followed, and what was is let go.
fn follow_nothing(queue: &TensorOpQueue, followers: Followers) -> bool {
    let Followers {
        event,
        subscription,
        mut completions,
        mut watch,
        wait,
        places: [place, other],
        request,
    } = followers;
    drop(other);
    let refused = place.schedule(request).map_err(|refused| refused.reason);
    let placed = matches!(refused, Err(ScheduleError::Unit(Refusal::Forked { .. })))
        && block_on(queue.reserve()).is_err()
        && queue.reserve_until(None).is_err();
    let seq = wait.seq();
    let forked = |error: Option<AskError>| matches!(error, Some(AskError::Forked { .. }));
    let asked = |error: Option<WaitError>| match error {
        Some(WaitError::Queue(error)) => Some(error),
        _ => None,
    };
    let streams =
        block_on(async { completions.next().await.is_none() && watch.next().await.is_none() });
    let waits = forked(asked(block_on(wait).err())) && forked(asked(queue.wait(seq, None).err()));
    let events = [
        queue.notify(seq, &event).err(),
        queue.notify_each(&event).err(),
        queue.stop_notify(seq).err(),
        queue.stop_notify_each().err(),
    ];
    let events = events.iter().all(|error| {
        error
            .as_ref()
            .is_some_and(|error| error.status() == Status::FAILURE)
    });
    drop((completions, watch));
    placed && streams && waits && events && !subscription.end()
}

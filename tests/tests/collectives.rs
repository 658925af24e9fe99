//! Collectives between the cores of a runtime, through the facade.
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot be set up has failed"
)]

use core::time::Duration;
use lane_tests::{Parts, Rig};
use nrta::simulated::{Fault, Rule, When};
use nrta::{
    Collective, CollectivesQueue, Core, Dtype, Error, Group, Pending, ReduceOp, Runtime,
    ScheduleError, Status, Tensor, TensorOpQueue,
};

lane_tests::on_both! {
    ranks_gather_reduce_and_scatter with Parts::cores(3),
    a_late_rank_is_waited_for_and_the_other_queues_go_on,
    parts_that_do_not_fit_fail_on_every_rank_and_the_group_goes_on,
    f7_a_part_whose_peers_were_never_scheduled_does_not_hold_up_closing with Parts::cores(3),
    a_rank_whose_group_is_gone_is_not_waited_for,
    f6_a_rank_that_fails_ends_the_wait_of_the_others_with_the_error_of_collectives with third_aborts(),
    f5_a_full_queue_hands_the_part_back,
    what_makes_no_sense_is_refused_by_name with Parts::two_devices(),
}

/// Longer than anything here takes, shorter than anybody's patience.
const PATIENCE: Duration = Duration::from_secs(20);

/// One core of a group.
struct Rank {
    core: Core,
    queue: CollectivesQueue,
    moves: TensorOpQueue,
}

impl Rank {
    fn place(&self, elements: &[i32]) -> Tensor {
        let tensor = self.core.allocate(size_of_val(elements) as u64).unwrap();
        let write = self.moves.write_elements(&tensor, 0, elements.to_vec());
        write.unwrap().wait().unwrap();
        tensor
    }

    fn values(&self, tensor: &Tensor) -> Vec<i32> {
        let into = vec![0; tensor.bytes() as usize / 4];
        self.moves
            .read_elements(tensor, 0, into)
            .unwrap()
            .wait()
            .unwrap()
    }

    fn sum(&self, group: &Group, input: &Tensor, output: &Tensor) -> Pending<()> {
        let part = self
            .queue
            .all_reduce(group, ReduceOp::Add, Dtype::Int32, input, output);
        part.unwrap()
    }
}

fn open(rig: &Rig, cores: u32) -> (Runtime, Group, Vec<Rank>) {
    open_on(rig, 0, cores)
}

fn open_on(rig: &Rig, device: u32, cores: u32) -> (Runtime, Group, Vec<Rank>) {
    let runtime = rig.builder_on(device).cores(cores).open().unwrap();
    let members: Vec<u32> = (0..cores).collect();
    let group = runtime.group(&members).unwrap();
    let rank = |index| {
        let core = runtime.core(index).unwrap();
        Rank {
            queue: core.collectives(),
            moves: core.tensor_op(0).unwrap(),
            core,
        }
    };
    let ranks = members.into_iter().map(rank).collect();
    (runtime, group, ranks)
}

/// `elements` numbers of rank `rank`, no two alike.
fn numbers(rank: usize, elements: usize) -> Vec<i32> {
    (0..elements)
        .map(|index| (1000 * (rank + 1) + index) as i32)
        .collect()
}

fn status(pending: Pending<()>) -> Status {
    match pending.wait_timeout(PATIENCE).expect("the collective ends") {
        Ok(()) => Status::SUCCESS,
        Err(error) => error.status,
    }
}

fn ranks_gather_reduce_and_scatter(rig: &Rig) {
    const SHARE: usize = 5;
    for cores in [1, 2, 3] {
        let (_runtime, group, ranks) = open(rig, cores);
        let n = ranks.len();
        let inputs: Vec<Vec<i32>> = (0..n).map(|rank| numbers(rank, SHARE * n)).collect();
        let sum = |index: usize| inputs.iter().map(|input| input[index]).sum::<i32>();
        let sums: Vec<i32> = (0..SHARE * n).map(sum).collect();
        let all = inputs.concat();

        let mut parts = Vec::new();
        let mut placed = Vec::new();
        for (rank, input) in ranks.iter().zip(&inputs) {
            let from = rank.place(input);
            let (gathered, reduced, scattered) = (
                rank.place(&vec![0; SHARE * n * n]),
                rank.place(&vec![0; SHARE * n]),
                rank.place(&[0; SHARE]),
            );
            let queue = &rank.queue;
            parts.push(
                queue
                    .all_gather(&group, Dtype::Int32, &from, &gathered)
                    .unwrap(),
            );
            parts.push(rank.sum(&group, &from, &reduced));
            let scatter =
                queue.reduce_scatter(&group, ReduceOp::Add, Dtype::Int32, &from, &scattered);
            parts.push(scatter.unwrap());
            placed.push((gathered, reduced, scattered));
        }
        for part in parts {
            assert_eq!(status(part), Status::SUCCESS);
        }
        for (index, (rank, (gathered, reduced, scattered))) in ranks.iter().zip(&placed).enumerate()
        {
            assert_eq!(rank.values(gathered), all);
            assert_eq!(rank.values(reduced), sums);
            let own = SHARE * index..SHARE * (index + 1);
            assert_eq!(rank.values(scattered), sums[own]);
        }
    }
}

fn a_late_rank_is_waited_for_and_the_other_queues_go_on(rig: &Rig) {
    let (_runtime, group, ranks) = open(rig, 2);
    let tensors: Vec<Tensor> = ranks.iter().map(|rank| rank.place(&[1, 2])).collect();
    let early = ranks[0].sum(&group, &tensors[0], &tensors[0]);
    for value in 0..50 {
        assert_eq!(ranks[0].values(&ranks[0].place(&[value])), [value]);
        assert!(!early.is_done());
    }
    let late = ranks[1].sum(&group, &tensors[1], &tensors[1]);
    assert_eq!([status(early), status(late)], [Status::SUCCESS; 2]);
    assert_eq!(ranks[1].values(&tensors[1]), [2, 4]);
}

fn parts_that_do_not_fit_fail_on_every_rank_and_the_group_goes_on(rig: &Rig) {
    let (_runtime, group, ranks) = open(rig, 2);
    let tensors: Vec<Tensor> = ranks.iter().map(|rank| rank.place(&[1, 2])).collect();
    let sum = ranks[0].sum(&group, &tensors[0], &tensors[0]);
    let largest = ranks[1].queue.all_reduce(
        &group,
        ReduceOp::Max,
        Dtype::Int32,
        &tensors[1],
        &tensors[1],
    );
    assert_eq!(
        [status(sum), status(largest.unwrap())],
        [Status::INVALID; 2]
    );
    assert_eq!(ranks[0].values(&tensors[0]), [1, 2]);
    let parts = [0, 1].map(|rank: usize| ranks[rank].sum(&group, &tensors[rank], &tensors[rank]));
    assert_eq!(parts.map(status), [Status::SUCCESS; 2]);
}

fn f7_a_part_whose_peers_were_never_scheduled_does_not_hold_up_closing(rig: &Rig) {
    let (runtime, group, ranks) = open(rig, 3);
    let tensors: Vec<Tensor> = ranks.iter().map(|rank| rank.place(&[1])).collect();
    // The first collective has all its parts, the second not.
    let mut parts = Vec::new();
    for (rank, times) in [(0, 2), (1, 1), (2, 2)] {
        for _ in 0..times {
            parts.push((
                rank,
                ranks[rank].sum(&group, &tensors[rank], &tensors[rank]),
            ));
        }
    }
    runtime.close_within(PATIENCE).unwrap();
    let mut ends: Vec<(usize, Status)> = parts
        .into_iter()
        .map(|(rank, part)| (rank, status(part)))
        .collect();
    ends.dedup();
    assert_eq!(ends[0], (0, Status::SUCCESS));
    assert_eq!(ends[2], (1, Status::SUCCESS));
    assert_eq!(ends[3], (2, Status::SUCCESS));
    for rank in [1, 4] {
        // Whoever looks first says that it was in vain; the other may hear of that.
        let end = ends[rank].1;
        assert!(
            end == Status::CLOSED || end == Status::EXEC_HW_ERR_COLLECTIVES,
            "{end}"
        );
    }
}

fn a_rank_whose_group_is_gone_is_not_waited_for(rig: &Rig) {
    let (_runtime, group, ranks) = open(rig, 2);
    let tensor = ranks[0].place(&[1]);
    let part = ranks[0].sum(&group, &tensor, &tensor);
    drop(group);
    assert_eq!(status(part), Status::EXEC_HW_ERR_COLLECTIVES);
}

/// Of core 1's transfers the first two are its tensors' writes; the third is the collective's, and aborts.
fn third_aborts() -> Parts {
    let when = When {
        core: Some(1),
        from: 2,
        times: Some(1),
        probability: None,
    };
    let fault = Fault::TransferAborts;
    Parts::failing(vec![Rule { when, fault }])
}

fn f6_a_rank_that_fails_ends_the_wait_of_the_others_with_the_error_of_collectives(rig: &Rig) {
    let (_runtime, group, ranks) = open(rig, 2);
    let place = |rank: &Rank| (rank.place(&[1, 2]), rank.place(&[0, 0]));
    let tensors: Vec<_> = ranks.iter().map(place).collect();
    let parts = [0, 1].map(|rank: usize| {
        let (input, output) = &tensors[rank];
        ranks[rank].sum(&group, input, output)
    });
    let [other, failing] = parts.map(status);
    assert_eq!(failing, Status::EXEC_HW_ERR_DMA_ABORT);
    assert_eq!(other, Status::EXEC_HW_ERR_COLLECTIVES);
    // Behind it nothing runs, and the other queues of the core do.
    let refused = ranks[1].queue.all_reduce(
        &group,
        ReduceOp::Add,
        Dtype::Int32,
        &tensors[1].0,
        &tensors[1].1,
    );
    assert_eq!(
        refused.unwrap_err().status(),
        Status::EXEC_UNIT_UNRECOVERABLE
    );
    assert_eq!(ranks[1].values(&tensors[1].0), [1, 2]);
}

fn f5_a_full_queue_hands_the_part_back(rig: &Rig) {
    let (_runtime, group, ranks) = open(rig, 2);
    let tensors: Vec<Tensor> = ranks.iter().map(|rank| rank.place(&[1])).collect();
    let prepare = |rank: usize| {
        let tensor = [&tensors[rank]];
        let queue = &ranks[rank].queue;
        queue
            .prepare(
                &group,
                Collective::AllReduce(ReduceOp::Max),
                Dtype::Int32,
                &tensor,
                &tensor,
            )
            .unwrap()
    };
    let limit = ranks[0].queue.limit();
    let mut parts: Vec<Pending<()>> = Vec::new();
    for _ in 0..limit {
        parts.push(ranks[0].queue.schedule(prepare(0)).unwrap());
    }
    let refused = ranks[0].queue.schedule(prepare(0)).unwrap_err();
    assert!(refused.is_queue_full());
    let part = refused.into_retry().unwrap();
    for _ in 0..limit {
        parts.push(ranks[1].queue.schedule(prepare(1)).unwrap());
    }
    for done in parts {
        assert_eq!(status(done), Status::SUCCESS);
    }
    let again = [
        ranks[0].queue.schedule(part),
        ranks[1].queue.schedule(prepare(1)),
    ];
    assert_eq!(
        again.map(|part| status(part.unwrap())),
        [Status::SUCCESS; 2]
    );
}

fn what_makes_no_sense_is_refused_by_name(rig: &Rig) {
    let (runtime, group, ranks) = open(rig, 2);
    let tensors: Vec<Tensor> = ranks.iter().map(|rank| rank.place(&[1, 2])).collect();
    for (cores, what) in [(&[][..], "at least one"), (&[0, 1, 0], "one rank only")] {
        let refused = runtime.group(cores).unwrap_err();
        assert!(matches!(&refused, Error::Group { .. }) && refused.to_string().contains(what));
        assert_eq!(refused.status(), Status::INVALID);
    }
    assert!(matches!(
        runtime.group(&[0, 2]),
        Err(Error::NoSuchCore { core: 2, .. })
    ));

    let first = runtime.group(&[0]).unwrap();
    let sum = Collective::AllReduce(ReduceOp::Add);
    let prepare = |rank: usize, group: &Group, input: &Tensor, output: &Tensor| {
        let queue = &ranks[rank].queue;
        queue.prepare(group, sum, Dtype::Int32, &[input], &[output])
    };
    let refused = prepare(1, &first, &tensors[1], &tensors[1]).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::NotInGroup { core: 1, .. }),
        "{refused}"
    );
    let refused = prepare(0, &group, &tensors[1], &tensors[0]).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::WrongCore { on: 1, .. }),
        "{refused}"
    );
    let small = ranks[0].place(&[0]);
    let refused = prepare(0, &group, &tensors[0], &small).unwrap_err();
    assert!(matches!(refused, ScheduleError::Collective(_)), "{refused}");
    assert_eq!(refused.status(), Status::INVALID);
    let (other, elsewhere, _ranks) = open_on(rig, 1, 2);
    let refused = prepare(0, &elsewhere, &tensors[0], &tensors[0]).unwrap_err();
    assert!(
        matches!(refused, ScheduleError::WrongRuntime { .. }),
        "{refused}"
    );
    // A part goes to the queue for which it was prepared.
    let part = prepare(0, &group, &tensors[0], &tensors[0]).unwrap();
    let refused = ranks[1].queue.schedule(part).unwrap_err();
    assert!(matches!(
        refused.reason,
        ScheduleError::WrongCore { on: 0, .. }
    ));
    let part = refused.args.unwrap();
    let foreign = other
        .core(0)
        .unwrap()
        .collectives()
        .schedule(part)
        .unwrap_err();
    assert!(matches!(foreign.reason, ScheduleError::WrongRuntime { .. }));
}

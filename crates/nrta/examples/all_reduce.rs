//! Two cores that add their gradients, without a byte passing through the application.
//!
//! ```sh
//! cargo run -p nrta --example all_reduce
//! ```

use nrta::{Dtype, ReduceOp, Runtime, bf16};
use std::error::Error;
use std::thread;

/// Numbers that each core has.
const COUNT: usize = 1 << 16;

/// Adds, and checks the sum on both cores.
pub fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::builder().cores(2).open()?;
    let group = runtime.group(&[0, 1])?;
    thread::scope(|scope| {
        let (group, runtime) = (&group, &runtime);
        let rank = move |rank: u16| -> Result<bf16, Box<dyn Error + Send + Sync>> {
            let core = runtime.core(rank.into())?;
            let gradient = core.allocate(2 * COUNT as u64)?;
            let moves = core.tensor_op(0)?;
            let numbers = vec![bf16::from_f32(f32::from(rank) + 0.5); COUNT];
            // Each step waits for the one before: between two queues nothing is implied.
            moves.write_elements(&gradient, 0, numbers)?.wait()?;
            core.collectives()
                .all_reduce(group, ReduceOp::Add, Dtype::Bfloat16, &gradient, &gradient)?
                .wait()?;
            let last = moves.read_elements(&gradient, COUNT as u64 - 1, vec![bf16::ZERO])?;
            Ok(last.wait()?[0])
        };
        let ranks = [0, 1].map(|index| scope.spawn(move || rank(index)));
        for handle in ranks {
            let sum = handle.join().map_err(|_| "a rank has panicked")?;
            let sum = sum.map_err(|error| error.to_string())?;
            assert_eq!(sum, bf16::from_f32(2.0));
        }
        println!("{COUNT} numbers of two cores: every sum is 2");
        Ok(())
    })
}

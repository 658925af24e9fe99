//! In which order things happen that nothing else puts in order. What executions compute is tested on both machines, in
//! `tests/tests/device`.

use crate::support::{Client, halting, small};

#[test]
fn the_seed_decides_the_order_between_queues() {
    let order = |seed| Client::start(small(1, seed)).run(&halting()).order();
    let orders: std::collections::HashSet<_> = (0..16).map(order).collect();
    assert!(orders.len() > 8, "{} orders", orders.len());
    assert_eq!(order(5), order(5));
}

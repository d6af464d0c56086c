//! Runs the blocks of a launch.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::block::Block;
use crate::error::FaultSite;
use crate::lanes::WARP;
use crate::launch::ActiveLaunch;
use crate::warp::{State, Warp};

/// The order in which blocks and warps run. No result may depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionOrder {
    /// In ascending order, each warp until it reaches a barrier; asynchronous copies happen as late
    /// as possible.
    Forward,
    /// In descending order, the last dimension of the grid fastest; asynchronous copies happen at
    /// once.
    Backward,
    /// In random order of this seed: four blocks at a time, whose warps take turns of a few
    /// instructions.
    Random(u64),
}

/// Blocks that run at the same time, in random order.
const TOGETHER: usize = 4;
/// The most instructions of a turn, in random order.
const TURN: usize = 64;

/// A block and its warps.
struct Resident {
    block: Block,
    warps: Vec<Warp>,
}

/// Runs all blocks. Warps are taken from `spare`, which has those of earlier launches of the
/// kernel, and are put back.
pub(crate) fn run(
    launch: &mut ActiveLaunch<'_>,
    order: ExecutionOrder,
    spare: &mut Vec<Warp>,
) -> Result<(), FaultSite> {
    let mut random = match order {
        ExecutionOrder::Random(seed) => Some(ChaCha8Rng::seed_from_u64(seed)),
        ExecutionOrder::Forward | ExecutionOrder::Backward => None,
    };
    let mut places = places(launch.grid, order);
    if let Some(random) = &mut random {
        places.shuffle(random);
    }
    // The next block is the last.
    places.reverse();
    let together = if random.is_some() { TOGETHER } else { 1 };
    let mut residents: Vec<Resident> = Vec::new();
    loop {
        while residents.len() < together {
            let Some(place) = places.pop() else { break };
            residents.push(begin(place, launch, spare));
        }
        if residents.is_empty() {
            return Ok(());
        }
        let which = random
            .as_mut()
            .map_or(0, |r| r.random_range(0..residents.len()));
        let resident = &mut residents[which];
        match &mut random {
            Some(random) => resident.take_turn(launch, random)?,
            None => resident.until_barrier(launch, order)?,
        }
        resident.meet(launch);
        if resident.warps.iter().all(|warp| warp.state == State::Done) {
            spare.extend(residents.swap_remove(which).warps);
        }
    }
}

/// Positions of all blocks in the order in which they run.
fn places([x, y, z]: [u32; 3], order: ExecutionOrder) -> Vec<[u32; 3]> {
    let count = x * y * z;
    let place = |n: u32| match order {
        // Neighbouring blocks, which may share data, do not run one after the other.
        ExecutionOrder::Backward => {
            let n = count - 1 - n;
            [n / z / y, n / z % y, n % z]
        }
        ExecutionOrder::Forward | ExecutionOrder::Random(_) => [n % x, n / x % y, n / x / y],
    };
    (0..count).map(place).collect()
}

fn begin(place: [u32; 3], launch: &mut ActiveLaunch<'_>, spare: &mut Vec<Warp>) -> Resident {
    let threads = launch.threads as usize;
    let [x, y, _] = launch.grid;
    let index = (place[2] * y + place[1]) * x + place[0];
    let block = Block::new(index, place, threads, launch.kernel.shared);
    let warp = |number| {
        let mut warp = spare.pop().unwrap_or_else(|| Warp::new(launch.kernel));
        warp.begin(number, &block, launch);
        warp
    };
    let warps = (0..threads.div_ceil(WARP)).map(warp).collect();
    let mut resident = Resident { block, warps };
    resident.stamp(launch);
    resident
}

impl Resident {
    /// Runs every warp until it reaches a barrier or ends.
    fn until_barrier(
        &mut self,
        launch: &mut ActiveLaunch<'_>,
        order: ExecutionOrder,
    ) -> Result<(), FaultSite> {
        let count = self.warps.len();
        for i in 0..count {
            let number = if order == ExecutionOrder::Backward {
                count - 1 - i
            } else {
                i
            };
            self.run(number, launch, usize::MAX)?;
        }
        Ok(())
    }

    fn take_turn(
        &mut self,
        launch: &mut ActiveLaunch<'_>,
        random: &mut ChaCha8Rng,
    ) -> Result<(), FaultSite> {
        let ready = |&number: &usize| self.warps[number].state == State::Ready;
        let ready: Vec<usize> = (0..self.warps.len()).filter(ready).collect();
        let number = ready[random.random_range(0..ready.len())];
        self.run(number, launch, random.random_range(1..=TURN))
    }

    fn run(
        &mut self,
        number: usize,
        launch: &mut ActiveLaunch<'_>,
        budget: usize,
    ) -> Result<(), FaultSite> {
        let warp = &mut self.warps[number];
        let wrong = warp.run(&mut self.block, launch, budget);
        wrong.map_err(|what| FaultSite {
            what,
            line: launch.kernel.instructions[warp.at].line,
            block: self.block.place,
            thread: number * WARP + warp.lane,
        })
    }

    /// Lets all warps pass a barrier that all have reached. A warp that has ended counts as being
    /// at every barrier, as on a GPU.
    fn meet(&mut self, launch: &mut ActiveLaunch<'_>) {
        let state = |state| self.warps.iter().any(|warp| warp.state == state);
        if state(State::AtBarrier) && !state(State::Ready) {
            self.block.epoch += 1;
            self.stamp(launch);
        }
    }

    fn stamp(&mut self, launch: &mut ActiveLaunch<'_>) {
        let (index, epoch) = (self.block.index, self.block.epoch);
        self.block.crowd = launch.history.stamps(index, epoch, true);
        for warp in &mut self.warps {
            warp.pass(launch.history.stamps(index, epoch, false));
        }
    }
}

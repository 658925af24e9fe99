//! Initialisation and reset of cores.

use super::{refuse, within};
use crate::neuron::error::DriverError;
use crate::neuron::node::{MOST_REPEATS, Node};
use xu_abi::driver::{CinitSet, CoreInit, DeviceReady, DeviceReset, ioctl};

impl Node {
    /// Asks for a state of a core's initialisation and returns the state it has then.
    ///
    /// [`CoreInit::Started`] in answer to itself means that the caller initialises the core and then says
    /// [`CoreInit::Completed`], or that another process has been at it for five seconds: one process for each core.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for a core that does not exist; [`DriverError::Nonsense`] for a state that does not.
    pub fn initialise_core(&self, core: u8, state: CoreInit) -> Result<CoreInit, DriverError> {
        let ioctl = &ioctl::CINIT_SET_STATE;
        self.check_core(ioctl, core)?;
        let mut argument = CinitSet {
            nc_id: core.into(),
            state: state.raw(),
            new_state: 0,
        };
        self.ask(ioctl, &mut argument)?;
        CoreInit::from_raw(argument.new_state).ok_or(DriverError::Nonsense {
            call: ioctl.name,
            what: "the new state",
            value: argument.new_state.into(),
        })
    }

    /// Resets cores and waits until that is done, which can take minutes. `cores` has a bit for each.
    ///
    /// No copy, no DMA and no execution may be under way on them, in any process. Their notification queues are gone
    /// afterwards. A process has one reset at a time, whatever the device.
    ///
    /// # Errors
    /// [`DriverError::BadArgument`] for no core and for cores that do not exist; [`DriverError::ResetFailed`];
    /// [`Meaning::Busy`](crate::neuron::Meaning::Busy) while another thread waits for one.
    pub fn reset_cores(&self, cores: u32) -> Result<(), DriverError> {
        let all = (1_u32 << self.identity().cores()) - 1;
        within(&ioctl::NC_RESET, "set of cores", cores, 1..=all.into())?;
        self.reset(cores)
    }

    /// Resets the whole device, as [`Node::reset_cores`] does cores.
    ///
    /// # Errors
    /// As [`Node::reset_cores`].
    pub fn reset_device(&self) -> Result<(), DriverError> {
        self.reset(DeviceReset::WHOLE_DEVICE)
    }

    fn reset(&self, nc_map: u32) -> Result<(), DriverError> {
        let mut request = DeviceReset {
            nc_map,
            request_id: 0,
        };
        self.ask(&ioctl::NC_RESET, &mut request)?;
        for _ in 0..MOST_REPEATS {
            let mut ready = DeviceReady {
                request_id: request.request_id,
                result: DeviceReady::FAILED,
            };
            self.ask(&ioctl::NC_RESET_READY, &mut ready)?;
            match ready.result {
                0 => return Ok(()),
                // A signal; the call itself says that it succeeded.
                DeviceReady::INTERRUPTED => {}
                result => return Err(DriverError::ResetFailed { result }),
            }
        }
        Err(refuse(
            &ioctl::NC_RESET_READY,
            "number of interruptions",
            MOST_REPEATS.into(),
            "fewer",
        ))
    }
}

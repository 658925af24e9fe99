//! Where a device and its logical cores are in the host.

use crate::neuron::call::Buffer;
use crate::neuron::error::DriverError;
use crate::neuron::node::Node;
use xu_abi::driver::{
    GetLogicalToPhysicalNcMap, HostDeviceIdToRidMap, MAX_DEVICES, NcMap, NcMapEntry, ioctl,
};
use zerocopy::IntoBytes;

impl Node {
    /// The index of the device in the host, which in a container is another one than that of the node.
    ///
    /// # Errors
    /// [`DriverError::Nonsense`] for an index that cannot be; what the driver answers. This holds of every function of
    /// this file.
    pub fn host_device(&self) -> Result<u32, DriverError> {
        let ioctl = &ioctl::HOST_DEVICE_ID;
        let mut index = [0; 4];
        self.ask(ioctl, &mut index)?;
        let index = u32::from_ne_bytes(index);
        if index < MAX_DEVICES {
            return Ok(index);
        }
        Err(DriverError::Nonsense {
            call: ioctl.name,
            what: "the index on the host",
            value: index.into(),
        })
    }

    /// The routing ids of the devices of the host, by their index there.
    ///
    /// # Errors
    /// As [`Node::host_device`].
    pub fn routing_ids(&self) -> Result<Vec<u32>, DriverError> {
        let ioctl = &ioctl::HOST_DEVICE_ID_TO_RID_MAP;
        let mut map = HostDeviceIdToRidMap::ZEROED;
        self.ask(ioctl, &mut map)?;
        // CAST: widening.
        let ids = map.map.get(..map.count as usize);
        ids.map(<[u32]>::to_vec).ok_or(DriverError::Nonsense {
            call: ioctl.name,
            what: "the number of devices",
            value: map.count.into(),
        })
    }

    /// Where the logical cores are, by their number. Drivers of v2 do not support it.
    ///
    /// # Errors
    /// As [`Node::host_device`].
    pub fn logical_cores(&self) -> Result<Vec<NcMapEntry>, DriverError> {
        let ioctl = &ioctl::GET_LOGICAL_TO_PHYSICAL_NC_MAP;
        let mut map = NcMap::ZEROED;
        let mut argument = GetLogicalToPhysicalNcMap {
            // CAST: 128.
            max_map_entries: NcMap::ENTRIES as u32,
            ..GetLogicalToPhysicalNcMap::ZEROED
        };
        let mut buffers = [Buffer::Written(map.as_mut_bytes())];
        self.call(ioctl, &mut argument, &mut buffers)?;
        // CAST: widening.
        let entries = map.entries.get(..map.num_entries as usize);
        entries
            .map(<[NcMapEntry]>::to_vec)
            .ok_or(DriverError::Nonsense {
                call: ioctl.name,
                what: "the number of cores",
                value: map.num_entries.into(),
            })
    }
}

//! From a request to its handler: the filters, in the order of the driver.

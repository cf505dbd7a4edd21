//! Result formats that several runners write.

pub(crate) mod junit;
pub(crate) mod line_records;
pub(crate) mod reporter_protocol;
pub(crate) mod tap;

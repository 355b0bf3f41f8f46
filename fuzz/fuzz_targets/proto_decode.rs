//! The protobuf decoder: any bytes are an event or a typed error, and an event can be written as
//! JSON and as protobuf, and reads the same again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| _native::fuzz_proto_decode(data));

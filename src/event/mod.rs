//! What an event is: its type names, what is known of a model class, and reading and making either
//! spelling.

pub mod build;
pub mod class_info;
mod classes;
mod event_type;
mod keys;
mod learn;
mod presence;
mod registry;
mod subclass;
mod validation_error;
mod view;

pub use class_info::{
    Cell, ClassInfo, Field, FieldType, Form, Fragment, base_model, model_dump_json,
    set_our_model_dump_json, validator,
};
pub use event_type::EventType;
pub use keys::{Key, keys};
pub use presence::{Presence, scan};
pub use registry::{Registry, protocol_version, registry};
pub use subclass::info_like;
pub use validation_error::ValidationError;
pub use view::{Entry, Unsupported, View};

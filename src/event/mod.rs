//! What an event is: its type names, what is known of a model class, and reading and making either
//! spelling.

pub mod build;
mod glance;
mod keys;
mod kind;
pub mod plan;
mod refusal;
mod registry;
mod subclass;
mod view;

pub use glance::{Glance, look};
pub use keys::{Key, keys};
pub use kind::EventKind;
pub use plan::{
    Cell, Field, Fragment, Plan, Shape, Spelling, base_model, model_dump_json,
    set_our_model_dump_json, validator,
};
pub use refusal::Refusal;
pub use registry::{Registry, protocol_version, registry};
pub use subclass::plan_like;
pub use view::{Entry, Surprise, View};

//! JSON text straight to an instance of an SDK model, with no dict in between. What is not exactly
//! as the class declares is a surprise, and pydantic reads the document instead; a fault in the
//! JSON itself is found either way.

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::reader::{Read, Reader, Stop};
use super::skip;
use crate::capi;
use crate::event::build::{Builder, accept};
use crate::event::{EventKind, Plan, Shape, registry};

impl<'py> Reader<'_, 'py> {
    /// An event as a model of its class.
    pub fn model_event(&mut self) -> Read<'py> {
        let kind = match self.tag(b"type") {
            Some(name) => EventKind::from_name(name).ok_or(Stop)?,
            None => return Err(Stop),
        };
        let plan = registry().event(Some(kind)).ok_or(Stop)?;
        if plan.tag.is_none() || !plan.is_current() {
            return Err(Stop);
        }
        self.model(plan, Some(kind))
    }

    /// The text under `key` in the object at hand. It is usually the first entry or the second.
    #[inline]
    fn tag(&self, key: &[u8]) -> Option<&[u8]> {
        if self.peek() != Some(b'{') {
            return None;
        }
        skip::first_text(self.bytes, self.at, key)
    }

    /// The object at hand as an instance of the plan's class, which is that of an event of `kind`.
    fn model(&mut self, plan: &'static Plan, kind: Option<EventKind>) -> Read<'py> {
        let mut builder = Builder::new(self.py, plan)?;
        let tag = plan.tag.and_then(|at| Some((at, plan.fields[at].constant.as_ref()?.as_bytes())));
        let mut expected = 0;
        let mut next = 0;
        if self.open(b'}')? {
            loop {
                if let Some((at, constant)) = tag
                    && self.bytes[self.at..].starts_with(&constant[1..])
                {
                    self.at += constant.len() - 1;
                    builder.tag(at)?;
                } else if let Some(spot) = self.known_key(kind, next) {
                    next = spot.at + 1;
                    match self.known(spot).field {
                        Some(at) if plan.fields[at].shape.takes_str() && self.at_string() => {
                            let value = self.known_value(spot)?;
                            builder.put(at, &value)?;
                        }
                        Some(at) => {
                            let value = self.shaped(&plan.fields[at].shape)?;
                            builder.put(at, &value)?;
                        }
                        None => {
                            let key = self.known(spot).key.bind(self.py).clone();
                            builder.extra(&key, &self.value()?)?;
                        }
                    }
                } else {
                    let key = self.new_key(kind)?;
                    match plan.find_any(&key, expected) {
                        Some((at, _)) => {
                            expected = at + 1;
                            let value = self.shaped(&plan.fields[at].shape)?;
                            builder.put(at, &value)?;
                        }
                        None => builder.extra(&key, &self.value()?)?,
                    }
                }
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        Ok(builder.finish()?)
    }

    /// The value at hand as a field of this shape takes it.
    fn shaped(&mut self, shape: &'static Shape) -> Read<'py> {
        match (shape, self.peek()) {
            (shape, Some(b'"')) if shape.takes_str() => self.string(),
            (Shape::StrOrList(list), _) => self.shaped(list),
            (Shape::Any, _) | (Shape::Map, Some(b'{')) | (Shape::Nullable(_), Some(b'n')) => {
                self.value()
            }
            (Shape::Nullable(inner), _) => self.shaped(inner),
            (Shape::List { item, min }, Some(b'[')) => self.models(item, *min),
            (Shape::Model(cell), Some(b'{')) => {
                let plan = cell.plan_for(cell.key).ok_or(Stop)?;
                self.model(plan, None)
            }
            (Shape::Tagged { discriminator, choices }, Some(b'{')) => {
                let capi::Text::Ascii(key) = capi::text(discriminator.bind(self.py)) else {
                    return Err(Stop);
                };
                let tag = self.tag(key).ok_or(Stop)?;
                let choice = choices.iter().find(|(name, _)| name.as_bytes() == tag);
                let (_, cell) = choice.ok_or(Stop)?;
                let plan = cell.plan_for(cell.key).ok_or(Stop)?;
                self.model(plan, None)
            }
            (Shape::Literal(choices), Some(b'"')) => {
                let text = self.plain()?.ok_or(Stop)?.text;
                let choice = choices.iter().find(|(choice, _)| choice.as_bytes() == text);
                Ok(choice.ok_or(Stop)?.1.bind(self.py).clone())
            }
            (Shape::Int(_) | Shape::Bool | Shape::JsonPointer, _) => {
                let value = self.value()?;
                Ok(accept(shape, &value)?.unwrap_or(value))
            }
            _ => Err(Stop),
        }
    }

    fn models(&mut self, item: &'static Shape, min: usize) -> Read<'py> {
        let list = PyList::empty(self.py);
        if self.open(b']')? {
            loop {
                let value = self.shaped(item)?;
                list.append(value).map_err(|error| self.python(error))?;
                if !self.another(b']')? {
                    break;
                }
            }
        }
        if list.len() < min { Err(Stop) } else { Ok(list.into_any()) }
    }
}

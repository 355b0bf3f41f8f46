//! One message of a conversation, growing.

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::sync::OnceLock;

use super::held::{Held, merge_metadata};
use super::wire;
use crate::capi;
use crate::errors::class_name;

/// What of its role matters to what events may do to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Assistant,
    Reasoning,
    Activity,
    Tool,
    Other,
}

impl Role {
    pub fn of(role: &Bound<'_, PyString>) -> Self {
        match capi::text(role) {
            capi::Text::Ascii(b"assistant") => Self::Assistant,
            capi::Text::Ascii(b"reasoning") => Self::Reasoning,
            capi::Text::Ascii(b"activity") => Self::Activity,
            capi::Text::Ascii(b"tool") => Self::Tool,
            _ => Self::Other,
        }
    }
}

/// Text in the making: a token is one push, and the whole is joined when someone asks.
#[derive(Default)]
pub struct Parts {
    parts: Vec<Py<PyString>>,
    joined: OnceLock<Py<PyString>>,
}

impl Parts {
    fn of(text: &Bound<'_, PyString>) -> Self {
        Self { parts: vec![text.clone().unbind()], joined: OnceLock::new() }
    }

    #[inline]
    pub fn push(&mut self, text: &Bound<'_, PyString>) {
        // What was joined once need not be joined part by part again.
        if let Some(joined) = self.joined.take() {
            self.parts.clear();
            self.parts.push(joined);
        }
        self.parts.push(text.clone().unbind());
    }

    pub fn join<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        if let Some(joined) = self.joined.get() {
            return Ok(joined.bind(py).clone());
        }
        let joined = match &self.parts[..] {
            [] => PyString::new(py, ""),
            [one] => one.bind(py).clone(),
            parts => {
                let join = intern!(py, "")
                    .call_method1(intern!(py, "join"), (PyList::new(py, parts)?,))?;
                join.cast_into()?
            }
        };
        let _ = self.joined.set(joined.clone().unbind());
        Ok(joined)
    }

    fn clone_ref(&self, py: Python<'_>) -> Self {
        Self {
            parts: self.parts.iter().map(|part| part.clone_ref(py)).collect(),
            joined: self.joined.get().map_or_else(OnceLock::new, |text| text.clone_ref(py).into()),
        }
    }
}

/// A tool call of an assistant message.
pub struct Call {
    /// The wire dict; `function` in it is a placeholder.
    fields: Py<PyDict>,
    /// The wire dict; `arguments` in it is a placeholder.
    function: Py<PyDict>,
    arguments: Parts,
}

impl Call {
    fn new(id: &Bound<'_, PyString>, name: &Bound<'_, PyString>) -> PyResult<Self> {
        let py = id.py();
        let function = PyDict::new(py);
        function.set_item(intern!(py, "name"), name)?;
        function.set_item(intern!(py, "arguments"), intern!(py, ""))?;
        let fields = PyDict::new(py);
        fields.set_item(intern!(py, "id"), id)?;
        fields.set_item(intern!(py, "type"), intern!(py, "function"))?;
        fields.set_item(intern!(py, "function"), py.None())?;
        Ok(Self {
            fields: fields.unbind(),
            function: function.unbind(),
            arguments: Parts::default(),
        })
    }

    /// From a wire dict, which becomes this call's own.
    fn of_wire(fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = fields.py();
        let fields = fields.cast::<PyDict>()?;
        let function =
            match fields.get_item(intern!(py, "function"))?.map(Bound::cast_into::<PyDict>) {
                Some(Ok(function)) => function,
                _ => PyDict::new(py),
            };
        let arguments = function.get_item(intern!(py, "arguments"))?;
        let arguments = arguments.as_ref().and_then(|text| text.cast::<PyString>().ok());
        Ok(Self {
            fields: fields.clone().unbind(),
            function: function.unbind(),
            arguments: arguments.map(Parts::of).unwrap_or_default(),
        })
    }

    pub fn push(&mut self, delta: &Bound<'_, PyString>) {
        self.arguments.push(delta);
    }

    pub fn name<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.function.bind(py).get_item(intern!(py, "name"))
    }

    pub fn rename(&mut self, name: &Bound<'_, PyString>) -> PyResult<()> {
        let py = name.py();
        self.function.bind(py).set_item(intern!(py, "name"), name)
    }

    pub fn fields<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyDict> {
        self.fields.bind(py)
    }

    pub fn merge_metadata(&mut self, metadata: &Bound<'_, PyDict>) -> PyResult<()> {
        merge_metadata(self.fields.bind(metadata.py()), metadata)
    }

    fn wire<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let function = self.function.bind(py).copy()?;
        function.set_item(intern!(py, "arguments"), self.arguments.join(py)?)?;
        let fields = self.fields.bind(py).copy()?;
        fields.set_item(intern!(py, "function"), function)?;
        Ok(fields)
    }

    fn clone_ref(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            fields: self.fields.bind(py).copy()?.unbind(),
            function: self.function.bind(py).copy()?.unbind(),
            arguments: self.arguments.clone_ref(py),
        })
    }
}

enum Content {
    /// What the wire dict has: nothing, a list of parts, an object.
    AsIs,
    Text(Parts),
    /// The content of an activity, which patches write to.
    Object(Held),
}

/// A message that events have written to.
pub struct Open {
    /// The wire dict; `content` in it is a placeholder unless it is as it is, and so is `toolCalls`
    /// where there are calls. Of the values in it only the metadata are ever changed.
    fields: Py<PyDict>,
    content: Content,
    calls: Option<Vec<Call>>,
}

impl Open {
    /// From a wire dict, which becomes this message's own.
    fn of_wire(fields: Bound<'_, PyDict>) -> PyResult<Self> {
        let py = fields.py();
        let content = match fields.get_item(intern!(py, "content"))? {
            Some(content) => match content.cast::<PyString>() {
                Ok(text) => Content::Text(Parts::of(text)),
                Err(_) => Content::AsIs,
            },
            None => Content::AsIs,
        };
        let calls = match fields.get_item(intern!(py, "toolCalls"))?.map(Bound::cast_into::<PyList>)
        {
            Some(Ok(calls)) => {
                Some(calls.iter().map(|call| Call::of_wire(&call)).collect::<PyResult<_>>()?)
            }
            _ => None,
        };
        Ok(Self { fields: fields.unbind(), content, calls })
    }

    /// Appends text. Content that is no text gives way to it.
    #[inline]
    pub fn push(&mut self, delta: &Bound<'_, PyString>) -> PyResult<()> {
        if let Content::Text(parts) = &mut self.content {
            parts.push(delta);
            return Ok(());
        }
        let py = delta.py();
        self.fields.bind(py).set_item(intern!(py, "content"), py.None())?;
        self.content = Content::Text(Parts::of(delta));
        Ok(())
    }

    /// Gives it content of any form.
    pub fn set_content(&mut self, content: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = content.py();
        self.fields.bind(py).set_item(intern!(py, "content"), content)?;
        self.content = match content.cast::<PyString>() {
            Ok(text) => Content::Text(Parts::of(text)),
            Err(_) => Content::AsIs,
        };
        Ok(())
    }

    /// Gives an activity its content, which nobody else has.
    pub fn set_object(&mut self, content: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = content.py();
        self.fields.bind(py).set_item(intern!(py, "content"), py.None())?;
        self.content = Content::Object(Held::new(content));
        Ok(())
    }

    /// The content of an activity, to patch it.
    pub fn object(&mut self, py: Python<'_>) -> PyResult<&mut Held> {
        if !matches!(self.content, Content::Object(_)) {
            let key = intern!(py, "content");
            let held = match self.fields.bind(py).get_item(key)? {
                Some(content) => Held::new(&content),
                None => Held::new(PyDict::new(py).as_any()),
            };
            self.fields.bind(py).set_item(key, py.None())?;
            self.content = Content::Object(held);
        }
        match &mut self.content {
            Content::Object(held) => Ok(held),
            _ => unreachable!("it was just made one"),
        }
    }

    pub fn fields<'a, 'py>(&'a self, py: Python<'py>) -> &'a Bound<'py, PyDict> {
        self.fields.bind(py)
    }

    pub fn merge_metadata(&mut self, metadata: &Bound<'_, PyDict>) -> PyResult<()> {
        merge_metadata(self.fields.bind(metadata.py()), metadata)
    }

    /// Adds a tool call and says the how many-th it is.
    pub fn add_call(
        &mut self,
        id: &Bound<'_, PyString>,
        name: &Bound<'_, PyString>,
    ) -> PyResult<usize> {
        let py = id.py();
        if self.calls.is_none() {
            self.fields.bind(py).set_item(intern!(py, "toolCalls"), py.None())?;
        }
        let calls = self.calls.get_or_insert_default();
        calls.push(Call::new(id, name)?);
        Ok(calls.len() - 1)
    }

    pub fn call(&mut self, index: usize) -> Option<&mut Call> {
        self.calls.as_mut()?.get_mut(index)
    }

    fn wire<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = self.fields.bind(py).copy()?;
        match &self.content {
            Content::AsIs => {}
            Content::Text(parts) => fields.set_item(intern!(py, "content"), parts.join(py)?)?,
            Content::Object(held) => fields.set_item(intern!(py, "content"), held.get(py))?,
        }
        if let Some(calls) = &self.calls {
            let list = PyList::empty(py);
            for call in calls {
                list.append(call.wire(py)?)?;
            }
            fields.set_item(intern!(py, "toolCalls"), list)?;
        }
        Ok(fields)
    }

    fn clone_ref(&self, py: Python<'_>) -> PyResult<Self> {
        let calls = match &self.calls {
            None => None,
            Some(calls) => {
                Some(calls.iter().map(|call| call.clone_ref(py)).collect::<PyResult<_>>()?)
            }
        };
        let content = match &self.content {
            Content::AsIs => Content::AsIs,
            Content::Text(parts) => Content::Text(parts.clone_ref(py)),
            Content::Object(held) => Content::Object(held.clone_ref(py)),
        };
        Ok(Self { fields: self.fields.bind(py).copy()?.unbind(), content, calls })
    }
}

enum Body {
    /// As it was given: a model or a wire dict of our own, not written to.
    Whole(Py<PyAny>),
    Open(Open),
}

/// The name of a tool call, and its arguments so far.
pub type NamedCall<'py> = (Bound<'py, PyString>, Bound<'py, PyString>);

pub struct Message {
    pub id: Py<PyString>,
    pub role: Role,
    /// The other side has it: it came from there, or went there.
    pub known: bool,
    body: Body,
    /// What was given out for it as it is now.
    output: OnceLock<Py<PyAny>>,
}

impl Message {
    /// A message that an event mints: `id`, `role` and what the event says.
    pub fn new(id: &Bound<'_, PyString>, role: &Bound<'_, PyString>) -> PyResult<Self> {
        let py = id.py();
        let fields = PyDict::new(py);
        fields.set_item(intern!(py, "id"), id)?;
        fields.set_item(intern!(py, "role"), role)?;
        Ok(Self {
            id: id.clone().unbind(),
            role: Role::of(role),
            known: true,
            body: Body::Open(Open { fields: fields.unbind(), content: Content::AsIs, calls: None }),
            output: OnceLock::new(),
        })
    }

    /// A message that is given whole, in either spelling. It is copied.
    ///
    /// # Errors
    /// A TypeError for what is no object, an AGUIError for one that is no message.
    pub fn given(message: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = message.py();
        let is_model = crate::event::registry().info(capi::type_key(message)).is_some();
        if !is_model
            && !message.is_instance_of::<PyDict>()
            && !message.is_instance(crate::event::base_model(py)?)?
        {
            return Err(PyTypeError::new_err(format!(
                "a message is a model of ag_ui.core or a dict, not {}",
                class_name(message)
            )));
        }
        let text = |value: Option<Bound<'_, PyAny>>, what: &str| {
            value
                .and_then(|value| value.cast_into::<PyString>().ok().map(Bound::unbind))
                .ok_or_else(|| {
                    crate::errors::AGUIError::new_err(format!(
                        "a message has {what}, which is a str"
                    ))
                })
        };
        let whole = match wire::message_shape() {
            // A model is kept as one, since that is what is asked for as a rule.
            _ if is_model => wire::own(message)?,
            Some(shape) => wire::object(message, shape)?.into_any(),
            None => wire::own(message)?,
        };
        let id = text(super::incoming::member!(&whole, id), "an \"id\"")?;
        let role = text(super::incoming::member!(&whole, role), "a \"role\"")?;
        Ok(Self {
            id,
            role: Role::of(role.bind(py)),
            known: true,
            body: Body::Whole(whole.unbind()),
            output: OnceLock::new(),
        })
    }

    /// The ids of the tool calls.
    pub fn call_ids<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyString>> {
        let id = |call: &Bound<'py, PyAny>| super::incoming::member!(call, id)?.cast_into().ok();
        match &self.body {
            Body::Whole(whole) => {
                let calls = super::incoming::member!(whole.bind(py), tool_calls);
                match calls.map(Bound::cast_into::<PyList>) {
                    Some(Ok(calls)) => calls.iter().filter_map(|call| id(&call)).collect(),
                    _ => Vec::new(),
                }
            }
            Body::Open(open) => {
                let calls = open.calls.iter().flatten();
                calls.filter_map(|call| id(call.fields.bind(py))).collect()
            }
        }
    }

    /// To write to it.
    #[inline]
    pub fn open(&mut self, py: Python<'_>) -> PyResult<&mut Open> {
        self.output.take();
        if let Body::Whole(whole) = &self.body {
            let wire = match wire::message_shape() {
                Some(shape) => wire::object(whole.bind(py), shape)?,
                None => whole.bind(py).cast::<PyDict>()?.copy()?,
            };
            self.body = Body::Open(Open::of_wire(wire)?);
        }
        match &mut self.body {
            Body::Open(open) => Ok(open),
            Body::Whole(_) => {
                Err(crate::errors::AGUIError::new_err("a message that cannot be read"))
            }
        }
    }

    /// The message as it is now: a wire dict or a model. It is the same object until the next write.
    pub fn output<'py>(&self, py: Python<'py>, as_dict: bool) -> PyResult<Bound<'py, PyAny>> {
        if let Some(output) = self.output.get() {
            return Ok(output.bind(py).clone());
        }
        if let Body::Whole(whole) = &self.body
            && whole.bind(py).is_instance_of::<PyDict>() == as_dict
        {
            return Ok(whole.bind(py).clone());
        }
        let wire = self.wire(py)?;
        let output = if as_dict {
            wire.into_any()
        } else {
            wire::model(&wire, wire::message_shape(), "Message")?
        };
        let _ = self.output.set(output.clone().unbind());
        Ok(output)
    }

    /// The message as a wire dict, parts of which are the message's own.
    pub fn wire<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &self.body {
            Body::Open(open) => open.wire(py),
            Body::Whole(whole) => match (whole.bind(py).cast::<PyDict>(), wire::message_shape()) {
                (Ok(dict), _) => Ok(dict.clone()),
                (Err(_), Some(shape)) => wire::object(whole.bind(py), shape),
                (Err(error), None) => Err(error.into()),
            },
        }
    }

    /// The text so far; None if the content is no text.
    pub fn text<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyString>>> {
        match &self.body {
            Body::Open(Open { content: Content::Text(parts), .. }) => parts.join(py).map(Some),
            Body::Open(Open { content: Content::Object(_), .. }) => Ok(None),
            Body::Open(open) => Ok(text_of(open.fields(py).get_item(intern!(py, "content"))?)),
            Body::Whole(whole) => Ok(text_of(super::incoming::member!(whole.bind(py), content))),
        }
    }

    /// The name and the arguments so far of the tool call at a position.
    pub fn call<'py>(&self, py: Python<'py>, position: usize) -> PyResult<Option<NamedCall<'py>>> {
        if let Body::Open(open) = &self.body {
            let Some(call) = open.calls.as_ref().and_then(|calls| calls.get(position)) else {
                return Ok(None);
            };
            let name = text_of(call.name(py)?);
            return Ok(Some((
                name.unwrap_or_else(|| PyString::new(py, "")),
                call.arguments.join(py)?,
            )));
        }
        let Body::Whole(whole) = &self.body else { return Ok(None) };
        let calls = super::incoming::member!(whole.bind(py), tool_calls);
        let Some(Ok(calls)) = calls.map(Bound::cast_into::<PyList>) else { return Ok(None) };
        let Ok(call) = calls.get_item(position) else { return Ok(None) };
        let Some(function) = same_in_both(&call, intern!(py, "function")) else { return Ok(None) };
        let text = |key: &Bound<'py, PyString>| {
            text_of(same_in_both(&function, key)).unwrap_or_else(|| PyString::new(py, ""))
        };
        Ok(Some((text(intern!(py, "name")), text(intern!(py, "arguments")))))
    }

    /// What kind of activity it is.
    pub fn activity_type<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        match &self.body {
            Body::Open(open) => super::incoming::member!(open.fields.bind(py), activity_type),
            Body::Whole(whole) => super::incoming::member!(whole.bind(py), activity_type),
        }
    }

    pub fn clone_ref(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self {
            id: self.id.clone_ref(py),
            role: self.role,
            known: self.known,
            body: match &self.body {
                Body::Whole(whole) => Body::Whole(whole.clone_ref(py)),
                Body::Open(open) => Body::Open(open.clone_ref(py)?),
            },
            output: self.output.get().map_or_else(OnceLock::new, |out| out.clone_ref(py).into()),
        })
    }
}

/// The value, if it is a str.
fn text_of(value: Option<Bound<'_, PyAny>>) -> Option<Bound<'_, PyString>> {
    value.and_then(|value| value.cast_into().ok())
}

/// A member that is spelled alike in wire dicts and models.
fn same_in_both<'py>(
    object: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
) -> Option<Bound<'py, PyAny>> {
    match object.cast::<PyDict>() {
        Ok(dict) => dict.get_item(key).ok().flatten(),
        Err(_) => object.getattr(key).ok(),
    }
}

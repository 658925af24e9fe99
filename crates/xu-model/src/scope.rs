//! What a model has defined so far, and the rule of each operation.
//!
//! Called by the resolver: first for the inputs, then for each layer in order, at last for the outputs.
//! A name that is looked up has been defined before, so that execution in this order is always possible.

use crate::error::{ModelError, quote};
use crate::limits::MAX_ELEMENTS;
use crate::manifest::{Content, Field, RawLayer};
use crate::model::{Layer, Op};
use crate::resolve::check_name;
use crate::site::{Site, wrong_type};
use crate::tensor::{TensorSpec, Value, ValueId, ValueType, WeightId};
use crate::weights::WeightsFile;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use std::collections::{HashMap, HashSet};

/// The element types that an operation takes.
#[derive(Clone, Copy)]
enum Takes {
    Float,
    ByteOrFloat,
}

/// A layer that is about to define its result.
struct Step<'r, 'a> {
    site: Site<'r, 'a>,
    op: Op,
    inputs: Vec<ValueId>,
    dtype: ValueType,
    width: usize,
}

/// What has been defined so far.
pub(crate) struct Scope<'f, 'w> {
    file: &'f WeightsFile<'w>,
    pub(crate) values: Vec<Value>,
    ids: HashMap<String, ValueId>,
    pub(crate) weights: Vec<(String, TensorView<'w>)>,
    weight_ids: HashMap<String, WeightId>,
}

impl<'f, 'w> Scope<'f, 'w> {
    pub(crate) fn new(file: &'f WeightsFile<'w>) -> Self {
        Self {
            file,
            values: Vec::new(),
            ids: HashMap::new(),
            weights: Vec::new(),
            weight_ids: HashMap::new(),
        }
    }

    pub(crate) fn define(
        &mut self,
        place: impl FnOnce() -> String,
        name: &str,
        dtype: ValueType,
        width: usize,
    ) -> Result<ValueId, ModelError> {
        let id = ValueId::from_index(self.values.len());
        if self.ids.insert(name.to_owned(), id).is_some() {
            return Err(ModelError::DuplicateValue {
                place: place(),
                value: name.to_owned(),
            });
        }
        self.values.push(Value {
            name: name.to_owned(),
            dtype,
            width,
        });
        Ok(id)
    }

    pub(crate) fn layer(&mut self, index: usize, raw: &RawLayer<'_>) -> Result<Layer, ModelError> {
        let step = self.step(index, raw)?;
        let name = step.site.text(Field::Output)?;
        check_name(|| format!("the output of layer {index}"), name)?;
        if MAX_ELEMENTS < step.width {
            return Err(ModelError::TooManyElements {
                tensor: name.to_owned(),
                found: step.width,
            });
        }
        let place = || format!("layer {index} ({})", step.op.name());
        let output = self.define(place, name, step.dtype, step.width)?;
        Ok(Layer {
            op: step.op,
            inputs: step.inputs,
            output,
        })
    }

    fn step<'r, 'a>(
        &mut self,
        index: usize,
        raw: &'r RawLayer<'a>,
    ) -> Result<Step<'r, 'a>, ModelError> {
        let op = match raw.field(Field::Op) {
            Some(Content::Text(op)) => op,
            Some(other) => return Err(wrong_type(index, Field::Op, "a string", other)),
            None => return Err(ModelError::MissingOp { layer: index }),
        };
        let site = |op, fields| Site::new(index, op, raw, fields);
        match &**op {
            "scale" => {
                let site = site("scale", &[Field::Input, Field::Factor])?;
                let (input, width) = self.read(site, Field::Input, Takes::ByteOrFloat)?;
                let op = Op::Scale {
                    factor: site.factor()?,
                };
                Ok(Step {
                    site,
                    op,
                    inputs: vec![input],
                    dtype: ValueType::F32,
                    width,
                })
            }
            "matmul" => {
                let site = site("matmul", &[Field::Input, Field::Weight])?;
                let (input, rows) = self.read(site, Field::Input, Takes::Float)?;
                let weight = self.weight(site, Field::Weight)?;
                let width = match *self.shape(weight) {
                    [found, columns] if found == rows => columns,
                    _ => return Err(self.wrong_shape(site, weight, format!("[{rows}, any]"))),
                };
                let op = Op::MatMul { weight };
                Ok(Step {
                    site,
                    op,
                    inputs: vec![input],
                    dtype: ValueType::F32,
                    width,
                })
            }
            "bias" => {
                let site = site("bias", &[Field::Input, Field::Bias])?;
                let (input, width) = self.read(site, Field::Input, Takes::Float)?;
                let bias = self.weight(site, Field::Bias)?;
                if self.shape(bias) != [width] {
                    return Err(self.wrong_shape(site, bias, format!("[{width}]")));
                }
                let op = Op::Bias { bias };
                Ok(Step {
                    site,
                    op,
                    inputs: vec![input],
                    dtype: ValueType::F32,
                    width,
                })
            }
            "relu" => self.by_element(site("relu", &[Field::Input])?, Op::Relu),
            "softmax" => self.by_element(site("softmax", &[Field::Input])?, Op::Softmax),
            "add" => self.pairwise(site("add", &[Field::A, Field::B])?, Op::Add),
            "mul" => self.pairwise(site("mul", &[Field::A, Field::B])?, Op::Mul),
            "argmax" => self.by_row(site("argmax", &[Field::Input])?, Op::ArgMax, ValueType::U32),
            "sum" => self.by_row(site("sum", &[Field::Input])?, Op::Sum, ValueType::F32),
            "max" => self.by_row(site("max", &[Field::Input])?, Op::Max, ValueType::F32),
            unknown => Err(ModelError::UnknownOp {
                layer: index,
                op: quote(unknown),
            }),
        }
    }

    /// One input, a result of the same width.
    fn by_element<'r, 'a>(&self, site: Site<'r, 'a>, op: Op) -> Result<Step<'r, 'a>, ModelError> {
        let (input, width) = self.read(site, Field::Input, Takes::Float)?;
        Ok(Step {
            site,
            op,
            inputs: vec![input],
            dtype: ValueType::F32,
            width,
        })
    }

    /// One input, one number per row.
    fn by_row<'r, 'a>(
        &self,
        site: Site<'r, 'a>,
        op: Op,
        dtype: ValueType,
    ) -> Result<Step<'r, 'a>, ModelError> {
        let (input, _) = self.read(site, Field::Input, Takes::Float)?;
        Ok(Step {
            site,
            op,
            inputs: vec![input],
            dtype,
            width: 1,
        })
    }

    /// Two inputs of one width, and a result of the same.
    fn pairwise<'r, 'a>(&self, site: Site<'r, 'a>, op: Op) -> Result<Step<'r, 'a>, ModelError> {
        let (a, width) = self.read(site, Field::A, Takes::Float)?;
        let (b, found) = self.read(site, Field::B, Takes::Float)?;
        if found != width {
            return Err(ModelError::ShapeMismatch {
                layer: site.index,
                op: site.op,
                value: site.text(Field::B)?.to_owned(),
                expected: width,
                found,
            });
        }
        Ok(Step {
            site,
            op,
            inputs: vec![a, b],
            dtype: ValueType::F32,
            width,
        })
    }

    /// The value that a field names, and its width.
    fn read(
        &self,
        site: Site<'_, '_>,
        field: Field,
        takes: Takes,
    ) -> Result<(ValueId, usize), ModelError> {
        let name = site.text(field)?;
        let Some(&id) = self.ids.get(name) else {
            let (layer, op) = (site.index, site.op);
            return Err(ModelError::UndefinedValue {
                layer,
                op,
                value: quote(name),
            });
        };
        // PANIC: an id is the place of a value that has been defined.
        let value = &self.values[id.index()];
        let expected = match (takes, value.dtype) {
            (_, ValueType::F32) | (Takes::ByteOrFloat, ValueType::U8) => {
                return Ok((id, value.width));
            }
            (Takes::Float, _) => "f32",
            (Takes::ByteOrFloat, _) => "u8 or f32",
        };
        Err(ModelError::DTypeMismatch {
            layer: site.index,
            op: site.op,
            value: name.to_owned(),
            expected,
            found: value.dtype,
        })
    }

    /// The weight that a field names; a weight that several layers use has one id.
    fn weight(&mut self, site: Site<'_, '_>, field: Field) -> Result<WeightId, ModelError> {
        let name = site.text(field)?;
        if let Some(&id) = self.weight_ids.get(name) {
            return Ok(id);
        }
        let (layer, op) = (site.index, site.op);
        let Some(tensor) = self.file.tensor(name) else {
            return Err(ModelError::MissingWeight {
                layer,
                op,
                weight: quote(name),
            });
        };
        let weight = name.to_owned();
        if tensor.dtype() != Dtype::F32 {
            let found = tensor.dtype().to_string();
            return Err(ModelError::WeightValueType {
                layer,
                op,
                weight,
                found,
            });
        }
        if tensor.shape().is_empty() || tensor.shape().contains(&0) {
            let shape = tensor.shape().to_vec();
            return Err(ModelError::EmptyShape {
                tensor: weight,
                shape,
            });
        }
        let id = WeightId::from_index(self.weights.len());
        self.weight_ids.insert(weight.clone(), id);
        self.weights.push((weight, tensor));
        Ok(id)
    }

    fn shape(&self, id: WeightId) -> &[usize] {
        // PANIC: an id is the place of a weight that has been found.
        self.weights[id.index()].1.shape()
    }

    fn wrong_shape(&self, site: Site<'_, '_>, id: WeightId, expected: String) -> ModelError {
        // PANIC: as in `shape`.
        let (name, tensor) = &self.weights[id.index()];
        ModelError::WeightShape {
            layer: site.index,
            op: site.op,
            weight: name.clone(),
            expected,
            found: tensor.shape().to_vec(),
        }
    }

    /// The values of the outputs; `inputs` is the number of values that no layer has computed.
    pub(crate) fn outputs(
        &self,
        inputs: usize,
        outputs: &[TensorSpec],
    ) -> Result<Vec<ValueId>, ModelError> {
        if outputs.is_empty() {
            return Err(ModelError::NoOutputs);
        }
        let mut seen = HashSet::new();
        let mut ids = Vec::with_capacity(outputs.len());
        for (index, output) in outputs.iter().enumerate() {
            let produced = self.ids.get(&output.name).filter(|id| inputs <= id.index());
            let Some(&id) = produced else {
                return Err(ModelError::OutputNotProduced {
                    output: output.name.clone(),
                });
            };
            if !seen.insert(id.index()) {
                let place = format!("output {index}");
                return Err(ModelError::DuplicateValue {
                    place,
                    value: output.name.clone(),
                });
            }
            // PANIC: an id is the place of a value that has been defined.
            let value = &self.values[id.index()];
            if (output.dtype, output.elements) != (value.dtype, value.width) {
                return Err(ModelError::OutputMismatch {
                    output: output.name.clone(),
                    declared: output.dtype,
                    declared_elements: output.elements,
                    computed: value.dtype,
                    computed_elements: value.width,
                });
            }
            ids.push(id);
        }
        Ok(ids)
    }
}

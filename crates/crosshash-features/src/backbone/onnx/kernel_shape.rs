//! Completes ONNX files for `rten`: a `Conv` node may leave out its attribute `kernel_shape`, which
//! then is the shape of its weights, but `rten` needs it.
//!
//! Works on the wire format of protocol buffers (fields of `onnx.proto3`), and copies everything else
//! as it is. Files that cannot be parsed are left to the runtime, which reports the error.

use std::collections::HashMap;

const GRAPH: u64 = 7; // of ModelProto
const NODE: u64 = 1; // of GraphProto
const INITIALIZER: u64 = 5;
const INPUT: u64 = 1; // of NodeProto
const OPERATOR: u64 = 4;
const ATTRIBUTE: u64 = 5;
const DIMS: u64 = 1; // of TensorProto
const TENSOR_NAME: u64 = 8;
const DATA_LOCATION: u64 = 14;
const EXTERNAL: u64 = 1; // TensorProto.DataLocation
const ATTRIBUTE_NAME: u64 = 1; // of AttributeProto
const ATTRIBUTE_INTS: u64 = 8;
const ATTRIBUTE_TYPE: u64 = 20;
const INTS: u64 = 7; // AttributeProto.AttributeType
const KERNEL_SHAPE: &[u8] = b"kernel_shape";

/// A field of a message: its number, its content (of length-delimited fields) or value, and all its bytes.
struct Field<'a> {
    number: u64,
    content: &'a [u8],
    value: u64,
    bytes: &'a [u8],
}

/// The file with all kernel shapes; `None` if nothing is missing.
pub(super) fn completed(file: &[u8]) -> Option<Vec<u8>> {
    let model = fields(file)?;
    let graph = fields(model.iter().find(|field| field.number == GRAPH)?.content)?;
    let mut shapes: HashMap<&[u8], Vec<u64>> = HashMap::new();
    for tensor in graph.iter().filter(|field| field.number == INITIALIZER) {
        let (name, dims) = shape(tensor.content)?;
        shapes.insert(name, dims);
    }
    let mut changed = false;
    let mut new = Vec::with_capacity(file.len() + 1024);
    for field in &graph {
        let kernel =
            if field.number == NODE { missing(field.content, &shapes) } else { None };
        match kernel {
            None => new.extend_from_slice(field.bytes),
            Some(kernel) => {
                changed = true;
                let node = [field.content, &attribute(&kernel)[..]].concat();
                put(NODE, &node, &mut new);
            }
        }
    }
    if !changed {
        return None;
    }
    let mut out = Vec::with_capacity(new.len() + 1024);
    for field in &model {
        if field.number == GRAPH {
            put(GRAPH, &new, &mut out);
        } else {
            out.extend_from_slice(field.bytes);
        }
    }
    Some(out)
}

/// Whether weights are in other files, or the file cannot be parsed.
pub(super) fn needs_other_files(file: &[u8]) -> bool {
    let is_external = |tensor: &Field<'_>| {
        let fields = fields(tensor.content)?;
        Some(fields.iter().any(|f| f.number == DATA_LOCATION && f.value == EXTERNAL))
    };
    let any = || -> Option<bool> {
        let model = fields(file)?;
        let graph = fields(model.iter().find(|field| field.number == GRAPH)?.content)?;
        let mut tensors = graph.iter().filter(|field| field.number == INITIALIZER);
        Some(tensors.any(|tensor| is_external(tensor).unwrap_or(true)))
    };
    any().unwrap_or(true)
}

/// The kernel shape that a node lacks, if it is a convolution with constant weights.
fn missing(node: &[u8], shapes: &HashMap<&[u8], Vec<u64>>) -> Option<Vec<u64>> {
    let node = fields(node)?;
    let is_conv = |field: &Field<'_>| {
        field.number == OPERATOR
            && [&b"Conv"[..], b"ConvTranspose"].contains(&field.content)
    };
    if !node.iter().any(is_conv) {
        return None;
    }
    for attribute in node.iter().filter(|field| field.number == ATTRIBUTE) {
        let named = |field: &Field<'_>| {
            field.number == ATTRIBUTE_NAME && field.content == KERNEL_SHAPE
        };
        if fields(attribute.content)?.iter().any(named) {
            return None;
        }
    }
    let weights = node.iter().filter(|field| field.number == INPUT).nth(1)?;
    shapes.get(weights.content)?.get(2..).map(<[u64]>::to_vec)
}

/// The name and the sizes of a tensor.
fn shape(tensor: &[u8]) -> Option<(&[u8], Vec<u64>)> {
    let (mut name, mut dims) = (&[][..], Vec::new());
    for field in fields(tensor)? {
        match field.number {
            TENSOR_NAME => name = field.content,
            DIMS if field.content.is_empty() => dims.push(field.value),
            DIMS => {
                let mut rest = field.content;
                while !rest.is_empty() {
                    dims.push(varint(&mut rest)?);
                }
            }
            _ => {}
        }
    }
    Some((name, dims))
}

/// The attribute `kernel_shape` as a field of a node.
fn attribute(kernel: &[u64]) -> Vec<u8> {
    let mut content = Vec::new();
    put(ATTRIBUTE_NAME, KERNEL_SHAPE, &mut content);
    for &size in kernel {
        put_varint(ATTRIBUTE_INTS << 3, &mut content);
        put_varint(size, &mut content);
    }
    put_varint(ATTRIBUTE_TYPE << 3, &mut content);
    put_varint(INTS, &mut content);
    let mut field = Vec::new();
    put(ATTRIBUTE, &content, &mut field);
    field
}

/// The fields of a message; `None` if it is not one.
fn fields(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let (mut rest, mut all) = (message, Vec::new());
    while !rest.is_empty() {
        let start = rest;
        let key = varint(&mut rest)?;
        let (mut content, mut value) = (&[][..], 0);
        match key & 7 {
            0 => value = varint(&mut rest)?,
            1 => rest = rest.get(8..)?,
            2 => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                (content, rest) = rest.split_at_checked(length)?;
            }
            5 => rest = rest.get(4..)?,
            _ => return None,
        }
        let bytes = &start[..start.len() - rest.len()];
        all.push(Field { number: key >> 3, content, value, bytes });
    }
    Some(all)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put(number: u64, content: &[u8], out: &mut Vec<u8>) {
    put_varint(number << 3 | 2, out);
    put_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7F) as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(with_shape: bool) -> Vec<u8> {
        file_with(with_shape, false)
    }

    fn file_with(with_shape: bool, is_external: bool) -> Vec<u8> {
        let mut node = Vec::new();
        put(INPUT, b"x", &mut node);
        put(INPUT, b"w", &mut node);
        put(OPERATOR, b"Conv", &mut node);
        if with_shape {
            node.extend(attribute(&[3, 5]));
        }
        let mut tensor = Vec::new();
        for size in [300, 4, 3, 5] {
            put_varint(DIMS << 3, &mut tensor);
            put_varint(size, &mut tensor);
        }
        put(TENSOR_NAME, b"w", &mut tensor);
        if is_external {
            put_varint(DATA_LOCATION << 3, &mut tensor);
            put_varint(EXTERNAL, &mut tensor);
        }
        let (mut graph, mut model) = (Vec::new(), Vec::new());
        put(NODE, &node, &mut graph);
        put(INITIALIZER, &tensor, &mut graph);
        put(GRAPH, &graph, &mut model);
        model
    }

    #[test]
    fn convolutions_get_the_shape_of_their_weights() {
        assert_eq!(completed(&file(false)), Some(file(true)));
        assert_eq!(completed(&file(true)), None);
    }

    #[test]
    fn weights_in_other_files_are_found() {
        assert!(!needs_other_files(&file_with(true, false)));
        assert!(needs_other_files(&file_with(true, true)));
        assert!(needs_other_files(&[0xFF; 40]), "the runtime reports what is wrong");
    }

    #[test]
    fn damaged_files_are_left_alone() {
        let bytes = file(false);
        for cut in 0..bytes.len() {
            assert_eq!(completed(&bytes[..cut]), None);
        }
        assert_eq!(completed(&[0xFF; 40]), None);
    }
}

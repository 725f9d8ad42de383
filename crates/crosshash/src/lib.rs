//! Learning side of crosshash: data, supervision, towers, losses, methods, training, encoding.

pub mod supervise;

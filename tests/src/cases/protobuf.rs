//! Protobuf bodies: what Go clients send for built-in kinds, and malformed bytes.
//!
//! Fields have their names from the `.proto` files here: see [`crate::protobuf`].

mod envelope;
mod objects;
mod requests;

use http::Method;
use serde_json::Value;

pub(super) use self::envelope::*;
pub(super) use self::objects::*;
pub(super) use self::requests::*;
use crate::Script;
use crate::request::Request;

/// A time that the normaliser keeps: the first second of 2001.
const SECONDS_2001: i64 = 978_307_200;

fn post(path: impl Into<String>, object: Value) -> Request {
    Request::new(Method::POST, path).protobuf(object)
}

fn put(path: impl Into<String>, object: Value) -> Request {
    Request::new(Method::PUT, path).protobuf(object)
}

fn in_group(t: &Script, group: &str, plural: &str) -> String {
    format!("/apis/{group}/namespaces/{}/{plural}", t.ns())
}

fn in_core(t: &Script, plural: &str) -> String {
    format!("/api/v1/namespaces/{}/{plural}", t.ns())
}

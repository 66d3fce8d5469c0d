//! Chooses the representation of an answer from the `Accept` header: objects as JSON or protobuf,
//! whole or metadata only; tables as JSON; discovery in two forms.

use crate::failure::Failure;
use crate::object::Form;
use crate::protobuf;
use crate::table::{Include, TableForm, TableVersion};

/// One media type of an `Accept` header, with the parameters that this server reads.
#[derive(Debug, Default, PartialEq)]
struct Media<'a> {
    name: &'a str,
    as_kind: &'a str,
    group: &'a str,
    version: &'a str,
}

/// Returns the form of objects and lists. Without an `Accept` header (`kube` sends none) it is
/// JSON.
///
/// `list` says whether the answer is a list or a watch.
pub(crate) fn object_form(
    accept: Option<&str>,
    builtin: bool,
    list: bool,
) -> Result<Form, Failure> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return Ok(Form::Full);
    };
    let mut refusal = Refusal::Unknown;
    for media in accept.split(',').map(Media::parse) {
        match media.name {
            "application/json" | "*/*" => match media.metadata() {
                None if let Some(version) = media.table() => {
                    return Ok(Form::Table(TableForm { version, include: Include::default() }));
                }
                None if media.as_kind.is_empty() => return Ok(Form::Full),
                Some(metadata) if metadata.of_list == list => return Ok(Form::Metadata),
                Some(metadata) if metadata.of_list => {
                    let why = "a single object cannot be shown as PartialObjectMetadataList";
                    return Err(Failure::internal(why));
                }
                None | Some(_) => refusal = Refusal::Form,
            },
            protobuf::MEDIA_TYPE if protobuf_only(Some(accept)).is_some() => {
                match media.metadata() {
                    None if media.as_kind.is_empty() && builtin => return Ok(Form::Full),
                    Some(metadata) if metadata.of_list == list => return Ok(Form::Metadata),
                    None | Some(_) => refusal = Refusal::Form,
                }
            }
            "application/yaml" | protobuf::MEDIA_TYPE | "application/cbor" => {
                refusal = Refusal::Unsupported;
            }
            _ => {}
        }
    }
    Err(match refusal {
        Refusal::Unsupported => Failure::only_json(),
        Refusal::Unknown if builtin => Failure::not_acceptable(list),
        Refusal::Unknown | Refusal::Form => Failure::only_media_types(),
    })
}

/// Which responses are encoded as protobuf, for a client that does not accept JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProtobufOnly {
    /// All responses whose type has a protobuf message.
    Everything,
    /// Only responses of the type that the header names, as in `as=PartialObjectMetadata`. Errors
    /// are JSON.
    Named,
}

/// Returns which responses the client needs in protobuf, or `None` if it accepts JSON. A client
/// that accepts both gets JSON, because objects are stored as JSON.
pub(crate) fn protobuf_only(accept: Option<&str>) -> Option<ProtobufOnly> {
    let mut found = None;
    for media in accept.unwrap_or_default().split(',').map(Media::parse) {
        match media.name {
            protobuf::MEDIA_TYPE if media.as_kind.is_empty() => {
                found = Some(ProtobufOnly::Everything);
            }
            protobuf::MEDIA_TYPE => found = found.or(Some(ProtobufOnly::Named)),
            "" | "application/json" | "application/*" | "*/*" => return None,
            _ => {}
        }
    }
    found
}

/// Why no media type of the header can be served.
enum Refusal {
    /// No API server has this media type.
    Unknown,
    /// The media type is JSON, but no API server knows the form that its parameters name.
    Form,
    /// A real server has this media type; this server does not.
    Unsupported,
}

/// A request for metadata only: of one object, or of a list.
struct Metadata {
    of_list: bool,
}

/// Checks that the client accepts JSON: discovery has no other encoding here.
pub(crate) fn check_discovery(accept: Option<&str>) -> Result<(), Failure> {
    let accept = accept.unwrap_or_default();
    let json = |media: Media<'_>| matches!(media.name, "" | "application/json" | "*/*");
    if accept.split(',').map(Media::parse).any(json) {
        return Ok(());
    }
    object_form(Some(accept), true, false).map(drop)
}

/// Returns whether the client wants discovery in one document.
pub(crate) fn wants_aggregated_discovery(accept: Option<&str>) -> bool {
    let medias = accept.unwrap_or_default().split(',').map(Media::parse);
    let mut json = medias.filter(|media| media.name == "application/json");
    json.next().is_some_and(|media| {
        media.as_kind == "APIGroupDiscoveryList"
            && media.group == "apidiscovery.k8s.io"
            && media.version == "v2"
    })
}

impl<'a> Media<'a> {
    fn metadata(&self) -> Option<Metadata> {
        let of_list = match self.as_kind {
            "PartialObjectMetadata" => false,
            "PartialObjectMetadataList" => true,
            _ => return None,
        };
        (self.group == "meta.k8s.io" && self.version == "v1").then_some(Metadata { of_list })
    }

    fn table(&self) -> Option<TableVersion> {
        let is_table = self.as_kind == "Table" && self.group == "meta.k8s.io";
        TableVersion::of(self.version).filter(|_| is_table)
    }

    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let mut media = Media { name: parts.next().unwrap_or_default(), ..Media::default() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name {
                "as" => media.as_kind = value,
                "g" => media.group = value,
                "v" => media.version = value,
                _ => {}
            }
        }
        media
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> Result<Form, Failure> {
        object_form(Some(accept), true, false)
    }

    #[test]
    fn first_supported_media_type_wins() {
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(form(metadata), Ok(Form::Metadata));
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Full));
        assert_eq!(object_form(None, true, true), Ok(Form::Full));
    }

    #[cfg(feature = "kubectl")]
    #[test]
    fn first_supported_table_version_wins() {
        let table = |version| Ok(Form::Table(TableForm { version, include: Include::Metadata }));
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl), table(TableVersion::V1));
        let old = "application/json;as=Table;v=v2;g=meta.k8s.io,\
                   application/json;as=Table;v=v1beta1;g=meta.k8s.io";
        assert_eq!(form(old), table(TableVersion::V1Beta1));
    }

    #[test]
    fn protobuf_is_only_for_clients_that_do_not_accept_json() {
        let alone = |accept: &str| protobuf_only(Some(accept));
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(alone(protobuf), Some(ProtobufOnly::Everything));
        assert_eq!(alone(&format!("{protobuf};as=Table")), Some(ProtobufOnly::Named));
        assert_eq!(
            alone(&format!("{protobuf};as=Table,{protobuf}")),
            Some(ProtobufOnly::Everything)
        );
        assert_eq!(alone(&format!("{protobuf},application/json;q=0.5")), None);
        assert_eq!(alone(&format!("{protobuf}, */*")), None);
        assert_eq!(protobuf_only(None), None);
        assert_eq!(form(protobuf), Ok(Form::Full));
        assert_eq!(object_form(Some(protobuf), false, false), Err(Failure::only_media_types()));
    }

    #[test]
    fn unsupported_media_types_are_refused() {
        assert_eq!(form("image/png"), Err(Failure::not_acceptable(false)));
        let table = "application/json;as=Table;v=v2;g=meta.k8s.io";
        assert_eq!(form(table), Err(Failure::only_media_types()));
    }
}

//! Which representation an `Accept` header asks for, of those that this server has: JSON, whole or metadata
//! only, and two forms of discovery.

use crate::failure::Failure;
use crate::object::Form;

/// The parameters of one media type that matter here.
#[derive(Debug, Default, PartialEq)]
struct Media<'a> {
    name: &'a str,
    as_kind: &'a str,
    group: &'a str,
    version: &'a str,
}

/// The form for objects and lists. No header, as `kube` sends none, means JSON.
pub(crate) fn object_form(accept: Option<&str>) -> Result<Form, Failure> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty()) else {
        return Ok(Form::Full);
    };
    let mut known_but_missing = false;
    for media in accept.split(',').map(Media::parse) {
        match media.name {
            "application/json" | "application/*" | "*/*" => match (media.as_kind, media.group) {
                ("", _) => return Ok(Form::Full),
                ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io")
                    if media.version == "v1" =>
                {
                    return Ok(Form::Metadata);
                }
                _ => known_but_missing = true,
            },
            "application/yaml" | "application/vnd.kubernetes.protobuf" | "application/cbor" => {
                known_but_missing = true;
            }
            _ => {}
        }
    }
    Err(if known_but_missing { Failure::only_json() } else { Failure::not_acceptable() })
}

/// Whether discovery should come in one document.
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

    #[test]
    fn the_first_form_that_we_have_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(object_form(Some(kubectl)), Ok(Form::Full));
        let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(object_form(Some(metadata)), Ok(Form::Metadata));
        let go = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(object_form(Some(go)), Ok(Form::Full));
        assert_eq!(object_form(None), Ok(Form::Full));
    }

    #[test]
    fn what_we_do_not_have_is_refused() {
        assert_eq!(object_form(Some("image/png")), Err(Failure::not_acceptable()));
        assert_eq!(
            object_form(Some("application/vnd.kubernetes.protobuf")),
            Err(Failure::only_json())
        );
    }
}

//! Columns of the built-in kinds, and cells of kinds other than pods and workloads.

use serde_json::{Value, json};

use super::objects::{core, object};
use super::{table, with_fields};
use crate::Script;
use crate::fixtures::{CRDS, lease, with};
use crate::request::Request;

const APPS: &str = "/apis/apps/v1";
const BATCH: &str = "/apis/batch/v1";
const NETWORKING: &str = "/apis/networking.k8s.io/v1";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

const LONG_AGO: &str = "2001-01-01T00:00:00Z";

impl Script {
    /// Records the columns of kinds, with all fields.
    async fn columns(&mut self, group: &str, plurals: &[&str]) {
        for plural in plurals {
            let path = format!("{group}/{plural}?limit=1");
            self.pick(table(path), &["/columnDefinitions"]).await;
        }
    }
}

pub(in crate::cases) async fn columns_of_the_core_group(t: &mut Script) {
    let kinds = [
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "serviceaccounts",
        "services",
    ];
    t.columns("/api/v1", &kinds).await;
}

pub(in crate::cases) async fn columns_of_workloads(t: &mut Script) {
    let apps = ["controllerrevisions", "daemonsets", "deployments", "replicasets", "statefulsets"];
    t.columns(APPS, &apps).await;
    t.columns(BATCH, &["cronjobs", "jobs"]).await;
    t.columns("/apis/autoscaling/v2", &["horizontalpodautoscalers"]).await;
    t.columns("/apis/policy/v1", &["poddisruptionbudgets"]).await;
}

pub(in crate::cases) async fn columns_of_the_other_groups(t: &mut Script) {
    t.columns("/apis/events.k8s.io/v1", &["events"]).await;
    t.columns(NETWORKING, &["ingressclasses", "ingresses", "networkpolicies"]).await;
    let rbac = ["clusterrolebindings", "clusterroles", "rolebindings", "roles"];
    t.columns(RBAC, &rbac).await;
    t.columns("/apis/storage.k8s.io/v1", &["storageclasses"]).await;
    t.columns("/apis/apiextensions.k8s.io/v1", &["customresourcedefinitions"]).await;
    t.columns("/apis/scheduling.k8s.io/v1", &["priorityclasses"]).await;
    t.columns("/apis/coordination.k8s.io/v1", &["leases"]).await;
    t.columns("/apis/node.k8s.io/v1", &["runtimeclasses"]).await;
    t.columns("/apis/discovery.k8s.io/v1", &["endpointslices"]).await;
}

pub(in crate::cases) async fn services_in_a_table(t: &mut Script) {
    let services = t.collection("/api/v1", "services");
    let service = |name: &str, spec: Value| core("Service", name, json!({ "spec": spec }));
    let ports = json!([
        {"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"},
    ]);
    let selector = json!({"b": "2", "a": "1"});
    let headless = json!({"clusterIP": "None", "ports": ports, "selector": selector});
    t.given(&services, service("a", headless)).await;
    t.given(&services, service("b", json!({"clusterIP": "None"}))).await;
    let named = json!({"type": "ExternalName", "externalName": "example.dev"});
    t.given(&services, service("c", named)).await;
    let external = json!({
        "clusterIP": "None", "ports": ports, "externalIPs": ["192.0.2.1", "192.0.2.2"],
    });
    t.given(&services, service("d", external)).await;
    t.rows(services).await;
}

/// The address that the server assigns to a service is not recorded.
pub(in crate::cases) async fn services_with_an_address_in_a_table(t: &mut Script) {
    let services = t.collection("/api/v1", "services");
    let service = |name: &str, spec: Value| core("Service", name, json!({ "spec": spec }));
    let port = json!([{"port": 80, "nodePort": 30123}]);
    t.given(&services, service("a", json!({"type": "NodePort", "ports": port}))).await;
    let balanced = |external: Value| {
        json!({
            "type": "LoadBalancer",
            "ports": [{"port": 80}],
            "allocateLoadBalancerNodePorts": false,
            "externalIPs": external,
        })
    };
    let status = json!({"loadBalancer": {"ingress": [
        {"ip": "192.0.2.9"}, {"hostname": "lb.example.dev"}, {"ip": "192.0.2.10"},
    ]}});
    t.given(&services, service("b", balanced(json!([])))).await;
    t.given_with(&services, service("c", balanced(json!([]))), status.clone()).await;
    t.given_with(&services, service("d", balanced(json!(["192.0.2.1"]))), status).await;
    t.given(&services, service("e", balanced(json!(["192.0.2.1"])))).await;
    let answer = t.look(table(&services)).await;
    let rows = answer.at("/rows");
    for row in rows.as_array().into_iter().flatten() {
        let shown: Value =
            [0, 1, 3, 4, 6].iter().map(|index| row["cells"][index].clone()).collect();
        t.note("service", &shown);
    }
}

pub(in crate::cases) async fn endpoints_and_slices_in_a_table(t: &mut Script) {
    let all = t.collection("/api/v1", "endpoints");
    let endpoints =
        |name: &str, subsets: Value| core("Endpoints", name, json!({ "subsets": subsets }));
    let ips = |ips: &[&str]| ips.iter().map(|ip| json!({ "ip": ip })).collect::<Value>();
    let two = json!([{"name": "a", "port": 80}, {"name": "b", "port": 443}]);
    let subset = |addresses: Value, ports: &Value| json!({"addresses": addresses, "ports": ports});
    let one = json!([{"port": 80}]);
    t.given(&all, endpoints("a", json!([]))).await;
    t.given(&all, endpoints("b", json!([subset(ips(&["10.1.0.1", "10.1.0.2"]), &one)]))).await;
    let many = ips(&["10.1.0.1", "10.1.0.2", "fd00::1"]);
    t.given(&all, endpoints("c", json!([subset(many.clone(), &two)]))).await;
    t.given(&all, endpoints("d", json!([{"addresses": many}]))).await;
    t.given(&all, endpoints("e", json!([subset(ips(&["fd00::1"]), &one)]))).await;
    let unready = json!([{"notReadyAddresses": [{"ip": "10.1.0.1"}], "ports": one}]);
    t.given(&all, endpoints("f", unready)).await;
    t.rows(all).await;
    let slices = t.collection("/apis/discovery.k8s.io/v1", "endpointslices");
    let slice = |name: &str, ports: Value, endpoints: Value| {
        let content = json!({"addressType": "IPv4", "ports": ports, "endpoints": endpoints});
        object("discovery.k8s.io/v1", "EndpointSlice", name, content)
    };
    let at = |last: u8| json!({"addresses": [format!("10.1.0.{last}")]});
    let ports = json!([
        {"name": "a", "port": 80}, {"name": "b", "port": 81}, {"name": "c", "port": 82},
        {"name": "d", "port": 83}, {"name": "e", "port": 84},
    ]);
    t.given(&slices, slice("a", json!([]), json!([]))).await;
    t.given(&slices, slice("b", json!([{"name": "a"}, {"name": "", "port": 1}]), json!([at(1)])))
        .await;
    t.given(&slices, slice("c", ports, json!([at(1), at(2), at(3), at(4)]))).await;
    t.rows(slices).await;
}

pub(in crate::cases) async fn ingresses_and_network_policies_in_a_table(t: &mut Script) {
    let ingresses = t.collection(NETWORKING, "ingresses");
    let backend = json!({"service": {"name": "a", "port": {"number": 80}}});
    let ingress = |name: &str, more: Value| {
        let spec = with_fields(json!({ "defaultBackend": backend }), more);
        object("networking.k8s.io/v1", "Ingress", name, json!({ "spec": spec }))
    };
    let hosts =
        |hosts: &[&str]| hosts.iter().map(|host| json!({ "host": host })).collect::<Value>();
    t.given(&ingresses, ingress("a", json!({}))).await;
    let rich = json!({
        "ingressClassName": "fast",
        "rules": hosts(&["a.example.dev", "b.example.dev"]),
        "tls": [{"hosts": ["a.example.dev"]}],
    });
    let status = json!({"loadBalancer": {"ingress": [
        {"hostname": "lb.example.dev"}, {"ip": "192.0.2.1"},
    ]}});
    t.given_with(&ingresses, ingress("b", rich), status).await;
    let many = json!({"rules": hosts(&["a.dev", "b.dev", "c.dev", "d.dev", "e.dev"])});
    t.given(&ingresses, ingress("c", many)).await;
    t.rows(ingresses).await;
    let policies = t.collection(NETWORKING, "networkpolicies");
    let policy = |name: &str, selector: Value| {
        let content = json!({"spec": {"podSelector": selector}});
        object("networking.k8s.io/v1", "NetworkPolicy", name, content)
    };
    t.given(&policies, policy("a", json!({}))).await;
    let some = json!({
        "matchLabels": {"b": "2"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}],
    });
    t.given(&policies, policy("b", some)).await;
    t.rows(policies).await;
}

pub(in crate::cases) async fn nodes_in_a_table(t: &mut Script) {
    let nodes = "/api/v1/nodes";
    let info = json!({
        "kubeletVersion": "v1.36.3", "osImage": "Linux", "kernelVersion": "6.1",
        "containerRuntimeVersion": "containerd://2.0", "architecture": "amd64",
        "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "",
        "operatingSystem": "linux",
    });
    let addresses = json!([
        {"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.1"},
        {"type": "ExternalIP", "address": "192.0.2.1"},
        {"type": "InternalIP", "address": "10.0.0.2"},
    ]);
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    let roles = json!({
        "node-role.kubernetes.io/worker": "",
        "node-role.kubernetes.io/control-plane": "",
        "kubernetes.io/role": "extra",
    });
    let full = json!({"nodeInfo": info, "addresses": addresses, "conditions": ready("True")});
    for (name, labels, spec, status) in [
        ("a", json!({}), json!({}), Value::Null),
        ("b", roles, json!({}), full),
        ("c", json!({}), json!({"unschedulable": true}), json!({"conditions": ready("False")})),
        ("d", json!({}), json!({}), json!({"conditions": ready("Unknown")})),
    ] {
        let name = t.own_name(name);
        let node = with(core("Node", &name, json!({ "spec": spec })), "/metadata/labels", labels);
        t.given_with(nodes, node, status).await;
        t.rows(format!("{nodes}/{name}")).await;
        t.look(Request::delete(format!("{nodes}/{name}"))).await;
    }
}

pub(in crate::cases) async fn namespaces_and_leases_in_a_table(t: &mut Script) {
    t.rows(format!("/api/v1/namespaces/{}", t.ns())).await;
    let leases = t.leases();
    t.given(&leases, lease("a")).await;
    t.given(&leases, object("coordination.k8s.io/v1", "Lease", "b", json!({}))).await;
    t.rows(leases).await;
}

pub(in crate::cases) async fn classes_in_a_table(t: &mut Script) {
    let storage =
        |content: Value| ("/apis/storage.k8s.io/v1", "StorageClass", "storageclasses", content);
    let ingress =
        |content: Value| (NETWORKING, "IngressClass", "ingressclasses", json!({ "spec": content }));
    let classes = [
        storage(json!({"provisioner": "example.dev/p"})),
        storage(json!({
            "provisioner": "example.dev/p",
            "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": true,
        })),
        ("/apis/scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", json!({"value": -7})),
        (
            "/apis/scheduling.k8s.io/v1",
            "PriorityClass",
            "priorityclasses",
            json!({"value": 7, "preemptionPolicy": "Never"}),
        ),
        ("/apis/node.k8s.io/v1", "RuntimeClass", "runtimeclasses", json!({"handler": "fast"})),
        ingress(json!({"controller": "example.dev/c"})),
        ingress(json!({
            "controller": "example.dev/c",
            "parameters": {"apiGroup": "example.dev", "kind": "P", "name": "p"},
        })),
        ingress(json!({"controller": "example.dev/c", "parameters": {"kind": "P", "name": "p"}})),
    ];
    for (index, (group, kind, plural, content)) in classes.into_iter().enumerate() {
        let name = t.own_name(&index.to_string());
        let api_version = group.trim_start_matches("/apis/");
        let class = object(api_version, kind, &name, content);
        t.given(format!("{group}/{plural}"), class).await;
        t.rows(format!("{group}/{plural}/{name}")).await;
        t.look(Request::delete(format!("{group}/{plural}/{name}"))).await;
    }
}

pub(in crate::cases) async fn claims_and_volumes_in_a_table(t: &mut Script) {
    let claims = t.collection("/api/v1", "persistentvolumeclaims");
    let claim = |name: &str, more: Value| {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        });
        core("PersistentVolumeClaim", name, json!({"spec": with_fields(spec, more)}))
    };
    let class = json!({"storageClassName": "fast", "volumeMode": "Block"});
    t.given(&claims, claim("a", class)).await;
    let status = json!({
        "phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
        "capacity": {"storage": "2Gi"},
    });
    let volume = json!({"volumeName": "v", "storageClassName": ""});
    t.given_with(&claims, claim("b", volume), status).await;
    t.rows(&claims).await;
    let volumes = "/api/v1/persistentvolumes";
    let name = t.own_name("a");
    let spec = json!({
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadOnlyMany", "ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        "storageClassName": "fast",
        "claimRef": {"namespace": t.ns(), "name": "b"},
    });
    let status = json!({"phase": "Failed", "reason": "Broken"});
    let volume = core("PersistentVolume", &name, json!({ "spec": spec }));
    t.given_with(volumes, volume, status).await;
    t.rows(format!("{volumes}/{name}")).await;
    t.look(Request::delete(format!("{volumes}/{name}"))).await;
}

pub(in crate::cases) async fn configuration_in_a_table(t: &mut Script) {
    let both = json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "AA=="}});
    t.given(t.configmaps(), core("ConfigMap", "a", both)).await;
    t.given(t.configmaps(), core("ConfigMap", "b", json!({}))).await;
    t.rows(t.configmaps()).await;
    let secrets = t.collection("/api/v1", "secrets");
    t.given(&secrets, core("Secret", "a", json!({"data": {"a": "AA==", "b": "AA=="}}))).await;
    t.given(&secrets, core("Secret", "b", json!({"type": "example.dev/t"}))).await;
    t.rows(secrets).await;
    let accounts = t.collection("/api/v1", "serviceaccounts");
    t.given(&accounts, core("ServiceAccount", "a", json!({}))).await;
    t.rows(format!("{accounts}/a")).await;
}

pub(in crate::cases) async fn quotas_and_limits_in_a_table(t: &mut Script) {
    let quotas = t.collection("/api/v1", "resourcequotas");
    let hard = json!({
        "requests.cpu": "2", "limits.memory": "4Gi", "pods": "10", "limits.cpu": "3",
    });
    let quota = |name: &str| core("ResourceQuota", name, json!({"spec": {"hard": hard}}));
    t.given(&quotas, quota("a")).await;
    let status = json!({"hard": hard, "used": {"pods": "1", "limits.cpu": "500m"}});
    t.given_with(&quotas, quota("b"), status).await;
    t.rows(quotas).await;
    let limits = t.collection("/api/v1", "limitranges");
    let limit = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
    t.given(&limits, core("LimitRange", "a", limit)).await;
    t.rows(limits).await;
}

pub(in crate::cases) async fn roles_and_bindings_in_a_table(t: &mut Script) {
    let group = "rbac.authorization.k8s.io/v1";
    let roles = t.collection(RBAC, "roles");
    t.given(&roles, object(group, "Role", "a", json!({"rules": []}))).await;
    t.rows(roles).await;
    let bindings = t.collection(RBAC, "rolebindings");
    let api = "rbac.authorization.k8s.io";
    let binding = |kind: &str, name: &str, role: &str, subjects: Value| {
        let role = json!({"apiGroup": api, "kind": role, "name": "a"});
        object(group, kind, name, json!({"roleRef": role, "subjects": subjects}))
    };
    let subjects = json!([
        {"kind": "User", "name": "u", "apiGroup": api},
        {"kind": "Group", "name": "g", "apiGroup": api},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
        {"kind": "User", "name": "v", "apiGroup": api},
        {"kind": "ServiceAccount", "name": "t", "namespace": "n"},
    ]);
    t.given(&bindings, binding("RoleBinding", "a", "Role", json!([]))).await;
    t.given(&bindings, binding("RoleBinding", "b", "ClusterRole", subjects.clone())).await;
    t.rows(bindings).await;
    let name = t.own_name("a");
    let bindings = format!("{RBAC}/clusterrolebindings");
    t.given(&bindings, binding("ClusterRoleBinding", &name, "ClusterRole", subjects)).await;
    t.rows(format!("{bindings}/{name}")).await;
    t.look(Request::delete(format!("{bindings}/{name}"))).await;
}

pub(in crate::cases) async fn events_of_both_groups_in_a_table(t: &mut Script) {
    let events = t.collection("/api/v1", "events");
    let involved = json!({
        "kind": "Pod", "name": "p", "namespace": t.ns(), "fieldPath": "spec.containers{main}",
    });
    let old = json!({
        "involvedObject": involved,
        "type": "Warning",
        "reason": "BackOff",
        "message": " twice \n",
        "count": 4,
        "firstTimestamp": LONG_AGO,
        "lastTimestamp": LONG_AGO,
        "source": {"component": "kubelet", "host": "node-1"},
    });
    t.given(&events, core("Event", "a", old)).await;
    let bare = json!({"involvedObject": {"kind": "Namespace", "namespace": t.ns()}});
    t.given(&events, core("Event", "b", bare)).await;
    let new = t.collection("/apis/events.k8s.io/v1", "events");
    let event = |name: &str, series: Value| {
        let mut content = json!({
            "eventTime": "2001-01-01T00:00:00.000000Z",
            "reportingController": "example.dev/c",
            "reportingInstance": "c-1",
            "action": "Act",
            "reason": "Acted",
            "type": "Normal",
            "regarding": {"kind": "Pod", "name": "p", "namespace": t.ns()},
            "note": "new",
        });
        if !series.is_null() {
            content["series"] = series;
        }
        object("events.k8s.io/v1", "Event", name, content)
    };
    let (once, often) = (
        event("c", Value::Null),
        event("d", json!({"count": 9, "lastObservedTime": "2001-01-01T00:00:00.000000Z"})),
    );
    t.given(&new, once).await;
    t.given(&new, often).await;
    t.rows(events).await;
    t.rows(&new).await;
    t.whole_rows(table(format!("{new}?includeObject=Object&limit=1"))).await;
}

pub(in crate::cases) async fn definitions_in_a_table(t: &mut Script) {
    t.install_widgets().await;
    t.rows(format!("{CRDS}/widgets.conformance.windlass.dev")).await;
}

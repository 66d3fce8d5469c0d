//! The initial roles of the embedded server are those of the real one. `cargo xtask record roles`
//! records them.

use windlass_tests::roles;
use windlass_testserver::ControlPlane;

#[tokio::test]
#[ignore = "needs a real kube-apiserver: run `cargo xtask test --real`"]
async fn default_roles_are_those_of_the_real_server() {
    let cluster = ControlPlane::shared().await.expect("a control plane");
    let lines = roles::read_from(cluster.client().expect("a client")).await;
    let recorded = std::fs::read_to_string(roles::recording()).expect("a recording");
    let both = recorded.lines().zip(lines.lines());
    both.for_each(|(recorded, real)| assert_eq!(recorded, real));
    assert_eq!(recorded.lines().count(), lines.lines().count());
}

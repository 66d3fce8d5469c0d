//go:build tools

// Package etcd only names the command that `cargo xtask kube` builds, so that go.mod and go.sum
// cover everything it is made of.
package etcd

import _ "go.etcd.io/etcd/server/v3"

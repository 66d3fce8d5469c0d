//go:build tools

// Package controlplane only names the commands that `cargo xtask kube` builds, so that go.mod and
// go.sum cover everything they are made of.
package controlplane

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)

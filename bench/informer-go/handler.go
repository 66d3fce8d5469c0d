package main

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	stage "windlass.dev/bench/stage-go"
)

// handler counts pods until all are there, and then the changes that it was told to expect.
type handler struct {
	pods   int
	read   bool
	synced chan struct{}

	mu        sync.Mutex
	added     int
	touched   int
	latencies stage.Latencies
}

func newHandler(pods int, read bool) *handler {
	return &handler{pods: pods, read: read, synced: make(chan struct{})}
}

func (h *handler) funcs() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.onAdd(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { h.onUpdate(obj.(*corev1.Pod)) },
	}
}

// expect makes the handler count count pods that are stamped after since.
func (h *handler) expect(count int, since int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latencies.Expect(count, since)
}

func (h *handler) onAdd(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look(pod)
	if h.added++; h.added == h.pods {
		close(h.synced)
	}
}

func (h *handler) onUpdate(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.look(pod)
	h.latencies.Changed(pod.Labels[stage.Stamp])
}

// look reads a few fields of the typed pod, as a handler does that wants more than to know of it.
func (h *handler) look(pod *corev1.Pod) {
	if h.read {
		h.touched += len(pod.Spec.NodeName) + len(pod.Spec.Containers) + len(pod.Status.PodIP)
	}
}

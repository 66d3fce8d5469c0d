package main

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// stamp is the label with the time at which a change was sent, in nanoseconds since 1970.
const stamp = "bench.windlass.dev/sent"

// handler counts pods until all are there, and then the changes that it was told to expect.
type handler struct {
	pods   int
	read   bool
	synced chan struct{}

	mu      sync.Mutex
	added   int
	touched int
	// expected is how many changes are still to come that were stamped after since.
	expected  int
	since     int64
	latencies []time.Duration
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
	h.expected, h.since, h.latencies = count, since, make([]time.Duration, 0, count)
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
	if h.expected == 0 {
		return
	}
	sent, err := strconv.ParseInt(pod.Labels[stamp], 10, 64)
	if err != nil || sent <= h.since {
		return
	}
	h.latencies = append(h.latencies, time.Since(time.Unix(0, sent)))
	if h.expected--; h.expected == 0 {
		slices.Sort(h.latencies)
		fmt.Printf("seen %.1f %.1f\n", percentile(h.latencies, 50), percentile(h.latencies, 99))
	}
}

// look reads a few fields of the typed pod, as a handler does that wants more than to know of it.
func (h *handler) look(pod *corev1.Pod) {
	if h.read {
		h.touched += len(pod.Spec.NodeName) + len(pod.Spec.Containers) + len(pod.Status.PodIP)
	}
}

func percentile(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100].Nanoseconds()) / 1e3
}

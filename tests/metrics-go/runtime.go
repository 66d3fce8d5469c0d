package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// patience is how long everything may take on a slow machine.
const patience = 2 * time.Minute

// reconciler does what the name of an object demands, and reports the objects that it has seen.
type reconciler struct {
	seen chan string
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	select {
	case r.seen <- request.Name:
	case <-ctx.Done():
	}
	switch request.Name {
	case "fails":
		return ctrl.Result{}, errors.New("as its name says")
	case "terminal":
		return ctrl.Result{}, reconcile.TerminalError(errors.New("as its name says"))
	case "requeues":
		return ctrl.Result{RequeueAfter: time.Hour}, nil
	default:
		return ctrl.Result{}, nil
	}
}

// controllerRuntime runs a manager until every object was reconciled, and returns its metrics.
func controllerRuntime(config *rest.Config, namespace string) (families, error) {
	ctrl.SetLogger(logr.Discard())
	metrics.RegisterRESTClientMetrics(metrics.MetricRequestLatency,
		metrics.MetricDNSResolutionLatency, metrics.MetricRequestSize, metrics.MetricResponseSize,
		metrics.MetricRateLimiterLatency, metrics.MetricRequestRetry)
	// Without a limit, the metrics of the rate limiter are missing.
	config.QPS, config.Burst = 100, 100
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                 server.Options{BindAddress: "0"},
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		LeaderElection:          true,
		LeaderElectionID:        "metrics-go",
		LeaderElectionNamespace: namespace,
	})
	if err != nil {
		return nil, err
	}
	r := &reconciler{seen: make(chan string)}
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Complete(r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	missing := map[string]bool{"succeeds": true, "fails": true, "terminal": true, "requeues": true}
	for len(missing) > 0 {
		select {
		case name := <-r.seen:
			delete(missing, name)
		case <-ctx.Done():
			return nil, fmt.Errorf("objects that were not reconciled in time: %v", missing)
		case err := <-ended:
			return nil, fmt.Errorf("the manager ended early: %w", err)
		}
	}
	gather, err := metrics.Registry.Gather()
	return gathered(gather), err
}

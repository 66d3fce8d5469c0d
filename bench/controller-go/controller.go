package main

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	stage "windlass.dev/bench/stage-go"
)

// workers is how many objects are worked on at once.
const workers = 4

// controllerRuntime runs a manager with one controller as they come: protobuf, a streaming list,
// the priority queue. Only the server of its metrics is switched off, and its log, which has
// nothing to say.
func controllerRuntime(ctx context.Context, config *rest.Config, r *runs) error {
	ctrl.SetLogger(logr.Discard())
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: metrics.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{reader: manager.GetClient(), runs: r})
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// reconciler reads the object from the cache, and does nothing with it but to count it.
type reconciler struct {
	reader client.Reader
	runs   *runs
}

func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var object corev1.ConfigMap
	if err := r.reader.Get(ctx, request.NamespacedName, &object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	r.runs.ran(object.Name, object.Labels[stage.Stamp])
	return reconcile.Result{}, nil
}

package main

import (
	"context"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// clientGo is the leanest that a user of client-go can have with typed pods: protobuf, and no
// managed fields. The initial list is streamed, as it is by default.
func clientGo(ctx context.Context, config *rest.Config, handler cache.ResourceEventHandler) (func() int, error) {
	config = rest.CopyConfig(config)
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf + ",application/json"
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	// controller-runtime's transform serves here as well: it does nothing but set the field to nil.
	strip := informers.WithTransform(ctrlcache.TransformStripManagedFields())
	factory := informers.NewSharedInformerFactoryWithOptions(clients, 0, strip)
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(handler); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	return func() int { return len(informer.GetStore().ListKeys()) }, nil
}

// controllerRuntime is the cache that a manager has, without the manager. It chooses protobuf by
// itself.
func controllerRuntime(ctx context.Context, config *rest.Config, handler cache.ResourceEventHandler) (func() int, error) {
	pods, err := ctrlcache.New(config, ctrlcache.Options{
		DefaultTransform: ctrlcache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, err
	}
	informer, err := pods.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	if _, err := informer.AddEventHandler(handler); err != nil {
		return nil, err
	}
	go func() {
		if err := pods.Start(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "informer-go: %v\n", err)
			os.Exit(1)
		}
	}()
	// To list the pods by the cache would cost memory that counts.
	shared := informer.(cache.SharedIndexInformer)
	return func() int { return len(shared.GetStore().ListKeys()) }, nil
}

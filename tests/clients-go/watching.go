package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// tellEvents records events by both event APIs; a repeated event only increases its count.
func tellEvents(s *session) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	about, err := maps.Create(s.ctx, configMap("a", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: s.client.CoreV1().Events(s.namespace)})
	recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clients"})
	for range 2 {
		recorder.Event(about, corev1.EventTypeNormal, "Told", "a thing happened")
	}
	core := s.client.CoreV1().Events(s.namespace)
	err = s.until("event counted twice", func(ctx context.Context) (bool, error) {
		list, err := core.List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=a,reason=Told"})
		return err == nil && len(list.Items) == 1 && list.Items[0].Count == 2, err
	})
	if err != nil {
		return err
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: s.namespace},
		EventTime:  metav1.NewMicroTime(time.Unix(978307200, 123456789)),
		Regarding:  corev1.ObjectReference{Kind: "ConfigMap", Namespace: s.namespace, Name: "a"},
		Reason:     "New", Action: "Test", Note: "a note", Type: "Normal",
		ReportingController: "windlass.dev/clients", ReportingInstance: "one",
	}
	event, err = s.client.EventsV1().Events(s.namespace).Create(s.ctx, event, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	old, err := core.Get(s.ctx, "new", metav1.GetOptions{})
	if err != nil {
		return err
	}
	say("event at %s: %s, in the core group: %s", event.EventTime.UTC().Format(time.RFC3339Nano), event.Note, old.Message)
	return nil
}

// informersSeen starts an informer that reports its events and counts resyncs.
func informersSeen(s *session) (*atomic.Int32, chan string, cache.SharedIndexInformer) {
	var resyncs atomic.Int32
	seen := make(chan string, 100)
	factory := informers.NewSharedInformerFactoryWithOptions(s.client, time.Second, informers.WithNamespace(s.namespace),
		informers.WithTweakListOptions(func(options *metav1.ListOptions) { options.LabelSelector = "app=clients" }))
	informer := factory.Core().V1().ConfigMaps().Informer()
	name := func(object any) string {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		return object.(*corev1.ConfigMap).Name
	}
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { seen <- "added " + name(object) },
		UpdateFunc: func(old, object any) {
			if old.(*corev1.ConfigMap).ResourceVersion == object.(*corev1.ConfigMap).ResourceVersion {
				resyncs.Add(1)
				return
			}
			seen <- "updated " + name(object)
		},
		DeleteFunc: func(object any) { seen <- "deleted " + name(object) },
	})
	factory.Start(s.ctx.Done())
	return &resyncs, seen, informer
}

// watchMaps runs an informer that sees changes, and sees all objects again at each resync.
func watchMaps(s *session) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	if _, err := maps.Create(s.ctx, configMap("before", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	resyncs, seen, informer := informersSeen(s)
	if !cache.WaitForCacheSync(s.ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer did not sync")
	}
	next := func() error {
		select {
		case what := <-seen:
			say("%s", what)
			return nil
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	if err := next(); err != nil {
		return err
	}
	made, err := maps.Create(s.ctx, configMap("after", nil), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := next(); err != nil {
		return err
	}
	made.Data = map[string]string{"a": "1"}
	if _, err := maps.Update(s.ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := next(); err != nil {
		return err
	}
	if err := maps.Delete(s.ctx, "after", metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := next(); err != nil {
		return err
	}
	err = s.until("resynced twice", func(context.Context) (bool, error) { return resyncs.Load() >= 2, nil })
	say("cached: %v", informer.GetStore().ListKeys())
	return err
}

// election runs a leader that releases the Lease, and its successor.
func election(s *session) error {
	for _, identity := range []string{"one", "two"} {
		ctx, cancel := context.WithCancel(s.ctx)
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Name: "lock", Namespace: s.namespace},
				Client:     s.client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
			},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 50 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) {
					say("%s leads", identity)
					// Time for some renewals.
					time.Sleep(300 * time.Millisecond)
					cancel()
				},
				OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			cancel()
			return err
		}
		elector.Run(ctx)
	}
	lease, err := s.client.CoordinationV1().Leases(s.namespace).Get(s.ctx, "lock", metav1.GetOptions{})
	if err != nil {
		return err
	}
	say("held by %q, transitions: %d", *lease.Spec.HolderIdentity, *lease.Spec.LeaseTransitions)
	return nil
}

// dynamicObjects uses objects without Go types, and watches them.
func dynamicObjects(s *session) error {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return err
	}
	maps := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(s.namespace)
	options := metav1.ListOptions{LabelSelector: "app=clients"}
	watching, err := maps.Watch(s.ctx, options)
	if err != nil {
		return err
	}
	defer watching.Stop()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"app": "clients"}},
		"data":     map[string]any{"a": "1"},
	}}
	made, err := maps.Create(s.ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(made.Object, "2", "data", "a"); err != nil {
		return err
	}
	if _, err := maps.Update(s.ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(s.ctx, "a", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for range 3 {
		select {
		case event := <-watching.ResultChan():
			shown := event.Object.(*unstructured.Unstructured)
			data, _, _ := unstructured.NestedStringMap(shown.Object, "data")
			say("%s %s %v", event.Type, shown.GetName(), data)
			if event.Type == watch.Error {
				return fmt.Errorf("the watch failed")
			}
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

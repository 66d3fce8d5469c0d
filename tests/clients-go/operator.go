package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var siteKind = schema.GroupVersionKind{Group: "clients.windlass.dev", Version: "v1", Kind: "Site"}

const finalizer = "clients.windlass.dev/cleanup"

// sites is the definition of the operator's kind.
func sites() *apiextensionsv1.CustomResourceDefinition {
	one := float64(0)
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"replicas": {Type: "integer", Minimum: &one, Default: &apiextensionsv1.JSON{Raw: []byte("1")}},
	}}
	open := true
	status := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &open}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "sites." + siteKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: siteKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "sites", Singular: "site", Kind: "Site", ListKind: "SiteList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: siteKind.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec, "status": status},
				}},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func site(namespace, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(siteKind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// reconciler creates a Deployment for every Site.
type reconciler struct {
	client.Client
	recorder events.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := site("", "")
	if err := r.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		controllerutil.RemoveFinalizer(object, finalizer)
		return ctrl.Result{}, r.Update(ctx, object)
	}
	if controllerutil.AddFinalizer(object, finalizer) {
		if err := r.Update(ctx, object); err != nil {
			return ctrl.Result{}, err
		}
	}
	wanted, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if err != nil {
		return ctrl.Result{}, err
	}
	child := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: object.GetName(), Namespace: object.GetNamespace()}}
	result, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		if child.Spec.Selector == nil {
			child.Spec = deployment(object.GetName(), 0).Spec
		}
		replicas := int32(wanted)
		child.Spec.Replicas = &replicas
		return controllerutil.SetControllerReference(object, child, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if result == controllerutil.OperationResultCreated {
		r.recorder.Eventf(object, child, corev1.EventTypeNormal, "Created", "Create", "made a deployment")
	}
	before := object.DeepCopy()
	if err := unstructured.SetNestedField(object.Object, wanted, "status", "replicas"); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Status().Patch(ctx, object, client.MergeFrom(before))
}

// operator runs a manager with leader election and a controller, on a server that envtest connects
// to.
func operator(s *session) error {
	existing := true
	environment := &envtest.Environment{
		UseExistingCluster: &existing, Config: s.config, CRDs: []*apiextensionsv1.CustomResourceDefinition{sites()},
	}
	config, err := environment.Start()
	if err != nil {
		return err
	}
	say("envtest installed the definition")
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		LeaderElection: true, LeaderElectionID: "clients-operator", LeaderElectionNamespace: s.namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache:                         cache.Options{DefaultNamespaces: map[string]cache.Config{s.namespace: {}}},
	})
	if err != nil {
		return err
	}
	r := &reconciler{manager.GetClient(), manager.GetEventRecorder("clients")}
	err = ctrl.NewControllerManagedBy(manager).Named("sites").For(site("", "")).Owns(&appsv1.Deployment{}).Complete(r)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	story := tell(s, manager.GetAPIReader(), manager.GetClient())
	stop()
	if err := <-ended; err != nil {
		return err
	}
	if story != nil {
		return story
	}
	if err := environment.Stop(); err != nil {
		return err
	}
	say("envtest stopped")
	return nil
}

// tell lets the operator work, and prints the observed results. Reads bypass the cache.
func tell(s *session, reader client.Reader, writer client.Client) error {
	ctx := s.ctx
	object := site(s.namespace, "a")
	object.Object["spec"] = map[string]any{}
	if err := writer.Create(ctx, object); err != nil {
		return err
	}
	key := client.ObjectKeyFromObject(object)
	child := func(replicas int32) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			found := &appsv1.Deployment{}
			if err := reader.Get(ctx, key, found); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			owner := metav1.GetControllerOf(found)
			return *found.Spec.Replicas == replicas && owner != nil && owner.Kind == "Site", nil
		}
	}
	if err := s.until("deployment of 1, owned by its site", child(1)); err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":3}}`))
	if err := writer.Patch(ctx, object, patch); err != nil {
		return err
	}
	if err := s.until("deployment of 3", child(3)); err != nil {
		return err
	}
	err := s.until("status of 3", func(ctx context.Context) (bool, error) {
		found := site("", "")
		err := reader.Get(ctx, key, found)
		replicas, _, _ := unstructured.NestedInt64(found.Object, "status", "replicas")
		return replicas == 3, err
	})
	if err != nil {
		return err
	}
	if err := writer.Delete(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: s.namespace}}); err != nil {
		return err
	}
	if err := s.until("deployment again, after somebody deleted it", child(3)); err != nil {
		return err
	}
	err = s.until("event of the operator", func(ctx context.Context) (bool, error) {
		list, err := s.client.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Created"})
		return err == nil && len(list.Items) > 0, err
	})
	if err != nil {
		return err
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(siteKind)
	if err := reader.Get(ctx, key, metadata); err != nil {
		return err
	}
	say("metadata alone: %s %v", metadata.Name, metadata.Finalizers)
	wrong := site(s.namespace, "b")
	if err := unstructured.SetNestedField(wrong.Object, int64(-1), "spec", "replicas"); err != nil {
		return err
	}
	if err := refused("a site of -1", writer.Create(ctx, wrong)); err != nil {
		return err
	}
	if err := writer.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		return err
	}
	for _, gone := range []client.Object{site("", ""), &appsv1.Deployment{}} {
		err := s.until(fmt.Sprintf("%T is gone", gone), func(ctx context.Context) (bool, error) {
			err := reader.Get(ctx, key, gone)
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// heard prints the warnings of answers.
type heard struct{}

func (heard) HandleWarningHeader(code int, _, text string) { say("warning %d: %s", code, text) }

// configurations are the webhooks of shops as controller-gen writes them, with a service. envtest
// replaces it by URLs.
func configurations() ([]*admissionv1.MutatingWebhookConfiguration, []*admissionv1.ValidatingWebhookConfiguration) {
	none := admissionv1.SideEffectClassNone
	service := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "x", Name: "x", Path: &path}}
	}
	rules := func(operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{Operations: operations, Rule: admissionv1.Rule{
			APIGroups: []string{newShops.Group}, APIVersions: []string{newShops.Version}, Resources: []string{"shops"},
		}}}
	}
	create, update, remove := admissionv1.Create, admissionv1.Update, admissionv1.Delete
	mutating := &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "clients-shops"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default." + newShops.Group, ClientConfig: service("mutate-shops-windlass-dev-v2-shop"),
			Rules: rules(create, update), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "clients-shops"},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validate." + newShops.Group, ClientConfig: service("validate-shops-windlass-dev-v2-shop"),
			Rules: rules(create, update, remove), SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	return []*admissionv1.MutatingWebhookConfiguration{mutating}, []*admissionv1.ValidatingWebhookConfiguration{validating}
}

// webhooks runs a manager that serves a defaulter, a validator and a conversion, with the
// certificates and configurations of envtest.
func webhooks(s *session) error {
	scheme := runtime.NewScheme()
	addShops(scheme)
	existing := true
	mutating, validating := configurations()
	environment := &envtest.Environment{
		UseExistingCluster: &existing, Config: s.config, Scheme: scheme,
		CRDs: []*apiextensionsv1.CustomResourceDefinition{shops()},
		WebhookInstallOptions: envtest.WebhookInstallOptions{
			LocalServingHost: "127.0.0.1", MutatingWebhooks: mutating, ValidatingWebhooks: validating,
		},
	}
	config, err := environment.Start()
	if err != nil {
		return err
	}
	install := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: install.LocalServingHost, Port: install.LocalServingPort, CertDir: install.LocalServingCertDir,
		}),
	})
	if err != nil {
		return err
	}
	err = ctrl.NewWebhookManagedBy(manager, &Shop{}).WithDefaulter(keeper{}).WithValidator(keeper{}).Complete()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	story := tellShops(s, config, manager)
	// envtest does not remove the configurations.
	hooks := s.client.AdmissionregistrationV1()
	err = errors.Join(
		hooks.MutatingWebhookConfigurations().Delete(s.ctx, mutating[0].Name, metav1.DeleteOptions{}),
		hooks.ValidatingWebhookConfigurations().Delete(s.ctx, validating[0].Name, metav1.DeleteOptions{}),
	)
	stop()
	if err := errors.Join(story, err, <-ended, environment.Stop()); err != nil {
		return err
	}
	say("webhooks stopped")
	return nil
}

// shop returns a shop in v2.
func (s *session) shop(name, host string, port int32) *Shop {
	return &Shop{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, Spec: ShopSpec{Host: host, Port: port}}
}

// oldShop returns a shop in v1.
func (s *session) oldShop(name, address string) *OldShop {
	return &OldShop{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace}, Spec: OldShopSpec{Address: address}}
}

// show prints the relevant fields of a shop, in its version.
func show(what string, object client.Object) {
	var spec, status any
	switch shop := object.(type) {
	case *Shop:
		spec, status = shop.Spec, shop.Status
	case *OldShop:
		spec, status = shop.Spec, shop.Status
	}
	shown, _ := json.Marshal(spec)
	phase, _ := json.Marshal(status)
	say("%s: %s %T %s %s", what, object.GetName(), object, shown, phase)
}

// tellShops waits until the webhooks are called, and prints what clients see.
func tellShops(s *session, config *rest.Config, manager ctrl.Manager) error {
	silent := rest.CopyConfig(config)
	silent.WarningHandler = rest.NoWarnings{}
	prober, err := client.New(silent, client.Options{Scheme: manager.GetScheme()})
	if err != nil {
		return err
	}
	err = s.until("webhooks are called", func(ctx context.Context) (bool, error) {
		good, bad := s.shop("probe", "h", 1), s.shop("probe", "", 1)
		if prober.Create(ctx, good, client.DryRunAll) != nil || good.Spec.Replicas == nil {
			return false, nil
		}
		return prober.Create(ctx, bad, client.DryRunAll) != nil, nil
	})
	if err != nil {
		return err
	}
	loud := rest.CopyConfig(config)
	loud.WarningHandler = heard{}
	c, err := client.NewWithWatch(loud, client.Options{Scheme: manager.GetScheme()})
	if err != nil {
		return err
	}
	for _, part := range []func(*session, client.WithWatch) error{shopsAreWritten, shopsAreRefused, shopsAreApplied, shopsAreWatched} {
		if err := part(s, c); err != nil {
			return err
		}
	}
	// The manager's cache watches the version that is not the storage version.
	err = s.until("the cache has a shop of v1", func(ctx context.Context) (bool, error) {
		found := &OldShop{}
		err := manager.GetClient().Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "b"}, found)
		return err == nil && found.Spec.Address == "b.example:8080", client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return shopsAreDeleted(s, c)
}

// shopsAreWritten writes in both versions, and reads in both.
func shopsAreWritten(s *session, c client.WithWatch) error {
	old := s.oldShop("a", "a.example:90")
	if err := c.Create(s.ctx, old); err != nil {
		return err
	}
	show("created", old)
	fresh := s.shop("b", "b.example", 0)
	if err := c.Create(s.ctx, fresh); err != nil {
		return err
	}
	show("created", fresh)
	dry := s.oldShop("c", "c.example:1")
	if err := c.Create(s.ctx, dry, client.DryRunAll); err != nil {
		return err
	}
	show("dry run", dry)
	for _, name := range []string{"a", "b", "c"} {
		for _, into := range []client.Object{&OldShop{}, &Shop{}} {
			err := c.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, into)
			if err == nil {
				show("read", into)
			} else if err := refused("read", err); err != nil {
				return err
			}
		}
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":6}}`))
	if err := c.Patch(s.ctx, old, patch); err != nil {
		return err
	}
	show("patched", old)
	patch = client.RawPatch("application/json-patch+json", []byte(`[{"op":"replace","path":"/spec/port","value":8080}]`))
	if err := c.Patch(s.ctx, fresh, patch); err != nil {
		return err
	}
	show("patched", fresh)
	old.Labels = map[string]string{"open": "yes"}
	old.Spec.Replicas = nil
	if err := c.Update(s.ctx, old); err != nil {
		return err
	}
	show("updated", old)
	old.Status.Phase = "Busy"
	old.Spec.Address = "ignored:1"
	if err := c.Status().Update(s.ctx, old); err != nil {
		return err
	}
	show("status", old)
	olds, news := &OldShopList{}, &ShopList{}
	if err := c.List(s.ctx, olds, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	for at := range olds.Items {
		show("listed", &olds.Items[at])
	}
	if err := c.List(s.ctx, news, client.InNamespace(s.namespace), client.MatchingLabels{"open": "yes"}); err != nil {
		return err
	}
	for at := range news.Items {
		show("selected", &news.Items[at])
	}
	page := &OldShopList{}
	if err := c.List(s.ctx, page, client.InNamespace(s.namespace), client.Limit(1)); err != nil {
		return err
	}
	say("first page: %d shops of v1, another: %t", len(page.Items), page.Continue != "")
	return nil
}

// shopsAreRefused sends everything that the webhooks reject.
func shopsAreRefused(s *session, c client.WithWatch) error {
	moved, large := s.shop("a", "", 0), s.shop("b", "", 0)
	for _, shop := range []*Shop{moved, large} {
		if err := c.Get(s.ctx, client.ObjectKeyFromObject(shop), shop); err != nil {
			return err
		}
	}
	moved.Spec.Host = "elsewhere.example"
	large.Spec.Port = 70000
	oldMoved := s.oldShop("a", "")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"address":"elsewhere.example:1"}}`))
	broken := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"address":"b.example:http"}}`))
	for _, attempt := range []struct {
		what string
		err  error
	}{
		{"no host", c.Create(s.ctx, s.shop("d", "", 70000))},
		{"no host in v1", c.Create(s.ctx, s.oldShop("d", ""))},
		{"no host, dry run", c.Create(s.ctx, s.shop("d", "", 1), client.DryRunAll)},
		{"not convertible", c.Create(s.ctx, s.oldShop("d", "d.example"))},
		{"update to another host", c.Update(s.ctx, moved)},
		{"update to a large port", c.Update(s.ctx, large)},
		{"patch to another host in v1", c.Patch(s.ctx, oldMoved, patch)},
		{"patch that is not convertible", c.Patch(s.ctx, s.oldShop("b", ""), broken)},
		{"delete of an open shop", c.Delete(s.ctx, moved)},
		{"delete of an open shop in v1", c.Delete(s.ctx, oldMoved)},
		{"delete of an open shop, dry run", c.Delete(s.ctx, moved, client.DryRunAll)},
	} {
		if err := refused(attempt.what, attempt.err); err != nil {
			return err
		}
	}
	return nil
}

// shopsAreApplied applies in one version, and then in the other.
func shopsAreApplied(s *session, c client.WithWatch) error {
	apply := func(version schema.GroupVersion, owner string, spec map[string]any) error {
		object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		object.SetGroupVersionKind(version.WithKind("Shop"))
		object.SetNamespace(s.namespace)
		object.SetName("e")
		err := c.Apply(s.ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner))
		if err != nil {
			return refused("apply by "+owner, err)
		}
		shown, err := json.Marshal(object.Object["spec"])
		say("applied by %s in %s: %s", owner, version.Version, shown)
		for _, entry := range object.GetManagedFields() {
			say("  %s %s %s %s", entry.Manager, entry.Operation, entry.APIVersion, entry.FieldsV1.String())
		}
		return err
	}
	for _, step := range []struct {
		version schema.GroupVersion
		owner   string
		spec    map[string]any
	}{
		{oldShops, "one", map[string]any{"address": "e.example:90"}},
		{oldShops, "one", map[string]any{"address": "e.example:90", "replicas": int64(3)}},
		{newShops, "two", map[string]any{"host": "e.example", "replicas": int64(4)}},
		{newShops, "two", map[string]any{"host": "e.example"}},
		{newShops, "one", map[string]any{"host": "e.example", "port": int64(90)}},
		{newShops, "one", map[string]any{"host": "f.example"}},
	} {
		if err := apply(step.version, step.owner, step.spec); err != nil {
			return err
		}
	}
	return nil
}

// shopsAreWatched writes in v2, and watches in v1.
func shopsAreWatched(s *session, c client.WithWatch) error {
	watching, err := c.Watch(s.ctx, &OldShopList{}, client.InNamespace(s.namespace), client.MatchingLabels{"seen": "yes"})
	if err != nil {
		return err
	}
	defer watching.Stop()
	shop := s.shop("w", "w.example", 1)
	shop.Labels = map[string]string{"seen": "yes"}
	if err := c.Create(s.ctx, shop); err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"port":2}}`))
	if err := c.Patch(s.ctx, shop, patch); err != nil {
		return err
	}
	if err := c.Delete(s.ctx, shop); err != nil {
		return err
	}
	for range 3 {
		select {
		case event := <-watching.ResultChan():
			seen, ok := event.Object.(*OldShop)
			if !ok {
				return fmt.Errorf("the watch brought %s %v", event.Type, event.Object)
			}
			show(string(event.Type), seen)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
	return nil
}

// shopsAreDeleted deletes in both versions.
func shopsAreDeleted(s *session, c client.WithWatch) error {
	if err := c.Delete(s.ctx, s.oldShop("b", ""), client.DryRunAll); err != nil {
		return err
	}
	if err := c.Delete(s.ctx, s.oldShop("b", "")); err != nil {
		return err
	}
	if err := c.Delete(s.ctx, s.shop("e", "", 0)); err != nil {
		return err
	}
	closed := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"open":null}}}`))
	if err := c.Patch(s.ctx, s.shop("a", "", 0), closed); err != nil {
		return err
	}
	if err := c.DeleteAllOf(s.ctx, &OldShop{}, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	left := &ShopList{}
	if err := c.List(s.ctx, left, client.InNamespace(s.namespace)); err != nil {
		return err
	}
	say("shops left: %d", len(left.Items))
	return nil
}

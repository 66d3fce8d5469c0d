package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	labels := map[string]string{"app": "clients"}
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: data}
}

// typed creates a config map, reads it, changes it in every way, and deletes it.
func typed(s *session) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	object := configMap("a", map[string]string{"a": "1"})
	object.BinaryData = map[string][]byte{"b": {0, 255}}
	made, err := maps.Create(s.ctx, object, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	say("created %s %v %v %v", made.Name, made.Labels, made.Data, made.BinaryData)
	say("uid: %t, version: %t, time: %t", made.UID != "", made.ResourceVersion != "", !made.CreationTimestamp.IsZero())
	made.Data["a"] = "2"
	updated, err := maps.Update(s.ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	say("updated %v, another version: %t", updated.Data, updated.ResourceVersion != made.ResourceVersion)
	again, err := maps.Update(s.ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	say("written back, the same version: %t", again.ResourceVersion == updated.ResourceVersion)
	if _, err := maps.Update(s.ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update: %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		read, err := maps.Get(s.ctx, "a", metav1.GetOptions{})
		if err != nil {
			return err
		}
		read.Annotations = map[string]string{"retried": "true"}
		_, err = maps.Update(s.ctx, read, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	for patch, body := range map[types.PatchType]string{
		types.MergePatchType: `{"data":{"merged":"1"}}`,
	} {
		if _, err := maps.Patch(s.ctx, "a", patch, []byte(body), metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	patched, err := maps.Patch(s.ctx, "a", types.JSONPatchType,
		[]byte(`[{"op":"remove","path":"/data/a"}]`), metav1.PatchOptions{FieldManager: "patcher"})
	if err != nil {
		return err
	}
	say("patched %v %v", patched.Data, patched.Annotations)
	patched, err = maps.Patch(s.ctx, "a", types.StrategicMergePatchType,
		[]byte(`{"data":{"strategic":"1"}}`), metav1.PatchOptions{})
	if err != nil {
		return err
	}
	applied, err := maps.Apply(s.ctx,
		applycorev1.ConfigMap("a", s.namespace).WithData(map[string]string{"applied": "1"}),
		metav1.ApplyOptions{FieldManager: "applier", Force: true})
	if err != nil {
		return err
	}
	say("patched %v, applied %v", patched.Data, applied.Data)
	foreground := metav1.DeletePropagationForeground
	uid := applied.UID
	options := metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}}
	if err := maps.Delete(s.ctx, "a", options); err != nil {
		return err
	}
	return s.until("deleted", func(ctx context.Context) (bool, error) {
		_, err := maps.Get(ctx, "a", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	surge, grace := intstr.FromString("30%"), int64(0)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}},
					}}},
					Containers: []corev1.Container{{
						Name: "main", Image: "main:1",
						Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
							corev1.ResourceCPU: resource.MustParse("0.5"), corev1.ResourceMemory: resource.MustParse("1024Mi"),
						}},
						ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
							TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)},
						}},
					}},
				},
			},
		},
	}
}

// workloads writes a deployment with its status and scale, a pod with its binding and eviction, and
// a revision with arbitrary content.
func workloads(s *session) error {
	deployments := s.client.AppsV1().Deployments(s.namespace)
	made, err := deployments.Create(s.ctx, deployment("a", 0), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	spec, err := json.Marshal(made.Spec)
	if err != nil {
		return err
	}
	say("spec %s", spec)
	made.Status.Replicas, made.Status.ObservedGeneration = 2, made.Generation
	made.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Unix(978307200, 5), LastUpdateTime: metav1.Unix(978307200, 0),
	}}
	made, err = deployments.UpdateStatus(s.ctx, made, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	status, err := json.Marshal(made.Status)
	if err != nil {
		return err
	}
	say("status %s", status)
	scale, err := deployments.GetScale(s.ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err
	}
	scale.Spec.Replicas = 3
	scale, err = deployments.UpdateScale(s.ctx, "a", scale, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	say("scale %d of %d %s", scale.Status.Replicas, scale.Spec.Replicas, scale.Status.Selector)

	pods := s.client.CoreV1().Pods(s.namespace)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: made.Spec.Template.Spec}
	pod, err = pods.Create(s.ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if err := pods.Bind(s.ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	bound, err := pods.Get(s.ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	say("pod on %s, %s, %s", bound.Spec.NodeName, bound.Status.Phase, bound.Status.QOSClass)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}
	if err := pods.EvictV1(s.ctx, eviction); err != nil {
		return err
	}
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, Data: runtime.RawExtension{Raw: []byte(`{"x":[1,null]}`)}, Revision: 7,
	}
	revision, err = s.client.AppsV1().ControllerRevisions(s.namespace).Create(s.ctx, revision, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	say("revision %d %s", revision.Revision, revision.Data.Raw)
	return nil
}

// refusals prints errors as clients see them.
func refusals(s *session) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	_, err := maps.Get(s.ctx, "nope", metav1.GetOptions{})
	if err := refused("missing", err); err != nil {
		return err
	}
	_, err = maps.Create(s.ctx, configMap("A_b", nil), metav1.CreateOptions{})
	if err := refused("invalid", err); err != nil {
		return err
	}
	if _, err := maps.Create(s.ctx, configMap("a", nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err = maps.Create(s.ctx, configMap("a", nil), metav1.CreateOptions{})
	if err := refused("twice", err); err != nil {
		return err
	}
	_, err = s.client.AppsV1().Deployments(s.namespace).Create(s.ctx, deployment("a", -1), metav1.CreateOptions{})
	return refused("negative", err)
}

// collections lists in pages, and deletes many objects at once.
func collections(s *session) error {
	maps := s.client.CoreV1().ConfigMaps(s.namespace)
	for i := range 25 {
		if _, err := maps.Create(s.ctx, configMap(fmt.Sprintf("m-%02d", i), nil), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	pages := 0
	lister := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return maps.List(ctx, options)
	})
	lister.PageSize = 10
	var names []string
	options := metav1.ListOptions{LabelSelector: "app=clients"}
	err := lister.EachListItem(s.ctx, options, func(object runtime.Object) error {
		names = append(names, object.(*corev1.ConfigMap).Name)
		return nil
	})
	if err != nil {
		return err
	}
	sort.Strings(names)
	say("%d in %d pages, from %s to %s", len(names), pages, names[0], names[len(names)-1])
	grace := int64(0)
	options.FieldSelector = "metadata.name!=m-00"
	if err := maps.DeleteCollection(s.ctx, metav1.DeleteOptions{GracePeriodSeconds: &grace}, options); err != nil {
		return err
	}
	left, err := maps.List(s.ctx, metav1.ListOptions{LabelSelector: "app=clients"})
	if err != nil {
		return err
	}
	say("left: %d, %s", len(left.Items), left.Items[0].Name)
	return nil
}

// reviews sends an access review and a discovery request.
func reviews(s *session) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: s.namespace, Verb: "create", Resource: "pods"},
	}}
	review, err := s.client.AuthorizationV1().SelfSubjectAccessReviews().Create(s.ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	say("may create pods: %t", review.Status.Allowed)
	resources, err := s.client.Discovery().ServerResourcesForGroupVersion("coordination.k8s.io/v1")
	if err != nil {
		return err
	}
	say("resources of coordination.k8s.io/v1: %s", resources.APIResources[0].Name)
	return nil
}

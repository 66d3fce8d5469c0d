package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	shopKind = schema.GroupKind{Group: "shops.windlass.dev", Kind: "Shop"}
	oldShops = schema.GroupVersion{Group: shopKind.Group, Version: "v1"}
	newShops = schema.GroupVersion{Group: shopKind.Group, Version: "v2"}
)

// OldShop is version v1, with the address as one string.
type OldShop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldShopSpec `json:"spec"`
	Status            ShopStatus  `json:"status,omitempty"`
}

// OldShopSpec has a host with a port.
type OldShopSpec struct {
	Address  string `json:"address,omitempty"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// Shop is version v2, the hub and storage version.
type Shop struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ShopSpec   `json:"spec"`
	Status            ShopStatus `json:"status,omitempty"`
}

// ShopSpec has the parts of the address.
type ShopSpec struct {
	Host     string `json:"host,omitempty"`
	Port     int32  `json:"port,omitempty"`
	Replicas *int32 `json:"replicas,omitempty"`
}

// ShopStatus is the same in both versions.
type ShopStatus struct {
	Phase string `json:"phase,omitempty"`
}

// OldShopList is a list in v1.
type OldShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OldShop `json:"items"`
}

// ShopList is a list in v2.
type ShopList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shop `json:"items"`
}

func copied(number *int32) *int32 {
	if number == nil {
		return nil
	}
	value := *number
	return &value
}

// DeepCopyObject makes it an object.
func (s *OldShop) DeepCopyObject() runtime.Object {
	other := *s
	s.ObjectMeta.DeepCopyInto(&other.ObjectMeta)
	other.Spec.Replicas = copied(s.Spec.Replicas)
	return &other
}

// DeepCopyObject makes it an object.
func (s *Shop) DeepCopyObject() runtime.Object {
	other := *s
	s.ObjectMeta.DeepCopyInto(&other.ObjectMeta)
	other.Spec.Replicas = copied(s.Spec.Replicas)
	return &other
}

// DeepCopyObject makes it an object.
func (l *OldShopList) DeepCopyObject() runtime.Object {
	other := &OldShopList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&other.ListMeta)
	for _, item := range l.Items {
		other.Items = append(other.Items, *item.DeepCopyObject().(*OldShop))
	}
	return other
}

// DeepCopyObject makes it an object.
func (l *ShopList) DeepCopyObject() runtime.Object {
	other := &ShopList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&other.ListMeta)
	for _, item := range l.Items {
		other.Items = append(other.Items, *item.DeepCopyObject().(*Shop))
	}
	return other
}

// addShops adds both versions to a scheme.
func addShops(scheme *runtime.Scheme) {
	scheme.AddKnownTypeWithName(oldShops.WithKind("Shop"), &OldShop{})
	scheme.AddKnownTypeWithName(oldShops.WithKind("ShopList"), &OldShopList{})
	scheme.AddKnownTypeWithName(newShops.WithKind("Shop"), &Shop{})
	scheme.AddKnownTypeWithName(newShops.WithKind("ShopList"), &ShopList{})
	metav1.AddToGroupVersion(scheme, oldShops)
	metav1.AddToGroupVersion(scheme, newShops)
}

// Hub marks the version to which all others are converted.
func (*Shop) Hub() {}

// ConvertTo converts v1 to v2.
func (s *OldShop) ConvertTo(to conversion.Hub) error {
	shop := to.(*Shop)
	shop.ObjectMeta, shop.Status = s.ObjectMeta, s.Status
	shop.Spec = ShopSpec{Replicas: s.Spec.Replicas}
	if s.Spec.Address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(s.Spec.Address)
	if err != nil {
		return fmt.Errorf("spec.address: %w", err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return fmt.Errorf("spec.address: %q is no port", port)
	}
	shop.Spec.Host, shop.Spec.Port = host, int32(number)
	return nil
}

// ConvertFrom converts v2 to v1.
func (s *OldShop) ConvertFrom(from conversion.Hub) error {
	shop := from.(*Shop)
	s.ObjectMeta, s.Status = shop.ObjectMeta, shop.Status
	s.Spec = OldShopSpec{Replicas: shop.Spec.Replicas}
	if shop.Spec.Host != "" {
		s.Spec.Address = net.JoinHostPort(shop.Spec.Host, strconv.Itoa(int(shop.Spec.Port)))
	}
	return nil
}

// keeper implements the webhooks of shops, for v2; the server converts v1 for them.
type keeper struct{}

// Default fills in missing fields.
func (keeper) Default(_ context.Context, shop *Shop) error {
	if shop.Spec.Replicas == nil {
		two := int32(2)
		shop.Spec.Replicas = &two
	}
	if shop.Spec.Port == 0 {
		shop.Spec.Port = 80
	}
	return nil
}

func (keeper) check(shop *Shop) (admission.Warnings, error) {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if shop.Spec.Host == "" {
		errs = append(errs, field.Required(spec.Child("host"), "a shop has an address"))
	}
	if shop.Spec.Port > 65535 {
		errs = append(errs, field.Invalid(spec.Child("port"), shop.Spec.Port, "there is no such port"))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(shopKind, shop.Name, errs)
	}
	if *shop.Spec.Replicas > 5 {
		return admission.Warnings{fmt.Sprintf("%d replicas are many, for a \"shop\"", *shop.Spec.Replicas)}, nil
	}
	return nil, nil
}

// ValidateCreate rejects invalid addresses.
func (k keeper) ValidateCreate(_ context.Context, shop *Shop) (admission.Warnings, error) {
	return k.check(shop)
}

// ValidateUpdate rejects a changed host, and can warn and reject at the same time.
func (k keeper) ValidateUpdate(_ context.Context, old, shop *Shop) (admission.Warnings, error) {
	if old.Spec.Host != shop.Spec.Host {
		moved := field.Forbidden(field.NewPath("spec", "host"), "a shop does not move")
		warning := fmt.Sprintf("%s is at %s", old.Name, old.Spec.Host)
		return admission.Warnings{warning}, apierrors.NewInvalid(shopKind, shop.Name, field.ErrorList{moved})
	}
	return k.check(shop)
}

// ValidateDelete rejects the deletion of open shops.
func (keeper) ValidateDelete(_ context.Context, shop *Shop) (admission.Warnings, error) {
	if shop.Labels["open"] == "yes" {
		return nil, fmt.Errorf("shop %s is open", shop.Name)
	}
	return admission.Warnings{"shop " + shop.Name + " is closed for good"}, nil
}

// shops is the definition of the kind; envtest fills in its conversion.
func shops() *apiextensionsv1.CustomResourceDefinition {
	type properties = map[string]apiextensionsv1.JSONSchemaProps
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}
	version := func(name string, storage bool, spec properties) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: properties{
					"spec":   {Type: "object", Properties: spec},
					"status": {Type: "object", Properties: properties{"phase": text}},
				},
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "shops." + shopKind.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: shopKind.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "shops", Singular: "shop", Kind: "Shop", ListKind: "ShopList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				version("v1", false, properties{"address": text, "replicas": number}),
				version("v2", true, properties{"host": text, "port": number, "replicas": number}),
			},
		},
	}
}

// Command clients-go performs typical operations of operators with client-go and
// controller-runtime, and prints the results. A test runs it on two servers and compares the lines,
// which contain nothing that differs from run to run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// patience is how long a step may take on a busy machine.
const patience = 2 * time.Minute

// session is the environment of every step.
type session struct {
	ctx       context.Context
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
}

// steps run one after another, each in a namespace of its own.
var steps = []struct {
	name string
	run  func(*session) error
}{
	{"typed", typed},
	{"workloads", workloads},
	{"refusals", refusals},
	{"collections", collections},
	{"reviews", reviews},
	{"events", tellEvents},
	{"informers", watchMaps},
	{"election", election},
	{"dynamic", dynamicObjects},
	{"operator", operator},
	{"webhooks", webhooks},
}

func main() {
	// controller-runtime defines the flag --kubeconfig.
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "clients-go: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	config.UserAgent = "clients-go"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, step := range steps {
		namespace := "clients-" + step.name
		fmt.Printf("== %s\n", step.name)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		_, err := client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{})
		if err == nil {
			err = step.run(&session{ctx, config, client, namespace})
		}
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// say prints a line of the transcript.
func say(format string, values ...any) {
	fmt.Printf(format+"\n", values...)
}

// refused prints why a request was refused, and returns an error if it succeeded.
func refused(what string, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return fmt.Errorf("%s should have been refused: %v", what, err)
	}
	say("%s: %d %s: %s", what, status.Status().Code, status.Status().Reason, status.Status().Message)
	return nil
}

// until waits for a condition.
func (s *session) until(what string, holds func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(s.ctx, 20*time.Millisecond, true, holds)
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	say("%s", what)
	return nil
}

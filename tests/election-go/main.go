// Command election-go is one replica of client-go's leader election, for tests in which it contends
// with replicas of Windlass. It prints its events as JSON, one object per line. SIGTERM makes it
// release the Lease and end.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// options are the flags.
type options struct {
	kubeconfig, namespace, name, identity     string
	leaseDuration, renewDeadline, retryPeriod time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the server")
	flag.StringVar(&o.namespace, "namespace", "", "namespace of the Lease")
	flag.StringVar(&o.name, "name", "", "name of the Lease")
	flag.StringVar(&o.identity, "identity", "", "identity of this replica")
	flag.DurationVar(&o.leaseDuration, "lease-duration", 15*time.Second, "how long a Lease lasts")
	flag.DurationVar(&o.renewDeadline, "renew-deadline", 10*time.Second, "when a leader gives up")
	flag.DurationVar(&o.retryPeriod, "retry-period", 2*time.Second, "the time between two tries")
	flag.Parse()

	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "election-go: %v\n", err)
		os.Exit(1)
	}
}

func run(o options) error {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	go endWithTheInput()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: o.namespace, Name: o.name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: o.identity},
		},
		LeaseDuration:   o.leaseDuration,
		RenewDeadline:   o.renewDeadline,
		RetryPeriod:     o.retryPeriod,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("leading", o.identity) },
			OnStoppedLeading: func() { say("stopped", o.identity) },
			OnNewLeader:      func(identity string) { say("leader", identity) },
		},
	})
	if err != nil {
		return err
	}
	elector.Run(ctx)
	return nil
}

// endWithTheInput ends the process when its input ends, so that it does not outlive a killed test.
func endWithTheInput() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// say prints an event and the identity of its leader.
func say(event, identity string) {
	line, err := json.Marshal(map[string]string{"event": event, "identity": identity})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

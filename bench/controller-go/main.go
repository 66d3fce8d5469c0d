// Command controller-go holds the Go controller that the Rust ones are compared with:
// controller-runtime's. What it hears from the stage of the benchmark, and says, is in
// bench/stage-go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	stage "windlass.dev/bench/stage-go"
)

func main() {
	// Not the flags of the program: controller-runtime puts one of the same name there.
	flags := flag.NewFlagSet("controller-go", flag.ExitOnError)
	who := flags.String("who", "", "contestant: controller-runtime")
	kubeconfig := flags.String("kubeconfig", "", "file that says how to reach the server")
	objects := flags.Int("objects", 0, "number of objects that the server has")
	_ = flags.Parse(os.Args[1:]) // It ends the program by itself.

	if err := run(*who, *kubeconfig, newRuns(*objects)); err != nil {
		fail(err)
	}
}

func run(who, kubeconfig string, r *runs) error {
	if who != "controller-runtime" {
		return fmt.Errorf("--who %q: want controller-runtime", who)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	// No bound on the rate of requests, as controller-runtime has it when it finds its configuration
	// by itself.
	config.QPS = -1
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := func() error {
		go func() {
			if err := controllerRuntime(ctx, config, r); err != nil {
				fail(err)
			}
		}()
		return nil
	}
	return stage.Play(start, r.expect)
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "controller-go: %v\n", err)
	os.Exit(1)
}

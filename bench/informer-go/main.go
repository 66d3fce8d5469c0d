// Command informer-go holds the Go informers that the Rust ones are compared with. One process is
// one contestant. What it hears from the stage of the benchmark, and says, is in bench/stage-go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	stage "windlass.dev/bench/stage-go"
)

func main() {
	who := flag.String("who", "", "contestant: client-go or controller-runtime")
	kubeconfig := flag.String("kubeconfig", "", "file that says how to reach the server")
	pods := flag.Int("objects", 0, "number of pods that the server has")
	read := flag.Bool("read", false, "let the handler read every pod that it is given")
	flag.Parse()

	if err := run(*who, *kubeconfig, newHandler(*pods, *read)); err != nil {
		fmt.Fprintf(os.Stderr, "informer-go: %v\n", err)
		os.Exit(1)
	}
}

func run(who, kubeconfig string, h *handler) error {
	informer, ok := contestants[who]
	if !ok {
		return fmt.Errorf("--who %q: want client-go or controller-runtime", who)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	start := func() error {
		store, err := informer(ctx, config, h.funcs())
		if err != nil {
			return err
		}
		go func() {
			<-h.synced
			fmt.Printf("synced %d\n", store())
		}()
		return nil
	}
	return stage.Play(start, h.expect)
}

// A contestant starts an informer of pods with this handler, and returns how to ask for the size of
// its cache.
type contestant func(context.Context, *rest.Config, cache.ResourceEventHandler) (func() int, error)

var contestants = map[string]contestant{
	"client-go":          clientGo,
	"controller-runtime": controllerRuntime,
}

// Command informer-go holds the Go informers that the Rust ones are compared with.
// One process is one contestant. It does as the stage of the benchmark says, a line at a time,
// and answers by lines; the stage measures it from outside, so that both languages are measured alike:
//
//	→ ready                  the process is up and knows where the server is
//	← start                  make an informer
//	→ synced N               the handler has seen all pods; the cache holds N
//	← trim                   give free memory back to the system
//	→ trimmed
//	← expect COUNT SINCE     from now on, count pods that were stamped after SINCE
//	→ expecting
//	→ seen P50 P99           the handler has seen COUNT of them; latencies in microseconds
//
// The end of its input ends it.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	who := flag.String("who", "", "contestant: client-go or controller-runtime")
	kubeconfig := flag.String("kubeconfig", "", "file that says how to reach the server")
	pods := flag.Int("pods", 0, "number of pods that the server has")
	read := flag.Bool("read", false, "let the handler read every pod that it is given")
	flag.Parse()

	if err := run(*who, *kubeconfig, newHandler(*pods, *read)); err != nil {
		fmt.Fprintf(os.Stderr, "informer-go: %v\n", err)
		os.Exit(1)
	}
}

func run(who, kubeconfig string, h *handler) error {
	start, ok := contestants[who]
	if !ok {
		return fmt.Errorf("--who %q: want client-go or controller-runtime", who)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fmt.Println("ready")
	return obey(ctx, config, start, h)
}

// obey does what each line of the input says, until there are no more.
func obey(ctx context.Context, config *rest.Config, start contestant, h *handler) error {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var count int
		var since int64
		line := lines.Text()
		switch {
		case line == "start":
			store, err := start(ctx, config, h.funcs())
			if err != nil {
				return err
			}
			go func() {
				<-h.synced
				fmt.Printf("synced %d\n", store())
			}()
		case line == "trim":
			debug.FreeOSMemory()
			fmt.Println("trimmed")
		case expectation(line, &count, &since):
			h.expect(count, since)
			fmt.Println("expecting")
		default:
			return fmt.Errorf("unknown command %q", line)
		}
	}
	return nil
}

func expectation(line string, count *int, since *int64) bool {
	n, _ := fmt.Sscanf(line, "expect %d %d", count, since)
	return n == 2
}

// A contestant starts an informer of pods with this handler, and returns how to ask for the size of its cache.
type contestant func(context.Context, *rest.Config, cache.ResourceEventHandler) (func() int, error)

var contestants = map[string]contestant{
	"client-go":          clientGo,
	"controller-runtime": controllerRuntime,
}

// Command queue-go measures the Go work queues that the Rust one is compared with.
// One process runs one case once, so that CPU time and peak memory belong to it alone.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

const (
	clientGo          = "client-go"
	controllerRuntime = "controller-runtime"
)

// The priority queue implements the same interface, so every case is written once.
type queue = workqueue.TypedRateLimitingInterface[string]

type benchCase struct {
	kind    string
	workers int
}

var casePattern = regexp.MustCompile(`^(?:(paced|storm|backlog|dup|delay)|(contention)-w([0-9]+))$`)

func parseCase(name string) (benchCase, error) {
	m := casePattern.FindStringSubmatch(name)
	if m == nil {
		return benchCase{}, fmt.Errorf("unknown case %q: want paced, storm, backlog, dup, delay or contention-wW", name)
	}
	c := benchCase{kind: m[1] + m[2], workers: 1}
	if m[3] != "" {
		n, err := strconv.Atoi(m[3])
		if err != nil || n < 1 {
			return benchCase{}, fmt.Errorf("case %q: %s is not a usable count", name, m[3])
		}
		c.workers = n
	}
	return c, nil
}

func newQueue(who string) queue {
	if who == controllerRuntime {
		return priorityqueue.New[string]("bench")
	}
	return workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
}

func usageError(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "queue-go: "+format+"\n", args...)
	os.Exit(2)
}

func main() {
	who := flag.String("who", "", "queue to measure: client-go or controller-runtime")
	name := flag.String("case", "", "case to run: paced, storm, backlog, dup, delay or contention-wW")
	keys := flag.Int("keys", 0, "number of keys, or of adds in the dup case")
	flag.Parse()

	if flag.NArg() > 0 {
		usageError("unexpected argument %q", flag.Arg(0))
	}
	if *who != clientGo && *who != controllerRuntime {
		usageError("--who %q: want %s or %s", *who, clientGo, controllerRuntime)
	}
	c, err := parseCase(*name)
	if err != nil {
		usageError("--case: %v", err)
	}
	if *keys < 1 {
		usageError("--keys %d: want a positive number", *keys)
	}
	// Otherwise ten whole passes would not add up to the number asked for.
	if c.kind == "dup" && *keys%passes != 0 {
		usageError("--keys %d: the dup case wants a multiple of %d", *keys, passes)
	}

	res, err := run(newQueue(*who), c, *keys)
	if err != nil {
		fmt.Fprintf(os.Stderr, "queue-go: %v\n", err)
		os.Exit(1)
	}

	n := float64(*keys)
	overhead := max(0, res.cpu-res.work)
	metrics := []metric{
		{"throughput", n / res.wall.Seconds()},
		{"cpu_s", res.cpu.Seconds()},
		{"wall_s", res.wall.Seconds()},
		{"peak_mb", res.peakMiB},
		{"overhead_us", overhead.Seconds() * 1e6 / n},
	}
	if len(res.latencies) > 0 {
		metrics = append(metrics,
			metric{"p50_us", percentile(res.latencies, 50)},
			metric{"p99_us", percentile(res.latencies, 99)})
	}
	out := json.NewEncoder(os.Stdout)
	for _, m := range metrics {
		line := struct {
			Suite  string  `json:"suite"`
			Case   string  `json:"case"`
			Who    string  `json:"who"`
			Metric string  `json:"metric"`
			Value  float64 `json:"value"`
		}{"queue", *name, *who, m.name, m.value}
		if err := out.Encode(line); err != nil {
			fmt.Fprintf(os.Stderr, "queue-go: %v\n", err)
			os.Exit(1)
		}
	}
}

type metric struct {
	name  string
	value float64
}

func percentile(sorted []time.Duration, percent int) float64 {
	return float64(sorted[(len(sorted)-1)*percent/100].Nanoseconds()) / 1e3
}

// Command metrics-go compares the metrics of a Windlass process with those of controller-runtime.
//
// It parses the text of the process with Prometheus' own parser, runs a controller-runtime manager
// against the same API server, and compares names, labels, types and buckets. The differences must
// be exactly those in the table in docs/metrics.md.
package main

import (
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	// Not the default flag set: controller-runtime defines a flag of the same name there.
	flags := flag.NewFlagSet("metrics-go", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "file that says how to reach the server")
	namespace := flags.String("namespace", "", "namespace with the objects to reconcile")
	ours := flags.String("ours", "", "file with the OpenMetrics text of the other process")
	docs := flags.String("differences", "", "Markdown file with the table of differences")
	_ = flags.Parse(os.Args[1:]) // It ends the program by itself.

	if err := run(*kubeconfig, *namespace, *ours, *docs); err != nil {
		fmt.Fprintf(os.Stderr, "metrics-go: %v\n", err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace, ours, docs string) error {
	text, err := os.ReadFile(ours)
	if err != nil {
		return fmt.Errorf("--ours: %w", err)
	}
	here, err := parse(text)
	if err != nil {
		return fmt.Errorf("--ours: Prometheus does not read it: %w", err)
	}
	rows, err := readRows(docs)
	if err != nil {
		return fmt.Errorf("--differences: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	there, err := controllerRuntime(config, namespace)
	if err != nil {
		return fmt.Errorf("controller-runtime: %w", err)
	}
	fmt.Printf("%d families here, %d there\n", len(here), len(there))
	return check(compare(here, there), rows)
}
